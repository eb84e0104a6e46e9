"""rich is imported here first: it draws of Python's random numbers then, and those are the user's."""

from __future__ import annotations

import random

drawn = random.getstate()
try:
    import rich.style  # noqa: F401
finally:
    random.setstate(drawn)
