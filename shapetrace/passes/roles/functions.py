"""What torch's own functions do to a tensor, as far as roles depend on it, by their names."""

from __future__ import annotations

from ...schema import Call

__all__ = [
    "ACTIVATIONS",
    "CASTS",
    "COMPARISONS",
    "DIFFERENCES",
    "DROPOUTS",
    "FUSED",
    "JOINS",
    "LAYOUTS",
    "LINEARS",
    "LOOKUPS",
    "LOSSES",
    "NORMS",
    "OTHER_LOSSES",
    "PARTS",
    "PICKS",
    "PRODUCTS",
    "QUOTIENTS",
    "SHAPING",
    "SOFTMAX",
    "SUMS",
    "TIMES",
    "TURNS",
    "WAVES",
    "of_einsum",
    "plain",
    "short_name",
]


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LAYOUTS = words(
    """view reshape transpose permute swapaxes swapdims movedim moveaxis unsqueeze squeeze flatten unflatten contiguous
    clone t T mT H mH adjoint view_as reshape_as unsafe_view alias detach ravel"""
)
"""The same elements, one for one."""

TURNS = words("transpose permute swapaxes swapdims movedim moveaxis t T mT H mH adjoint")
CASTS = words("to type type_as float half bfloat16 double to_copy cpu cuda")
SHAPING = LAYOUTS | CASTS | words("expand expand_as repeat repeat_interleave tile broadcast_to")
PICKS = words("getitem gather index_select take_along_dim")
PARTS = words("narrow select split chunk unbind split_with_sizes tensor_split slice") | PICKS - {"gather"}
JOINS = words("cat concat concatenate stack")
DROPOUTS = words("dropout dropout1d dropout2d feature_dropout native_dropout alpha_dropout")

DIFFERENCES = words("sub subtract rsub")
SUMS = DIFFERENCES | {"add"}
TIMES = words("mul multiply")
QUOTIENTS = words("div divide true_divide rdiv rtruediv")
COMPARISONS = words("le lt ge gt less less_equal greater greater_equal")
WAVES = words("cos sin polar")

PRODUCTS = words("matmul rmatmul mm bmm baddbmm addbmm einsum")
LINEARS = words("linear addmm conv1d convolution bilinear addmv mv")
NORMS = words("layer_norm rms_norm native_layer_norm fused_rms_norm")
LOOKUPS = words("embedding")
SOFTMAX = words("softmax safe_softmax")
LOSSES = words("cross_entropy nll_loss nll_loss_nd cross_entropy_loss ctc_loss")
OTHER_LOSSES = words(
    """mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div
    gaussian_nll_loss poisson_nll_loss cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multi_margin_loss
    multilabel_margin_loss multilabel_soft_margin_loss soft_margin_loss triplet_margin_loss"""
)
"""Where the model gives it, or what is made of it: between layers they may compare anything."""
FUSED = words(
    """scaled_dot_product_attention scaled_dot_product_flash_attention_for_cpu scaled_dot_product_flash_attention
    scaled_dot_product_efficient_attention scaled_dot_product_attention_math scaled_dot_product_cudnn_attention"""
)
ACTIVATIONS = words(
    """relu gelu silu sigmoid tanh relu6 leaky_relu elu selu mish hardswish hardtanh softplus swish square erf
    logsigmoid log_sigmoid prelu celu threshold"""
)

MODULES = {
    "Linear": "linear",
    "Conv1d": "conv1d",
    "Embedding": "embedding",
    "LayerNorm": "layer_norm",
    "RMSNorm": "rms_norm",
    "Softmax": "softmax",
    "Dropout": "dropout",
    "ReLU": "relu",
    "GELU": "gelu",
    "SiLU": "silu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "Identity": "alias",
    "CrossEntropyLoss": "cross_entropy",
}
"""torch's own modules, where what runs inside of them was not recorded."""


def short_name(call: Call) -> str:
    """One name for what is one thing: "aten._softmax", "softmax_" and "__matmul__" are "softmax" and "matmul"."""
    name = call.name
    if call.kind == "module":
        return MODULES.get(name, name)
    known = NAMES.get(name)
    if known is None:
        known = plain(name.rpartition(".")[2])
        if len(NAMES) < MOST:
            NAMES[name] = known
    return "mul" if known == "einsum" and is_scaling(call) else known


def is_scaling(call: Call) -> bool:
    """Whether an einsum is a product element by element, where one has the last dims of the other: "btc,c->btc"."""
    (one, *others), _ = terms_of(call)
    return of_einsum(call) == "mul" and any(one.endswith(other) or other.endswith(one) for other in others)


def terms_of(call: Call) -> tuple[list[str], str]:
    """The letters of the operands of an einsum, and of its result."""
    terms, _, result = call.literals.get("0", "").strip("'\"").replace(" ", "").partition("->")
    return terms.split(","), result


def of_einsum(call: Call) -> str:
    """What an einsum is that sums over nothing: a form of one tensor, or two multiplied element by element, as a gate
    for each token is, "btc,bt->btc". Else a product."""
    operands, result = terms_of(call)
    if not result or set("".join(operands)) != set(result) or len(operands) > 2:
        return "einsum"
    if len(operands) == 1:
        return "permute"
    return "mul" if result in operands else "einsum"


def plain(name: str) -> str:
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
        return name[1:] if name in SIGNS else name
    return "setitem" if name == "copy_" else name.strip("_")


SIGNS = words("iadd isub imul imatmul itruediv idiv ipow iand ior ixor")

NAMES: dict[str, str] = {}
MOST = 4096
"""A file may hold any number of names."""
