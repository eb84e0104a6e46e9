"""The one place where the passes that name axes and roles are applied to the traces of the zoo."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from shapetrace import Trace

if TYPE_CHECKING:
    from .specimens import Specimen

HAS_ROLES = importlib.util.find_spec("shapetrace.passes.roles") is not None


def name(trace: Trace, specimen: Specimen) -> Trace:
    if HAS_ROLES:
        from shapetrace.passes.roles import name_roles

        return name_roles(trace)
    return trace
