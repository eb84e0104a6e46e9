"""Every snippet runs, and what it calls looks where its result goes, as the recorder does."""

import dis
import functools
import gc
import operator
import sys
import textwrap
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from shapetrace.capture import names as names_module
from shapetrace.capture.names import Destination, destination


class Lookout:
    """Collects where the results of `f` and of the operators, methods and properties of `a` and `b` go."""

    def __init__(self) -> None:
        self.seen: list[Destination] = []
        self.a, self.b = Operand(self), Operand(self)

    def look(self) -> None:
        frame = sys._getframe(2)
        self.seen.append(destination(frame.f_code, frame.f_lasti))

    def f(self, *values: object, **_: object) -> object:
        self.look()
        return g(*values)

    def names(self) -> dict[str, object]:
        box = types.SimpleNamespace(f=self.f, box=types.SimpleNamespace())
        return {"f": self.f, "g": g, "a": self.a, "b": self.b, "box": box, "d": {"k": 1}, "i": 7, **LIBRARY}


def g(*values: object, **_: object) -> object:
    """What `f` returns, without looking: the only value it is given, or a tuple of several."""
    return values[0] if len(values) == 1 else values


LIBRARY = {"nullcontext": nullcontext, "operator": operator, "partial": functools.partial}


class Operand:
    def __init__(self, lookout: Lookout) -> None:
        self.lookout = lookout

    def operate(self, *_: object) -> "Operand":
        self.lookout.look()
        return self

    def quiet(self) -> "Operand":
        return self

    __add__ = __iadd__ = __matmul__ = __lt__ = __neg__ = __pos__ = __invert__ = __getitem__ = operate
    __abs__ = __round__ = __divmod__ = operate
    attr = property(operate)


def function(source: str) -> Callable[..., object]:
    scope: dict[str, Callable[..., object]] = {}
    exec(f"def run(f, g, a, b, box, d, i, nullcontext, operator, partial):\n{textwrap.indent(source, '    ')}", scope)
    return scope["run"]


def runs(run: Callable[..., object], times: int = 100) -> set[Destination]:
    """Where the results went; a hundred runs are enough for Python to specialise the code."""
    lookout = Lookout()
    for _ in range(times):
        run(**lookout.names())
    assert lookout.seen
    return set(lookout.seen)


def to(names: dict[str, str] | str, returned: str | None = None, *, is_held: bool = False) -> Destination:
    return Destination(tuple({"": names}.items() if isinstance(names, str) else names.items()), returned, is_held)


NOWHERE = to({})

NAMED_X = [
    "x = f()",
    "x: int = f()",
    "(x := f())",
    "g(x := f())",
    "x = y = f()",
    "x = d[i] = f()",
    "d[i] = x = f()",
    "box.x = f()",
    "box.box.x = f()",
    "g(box).x = f()",
    "d['x'] = f()",
    "g(d)['x'] = f()",
    "x = f(1, key=2)",
    "x = f(*d, **{'key': 2})",
    "x = box.f(1)",
    "x = g(a).operate()",
    "x = a.quiet().quiet().operate()",
    "x = f() if d else g()",
    "x = g() if not d else f()",
    "x = (f() if d else g()) if i else g()",
    "x = g(0) or f()",
    "x, y = f(), g()",
    "y, x = g(), f()",
    "x, y, z = f(1), g(2), g(3)",
    "y, z, x = g(1), g(2), f(3)",
    "x, y, z, w = f(1), g(2), g(3), g(4)",
    "y, z, w, v, x = g(1), g(2), g(3), g(4), f(5)",
    "y, z, x, *w = g(1), g(2), f(3), g(4), g(5)",
    "[y, x, z, w] = [g(1), f(2), g(3), g(4)]",
    "y = x, z, w, v = f(1), g(2), g(3), g(4)",
    "x = (g(1), g(2), g(3), f(4))[3]",
    "x, y = f(), g(d, i, (i, -i + 1), key=d['k'])",
    "box.x, d['y'] = f(i + 1), a.quiet()",
    "for _ in d:\n    x = f()",
    "with nullcontext():\n    x = f()",
    "try:\n    x = f()\nfinally:\n    g()",
    "try:\n    g(1)\nexcept KeyError:\n    pass\nelse:\n    x = f()",
    "try:\n    raise KeyError\nexcept KeyError:\n    x = f()",
    "try:\n    g()\nfinally:\n    x = f()",
    "match f():\n    case x: pass",
]

PARTS = {
    "q, k = f(1, 2)": to({"0": "q", "1": "k"}),
    "q, k, v = f(1, 2, 3)": to({"0": "q", "1": "k", "2": "v"}),
    "[q, k] = f(1, 2)": to({"0": "q", "1": "k"}),
    "x, = f((1,))": to({"0": "x"}),
    "a, (b, c) = f(1, (2, 3))": to({"0": "a", "1[0]": "b", "1[1]": "c"}),
    "(a, (b, c)), e = f((1, (2, 3)), 4)": to({"0[0]": "a", "0[1][0]": "b", "0[1][1]": "c", "1": "e"}),
    "a, *rest = f(1, 2, 3)": to({"0": "a"}),
    "a, *rest, z = f(1, 2, 3)": to({"0": "a"}),
    "*rest, z = f(1, 2, 3)": NOWHERE,
    "a, (b, *c) = f(1, (2, 3))": to({"0": "a", "1[0]": "b"}),
    "x, _ = f(1, 2)": to({"0": "x"}),
    "_, __, x = f(1, 2, 3)": to({"2": "x"}),
    "_ = f()": NOWHERE,
    "_ = x = f()": to("x"),
    "box.q, d['k'], d[i] = f(1, 2, 3)": to({"0": "q", "1": "k"}),
    "q, k = pair = f(1, 2)": to({"0": "q", "1": "k", "": "pair"}),
    "pair = q, k = f(1, 2)": to({"": "pair", "0": "q", "1": "k"}),
    "(q, k), v = f(1, 2), g()": to({"0": "q", "1": "k"}),
    "first = f(1, 2)[0]": to({"0": "first"}),
    "x = f(1, (2, 3))[1][0]": to({"1[0]": "x"}),
    "x = f({'logits': 1})['logits']": to({"logits": "x"}),
    "x = f({'a': {'b': 1}})['a']['b']": to({"a.b": "x"}),
    "x = f({'a': (1, 2)})['a'][1]": to({"a[1]": "x"}),
    "x = f({'a': 1}, 2)[0]['a']": to({"0.a": "x"}),
    "a, b = f((1, 2), 3)[0]": to({"0[0]": "a", "0[1]": "b"}),
    "x = f(1, 2)[-1]": NOWHERE,
    "x = f(1, 2)[0:1]": NOWHERE,
    "x = f(1, 2)[True]": NOWHERE,
    "x = f({'': 1})['']": NOWHERE,
    "x = f({(0, 1): 1})[0, 1]": NOWHERE,
    "x = f({7: 1})[i]": NOWHERE,
}

RETURNED = {
    "return f()": to({}, ""),
    "return f(1, 2)[0]": to({}, "0"),
    "return f({'logits': 1})['logits']": to({}, "logits"),
    "return (x := f())": to("x", ""),
    "return f() if d else g()": to({}, ""),
    "return (lambda: f())()": to({}, ""),
    "for _ in d:\n    return f()": to({}, ""),
    "while True:\n    return f()": to({}, ""),
    "with nullcontext():\n    return f()": to({}, ""),
    "with nullcontext() as _, \\\n    nullcontext():\n    return f(1, 2)[1]": to({}, "1"),
    "try:\n    return f()\nfinally:\n    g(i)": to({}, ""),
    "try:\n    return f()\nfinally:\n    try:\n        g()\n    finally:\n        g()": to({}, ""),
    "try:\n    raise KeyError\nexcept KeyError:\n    return f()": to({}, ""),
    "try:\n    raise KeyError\nexcept KeyError as e:\n    return f()": to({}, ""),
    "return f(), g()": NOWHERE,
    "return [f()]": NOWHERE,
    "return f(1) + 1": NOWHERE,
}

HELD = {
    "x = f()\nreturn x": to("x", is_held=True),
    "x: int = f()\nreturn x": to("x", is_held=True),
    "x = f()\nif not d:\n    x = g()\nreturn x": to("x", is_held=True),
    "x = f()\nif not d:\n    return g()\nelse:\n    return x": to("x", is_held=True),
    "for _ in d:\n    x = f()\nreturn x": to("x", is_held=True),
    "x = f()\nfor i in d:\n    g(x)\n    if i == 7:\n        return x": to("x", is_held=True),
    "with nullcontext():\n    x = f()\nreturn x": to("x", is_held=True),
    "x = f()\ntry:\n    raise KeyError\nexcept KeyError:\n    return x": to("x", is_held=True),
    "x = f()\ntry:\n    raise KeyError\nexcept KeyError:\n    x = g()\nreturn x": to("x"),
    "x = f()\nx = g()\nreturn x": to("x"),
    "x = f()\ndel x\nx = g()\nreturn x": to("x"),
    "x = f()\nif d:\n    x = g()\nelse:\n    x = g(1)\nreturn x": to("x"),
    "x = f()\nreturn g(x)": to("x"),
    "x = f()\nreturn x, x": to("x"),
    "x = f()\ny = x\nreturn y": to("x"),
    "x, y = f(1, 2)\nreturn x": to({"0": "x", "1": "y"}),
    "box.x = f()\nx = g()\nreturn x": to("x"),
    "x = f()\nif not d:\n    raise KeyError(x)\nx = g()\nreturn x": to("x"),
}

NAMELESS = [
    "x = f(1), g(2), g(3), g(4)",
    "x = [f(1), g(2), g(3), g(4)]\ny, z = x[0], x[1]",
    "y, *x = g(1), g(2), g(3), f(4)",
    "x = (f(1), g(2), g(3), g(4))[-1]",
    "return f(1), g(2), g(3), g(4)",
    "for x, y in ((f(1), g(2)), (g(3), g(4))): pass",
    "f()",
    "d[i] = f()",
    "d[i, 0] = f()",
    "d[f()] = 1",
    "x = d[f('k')]",
    "x = g(f())",
    "x = g(1, f())",
    "x = g(key=f())",
    "x = g(*f(1, 2))",
    "x = float(f(1))",
    "x = list(f(1, 2))",
    "x = f(1) + 1",
    "x = 1 + f(1)",
    "x = -f(1)",
    "x = not f(1)",
    "x = f(1) < 2",
    "x = 0 < f(1) < 2",
    "x = f(1) and 2",
    "x = f(1) or 2",
    "x = f(1) is None",
    "x = f(1) in (1, 2)",
    "x = f'{f(1)}'",
    "x = f(a).quiet()",
    "x = f(a).lookout",
    "x = [f()]",
    "x = f(), g()",
    "x = {'k': f()}",
    "x = [f() for _ in d]",
    "x = [y for y in f(1, 2)]",
    "x = {f(1): 1 for _ in d}",
    "x = list(f(1) for _ in d)",
    "x = 1\nx += f(1)",
    "box.x = 1\nbox.x += f(1)",
    "d['n'] = 1\nd['n'] += f(1)",
    "f(box).x = 1",
    "f(d)['x'] = 1",
    "f(box).n = 1\nf(box).n += 1",
    "with f(nullcontext()) as x: pass",
    "for x in f(1, 2): pass",
    "for x in g(f(1), 2): pass",
    "if f(1): x = 1",
    "while not f(1): x = 1",
    "assert f(1)",
    "del f(d)[('k', d.setdefault('k', 1))[0]]",
    "match f(1):\n    case 1: x = 1",
    "match f(1, 2):\n    case x, y: pass",
    "def h(x=f()): pass",
]

OPERATORS = {
    "x = a @ b": to("x"),
    "x = a + b": to("x"),
    "x = -a": to("x"),
    "x = +a": to("x"),
    "x = ~a": to("x"),
    "x = a[0]": to("x"),
    "x = a[i]": to("x"),
    "x = a['k']": to("x"),
    "x = a[0:i]": to("x"),
    "x = a.attr": to("x"),
    "x = a < b": to("x"),
    "x = a\nx += b": to("x"),
    "box.x = a\nbox.x += b": to("x"),
    "x = g(a + b)": NOWHERE,
    "box.x = a @ b": to("x"),
    "return a @ b": to({}, ""),
    "return a.attr": to({}, ""),
}

CALLED_BY_C = {
    "x = partial(f)()": to("x"),
    "x = partial(f, 1)(2, key=3)": to("x"),
    "x = abs(a)": to("x"),
    "x = round(a)": to("x"),
    "x = divmod(a, b)": to("x"),
    "x = getattr(a, 'attr')": to("x"),
    "x = operator.matmul(a, b)": to("x"),
    "q, k = next(map(f, [(1, 2)]))": to({"0": "q", "1": "k"}),
    "return abs(a)": to({}, ""),
    "g(abs(a))": NOWHERE,
    "x = sum([a, b], a)": to("x"),  # also of the first addition: bytecode cannot tell which call made by `sum` asks
}

LONG = {
    "x = f(" + "1, " * 300 + ")": to("x"),
    "x = f() if d else g(" + "i + 1, " * 300 + ")": to("x"),
    ", ".join(f"x{n}" for n in range(300)) + " = f(*range(300))": to({str(n): f"x{n}" for n in range(300)}),
}

ALL = {
    **dict.fromkeys(NAMED_X, to("x")),
    **dict.fromkeys(NAMELESS, NOWHERE),
    **{**PARTS, **RETURNED, **HELD, **OPERATORS, **CALLED_BY_C, **LONG},
}


def each(cases: dict[str, Destination]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("source", "expected"), cases.items(), ids=[source[:60] for source in cases])


@pytest.mark.parametrize("source", NAMED_X)
def test_a_result_is_named_after_the_variable_it_is_assigned_to(source: str) -> None:
    assert runs(function(source)) == {to("x")}


@each(PARTS)
def test_the_parts_of_a_result_are_named_by_their_keys(source: str, expected: Destination) -> None:
    assert runs(function(source)) == {expected}


@each(RETURNED)
def test_a_result_that_goes_straight_to_the_callers_caller_is_returned(source: str, expected: Destination) -> None:
    assert runs(function(source)) == {expected}


@each(HELD)
def test_a_variable_holds_a_result_for_the_caller_if_some_way_leads_on_to_where_it_is_returned(
    source: str, expected: Destination
) -> None:
    assert runs(function(source)) == {expected}


@pytest.mark.parametrize("source", NAMELESS)
def test_a_result_that_is_used_before_it_is_assigned_has_no_name(source: str) -> None:
    assert runs(function(source)) == {NOWHERE}


@each(OPERATORS)
def test_the_result_of_an_operator_is_named_like_that_of_a_call(source: str, expected: Destination) -> None:
    assert runs(function(source)) == {expected}


@each(CALLED_BY_C)
def test_a_function_called_by_c_code_has_the_destination_of_the_instruction(source: str, expected: Destination) -> None:
    assert runs(function(source)) == {expected}


@each(LONG)
def test_a_statement_may_be_long(source: str, expected: Destination) -> None:
    assert runs(function(source)) == {expected}


@each(ALL)
def test_more_than_255_variables_attributes_and_constants_change_nothing(source: str, expected: Destination) -> None:
    before = "".join(f"v{n} = box.n{n} = 'constant {n}'\n" for n in range(300))
    assert runs(function(before + source), times=3) == {expected}


@each(ALL)
def test_tracing_changes_nothing(source: str, expected: Destination) -> None:
    run = function(source)
    with tracing_every_instruction():
        assert runs(run, times=20) == {expected}


@contextmanager
def tracing_every_instruction() -> Iterator[None]:
    def trace(frame: types.FrameType, event: str, arg: object) -> Any:
        frame.f_trace_opcodes = True
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@each(ALL)
def test_code_without_line_numbers_is_read_all_the_same(source: str, expected: Destination) -> None:
    run = function(source)
    run.__code__ = run.__code__.replace(co_linetable=b"")
    assert runs(run, times=3) == {expected}


HOMES = {
    "of a module": "x = f()",
    "of a module, annotated": "x: int = f()",
    "of a class": "class C:\n    x = f()",
    "of an object in a module": "box.x = f()",
    "global": "def run():\n    global x\n    x = f()\nrun()",
    "nonlocal": "def run():\n    x = 0\n    def inner():\n        nonlocal x\n        x = f()\n    inner()\nrun()",
    "captured": "def run():\n    x = f()\n    return lambda: x\nrun()",
    "of a captured object": "def run():\n    c = box\n    c.x = f()\n    return lambda: c\nrun()",
    "captured, in a chain": "def run():\n    x = y = f()\n    return lambda: x\nrun()",
    "in a method": "class C(type(a)):\n    def run(self):\n        x = super().operate()\nC(a.lookout).run()",
    "in a generator": "def run():\n    x = f()\n    yield x\nlist(run())",
    "in a comprehension": "def run():\n    [x := f() for _ in d]\nrun()",
    "a decorated function": "@f\ndef x(): pass",
}


@pytest.mark.parametrize("source", HOMES.values(), ids=HOMES)
def test_a_variable_counts_wherever_it_lives(source: str) -> None:
    assert runs(lambda **names: exec(source, names), times=3) == {to("x")}


GENERATORS = {
    "yields it": "def run():\n    x = yield f()\nlist(run())",
    "yields from it": "def run():\n    x = yield from f(())\nlist(run())",
    "returns it": "def run():\n    yield\n    return f()\nlist(run())",
}


@pytest.mark.parametrize("source", GENERATORS.values(), ids=GENERATORS)
def test_a_result_has_no_name_where_a_generator(source: str) -> None:
    assert runs(lambda **names: exec(source, names), times=3) == {NOWHERE}


def test_an_annotation_is_not_what_its_variable_holds() -> None:
    source = "x: f() = 1\nclass C:\n    x: f()\nC.__annotations__"
    assert runs(lambda **names: exec(source, names), times=3) == {NOWHERE}


def test_a_private_attribute_has_the_name_that_python_gives_it() -> None:
    source = "class C:\n    def run(self):\n        self.__x = f()\nC().run()"
    assert runs(lambda **names: exec(source, names), times=3) == {to("_C__x")}


def test_a_coroutine_names_what_it_assigns_but_not_what_it_awaits_or_returns() -> None:
    lookout = Lookout()

    async def run(f: Callable[..., Any]) -> object:
        x = f()
        y = await f(ready(x))  # gives a coroutine; y is what comes out of that
        return f(y)

    async def ready(x: object) -> object:
        return x

    with pytest.raises(StopIteration):
        run(lookout.f).send(None)
    assert lookout.seen == [to("x"), NOWHERE, NOWHERE]


def test_calls_of_one_line_are_told_apart() -> None:
    lookout = Lookout()
    function("x, y = f(f(1)), (z := f(2)) + f(3)")(**lookout.names())
    assert lookout.seen == [NOWHERE, to("x"), to("z"), NOWHERE]


def test_a_place_that_is_no_call_leads_nowhere() -> None:
    code = function("x = i\nreturn x").__code__
    assert {destination(code, lasti) for lasti in range(-1, 100)} == {NOWHERE}


def test_code_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run = function("x = f()")
    runs(run)
    monkeypatch.setattr(dis, "get_instructions", None)
    assert runs(run) == {to("x")}


def test_code_made_in_a_loop_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names_module, "_MOST_KNOWN", 10)
    made = []
    for n in range(100):
        run = function(f"x{n} = f()")
        assert runs(run, times=1) == {to(f"x{n}")}
        made.append(weakref.ref(run.__code__))
    del run
    gc.collect()
    assert sum(code() is not None for code in made) <= 10
