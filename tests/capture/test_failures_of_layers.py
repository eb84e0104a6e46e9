"""What an exception is told where a layer, a loss or a function of torch refuses what it was given."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .test_failures import IDS, text

X = torch.zeros(2, 4, 8)


class Net(nn.Module):
    """A layer, and what is done with it."""

    def __init__(self, layer: nn.Module | None = None) -> None:
        super().__init__()
        self.layer = layer or nn.Identity()


class Applied(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class ChannelsLast(Net):
    def forward(self, images: Tensor) -> Tensor:
        x = images.permute(0, 2, 3, 1)
        return self.layer(x)


class Joined(Net):
    def forward(self, x: Tensor) -> Tensor:
        past = x[..., :6]
        return torch.cat([past, x], dim=1)


class Stacked(Net):
    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x, x[:, 1:]])


class SplitInThree(Net):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = x.split([8, 8, 4], dim=-1)
        return q + k + v


class Summed(Net):
    def forward(self, x: Tensor) -> Tensor:
        keys = x[:, :3]
        return torch.einsum("btc,btc->bt", x, keys)


class Weighted(Net):
    def forward(self, x: Tensor) -> Tensor:
        w = x.mean(-1)
        return x * w


class LengthFirst(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = x.transpose(0, 1)
        return x + y


class Loss(Net):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        logits = self.layer(x)
        return F.cross_entropy(logits, y)


class FlatLoss(Net):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        logits = self.layer(x)
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())


class Recurrent(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(1, x.shape[0], 5)
        out, _ = self.layer(x, h)
        return out


class Attends(Net):
    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        out, _ = self.layer(x, memory, memory)
        return out


class Repeated(Net):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, :2].expand(-1, 4, -1)


class Written(Net):
    def forward(self, x: Tensor) -> Tensor:
        self.layer.weight += 1
        return self.layer(x)


class TooFar(Net):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, x.shape[1]]


class Guessed(Net):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], -1, 3)


class InBatches(Net):
    def forward(self, x: Tensor) -> Tensor:
        scores = torch.bmm(x, x)
        return scores


CASES = {
    "channels last in a convolution": (
        lambda: (ChannelsLast(nn.Conv2d(3, 4, 1)), torch.zeros(2, 3, 5, 6)),
        """\
shapetrace: raised in layer (Conv2d), by conv2d(input, weight, bias, (1, 1), (0, 0), (1, 1), 1)
  torch/nn/modules/conv.py
  in layer(x) (test_failures_of_layers.py)
    input   [B, 5, 6, 3]  (2, 5, 6, 3)  stride (90, 6, 1, 30)  float32, not contiguous  from images.permute(0, 2, 3, 1) (test_failures_of_layers.py)
    weight                (4, 3, 1, 1)  stride (3, 1, 1, 1)    float32                  parameter layer.weight
    bias                  (4,)          stride (1,)            float32                  parameter layer.bias
  conv2d takes 3 channels in dim 1, and input [B=2, 5, 6, 3] has 5 there; its channels are last, 3:
  input.movedim(-1, 1) puts them there""",
    ),
    "channels last in a norm": (
        lambda: (Applied(nn.BatchNorm1d(8)), X),
        """\
shapetrace: raised in layer (BatchNorm1d), by batch_norm(input, running_mean, running_var, weight=weight,…
  torch/nn/modules/batchnorm.py
  in layer(x) (test_failures_of_layers.py)
    input         [B, T, 8]  (2, 4, 8)  stride (32, 8, 1)  float32  input of the model
    running_mean             (8,)       stride (1,)        float32  buffer layer.running_mean
    running_var              (8,)       stride (1,)        float32  buffer layer.running_var
    weight                   (8,)       stride (1,)        float32  parameter layer.weight
    bias                     (8,)       stride (1,)        float32  parameter layer.bias
  batch_norm takes 8 channels in dim 1, and input [B=2, T=4, 8] has T=4 there; its channels are
  last, 8: input.transpose(1, 2) puts them there""",
    ),
    "a norm of another width": (
        lambda: (Applied(nn.LayerNorm(6)), X),
        """\
shapetrace: raised in layer (LayerNorm), by layer_norm(input, (6,), weight=weight, bias=bias, eps=1e-05)
  torch/nn/modules/normalization.py
  in layer(x) (test_failures_of_layers.py)
    input   [B, T, 8]  (2, 4, 8)  stride (32, 8, 1)  float32  input of the model
    weight             (6,)       stride (1,)        float32  parameter layer.weight
    bias               (6,)       stride (1,)        float32  parameter layer.bias
  layer_norm is over the last dim, and was made for 6: input [B=2, T=4, 8] has 8 there""",
    ),
    "parts of other widths": (
        lambda: (Joined(), X),
        """\
shapetrace: raised in Joined, by cat([past, x], dim=1)
  …/test_failures_of_layers.py
    past  [B, T, 6]  (2, 4, 6)  stride (32, 8, 1)  float32, not contiguous  from x[..., :6] (test_failures_of_layers.py)
    x     [B, T, 8]  (2, 4, 8)  stride (32, 8, 1)  float32                  input of the model
  cat along dim 1 wants all other dims equal: dim 2 is 6 in past [B=2, T=4, 6] and 8 in x [B=2, T=4,
  8]; along dim 2 they would join""",
    ),
    "lengths that differ": (
        lambda: (Stacked(), X),
        """\
shapetrace: raised in Stacked, by stack([x, x[:, 1:]])
  …/test_failures_of_layers.py
    x         [B, T, 8]    (2, 4, 8)  stride (32, 8, 1)  float32                  input of the model
    x[:, 1:]  [B, T-1, 8]  (2, 3, 8)  stride (32, 8, 1)  float32, not contiguous  from test_failures_of_layers.py
  stack wants equal shapes: dim 1 is T=4 in x [B=2, T=4, 8] and T-1=3 in x[:, 1:] [B=2, T-1=3, 8];
  cat(…, 1) joins such, or pad the shorter""",
    ),
    "a split that does not add up": (
        lambda: (SplitInThree(), X),
        """\
shapetrace: raised in SplitInThree, by x.split([8, 8, 4], dim=-1)
  …/test_failures_of_layers.py
    x  [B, T, 8]  (2, 4, 8)  stride (32, 8, 1)  float32  input of the model
  split into 8 + 8 + 4 = 20 does not add up to 8, dim -1 of x [B=2, T=4, 8]""",
    ),
    "one letter for two sizes": (
        lambda: (Summed(), X),
        """\
shapetrace: raised in Summed, by einsum('btc,btc->bt', x, keys)
  …/test_failures_of_layers.py
    x     [B, T, 8]  (2, 4, 8)  stride (32, 8, 1)  float32                  input of the model
    keys  [B, 3, 8]  (2, 3, 8)  stride (32, 8, 1)  float32, not contiguous  from x[:, :3] (test_failures_of_layers.py)
  einsum's letter 't' stands for T=4 in x [B=2, T=4, 8] and 3 in keys [B=2, 3, 8]: one letter has
  one size""",
    ),
    "a dim less": (
        lambda: (Weighted(), X),
        """\
shapetrace: raised in Weighted, by x * w
  …/test_failures_of_layers.py
    x  [B, T, 8]  (2, 4, 8)  stride (32, 8, 1)  float32  input of the model
    w  [B, T]     (2, 4)     stride (4, 1)      float32  from x.mean(-1) (test_failures_of_layers.py)
  mul lines dims up from the last: 8 of x [B=2, T=4, 8] met T=4 of w [B=2, T=4]; they must be equal,
  or one of them 1. w.unsqueeze(2) lines up""",
    ),
    "length first": (
        lambda: (LengthFirst(), X),
        """\
shapetrace: raised in LengthFirst, by x + y
  …/test_failures_of_layers.py
    x  [B, T, 8]  (2, 4, 8)  stride (32, 8, 1)  float32                  input of the model
    y  [T, B, 8]  (4, 2, 8)  stride (8, 32, 1)  float32, not contiguous  from x.transpose(0, 1) (test_failures_of_layers.py)
  add lines dims up from the last: T=4 of x [B=2, T=4, 8] met B=2 of y [T=4, B=2, 8]; they must be
  equal, or one of them 1. The first two dims of y are the other way round: y.transpose(0, 1) lines
  up; is one of them batch first?""",
    ),
    "classes last": (
        lambda: (Loss(nn.Linear(8, 9)), X, IDS),
        """\
shapetrace: raised in Loss, by cross_entropy(logits, y, ignore_index=-100, reduction='mean…
  …/test_failures_of_layers.py
    logits  [B, T, 9]  (2, 4, 9)  stride (36, 9, 1)  float32  from layer(x) (test_failures_of_layers.py)
    y       [B, T]     (2, 4)     stride (4, 1)      int64    input of the model
  cross_entropy takes its classes from dim 1 of logits [B=2, T=4, 9], so a target of [2, 9], not y
  [B=2, T=4]; its classes are last, 9: logits.reshape(-1, 9) and y.reshape(-1), or
  logits.transpose(1, -1)""",
    ),
    "a class past the logits": (
        lambda: (FlatLoss(nn.Linear(8, 9)), X, IDS + 9),
        """\
shapetrace: raised in FlatLoss, by cross_entropy(logits…, y…, ignore_index=-100, reduction='me…
  …/test_failures_of_layers.py
    logits.flatten(0, 1)  [B·T, 9]  (8, 9)  stride (9, 1)  float32  from test_failures_of_layers.py
    y.flatten()           [B·T]     (8,)    stride (1,)    int64    from test_failures_of_layers.py
  y.flatten() [B·T=8] holds the class 9, and logits.flatten(0, 1) [B·T=8, 9] has 9 classes, 0 to 8:
  a target to leave out is ignore_index=-100""",
    ),
    "dtypes mixed": (
        lambda: (Applied(nn.Linear(8, 3)), X.double()),
        """\
shapetrace: raised in layer (Linear), by linear(input, weight, bias)
  torch/nn/modules/linear.py
  in layer(x) (test_failures_of_layers.py)
    input   [B, T, 8]  (2, 4, 8)  stride (32, 8, 1)  float64  input of the model
    weight             (3, 8)     stride (8, 1)      float32  parameter layer.weight
    bias               (3,)       stride (1,)        float32  parameter layer.bias
  linear wants one dtype: input is float64, weight and bias are float32; input.to(torch.float32)
  makes it that of the parameters""",
    ),
    "devices mixed": (
        lambda: (Applied(nn.Linear(8, 3)), X.to("meta")),
        """\
shapetrace: raised in layer (Linear), by linear(input, weight, bias)
  torch/nn/modules/linear.py
  in layer(x) (test_failures_of_layers.py)
    input   [B, T, 8]  (2, 4, 8)  stride (32, 8, 1)  float32       input of the model
    weight             (3, 8)     stride (8, 1)      float32, cpu  parameter layer.weight
    bias               (3,)       stride (1,)        float32, cpu  parameter layer.bias
  linear wants one device: input is on meta, weight and bias are on cpu; move one of them,
  input.to('cpu') or the model""",
    ),
    "vectors as ids": (
        lambda: (Applied(nn.Embedding(9, 8)), X),
        """\
shapetrace: raised in layer (Embedding), by embedding(input, weight, norm_type=2.0)
  torch/nn/modules/sparse.py
  in layer(x) (test_failures_of_layers.py)
    input   [B, T, 8]  (2, 4, 8)  stride (32, 8, 1)  float32  input of the model
    weight             (9, 8)     stride (8, 1)      float32  parameter layer.weight
  an embedding looks rows up by number, and input [B=2, T=4, 8] is float32: input.long() if it holds
  ids; if it is embedded already, leave this call out""",
    ),
    "a state of another batch": (
        lambda: (Recurrent(nn.GRU(8, 5)), X),
        """\
shapetrace: raised in layer (GRU)
  in layer(x, h) (test_failures_of_layers.py)
    input  [B, T, 8]  (2, 4, 8)  stride (32, 8, 1)  float32  input of the model
    hx     [1, B, 5]  (1, 2, 5)  stride (10, 5, 1)  float32  from x.new_zeros(1, 2, 5) (test_failures_of_layers.py)
  the GRU takes dim 1 of input [B=2, T=4, 8] as batch, T=4, and its state has 2 there, as dim 0 has:
  is batch_first=True meant?""",
    ),
    "queries and keys batch first": (
        lambda: (Attends(nn.MultiheadAttention(8, 2)), X, torch.zeros(2, 3, 8)),
        """\
shapetrace: raised in layer (MultiheadAttention), by kv_proj[0].view(2, 8, 4)
  torch/nn/functional.py
  in layer(x, memory, memory) (test_failures_of_layers.py)
    kv_proj[0]  [B, 3, 8]  (2, 3, 8)  stride (24, 8, 1)  float32  from functional.py
  the attention takes dim 1 as batch, as without batch_first=True: T=4 of query [B=2, T=4, 8] met 3
  of key [B=2, 3, 8]; is batch_first=True meant?""",
    ),
    "attention of another width": (
        lambda: (Attends(nn.MultiheadAttention(6, 2)), X, X),
        """\
shapetrace: raised in layer (MultiheadAttention), by multi_head_attention_forward(query, query, query, 6, 2, in_…
  torch/nn/modules/activation.py
  in layer(x, x, x) (test_failures_of_layers.py)
    query            [B, T, 8]  (2, 4, 8)  stride (32, 8, 1)  float32  input of the model
    in_proj_weight              (18, 6)    stride (6, 1)      float32  parameter layer.in_proj_weight
    in_proj_bias                (18,)      stride (1,)        float32  parameter layer.in_proj_bias
    out_proj.weight             (6, 6)     stride (6, 1)      float32  parameter layer.out_proj.weight
    out_proj.bias               (6,)       stride (1,)        float32  parameter layer.out_proj.bias
  the attention was made with embed_dim=6, and query [B=2, T=4, 8] has 8 in its last dim""",
    ),
    "expand of a dim": (
        lambda: (Repeated(), X),
        """\
shapetrace: raised in Repeated, by x[:, :2].expand(-1, 4, -1)
  …/test_failures_of_layers.py
    x[:, :2]  [B, 2, 8]  (2, 2, 8)  stride (32, 8, 1)  float32, not contiguous  from test_failures_of_layers.py
  expand repeats dims of size 1 only: dim 1 of x[:, :2] [B=2, 2, 8] is 2, and cannot become 4; x[:,
  :2].repeat_interleave(2, 1) copies, -1 leaves a dim as it is""",
    ),
    "a parameter in place": (
        lambda: (Written(nn.Linear(8, 8)), X),
        """\
shapetrace: raised in Written, by layer.weight.add_(1)
  …/test_failures_of_layers.py
    layer.weight  (8, 8)  stride (8, 1)  float32  parameter layer.weight
  add_ writes on the parameter layer.weight whose gradient is wanted: do it under torch.no_grad(),
  or make a new tensor""",
    ),
    "an index past the end": (
        lambda: (TooFar(), X),
        """\
shapetrace: raised in TooFar, by x[:, 4]
  …/test_failures_of_layers.py
    x  [B, T, 8]  (2, 4, 8)  stride (32, 8, 1)  float32  input of the model
  index 4 is past dim 1 of x [B=2, T=4, 8]: T=4, which has 0 to 3""",
    ),
    "sizes that do not divide": (
        lambda: (Guessed(), X),
        """\
shapetrace: raised in Guessed, by x.view(2, -1, 3)
  …/test_failures_of_layers.py
    x  [B, T, 8]  (2, 4, 8)  stride (32, 8, 1)  float32  input of the model
  x [B=2, T=4, 8] has 64 elements, and view(2, -1, 3) wants a multiple of 2·3 = 6: the sizes beside
  -1 must divide 64""",
    ),
    "scores without a turn": (
        lambda: (InBatches(), X),
        """\
shapetrace: raised in InBatches, by bmm(x, x)
  …/test_failures_of_layers.py
    x  [B, T, 8]  (2, 4, 8)  stride (32, 8, 1)  float32  input of the model
  bmm sums over the last dim of x [B=2, T=4, 8] and dim -2 of x [B=2, T=4, 8]: 8 met T=4, and they
  must be equal; x.transpose(-2, -1) has 8 there""",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_layer_refuses_is_explained(case: str) -> None:
    make, expected = CASES[case]
    assert text(*make(), axes="B=2 T=4") == expected


class Padded(nn.Module):
    """Attention with the batch second, and a mask with the batch first."""

    def __init__(self, *, is_given: bool) -> None:
        super().__init__()
        self.is_given, self.attention = is_given, nn.MultiheadAttention(8, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.attention(x, x, x, key_padding_mask=mask if self.is_given else mask == 0)[0]


@pytest.mark.parametrize(
    ("is_given", "origin"),
    [
        (True, "input of the model, as zeros_like(key_padding_mask, dtype=torch.float32) (functional.py)"),
        (
            False,
            "from mask == 0 (test_failures_of_layers.py), as zeros_like(key_padding_mask, dtype=torch.float32) (functional.py)",
        ),
    ],
)
def test_a_mask_that_torch_makes_of_another_is_said_to_be_of_that(is_given: bool, origin: str) -> None:
    found = text(Padded(is_given=is_given), torch.zeros(2, 4, 8), torch.ones(2, 4, dtype=torch.bool))
    (line,) = (line for line in found.splitlines() if line.startswith("    mask "))
    assert line.endswith(f"float32  {origin}")
