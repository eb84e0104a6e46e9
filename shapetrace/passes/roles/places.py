"""On which of its records a tensor carries its role: the one where the code gives it a name."""

from __future__ import annotations

from .flow import Flow, Node, is_projection
from .functions import PRODUCTS, SOFTMAX

__all__ = ["Places"]


class Places:
    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.simple: dict[int, bool] = {}

    def of(self, node: Node) -> tuple[int, str] | None:
        """(index of the call, key of the result); None if no call gave it as a result.

        The result of a plain layer (Linear, a norm) is looked up in the module that called the layer.
        """
        calls = self.flow.calls
        named: tuple[int, str] | None = None
        for index, key in node.places:
            home = self.flow.parents[index]
            if home >= 0 and self.is_simple(home) and any(place[0] == home for place in node.places):
                continue
            call = calls[index]
            if named is None:
                if call.variable(key) is not None or call.kind == "module":
                    named = index, key
            elif self.flow.parents[named[0]] == home and call.variable(key) is not None:
                named = index, key
        return named or (node.places[0] if node.places else None)

    def is_simple(self, index: int) -> bool:
        """Whether a module is a plain layer: no modules inside, at most one projection, no attention."""
        known = self.simple.get(index)
        if known is None:
            known = self.simple[index] = self._is_simple(index)
        return known

    def _is_simple(self, index: int) -> bool:
        calls = self.flow.calls
        if calls[index].kind != "module":
            return False
        linears = 0
        for inner in range(index + 1, self.flow.ends[index]):
            call = calls[inner]
            if call.kind == "module":
                return False
            name = call.name
            if name in PRODUCTS or name in ("linear", "addmm", "__matmul__", "__rmatmul__", "conv1d"):
                linears += 1
            if linears > 1 or name in SOFTMAX or name == "scaled_dot_product_attention":
                return False
        return True


_ = is_projection
