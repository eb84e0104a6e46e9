"""On which of its records a tensor carries its role: the one where the code gives it a name."""

from __future__ import annotations

from .flow import Flow, Node
from .functions import FUSED, LINEARS, PRODUCTS, SOFTMAX, short_name

__all__ = ["Places"]


class Places:
    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.layers: dict[int, bool] = {}

    def of(self, node: Node) -> tuple[int, str] | None:
        """(index of the call, key of the result); None if it is no result of a call.

        The result of a layer (Linear, a norm) is looked up where the layer is called. Of several calls in one module
        that all return it (dropout in eval), the last that gives it a name: so does `trace[path]`.
        """
        calls, parents = self.flow.calls, self.flow.parents
        returned = {index for index, _ in node.places}
        named: tuple[int, str] | None = None
        for index, key in node.places:
            home = parents[index]
            if home in returned and self.is_layer(home):
                continue
            has_variable = calls[index].variable(key) is not None
            if named is None:
                if has_variable or calls[index].kind == "module":
                    named = index, key
            elif has_variable and parents[named[0]] == home:
                named = index, key
        return named or (node.places[0] if node.places else None)

    def is_layer(self, index: int) -> bool:
        """Whether a module has none inside, and does not more than one projection."""
        known = self.layers.get(index)
        if known is None:
            known = self.layers[index] = self._is_layer(index)
        return known

    def _is_layer(self, index: int) -> bool:
        projections = 0
        for call in self.flow.calls[index + 1 : self.flow.ends[index]]:
            if call.kind == "module":
                return False
            name = short_name(call)
            projections += name in PRODUCTS or name in LINEARS
            if projections > 1 or name in SOFTMAX or name in FUSED:
                return False
        return self.flow.calls[index].kind == "module"
