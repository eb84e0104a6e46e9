"""The variables a result is assigned to, read from the caller's bytecode.

While a function runs, its caller's frame stands at the call, and the instructions after it say where the result goes:

    q, k = f(x)        CALL, UNPACK_SEQUENCE 2, STORE_FAST q, STORE_FAST k

They are carried out on a stack that knows of each value only whether it is a part of the result, until no part is left
on it. So a name follows the value itself, past other calls (`q, k = f(x), g(x)`) and out of `with` blocks, in whatever
order a version of Python stacks things. An instruction not listed here ends the walk: a wrong name is worse than none.
"""

import dis
import inspect
import types
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["Destination", "destination"]


class Destination(NamedTuple):
    """Where a result goes, part by part.

    The key of a part is `""` for the whole result, `"1"` for its second element, `"logits"` for the item under that
    string, and `"1[0].mask"` further in.
    """

    names: tuple[tuple[str, str], ...]
    """(key, variable). For `self.x` and `d["x"]` that is `x`, for `x = y = f()` only `x`, and `_` is no name."""
    returned: str | None
    """The part that the frame returns to its own caller: `None` if none does, and in a generator or coroutine."""
    is_held: bool = False
    """Whether the frame may return the variable of the whole result later, without another value in it."""


_NOWHERE = Destination((), None)

# By id, since hashing a code object reads all of it; the code is kept, or another one could get its id.
_known: dict[int, tuple[types.CodeType, dict[int, Destination]]] = {}
_MOST_KNOWN = 4096  # more than a model runs; forgetting all of them keeps code made in a loop from piling up


def destination(code: types.CodeType, lasti: int) -> Destination:
    """Where the result goes of the call that a frame of `code` is making at `lasti`.

    It is the result of the instruction: in `y = sum(xs)`, every addition that `sum` makes goes to `y`.
    """
    try:
        _, calls = _known[id(code)]
    except KeyError:
        calls = _learn(code)
    return calls.get(lasti, _NOWHERE)


def _learn(code: types.CodeType) -> dict[int, Destination]:
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    calls = _calls(code)
    _known[id(code)] = code, calls
    return calls


# What calls a function and leaves its result on the stack; not UNARY_NOT and CONTAINS_OP, which make a bool of it.
_CALLS = (
    *("CALL", "BINARY_", "INPLACE_", "COMPARE_OP", "LOAD_ATTR", "LOAD_SUPER_ATTR"),
    *("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT"),
)
# What stands before such an instruction and belongs to it: `f_lasti` may be there (at PRECALL in specialised code).
_PREFIXES = ("EXTENDED_ARG", "PRECALL")


def _calls(code: types.CodeType) -> dict[int, Destination]:
    """The destinations in `code`, by every offset of each call: `f_lasti` may also be in the caches that follow it."""
    steps = [step for instruction in dis.get_instructions(code) for step in _steps(instruction)]
    returns = _returns(code, steps)
    calls: dict[int, Destination] = {}
    found = _NOWHERE
    for at in reversed(range(len(steps) - 1)):
        op = steps[at].op
        if op == "UNPACK_SEQUENCE":  # of a tensor, which calls its `__iter__`
            found = _destination(code, steps, at, returns)
        elif op not in _PREFIXES:
            found = _destination(code, steps, at + 1, returns) if op.startswith(_CALLS) else _NOWHERE
        if found != _NOWHERE:
            calls.update(dict.fromkeys(range(steps[at].offset, steps[at + 1].offset), found))
    return calls


class _Step(NamedTuple):
    """An instruction, in words that all versions of Python share."""

    offset: int
    op: str
    arg: int
    value: Any  # argval in dis: the variable, the constant, or where to jump
    effect: int  # by how much the stack grows


_FUSED = {  # since 3.13
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}
_SHUFFLES = {  # until 3.10
    "DUP_TOP": (("COPY", 1),),
    "ROT_TWO": (("SWAP", 2),),
    "ROT_THREE": (("SWAP", 3), ("SWAP", 2)),
    "ROT_FOUR": (("SWAP", 4), ("SWAP", 3), ("SWAP", 2)),
}


def _steps(instruction: dis.Instruction) -> list[_Step]:
    offset, op, arg, value = instruction.offset, instruction.opname, instruction.arg, instruction.argval
    if op in _FUSED:
        return [_Step(offset, part, 0, name, 1) for part, name in zip(_FUSED[op], value, strict=True)]
    if op in _SHUFFLES:
        return [_Step(offset, part, depth, None, 0) for part, depth in _SHUFFLES[op]]
    if op == "BINARY_OP" and instruction.argrepr == "[]":  # since 3.14
        op = "BINARY_SUBSCR"
    return [_Step(offset, op, arg or 0, value, dis.stack_effect(instruction.opcode, arg, jump=False))]


class _Part(NamedTuple):
    key: str


class _Built(NamedTuple):
    """A tuple or list that was built of values, some of them parts: `a, b, c, d = f(), g(), h(), i()` makes one."""

    values: tuple[object, ...]


_Stack = list[object]  # of each value: a _Part, a _Built, a constant itself, or None


def _destination(code: types.CodeType, steps: list[_Step], at: int, returns: dict[str, set[int]]) -> Destination:
    """Where the value goes that is on top of the stack before step `at`."""
    names, returned, end = _follow(code, steps, at)
    name = names.get("")
    is_stored = end is not None and steps[end].op == "STORE_FAST" and steps[end].value == name
    if end is None or not is_stored or name not in returns:
        return Destination(tuple(names.items()), returned)
    return Destination(tuple(names.items()), None, _may_return(code, steps, end + 1, returns[name]))


def _follow(code: types.CodeType, steps: list[_Step], at: int) -> tuple[dict[str, str], str | None, int | None]:
    """The names that it gets, what is returned of it, and the step after which no part is left of it on the stack."""
    stack: _Stack = [None] * code.co_stacksize + [_Part("")]
    names: dict[str, str] = {}
    for here, step in _path(steps, at):
        if step.op == "RETURN_VALUE":
            return names, _returned(code, stack[-1]), None
        if step.op in _STORES:
            _store(names, stack, step)
        elif not _move(stack, step):
            break
        if not any(isinstance(value, (_Part, _Built)) for value in stack):
            return names, None, here
    return names, None, None


def _path(steps: list[_Step], at: int) -> Iterator[tuple[int, _Step]]:
    """The steps from `at` on; in `x = f() if c else g()` there is a jump between `f()` and `x`."""
    while at < len(steps):
        if steps[at].op == "JUMP_FORWARD":
            at = _index(steps, steps[at].value)
        else:
            yield at, steps[at]
            at += 1


def _index(steps: list[_Step], offset: int) -> int:
    return bisect_left(steps, offset, key=lambda step: step.offset)


_JUMPS = {dis.opname[code] for code in (*dis.hasjrel, *dis.hasjabs)}
_ENDS = {
    *("RAISE_VARARGS", "RERAISE", "RETURN_VALUE", "RETURN_CONST", "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_ABSOLUTE"),
    "JUMP_BACKWARD_NO_INTERRUPT",
}
"""What the step after it does not follow on."""


def _may_return(code: types.CodeType, steps: list[_Step], at: int, returns: set[int]) -> bool:
    """Whether some way from `at` on leads to where a variable is returned, and to no other value of it before."""
    name, handlers = steps[min(returns)].value, _handlers(code)
    seen = {at}
    ways = [at]
    for at in ways:
        if at in returns:
            return True
        step = steps[at]
        if step.op in ("STORE_FAST", "DELETE_FAST") and step.value == name:
            continue
        after = [] if step.op in _ENDS else [at + 1]
        after += [_index(steps, step.value)] if step.op in _JUMPS else []
        after += [_index(steps, target) for start, end, target in handlers if start <= step.offset < end]
        ways += [way for way in after if way < len(steps) and way not in seen]
        seen.update(after)
    return False


def _returns(code: types.CodeType, steps: list[_Step]) -> dict[str, set[int]]:
    """Of each variable that is returned as it is, the steps that load it for that."""
    found: dict[str, set[int]] = {}
    for at, step in enumerate(steps):
        if step.op in _LOADS and not code.co_flags & _LAZY and _follow(code, steps, at + 1)[1] == "":
            found.setdefault(step.value, set()).add(at)
    return found


def _handlers(code: types.CodeType) -> list[tuple[int, int, int]]:
    """The first offset of each `try`, the one after it, and that of what handles it; until 3.10 steps tell that."""
    entries = getattr(dis.Bytecode(code), "exception_entries", ())
    return [(entry.start, entry.end, entry.target) for entry in entries]


_LOADS = {"LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK"}


def _returned(code: types.CodeType, value: object) -> str | None:
    return value.key if isinstance(value, _Part) and not code.co_flags & _LAZY else None


_LAZY = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


_STORES = {"STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR", "STORE_SUBSCR"}


def _store(names: dict[str, str], stack: _Stack, step: _Step) -> None:
    name = stack.pop() if step.op == "STORE_SUBSCR" else step.value
    if step.op in ("STORE_ATTR", "STORE_SUBSCR"):
        stack.pop()  # what is stored into
    part = stack.pop()
    if isinstance(part, _Part) and isinstance(name, str) and name.strip("_"):
        names.setdefault(part.key, name)


def _move(stack: _Stack, step: _Step) -> bool:
    """Do to the stack what `step` does; false if that is not known."""
    match step.op:
        case "COPY" if step.arg == 1:  # copies from further down are made to store the annotation of a variable
            stack.append(stack[-1])
        case "SWAP":
            stack[-1], stack[-step.arg] = stack[-step.arg], stack[-1]
        case "LOAD_CONST" | "LOAD_SMALL_INT":
            stack.append(step.value)
        case "BINARY_SUBSCR":
            index, whole = stack.pop(), stack.pop()
            stack.append(_item(whole, index))
        case "UNPACK_SEQUENCE" | "UNPACK_EX":
            # In `a, *b, c = f()`, only a (counted in the low byte) has a key: that of c depends on the length.
            count = step.arg if step.op == "UNPACK_SEQUENCE" else step.arg & 0xFF
            whole = stack.pop()
            stack += [None] * (1 + step.effect - count)
            stack += [_item(whole, index) for index in reversed(range(count))]
        case "BUILD_TUPLE" | "BUILD_LIST" if any(isinstance(value, _Part) for value in stack[len(stack) - step.arg :]):
            stack[len(stack) - step.arg :] = [_Built(tuple(stack[len(stack) - step.arg :]))]
        case _:
            return _exchange(stack, step)
    return True


def _item(whole: object, index: object) -> object:
    """The part under `index`; `None` if no key can say it, as for a slice or an index from the end."""
    if isinstance(whole, _Built):
        return whole.values[index] if type(index) is int and 0 <= index < len(whole.values) else None
    if not isinstance(whole, _Part):
        return None
    if type(index) is int and index >= 0:
        return _Part(f"{whole.key}[{index}]" if whole.key else str(index))
    if type(index) is str and index:
        return _Part(f"{whole.key}.{index}" if whole.key else index)
    return None


# Take values and leave none.
_TAKE = {
    *_PREFIXES,
    *("NOP", "KW_NAMES", "NOT_TAKEN", "POP_TOP", "POP_EXCEPT", "POP_BLOCK", "SETUP_FINALLY", "DELETE_FAST"),
}
# Take what they need and leave one value; but of those that load, which take none, some leave two.
_LEAVE = (
    *("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "PUSH_NULL"),
    *("BUILD_", "CALL", "BINARY_", "UNARY_"),
)


def _exchange(stack: _Stack, step: _Step) -> bool:
    """Put unknown values in the place of those that `step` takes; false if it is not known how many."""
    if step.op in _TAKE:
        takes = -step.effect
    elif step.op in ("LOAD_ATTR", "LOAD_METHOD"):
        takes = 1  # and leave two where a method is called
    elif step.op.startswith(_LEAVE) and step.value != "__annotations__":  # else `a: f()` would be stored as a
        takes = max(0, 1 - step.effect)
    else:
        return False
    stack[len(stack) - takes :] = [None] * (takes + step.effect)
    return True
