"""Where in the code a call was made, and which variables its result goes to."""

from __future__ import annotations

from pathlib import Path
from types import CodeType, FrameType

import torch

from .names import destination
from .structures import join_keys

__all__ = ["MODULE_CALL", "NOWHERE", "Place", "Places"]

DISPATCH = torch.overrides.__file__
PLUMBING = frozenset(
    {
        torch._jit_internal.__file__,
        torch.utils._contextlib.__file__,
        *(str(Path(__file__).with_name(name)) for name in ("recorder.py", "modes.py")),
    }
)
MODULE_CALL = torch.nn.modules.module.__file__
"""Files whose frames stand between a call and the code that made it."""

Place = tuple[dict[str, str], tuple[str, int] | None]
"""The variable that the result at each key goes to, and (file, line)."""

NAMELESS: dict[str, str] = {}
"""Shared by all places that give no name."""

NOWHERE: Place = (NAMELESS, None)


class Places:
    """The places that have been looked up, so that none is twice."""

    def __init__(self) -> None:
        self.places: dict[int, dict[int, Place]] = {}
        self.returns: dict[int, dict[int, tuple[Place, str | None]]] = {}
        self.codes: list[CodeType] = []

    def place(self, frame: FrameType | None) -> Place:
        """The variables that a result goes to, in this frame or one it is returned to, and where the call was made."""
        if frame is None:
            return NOWHERE
        places = self.places.get(id(frame.f_code))
        if places is not None and (place := places.get(frame.f_lasti)) is not None:
            return place
        frame = calling_frame(frame)
        if frame is None:
            return NOWHERE
        place, returned = found, _ = self.destination(frame)
        way = ""
        while (
            returned is not None and (frame := calling_frame(frame.f_back)) and frame.f_code.co_filename != MODULE_CALL
        ):
            way = join_keys(way, returned)
            found, returned = self.destination(frame)
        if found is place or not found[0]:
            return place
        return {join_keys(way, key): variable for key, variable in found[0].items()}, place[1]

    def destination(self, frame: FrameType) -> tuple[Place, str | None]:
        """What this frame does with the result, and which part it returns. If none, `place` need not look further."""
        code = frame.f_code
        known = self.returns.get(id(code))
        if known is None:
            self.codes.append(code)  # so that no other code gets its id
            known = self.returns[id(code)] = {}
        if (found := known.get(frame.f_lasti)) is None:
            names, returned = destination(code, frame.f_lasti)
            place = dict(names) if names else NAMELESS, (code.co_filename, frame.f_lineno or 0)
            found = known[frame.f_lasti] = place, returned
            if returned is None:
                self.places.setdefault(id(code), {})[frame.f_lasti] = place
        return found


def calling_frame(frame: FrameType | None) -> FrameType | None:
    """The frame of the code that made a call, from the frame that torch was asked from.

    A function of torch that is written in Python asks through `handle_torch_function`, from a frame of its own; modes
    and subclasses, a user's or those of another trace, pass a call on from their `__torch_function__`.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_filename == DISPATCH:
            frame = frame.f_back and frame.f_back.f_back
        elif code.co_filename in PLUMBING or code.co_name == "__torch_function__":
            frame = frame.f_back
        else:
            return frame
    return None
