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
    "PARTS",
    "PRODUCTS",
    "QUOTIENTS",
    "SHAPING",
    "SOFTMAX",
    "SUMS",
    "TIMES",
    "WITHIN_SCORES",
    "WITHIN_WEIGHTS",
    "short_name",
]


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LAYOUTS = words(
    """view reshape transpose permute swapaxes swapdims movedim moveaxis unsqueeze squeeze flatten unflatten contiguous
    clone t T mT H mH adjoint view_as reshape_as unsafe_view alias detach numpy_T ravel"""
)
"""The same elements, one for one."""

CASTS = words("to type type_as float half bfloat16 double to_copy copy cpu cuda")
SHAPING = LAYOUTS | CASTS | words("expand expand_as repeat_interleave broadcast_to")
PARTS = words(
    "getitem narrow select split chunk unbind split_with_sizes tensor_split slice index_select take_along_dim"
)
DROPOUTS = words("dropout dropout1d dropout2d feature_dropout native_dropout alpha_dropout")
SUMS = words("add sub subtract rsub")
TIMES = words("mul multiply")
QUOTIENTS = words("div divide true_divide rdiv rtruediv")
DIFFERENCES = words("sub subtract rsub")
JOINS = words("cat concat concatenate stack")

PRODUCTS = words("matmul rmatmul mm bmm baddbmm addbmm einsum")
LINEARS = words("linear addmm conv1d convolution bilinear addmv mv")
SOFTMAX = words("softmax safe_softmax")
FUSED = words(
    """scaled_dot_product_attention scaled_dot_product_flash_attention_for_cpu scaled_dot_product_flash_attention
    scaled_dot_product_efficient_attention scaled_dot_product_attention_math scaled_dot_product_cudnn_attention"""
)
NORMS = words("layer_norm rms_norm native_layer_norm fused_rms_norm")
LOOKUPS = words("embedding")
LOSSES = words("cross_entropy nll_loss nll_loss_nd cross_entropy_loss")
COMPARISONS = words("le lt ge gt less less_equal greater greater_equal")
ACTIVATIONS = words(
    """relu gelu silu sigmoid tanh relu6 leaky_relu elu selu mish hardswish hardtanh softplus swish square erf
    logsigmoid log_sigmoid prelu celu threshold"""
)

WITHIN_SCORES = (
    SHAPING
    | PARTS
    | SUMS
    | TIMES
    | QUOTIENTS
    | JOINS
    | words(
        """masked_fill where tanh clamp clip max maximum min minimum pad setitem merge gather nan_to_num neg as_strided
        fill masked_scatter index_copy exp addcmul flip roll diagonal narrow_copy scatter softcap"""
    )
)
"""What may lie between the product of queries and keys and its softmax."""

WITHIN_WEIGHTS = (
    SHAPING | PARTS | DROPOUTS | TIMES | SUMS | QUOTIENTS | words("masked_fill where nan_to_num setitem merge pad")
) | words("as_strided cat index_put scatter flip roll")
"""What may lie between softmax and the product with the values."""

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
    known = NAMES.get(name)
    if known is None:
        known = MODULES.get(name, name) if call.kind == "module" else plain(name)
        if len(NAMES) < MOST:
            NAMES[name] = known
    return known


def plain(name: str) -> str:
    name = name.rpartition(".")[2]
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
        return name[1:] if name in IN_PLACE_SIGNS else name
    return name.strip("_")


IN_PLACE_SIGNS = words("iadd isub imul imatmul itruediv idiv ipow iand ior ixor")

NAMES: dict[str, str] = {}
MOST = 4096
