"""Record what a model does while it runs. Only this package and `targets` know torch."""

from .attach import Tap, attach, trace, trace_of

__all__ = ["Tap", "attach", "trace", "trace_of"]
