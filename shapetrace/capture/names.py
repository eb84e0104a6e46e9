"""The variables a result is assigned to, read from the caller's bytecode.

While a function runs, its caller's frame stands at the call, and the instructions after it say where the result will go:

    q, k = f(x)        CALL, UNPACK_SEQUENCE 2, STORE_FAST q, STORE_FAST k

They are carried out on a stack that knows of each value only whether it is a part of the result, until no part is left on
it. A name so follows the value itself, past other calls (`q, k = f(x), g(x)`) and out of `with` blocks, however a version's
compiler arranges its stack. An instruction not listed here ends the walk: a wrong name is worse than none.
"""

import dis
import inspect
import types
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, NamedTuple


class Destination(NamedTuple):
    """Where a result goes, part by part.

    The key of a part is `""` for the whole result, `"1"` for its second element, `"logits"` for the item under that
    string, and `"1[0].mask"` further in.
    """

    names: tuple[tuple[str, str], ...]
    """(key, variable). For `self.x` and `d["x"]` the variable is `x`; `x = y = f()` counts as `x`, and `_` as no name."""
    returned: str | None
    """The part that the frame returns to its own caller: `None` if none, and for a generator or coroutine."""


_NOWHERE = Destination((), None)

# By id, since hashing a code object reads all of it; the code is kept, or another one could get its id.
_known: dict[int, tuple[types.CodeType, dict[int, Destination]]] = {}
_MOST_KNOWN = 4096  # more than a model runs; forgetting all of them keeps code that is made in a loop from piling up


def destination(code: types.CodeType, lasti: int) -> Destination:
    """Where the result of the call goes that a frame of `code` is making at `lasti`.

    That is the result of the instruction: in `y = sum(xs)` it is `y` for every addition that `sum` makes.
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


def _calls(code: types.CodeType) -> dict[int, Destination]:
    """The destinations in `code`, at all offsets of each call: `f_lasti` may be in the caches that follow it."""
    steps = [step for instruction in dis.get_instructions(code) for step in _steps(instruction)]
    calls: dict[int, Destination] = {}
    for at, step in enumerate(steps):
        if step.op.startswith(_CALLS):
            # 3.11 may make the call already in the PRECALL that stands before each CALL
            found = _follow(code, steps, at + 2 if step.op == "PRECALL" else at + 1)
            if found != _NOWHERE:
                calls.update(dict.fromkeys(range(step.offset, steps[at + 1].offset), found))
    return calls


class _Step(NamedTuple):
    """An instruction, the same in all Python versions."""

    offset: int
    op: str
    arg: int
    value: Any  # argval in dis: the variable, the constant, or where to jump
    effect: int  # by how much it changes the height of the stack


# What calls a function and leaves its result on the stack; UNARY_NOT and CONTAINS_OP make a bool of it.
_CALLS = (
    *("CALL", "PRECALL", "BINARY_", "INPLACE_", "COMPARE_OP", "LOAD_ATTR", "LOAD_SUPER_ATTR"),
    *("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT"),
)

_FUSED = {  # since 3.13
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}
_SHUFFLES = {  # until 3.10
    "DUP_TOP": (("COPY", 1),),
    "ROT_TWO": (("SWAP", 2),),
    "ROT_THREE": (("SWAP", 3), ("SWAP", 2)),
    "ROT_FOUR": (("SWAP", 4), ("SWAP", 3), ("SWAP", 2)),
}
_JUMPS = {"JUMP_FORWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}
_STORES = {"STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR", "STORE_SUBSCR"}


def _steps(instruction: dis.Instruction) -> list[_Step]:
    offset, op, arg, value = instruction.offset, instruction.opname, instruction.arg, instruction.argval
    if op == "EXTENDED_ARG":
        return []
    if op in _FUSED:
        return [_Step(offset, part, 0, name, 1) for part, name in zip(_FUSED[op], value, strict=True)]
    if op in _SHUFFLES:
        return [_Step(offset, part, depth, None, 0) for part, depth in _SHUFFLES[op]]
    if op == "BINARY_OP" and instruction.argrepr == "[]":  # since 3.14
        op = "BINARY_SUBSCR"
    return [_Step(offset, op, arg or 0, value, dis.stack_effect(instruction.opcode, arg, jump=False))]


class _Part(NamedTuple):
    key: str

    def item(self, index: object) -> "_Part | None":
        """The part under `index`; `None` if no key can say it, as for a slice or from the end."""
        if type(index) is int and index >= 0:
            return _Part(f"{self.key}[{index}]" if self.key else str(index))
        if type(index) is str and index:
            return _Part(f"{self.key}.{index}" if self.key else index)
        return None


_Stack = list[object]  # a _Part, a constant as it is, or None for any other value


def _follow(code: types.CodeType, steps: list[_Step], at: int) -> Destination:
    """Where the value goes that is on top of the stack before step `at`."""
    stack: _Stack = [None] * code.co_stacksize + [_Part("")]
    names: dict[str, str] = {}
    for step in _path(steps, at):
        if step.op == "RETURN_VALUE":
            return Destination(tuple(names.items()), _returned(code, stack[-1]))
        if step.op in _STORES:
            _store(names, stack, step)
        elif not _move(stack, step):
            break
        if not any(isinstance(value, _Part) for value in stack):
            break
    return Destination(tuple(names.items()), None)


def _path(steps: list[_Step], at: int) -> Iterator[_Step]:
    """The steps from `at` on, as they run where nothing is decided; at most as many as there are, for a jump may go back."""
    for _ in steps:
        if steps[at].op in _JUMPS:
            at = bisect_left(steps, steps[at].value, key=lambda step: step.offset)
        else:
            yield steps[at]
            at += 1


def _returned(code: types.CodeType, value: object) -> str | None:
    lazy = code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
    return value.key if isinstance(value, _Part) and not lazy else None


def _store(names: dict[str, str], stack: _Stack, step: _Step) -> None:
    name = stack.pop() if step.op == "STORE_SUBSCR" else step.value
    if step.op in ("STORE_ATTR", "STORE_SUBSCR"):
        stack.pop()
    part = stack.pop()
    if isinstance(part, _Part) and isinstance(name, str) and name.strip("_"):
        names.setdefault(part.key, name)


def _move(stack: _Stack, step: _Step) -> bool:
    """Do to the stack what `step` does; false if that is not known."""
    match step.op:
        case "COPY":
            stack.append(stack[-step.arg])
        case "SWAP":
            stack[-1], stack[-step.arg] = stack[-step.arg], stack[-1]
        case "LOAD_NAME" if step.value == "__annotations__":
            return False  # of `x: f()` the annotation is stored next, under "x"
        case "LOAD_CONST" | "LOAD_SMALL_INT":
            stack.append(step.value)
        case "BINARY_SUBSCR":
            index, whole = stack.pop(), stack.pop()
            stack.append(whole.item(index) if isinstance(whole, _Part) else None)
        case "UNPACK_SEQUENCE":
            _unpack(stack, step.arg)
        case "UNPACK_EX":  # a, *b, c: where c is depends on the length
            _unpack(stack, step.arg & 0xFF, beyond=1 + (step.arg >> 8))
        case _:
            return _replace(stack, step)
    return True


def _unpack(stack: _Stack, count: int, beyond: int = 0) -> None:
    whole = stack.pop()
    stack += [None] * beyond
    stack += [whole.item(index) if isinstance(whole, _Part) else None for index in reversed(range(count))]


# Take values and leave none.
_TAKE = {"NOP", "CACHE", "RESUME", "KW_NAMES", "PRECALL", "NOT_TAKEN", "POP_TOP", "POP_BLOCK", "POP_EXCEPT", "DELETE_FAST"}
# Take what they need and leave one value, but LOAD_GLOBAL, which takes nothing and may leave two.
_LEAVE = (
    *("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF", "PUSH_NULL"),
    *("BUILD_", "CALL", "BINARY_", "INPLACE_", "UNARY_", "COMPARE_OP", "IS_OP", "CONTAINS_OP"),
)
# Leave one value or two.
_ATTRIBUTES = {"LOAD_ATTR": 1, "LOAD_METHOD": 1, "LOAD_SUPER_ATTR": 3}


def _replace(stack: _Stack, step: _Step) -> bool:
    """Put unknown values in the place of those that `step` takes."""
    if step.op in _TAKE:
        takes = -step.effect
    elif step.op in _ATTRIBUTES:
        takes = _ATTRIBUTES[step.op]
    elif step.op.startswith(_LEAVE):
        takes = max(0, 1 - step.effect)
    else:
        return False
    stack[len(stack) - takes :] = [None] * (takes + step.effect)
    return True
