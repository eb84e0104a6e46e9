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
    """The variable that the result at each key goes to, and (file, line).

    is_handed   whether a function of a library had it in a variable of its own before: that it may have used for
                another value then, made of this one
    """

    variables: dict[str, str]
    source: tuple[str, int] | None
    is_handed: bool = False


NOWHERE = Place(NAMELESS, None)


class Returned(msgspec.Struct, frozen=True, gc=False):
    """The place of a call whose result, or the part of it at `key`, its frame returns to a caller of its own.

    is_held   whether it is in a variable of an installed package first, which may hold another value by then
    """

    place: Place
    key: str
    is_held: bool = False


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
        return found if isinstance(found, Place) else self.follow(found, frame)

    def follow(self, found: Returned, frame: FrameType) -> Place:
        """Where a result goes that `frame` returns.

        A variable that holds it first is its name; but what a package does that was called from elsewhere is done on
        the line of the call, and goes where that says.
        """
        caller = caller_of(frame)
        if caller is None:
            return found.place
        here: Place | Returned = found
        variables, source = found.place.variables, found.place.source
        way, is_held, is_handed = "", False, False
        package = maker = package_of(frame)
        while isinstance(here, Returned) and caller is not None:
            way, is_held = join_keys(way, here.key), is_held or here.is_held
            here = self.destination(caller)
            place = here.place if isinstance(here, Returned) else here
            before, package = package, package_of(caller)
            caller = caller_of(caller)
            if before and before != package:
                if is_held:
                    variables, is_held, is_handed = NAMELESS, False, True
                if maker:
                    source, maker = place.source, ""
            if place.variables and not is_held:
                variables = {join_keys(way, key): variable for key, variable in place.variables.items()}
        return Place(variables, source, is_handed)

    def destination(self, frame: FrameType) -> Place | Returned:
        """What this frame does with the result."""
        code = frame.f_code
        known = self.known.get(id(code))
        if known is None:
            if len(self.known) >= self.MOST:
                self.known.clear()
            known = self.known[id(code)] = Sites(code)
        if (found := known.get(frame.f_lasti)) is None:
            names, returned, is_held = destination(code, frame.f_lasti)
            is_named = names and code.co_filename != CONTAINERS
            place = Place(dict(names) if is_named else NAMELESS, (code.co_filename, frame.f_lineno or 0))
            if is_held and is_named and package_of(frame) and caller_of(frame) is not None:
                found = Returned(place, "", is_held=True)
            else:
                found = place if returned is None else Returned(place, returned)
            known[frame.f_lasti] = found
        return found


PLACES = Places()


def caller_of(frame: FrameType) -> FrameType | None:
    """The code that the result of a frame is returned to; None where that is a module's."""
    above = frame.f_back
    caller = None if above is None or above.f_code is FORWARDING else calling_frame(above)
    return None if caller is None or caller.f_code.co_filename == MODULE_CALL else caller


def package_of(frame: FrameType) -> str:
    """The package that a frame runs code of, if that is installed; "" for a user's own."""
    file = frame.f_code.co_filename
    if "site-packages" not in file and "dist-packages" not in file:
        return ""
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]


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
