"""What a model of transformers is given: made from what its signature, docstring and configuration say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import torch
from torch import Tensor

from ...capture.rebuild import attribute
from .documented import STREAMS, Said, documented, number
from .plans import Plan, takes

__all__ = ["MAKERS", "RESERVED", "Maker", "inputs", "smallest"]

RESERVED = 10
"""Ids at either end of the vocabulary that stand for something: beginnings, ends, images."""

GRID = 8
"""Patches along either side of an image that is given as patches."""

CHOICES = "num_choices"
"""What a dim is called that has a text for each answer."""

ANY = 4
"""The size of a dim of which nothing is known."""


class Maker(msgspec.Struct):
    """Makes the inputs of one forward, one after the other, for some have the length of others."""

    model: Any
    plan: Plan
    sizes: Mapping[str, int]
    made: dict[str, Any] = {}

    @property
    def config(self) -> Any:
        return self.model.config

    @property
    def batch(self) -> int:
        return self.sizes["B"]

    def make(self, name: str) -> Any:
        found = self.drawn(name)
        return torch.ones_like(found) if name in self.plan.ones else found

    def drawn(self, name: str) -> Any:
        if name in self.plan.shapes:
            return self.filled(name, (self.batch, *self.plan.shapes[name]))
        if name in ("pixel_values", "hidden_states") and self.is_gridded():
            return self.floats(self.batch * GRID**2, self.patch())
        for pattern, maker in MAKERS.items():
            if re.search(pattern, name):
                return maker(self, name)
        said = documented(type(self.model)).get(name)
        return self.filled(name, tuple(number(word, self.size) for word in said.sizes) if said else (self.batch, ANY))

    def filled(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Random floats; integers that any table has."""
        kind = documented(type(self.model)).get(name, Said("float", ())).kind
        if kind == "float":
            return self.floats(*shape)
        return torch.zeros(shape, dtype=torch.bool if kind == "bool" else torch.long)

    def floats(self, *shape: int) -> Tensor:
        """Of the dtype of the model."""
        kinds = (p.dtype for p in self.model.parameters() if p.is_floating_point())
        return torch.randn(shape).to(next(kinds, torch.float32))

    def size(self, word: str) -> int:
        """Of a dim that is called so."""
        if word in ("batch_size", "bs") or re.fullmatch("num_(image|video|audio|clip)s(_or_videos)?", word):
            return self.batch
        if word == "target_sequence_length":
            return self.sizes.get("T", ANY)
        if re.search("seq_?len|sequence_length|ids_length", word):
            return self.made["input_ids"].shape[1] if "input_ids" in self.made else self.sizes.get("T", ANY)
        if word in ("height", "width", "image_size", "frame_size"):
            return self.side()
        if word in ("channels", "num_channels", "in_channels", "image_channels"):
            return self.field("num_channels", "in_channels", default=3)
        return self.field(word, default=self.made["input_ids"].shape[1] if "input_ids" in self.made else ANY)

    def field(self, *names: str, default: int) -> int:
        """The first of these fields that the configuration, or one inside of it, has."""
        from .configs import parts

        for _, part in parts(self.config):
            for name in names:
                value = attribute(part, name)
                if isinstance(value, list | tuple) and value:
                    value = value[0]
                if type(value) is int:
                    return value
        return default

    def is_gridded(self) -> bool:
        """Whether images are given as patches, and the grid that they lie in beside them."""
        return any("grid_thw" in name for name in self.plan.names)

    def patch(self) -> int:
        """The numbers in a patch."""
        channels = self.field("in_channels", "num_channels", "in_chans", default=3)
        return channels * self.field("temporal_patch_size", default=1) * self.field("patch_size", default=14) ** 2

    def side(self) -> int:
        return self.field("image_size", default=224)

    def pixels(self, _: str) -> Tensor:
        sizes = attribute(self.config, "image_size")
        side = self.side()
        height, width = sizes if isinstance(sizes, list | tuple) and len(sizes) == 2 else (side, side)
        return self.floats(self.batch, self.field("num_channels", "in_channels", default=3), height, width)

    def features(self, name: str) -> Tensor:
        names = "input_dim", "num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", "input_size"
        bins = self.field(*names, default=80)
        config = self.config
        if hasattr(config, "max_source_positions") and hasattr(config, "num_mel_bins"):  # of one length
            return self.floats(self.batch, bins, 2 * config.max_source_positions)
        said = documented(type(self.model)).get(name)
        if said and len(said.sizes) == 3 and re.search("sequence|time", said.sizes[2]):
            return self.floats(self.batch, bins, 64)
        return self.floats(self.batch, 64, bins)

    def samples(self, name: str) -> Tensor:
        config = self.config
        if hasattr(config, "frequency_stride"):  # a picture of sound
            return self.floats(self.batch, config.max_length, config.num_mel_bins)
        said = documented(type(self.model)).get(name)
        if said and len(said.sizes) == 3 and "hannels" in said.sizes[1]:
            return self.floats(self.batch, self.field("audio_channels", default=1), 4000)
        return self.floats(self.batch, 1, 4000) if said and said.sizes[1:2] == ("1",) else self.floats(self.batch, 4000)

    def text(self, name: str) -> Tensor:
        is_decoded = name.startswith("decoder")
        length = self.sizes.get("T", 8)
        own = length if is_decoded else self.sizes.get("S", length)
        streams = [] if is_decoded != ("decoder_input_ids" in self.plan.names) else self.streams(name)
        if streams and streams[0] == "rows":
            return self.ids(self.batch * streams[1], own)
        if streams:
            return self.ids(self.batch, own * streams[1]).view(self.batch, own, -1)
        if several := self.choices(name):
            return self.ids(self.batch, several * own).view(self.batch, several, own)
        found = self.ids(self.batch, own)
        if name != "input_ids":
            return found
        inserted = [torch.full((self.batch, count), token) for token, count in self.plan.tokens.items()]
        return torch.cat([*inserted, found], 1)

    def choices(self, name: str) -> int:
        """How many texts there are for each of the batch, of which one is to be chosen; 0 if it is but one text."""
        said = documented(type(self.model)).get(name, Said("int", ()))
        return self.field(CHOICES, default=ANY) if said.sizes[1:-1] == (CHOICES,) else 0

    def streams(self, name: str) -> Any:
        """Of sound there are several ids at a time: whether in rows of their own or in a last dim, and how many."""
        if self.plan.streams:
            return "last", self.plan.streams
        said = documented(type(self.model)).get(name, Said("int", ()))
        count = self.field(STREAMS, "num_channels", default=ANY)
        if STREAMS in said.sizes[-1:]:
            return "last", count
        if said.sizes and STREAMS in said.sizes[0]:
            return "rows", count
        return ()

    def ids(self, batch: int, length: int) -> Tensor:
        """Random ones that stand for nothing else."""
        vocabulary = smallest(self.config)
        low = RESERVED if vocabulary > 4 * RESERVED else 0
        found = torch.randint(low, max(vocabulary - low, low + 1), (batch, length))
        for token in special(self.config):
            found[found == token] = low
        return found

    def mask(self, name: str) -> Tensor:
        """Nothing is masked."""
        of = next((other for other in self.made if other.split("_")[0] == name.split("_")[0]), "")
        if name.startswith(("attention", "mm_token")):
            of = "input_ids"
        elif "feature" in name:
            of = "input_features"
        elif name.startswith("padding"):
            of = "input_values"
        of = of or next(iter(self.made), "")
        if of not in self.made:
            return torch.ones(self.batch, self.sizes.get("T", 8), dtype=torch.long)
        shape = self.made[of].shape
        if of == "pixel_values" and len(shape) > 3:
            return torch.ones(*shape[:-3], *shape[-2:], dtype=torch.long)
        if of == "input_features" and len(shape) == 3:
            said = documented(type(self.model)).get(of, Said("float", ()))
            is_last = len(said.sizes) == 3 and bool(re.search("sequence|time", said.sizes[2]))
            return torch.ones(self.batch, shape[2 if is_last else 1], dtype=torch.long)
        return torch.ones(shape if self.choices(of) else shape[:2], dtype=torch.long)

    def kinds(self, _: str) -> Tensor:
        """One where an id stands for a piece of an image."""
        ids = self.made["input_ids"]
        return torch.isin(ids, torch.tensor(list(self.plan.tokens), dtype=torch.long)).int()

    def grid(self, name: str) -> Tensor:
        return torch.tensor([[1, GRID, GRID][-3 if name.endswith("thw") else -2 :]] * self.batch)

    def image_sizes(self, _: str) -> Tensor:
        return torch.full((self.batch, 2), self.side())


MAKERS: dict[str, Any] = {
    r"^(high_res_)?pixel_values$": Maker.pixels,
    r"^input_features$": Maker.features,
    r"^input_values$": Maker.samples,
    r"input_ids$": Maker.text,
    r"(mm_token_type_ids|position_mask)$": Maker.kinds,
    r"(attention|pixel|padding|features?)_mask$": Maker.mask,
    r"grid_t?hw$": Maker.grid,
    r"^image_sizes$": Maker.image_sizes,
}
"""What is in the name of an input -> what makes it. Of all others the docstring tells."""


def inputs(model: Any, plan: Plan, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Arguments of one forward, in the order in which it takes them."""
    maker = Maker(model, plan, sizes)
    first = [name for name in plan.names if re.search("|".join(list(MAKERS)[:4]), name)]
    for name in dict.fromkeys([*first, *plan.names]):
        maker.made[name] = maker.make(name)
    order = [name for name in takes(type(model)) if name in maker.made]
    return {name: maker.made[name] for name in order} | ({} if plan.cache else {"use_cache": False})


def special(config: Any) -> Iterator[int]:
    """The ids that stand for an image, a sound, an end."""
    from .configs import TOKENS, parts

    for _, part in parts(config):
        for name, value in vars(part).items():
            if name.endswith(TOKENS) and type(value) is int:
                yield value


def smallest(config: Any) -> int:
    """The ids that there are."""
    from .configs import parts

    found = (attribute(part, "vocab_size") for _, part in parts(config))
    return min((size for size in found if type(size) is int and size > 1), default=RESERVED)
