"""What the code calls each tensor at each moment: the variable that was last assigned to it, else what made it."""

from __future__ import annotations

from ..schema import Call, TensorMeta
from .expressions import UNKNOWN, Label, expression, plain_name
from .nesting import within

__all__ = ["OUTSIDE", "Labels"]

OUTSIDE = "a tensor made before"
"""A tensor that no recorded call made, and that has no name."""


class Labels:
    """Follows a trace call by call. Each module has names of its own: what is `normed` outside may be `x` inside."""

    def __init__(self) -> None:
        self.paths = [""]
        self.scopes: list[dict[int, Label]] = [{}]
        self.last: dict[int, str] = {}

    def enter(self, module: Call) -> None:
        """Inside of `module` its arguments go by the names that its forward has for them."""
        labels: dict[int, Label] = {}
        for key, tensor in module.inputs.items():
            if tensor.number is not None:
                labels.setdefault(tensor.number, Label(key))
        self.paths.append(module.path)
        self.scopes.append(labels)

    def leave(self, module: Call) -> dict[str, str]:
        """What the forward of `module` itself calls its results, where it gave them names."""
        self.paths.pop()
        labels = self.scopes.pop()
        found = {key: labels[tensor.number] for key, tensor in module.outputs.items() if tensor.number in labels}
        return {key: label.text for key, label in found.items() if not label.depth}

    def assign(self, call: Call) -> None:
        """From here on the results of `call` have its variables for names, or else its code."""
        given = {tensor.number for tensor in call.inputs.values()}
        code: Label | None = None
        for key, tensor in call.outputs.items():
            if tensor.number is None:
                continue
            variable = call.variable(key)
            if variable is not None:
                label = Label(variable)
            elif tensor.number in given:
                continue
            else:
                code = code or self.code(call)
                label = code.at(key)
            self.scopes[-1][tensor.number] = label
            self.last[tensor.number] = label.text

    def code(self, call: Call) -> Label:
        name = within(self.paths[-1], call.path) if call.kind == "module" else plain_name(call)
        return expression(
            call, name or call.name, {key: self.of(tensor) or UNKNOWN for key, tensor in call.inputs.items()}
        )

    def of(self, tensor: TensorMeta) -> Label | None:
        """The name that holds here: this module's, or that of one around it, or the parameter's."""
        if tensor.number is not None:
            for labels in reversed(self.scopes):
                if tensor.number in labels:
                    return labels[tensor.number]
        return None if tensor.name is None else Label(within(self.paths[-1], tensor.name))

    def text(self, tensor: TensorMeta) -> str:
        """The name that holds here, or else the last that it had elsewhere."""
        label = self.of(tensor)
        if label is not None:
            return label.text
        return OUTSIDE if tensor.number is None else self.last.get(tensor.number, OUTSIDE)
