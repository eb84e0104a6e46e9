"""What there is to show of a trace, as a flat list of rows: the tree, the table and the markdown all print these."""

from __future__ import annotations

import re

import msgspec

from ..passes.expressions import SIGNS
from ..passes.fold import Run, fold, forms, starred
from ..passes.memory import Memory, memory
from ..passes.nesting import ends, within
from ..records import part
from ..schema import Call, TensorMeta, Trace
from .bearers import Bearers
from .noise import Noise
from .row import Kind, Row, facets, noted, raised

__all__ = ["rows"]


LARGE = 6
"""Rows from which on a module is not shown again in another block."""


def rows(trace: Trace, *, all: bool = False, depth: int | None = None) -> list[Row]:
    """The rows of a trace, in the order in which the code comes by them.

    all     every call, also unnamed steps, masks and blocks that are identical
    depth   how many levels of modules are opened; None for all
    """
    return Outline(trace, all, depth).rows


class Opened(msgspec.Struct):
    """A call whose inside is being shown, from the index after it to `stop`.

    resume    where to go on then: behind the calls that are identical to it
    depth     of the rows inside, and `level`, how many modules around them are opened
    heading   the place of its own row
    shown     the tensors inside that have a row, and under which name
    """

    index: int
    stop: int
    resume: int
    path: str
    depth: int = 0
    level: int = 0
    heading: int | None = None
    run: Run | None = None
    shown: dict[object, str] = {}
    failed: bool = False


class Outline:
    def __init__(self, trace: Trace, all: bool, depth: int | None) -> None:
        self.trace, self.calls = trace, trace.calls
        self.all, self.depth = all, depth
        self.stops = ends(self.calls)
        self.accounts = memory(trace)
        self.forms = [] if all else forms(trace)
        self.runs = {} if all else fold(trace, self.forms)
        self.known: dict[tuple[int, str], str] = {}
        """The paths of modules that have been shown from inside, by their forms and their paths without indices."""
        self.noise = Noise(trace, self.stops, self.accounts)
        self.rows: list[Row] = []
        self.bearers = Bearers(self.rows)
        self.open = [Opened(-1, len(self.calls), len(self.calls), "")]
        index = 0
        while index < len(self.calls):
            index = self.add(index, self.calls[index])
            while len(self.open) > 1 and self.open[-1].stop <= index:
                index = max(index, self.close())

    @property
    def top(self) -> Opened:
        return self.open[-1]

    def add(self, index: int, call: Call) -> int:
        """Show a call; the index to go on with."""
        if call.kind == "module":
            return self.module(index, call)
        if any(self.calls[inner].kind == "function" for inner in range(index + 1, self.stops[index])):
            return self.transparent(index, call)
        if call.error is not None:
            return self.failed(index, call)
        is_op = call.kind == "op"
        shown = self.results(index, call, self.top.depth + is_op, "op" if is_op else "tensor")
        return index + 1 if shown else self.stops[index]

    # Modules

    def module(self, index: int, call: Call) -> int:
        top = self.top
        inside = self.noise.shows_inside(index)
        run = self.runs.get(index) if inside else None
        resume = self.stops[index if run is None else run.calls[-1]]
        opened = Opened(index, self.stops[index], resume, call.path, top.depth + 1, top.level + 1, run=run)
        is_root = index == 0 and self.stops[0] == len(self.calls)
        is_closed = self.depth is not None and top.level >= self.depth and not self.noise.fails(index)
        if is_root:
            opened.depth = 0
            self.inputs(opened)
        like = self.like(index, call) if inside and not is_closed else ""
        if is_closed or like or not (inside or self.all or is_root):
            self.leaf(index, call, ", ".join(filter(None, (like, self.others(run)))), is_step=not inside)
            return resume
        if not is_root:
            self.heading(opened, call)
            self.inputs(opened)
        self.open.append(opened)
        return index + 1

    def heading(self, opened: Opened, call: Call) -> None:
        top, name = self.top, within(self.top.path, call.path)
        opened.heading = len(self.rows)
        kind: Kind = "module" if call.error is None else "failed"
        cls = call.name if name else ""
        others = self.others(opened.run)
        row = Row(kind, top.depth, top.path, name or call.name, cls=cls, remarks=noted(call), others=others)
        self.rows.append(msgspec.structs.replace(row, does=call.role or ""))

    def others(self, run: Run | None) -> str:
        return "" if run is None else run.said(self.top.path)

    def like(self, index: int, call: Call) -> str:
        """Which module before this one has the same form in the same place of another block, and is shown there."""
        known = self.known.get((self.forms[index], starred(call.path))) if self.forms else None
        if known is None or known == call.path:
            return ""
        around = next((opened.path for opened in reversed(self.open) if known.startswith(f"{opened.path}.")), "")
        return f"inside as {within(around, known)}"

    def inputs(self, opened: Opened) -> None:
        account = self.accounts[opened.index]
        for key, tensor in self.calls[opened.index].inputs.items():
            if self.all or opened.index == 0 or not self.noise.is_input(tensor):
                self.row(opened.depth, opened.path, key, "", tensor, account.inputs[key])

    def leaf(self, index: int, call: Call, others: str, is_step: bool) -> None:
        """A module that is not opened: a row for each of its results, and the ops that it ran."""
        top, account, first = self.top, self.accounts[index], len(self.rows)
        own = within(top.path, call.path) or call.name
        cls = call.name if own != call.name else ""
        for key, tensor in call.outputs.items():
            made = account.statements.get(key)
            if self.all or not self.noise.is_result(call, key, tensor, made):
                variable = call.variable(key)
                name = variable or (part(own, key) if call.path else account.returned.get(key, part("output", key)))
                maker = own if variable not in (None, own) else ""
                self.row(top.depth, top.path, name, maker, tensor, made, cls=cls)
                self.show(tensor, name)
        inside = [t for inner in self.calls[index : self.stops[index]] for t in inner.outputs.values() if t.role]
        self.bearers.hand(reversed(inside), since=0 if is_step else first)
        if not call.outputs:
            self.rows.append(Row("module", top.depth, top.path, own, cls=cls))
        if len(self.rows) == first:
            return
        remarks = (*self.rows[first].remarks, *noted(call))
        self.rows[first] = msgspec.structs.replace(
            self.rows[first], remarks=remarks, others=others, does=call.role or ""
        )
        for step in range(index + 1, self.stops[index]):
            if self.calls[step].kind == "op":
                self.results(step, self.calls[step], top.depth + 1, "op")

    def close(self) -> int:
        """Leave a call that was opened: its results, where they are not there yet."""
        opened = self.open.pop()
        top, call = self.top, self.calls[opened.index]
        arrows: dict[str, None] = {}
        for key, tensor in call.outputs.items():
            variable, name = call.variable(key), opened.shown.get(identity(tensor))
            account = self.accounts[opened.index]
            made = account.inside.get(key) or account.statements.get(key)
            is_unchanged = variable is not None and self.noise.is_result(call, key, tensor, made)
            if name is None and (self.all or not (is_unchanged or self.noise.is_result(call, key, tensor, None))):
                output = part("output", key)
                known = variable or tensor.role or ""
                name, maker = (variable or "", output) if known else (output, "")
                self.row(opened.depth, opened.path, name, maker, tensor, made)
            elif variable not in (None, name) and not is_unchanged and tensor.number is not None:
                arrows[re.split(r"[.\[]", variable or "")[0]] = None
            self.bearers.hand([tensor])
            self.show(tensor, variable or name or "")
        if call.error is not None and not opened.failed:
            self.rows.append(Row("error", opened.depth, opened.path, raised(call)))
        top.failed |= call.error is not None
        top.shown.update(opened.shown)
        if self.forms and opened.heading is not None and len(self.rows) - opened.heading > LARGE and not opened.failed:
            self.known.setdefault((self.forms[opened.index], starred(call.path)), call.path)
        if opened.run is not None:  # the last of its like leads on, and ends as the first did
            last = self.calls[opened.run.calls[-1]]
            for key, tensor in last.outputs.items():
                self.show(tensor, last.variable(key) or within(top.path, last.path))
        if arrows and opened.heading is not None:
            heading = self.rows[opened.heading]
            self.rows[opened.heading] = msgspec.structs.replace(heading, maker=f"→ {', '.join(arrows)}")
        return opened.resume

    # Functions

    def transparent(self, index: int, call: Call) -> int:
        """A function that others ran inside of: they are shown in its place, or with `all` below it."""
        top, stop = self.top, self.stops[index]
        if self.all:
            self.rows.append(Row("module", top.depth, top.path, "", call.name))
        self.open.append(Opened(index, stop, stop, top.path, top.depth + self.all, top.level))
        return index + 1

    def failed(self, index: int, call: Call) -> int:
        top, account = self.top, self.accounts[index]
        variable = call.variable("")
        maker = call.name if variable else ""
        self.rows.append(Row("failed", top.depth, top.path, variable or call.name, maker, remarks=(account.code,)))
        for key, tensor in call.inputs.items():
            self.row(top.depth + 1, top.path, account.inputs[key].of or key, "", tensor, Memory("input"))
        self.rows.append(Row("error", top.depth + 1, top.path, raised(call)))
        top.failed = True
        return self.stops[index]

    def results(self, index: int, call: Call, depth: int, kind: Kind) -> bool:
        """A row for each result that is to be seen; whether there was one."""
        first = len(self.rows)
        account, path = self.accounts[index], self.top.path
        for tensor in call.unmade.values():
            row = Row("unmade", depth, path, "", tensor=tensor, remarks=("not materialised",), role=tensor.role or "")
            self.rows.append(row)
        for key, tensor in call.outputs.items():
            variable = call.variable(key)
            is_whole = not self.all and (variable or tensor.role) is not None
            made = (account.statements if is_whole else account.steps).get(key)
            if self.is_seen(index, call, key, tensor, made):
                name = variable or changed(made)
                by = (made.by if made is not None else "") or call.name
                known = name or tensor.role or ""
                maker = SIGNS.get(by, by) if known or by.startswith("__") else part(by, key)
                self.row(depth, path, name, maker, tensor, made, kind)
                if known:
                    self.show(tensor, known)
            else:
                self.bearers.hand([tensor])
        for key, made in account.written.items() if not call.outputs else ():
            if self.all or (changed(made) and call.inputs[key] not in self.noise.plumbing):
                self.row(depth, path, changed(made), SIGNS.get(call.name, call.name), call.inputs[key], made, kind)
        return len(self.rows) > first

    def is_seen(self, index: int, call: Call, key: str, tensor: TensorMeta, made: Memory | None) -> bool:
        if self.all or call.kind == "op":
            return True
        if self.noise.is_result(call, key, tensor, made):
            return False
        ran_ops = self.stops[index] > index + 1
        return ran_ops or call.variable(key) is not None or tensor.role is not None or changed(made) != ""

    # Rows

    def row(
        self,
        depth: int,
        path: str,
        name: str,
        maker: str,
        tensor: TensorMeta,
        made: Memory | None,
        kind: Kind = "tensor",
        cls: str = "",
    ) -> None:
        remarks, role = facets(tensor, made, self.trace), tensor.role or ""
        self.rows.append(Row(kind, depth, path, name, maker, cls, tensor, made, remarks, role=role))
        self.bearers.add(tensor)

    def show(self, tensor: TensorMeta, name: str) -> None:
        self.top.shown[identity(tensor)] = name


def changed(made: Memory | None) -> str:
    """The variable that a call wrote in place on; "" if it is code, or if it did not."""
    return made.of if made is not None and made.kind == "in place" and not set(made.of) & set(" (") else ""


def identity(tensor: TensorMeta) -> object:
    """What tells it from others: in a portable trace, without numbers, no more than its form."""
    return (tensor.shape, tensor.dtype) if tensor.number is None else tensor.number
