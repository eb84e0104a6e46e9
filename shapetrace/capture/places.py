"""Where in the code a call was made, and which variables its result goes to."""

from __future__ import annotations

from pathlib import Path
from types import CodeType, FrameType

import msgspec
import torch

from .names import destination
from .structures import join_keys

__all__ = ["MODULE_CALL", "NOWHERE", "PLACES", "Place"]

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

CONTAINERS = torch.nn.modules.container.__file__
"""What a container calls what it hands on from module to module, `input` each time, tells nothing."""

ASKING = torch.overrides.handle_torch_function.__code__
FORWARDING = torch.nn.Module._call_impl.__code__
"""The commonest of these frames by far."""

ITERATING = torch.Tensor.__iter__.__code__
"""Where `q, k, v = x` and `for row in x` call `unbind`."""


NAMELESS: dict[str, str] = {}
"""Shared by all places that give no name."""


class Place(msgspec.Struct, frozen=True, gc=False):
    """The variable that the result at each key goes to, and (file, line)."""

    variables: dict[str, str]
    source: tuple[str, int] | None


NOWHERE = Place(NAMELESS, None)


class Returned(msgspec.Struct, frozen=True, gc=False):
    """The place of a call whose result, or the part of it at `key`, its frame returns to a caller of its own."""

    place: Place
    key: str


class Sites(dict[int, Place | Returned]):
    """The places in `code`, by where in it a call is made. It is kept, so that no other code gets its id."""

    def __init__(self, code: CodeType) -> None:
        super().__init__()
        self.code = code


class Places:
    """The places that have been looked up, so that none is twice, in this trace or the next."""

    MOST = 4096

    def __init__(self) -> None:
        self.known: dict[int, Sites] = {}
        """By the `id` of a code object: to hash one takes long."""

    def place(self, frame: FrameType | None) -> Place:
        """The variables that a result goes to, in this frame or one it is returned to, and where the call was made."""
        if frame is not None and frame.f_code is ASKING:
            frame = frame.f_back and frame.f_back.f_back
        if frame is None:
            return NOWHERE
        try:
            found = self.known[id(frame.f_code)][frame.f_lasti]
        except KeyError:
            frame = calling_frame(frame)
            if frame is None:
                return NOWHERE
            found = self.destination(frame)
        return found if isinstance(found, Place) else self.follow(found, frame.f_back)

    def follow(self, found: Returned, above: FrameType | None) -> Place:
        """Where a result goes that is returned to the frame `above`."""
        place, way = found.place, ""
        here: Place | Returned = found
        while isinstance(here, Returned) and above is not None and above.f_code is not FORWARDING:
            frame = calling_frame(above)
            if frame is None or frame.f_code.co_filename == MODULE_CALL:
                break
            way = join_keys(way, here.key)
            here = self.destination(frame)
            above = frame.f_back
        variables = (here.place if isinstance(here, Returned) else here).variables
        if here is found or not variables:
            return place
        return Place({join_keys(way, key): variable for key, variable in variables.items()}, place.source)

    def destination(self, frame: FrameType) -> Place | Returned:
        """What this frame does with the result."""
        code = frame.f_code
        known = self.known.get(id(code))
        if known is None:
            if len(self.known) >= self.MOST:
                self.known.clear()
            known = self.known[id(code)] = Sites(code)
        if (found := known.get(frame.f_lasti)) is None:
            names, returned = destination(code, frame.f_lasti)
            is_named = names and code.co_filename != CONTAINERS
            place = Place(dict(names) if is_named else NAMELESS, (code.co_filename, frame.f_lineno or 0))
            found = known[frame.f_lasti] = place if returned is None else Returned(place, returned)
        return found


PLACES = Places()


def calling_frame(frame: FrameType | None) -> FrameType | None:
    """The frame of the code that made a call, from the frame that torch was asked from.

    A function of torch that is written in Python asks through `handle_torch_function`, from a frame of its own; modes
    and subclasses, a user's or those of another trace, pass a call on from their `__torch_function__`.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_filename == DISPATCH:
            frame = frame.f_back and frame.f_back.f_back
        elif code.co_filename in PLUMBING or code is ITERATING or code.co_name == "__torch_function__":
            frame = frame.f_back
        else:
            return frame
    return None
