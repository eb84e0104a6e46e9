import pytest

from shapetrace.passes.expressions import Label, expression
from shapetrace.schema import Call, TensorMeta

X = TensorMeta((2, 3), number=0)


def call(name: str, inputs: tuple[str, ...] = ("0",), kind: str = "function", **literals: str) -> Call:
    """`literals` by position are written `_1`."""
    return Call(
        kind,
        "",
        name,
        0,
        inputs=dict.fromkeys(inputs, X),
        literals={key.removeprefix("_"): text for key, text in literals.items()},
    )


def text(made: Call, **labels: str) -> str:
    names = dict(zip(made.inputs, labels.values() or ["x", "y", "z"], strict=False))
    return expression(made, made.name, {key: Label(name) for key, name in names.items()}).text


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (call("transpose", _1="1", _2="2"), "x.transpose(1, 2)"),
        (call("view", _1="(2, -1)"), "x.view((2, -1))"),
        (call("add_", _1="1"), "x.add_(1)"),
        (call("T"), "x.T"),
        (call("__getitem__", _1="(:, -1)"), "x[:, -1]"),
        (call("__getitem__", ("0", "1")), "x[y]"),
        (call("__getitem__", _1="tensor([0, 2])"), "x[tensor([0, 2])]"),
        (call("__getitem__", _1="(a + 1) * (b - 1)"), "x[(a + 1) * (b - 1)]"),
        (call("__getitem__", ("0", "1[1]"), **{"_1[0]": ":"}), "x[:, y]"),
        (call("add", ("0", "1")), "x + y"),
        (call("matmul", ("0", "1")), "x @ y"),
        (call("__rsub__", _1="1"), "1 - x"),
        (call("__floordiv__", _1="2"), "x // 2"),
        (call("neg"), "-x"),
        (call("__invert__"), "~x"),
        (call("add", ("0", "1"), alpha="2"), "add(x, y, alpha=2)"),  # no sign says that
        (call("softmax", dim="-1", dtype="None", __stacklevel="3"), "softmax(x, dim=-1)"),
        (call("cat", ("0[0]", "0[1]"), dim="-2"), "cat([x, y], dim=-2)"),
        (call("einsum", ("1", "2"), _0="'ij,jk->ik'"), "einsum('ij,jk->ik', x, y)"),
        (call("w_q", ("input",), "module"), "w_q(x)"),
        (call("attention", ("x", "mask"), "module", need_weights="False"), "attention(x, y)"),
    ],
)
def test_a_call_is_written_as_its_code(made: Call, code: str) -> None:
    assert text(made) == code


def test_what_stands_next_to_a_dot_or_a_sign_gets_brackets() -> None:
    total = expression(call("add", ("0", "1")), "add", {"0": Label("x"), "1": Label("y")})
    assert expression(call("transpose", _1="0", _2="1"), "transpose", {"0": total}).text == "(x + y).transpose(0, 1)"
    assert expression(call("mul", _1="2"), "mul", {"0": total}).text == "(x + y) * 2"
    hidden = expression(call("__invert__"), "__invert__", {"0": Label("mask")})
    assert expression(call("__getitem__", _1="(:, None)"), "__getitem__", {"0": hidden}).text == "(~mask)[:, None]"
    assert expression(call("softmax", dim="0"), "softmax", {"0": total}).text == "softmax(x + y, dim=0)"


def test_a_chain_of_many_steps_shows_where_it_began_and_its_last() -> None:
    label = Label("x")
    texts = []
    for _ in range(6):
        label = expression(call("unsqueeze", _1="0"), "unsqueeze", {"0": label})
        texts.append(label.text)
    assert texts == [
        "x.unsqueeze(0)",
        "x.unsqueeze(0).unsqueeze(0)",
        "x.unsqueeze(0).unsqueeze(0).unsqueeze(0)",
        "x.unsqueeze(0).unsqueeze(0).unsqueeze(0).unsqueeze(0)",
        "x….unsqueeze(0)",
        "x….unsqueeze(0).unsqueeze(0)",
    ]


def test_no_expression_is_longer_than_sixty_characters() -> None:
    name = "a_name_that_goes_on_and_on_" * 4
    label = expression(call("transpose", _1="0", _2="1"), "transpose", {"0": Label(name)})
    assert label.text == f"{name[:59]}…"


def test_a_module_that_was_given_much_hides_it() -> None:
    assert text(call("attn", ("x", "mask"), "module"), x="hidden_states", y="attention_mask") == "attn(…)"
