"""A batch as positions: what each holds, which are padding, which document each is of.

A model is given a mapping, token ids, embeddings or pictures, padded or packed. What every rule
needs of it is the same: (B, L) positions whose contents can be exchanged.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError

_TOKENS = (
    "decoder_input_ids",
    "tgt",
    "input_ids",
    "inputs_embeds",
    "input_features",
    "pixel_values",
)
_SOUNDS = ("input_features", "input_values")
_MASKS = ("attention_mask", "src_key_padding_mask", "key_padding_mask", "padding_mask")
_OWN_MASKS = {"decoder_input_ids": ["decoder_attention_mask"], "tgt": ["tgt_key_padding_mask"]}
_CUTS = re.compile(r"cu_?seq_?len")  # cu_seqlens, cu_seq_lens_q, cu_seqlens_q_padded
_BESIDE = re.compile(r"mask|grid|position|seq_?len")  # what tensors beside the tokens are called
_SHOWN = re.compile(r"^(pixel|image|video|audio|mm_|input_features|input_values)")
_LONGEST = re.compile(r"max_(seq)?_?len")


@dataclass(frozen=True)
class GivenBatch:
    """What a model is given, and the positions in it."""

    entries: dict[str, Any]  # by name; a tensor given by itself has the name ""
    key: str  # of the tokens: (B, L) ids, (B, L, D) embeddings, or (B, …) without positions
    real: Tensor  # (B, L) bool: no padding; L is 1 where there are no positions
    is_flat: bool = False  # given without the axis of sequences, as some packs are
    is_turned: bool = False  # given as (L, B, D)
    documents: Tensor | None = None  # (B, L) whole numbers
    declared_by: str = ""  # what says which documents
    special: frozenset[int] = frozenset()  # ids that masks may be derived from
    mask_name: str = ""  # of the mask of padding, given or not
    pad: int | None = None  # the id of padding
    positions: str = ""  # the argument that a model which generates is given them by
    was_bare: bool = False  # ids alone, of a model that takes them by name

    @property
    def given(self) -> Any:
        """As the model is given it."""
        return self.entries if self.key else self.entries[""]

    @property
    def tokens(self) -> Tensor:
        tokens: Tensor = self.entries[self.key]
        if self.is_turned:
            return tokens.transpose(0, 1)
        return tokens[None] if self.is_flat else tokens

    @property
    def shape(self) -> tuple[int, int]:
        """(B, L): sequences, and positions of each."""
        return self.real.shape[0], self.real.shape[1]

    @property
    def are_ids(self) -> bool:
        """Of tokens, rather than what they stand for."""
        return not self.tokens.is_floating_point()

    @property
    def is_whole(self) -> bool:
        """Without padding."""
        return bool(self.real.all())

    @property
    def starts_again(self) -> bool:
        """Whether positions do, whatever that declares; a mask or a cache would end it."""
        positions = self.entries.get("position_ids")
        is_given = isinstance(positions, Tensor) and self.is_whole
        return is_given and bool((positions.diff() < 0).any())  # type: ignore[union-attr]

    @property
    def shows(self) -> list[str]:
        """Entries that are pictures and sound beside a text, or describe them."""
        return [name for name in self.entries if self.key == "input_ids" and _SHOWN.search(name)]

    @property
    def ends_in_padding(self) -> bool:
        """Any of its sequences."""
        return not bool(self.real[:, -1].all())

    @property
    def can_repeat(self) -> bool:
        """Packs are one row: several would be a padded batch instead. Patches of all pictures, too,
        may lie in one row."""
        patches = (x for name, x in self.entries.items() if name.startswith("pixel_values"))
        is_row = any(len(x) != len(self.real) for x in patches)
        return self.documents is None and not self.is_flat and not is_row

    def with_tokens(self, tokens: Tensor) -> GivenBatch:
        """The same with other contents."""
        tokens = tokens[0] if self.is_flat else tokens
        tokens = tokens.transpose(0, 1) if self.is_turned else tokens
        return replace(self, entries={**self.entries, self.key: tokens})

    def with_other_source(self, sequences: Tensor) -> GivenBatch:
        """Beside a decoder's tokens: other words for its encoder, in some sequences."""
        ids = self.entries.get("input_ids")
        if self.key != "decoder_input_ids" or not isinstance(ids, Tensor):
            return self
        others = torch.where(sequences[:, None], ids.roll(1, 1), ids)
        return replace(self, entries={**self.entries, "input_ids": others})

    def mapped(
        self, change: Callable[[str, Tensor], Tensor], places: Tensor | None = None
    ) -> GivenBatch:
        """The same with every tensor that has the axis of sequences changed; a flat pack's tensors
        get that axis for it. What has positions alone, such as an (L, L) mask, is that of
        `places`."""
        count, length = self.shape

        def entry(name: str, x: Any) -> Any:
            if not isinstance(x, Tensor) or x.ndim == 0:
                return x
            if self.is_flat:
                return change(name, x[None])[0] if len(x) == length else x
            if self.is_turned and x.ndim == 3 and x.is_floating_point():
                return change(name, x.transpose(0, 1)).transpose(0, 1)
            if name == "position_ids" and x.ndim == 3 and x.shape[1] == count:
                return change(name, x.movedim(1, 0)).movedim(0, 1)  # (3, B, L)
            if len(x) == count and not self._has_cells(name, x):
                return change(name, x)
            if places is None or not self._is_along(name):
                return x
            for axis in range(min(x.ndim, 2)):
                x = x.index_select(axis, places) if x.shape[axis] == length else x
            return x

        entries = {name: entry(name, x) for name, x in self.entries.items()}
        return replace(self, entries=entries, real=change("real", self.real))

    def repeated(self, copies: int) -> GivenBatch:
        """The batch so often, along its first axis."""
        return self.mapped(lambda _, x: x.repeat(copies, *(1 for _ in x.shape[1:])))

    def part(self, sequence: int, start: int, stop: int) -> GivenBatch:
        """Some positions of one sequence by themselves, as a pack of one where it is packed."""
        length = self.shape[1]

        def cut(name: str, x: Tensor) -> Tensor:
            x = x[sequence : sequence + 1]
            axes = range(1, x.ndim if "mask" in name else min(x.ndim, 2))
            for axis in axes if self._is_along(name) else ():
                x = x.narrow(axis, start, stop - start) if x.shape[axis] == length else x
            return x.clone()

        alike = self.mapped(cut, torch.arange(start, stop, device=self.real.device))
        entries = {name: _as_one(name, x, stop - start) for name, x in alike.entries.items()}
        for name, grid in self.entries.items():  # patches of all pictures lie in one row
            shown = {"image_grid_thw": "pixel_values", "video_grid_thw": "pixel_values_videos"}
            if (
                shown.get(name, self.key) in entries
                and name in shown
                and len(grid) == len(self.real)
            ):
                sizes = grid.prod(1).tolist()
                entries[shown[name]] = self.entries[shown[name]].split(sizes)[sequence]
        return replace(alike, entries=entries, documents=None)

    def positioned(self, is_left: bool) -> GivenBatch:
        """The same with the positions that padding to the left leaves, where the model takes them
        and none are given: those of generate."""
        if not is_left or not self.positions or self.positions in self.entries:
            return self
        ids = (self.real.long().cumsum(1) - 1).clamp_min(0)
        return replace(self, entries={**self.entries, self.positions: ids})

    def padded(self, left: int, right: int) -> GivenBatch:
        """With so much more padding, hidden by the mask."""

        def longer(name: str, x: Tensor) -> Tensor:
            if x.ndim < 2 or x.shape[1] != self.shape[1] or not self._is_along(name):
                return x
            first, last = x[:, :1], x[:, -1:]
            if name in ("real", self.mask_name):
                first = last = torch.full_like(first, "padding" in name)
            elif name == self.key and self.are_ids:
                filler = self._word(self.tokens[self.real]) if self.pad is None else self.pad
                first = last = torch.full_like(first, filler)
            elif name.endswith("token_type_ids"):
                first = last = torch.zeros_like(first)
            ones = [1 for _ in x.shape[2:]]
            return torch.cat([first.repeat(1, left, *ones), x, last.repeat(1, right, *ones)], 1)

        entries = {self.mask_name: self.mask_of(self.real), **self.entries}
        entries |= self._longer_source(right)
        places = torch.arange(-left, self.shape[1] + right, device=self.real.device)
        places = places.clamp(0, self.shape[1] - 1)
        return replace(self, entries=entries).mapped(longer, places)

    def _word(self, ids: Tensor) -> int:
        """The first that no mask is derived from."""
        words: list[int] = ids.flatten().tolist()
        return next((word for word in words if word not in self.special), words[0])

    def _longer_source(self, more: int) -> dict[str, Tensor]:
        """Ids of the text that an encoder reads, with so much padding that holds other words."""
        ids, mask = self.entries.get("input_ids"), self.entries.get("attention_mask")
        if self.key != "decoder_input_ids" or not isinstance(ids, Tensor) or ids.ndim != 2:
            return {}
        mask = torch.ones_like(ids) if mask is None else mask
        words = torch.full_like(ids[:, :1], self._word(ids)).expand(-1, more)
        longer = torch.cat([mask, torch.zeros_like(mask[:, :1]).expand(-1, more)], 1)
        return {"input_ids": torch.cat([ids, words], 1), "attention_mask": longer}

    def mask_of(self, real: Tensor) -> Tensor:
        """The mask of padding as the model takes it: names like key_padding_mask are true at
        padding."""
        return ~real if "padding" in self.mask_name else real.long()

    def _has_cells(self, name: str, x: Tensor) -> bool:
        """Whether a mask is of queries and keys, where there are as many sequences."""
        is_square = x.shape == (self.shape[1], self.shape[1])
        return is_square and name.endswith("mask") and not re.search("attention|padding", name)

    def _is_along(self, name: str) -> bool:
        """Whether an entry may have the positions that are changed; of two stacks the decoder's."""
        for own in ("decoder", "tgt"):
            if self.key.startswith(own):
                return name == "real" or name.startswith(own)
        return not name.startswith("encoder")

    def is_special(self) -> Tensor:
        """(B, L) of ids that a mask may be derived from."""
        special = torch.isin(self.tokens, torch.tensor(sorted(self.special)).to(self.tokens))
        return special.flatten(2).any(2) if special.ndim > 2 else special

    def other_tokens(self) -> Tensor:
        """(B, L, …) of other contents: other words of this batch, or other embeddings of it."""
        if not self.are_ids:
            return -self.tokens.roll(1, 1 if self.shape[1] > 1 else 0)
        kept = self.is_special() & self.real
        ids = self.tokens.flatten(2) if self.tokens.ndim > 2 else self.tokens[..., None]
        words = torch.unique(ids[~kept & self.real])
        if len(words) < 2:  # and one beside it, which the vocabulary has
            own = int(words[0]) if len(words) else 1
            near = next((n for n in range(own - 1, -1, -1) if n not in self.special), own + 1)
            words = torch.tensor(sorted({own, near})).to(self.tokens)
        at = torch.searchsorted(words, ids.contiguous())
        step = 1 + torch.arange(self.shape[1]).to(at)[:, None] % max(len(words) - 1, 1)
        others = torch.where(kept[..., None], ids, words[(at + step) % len(words)])
        return others.view_as(self.tokens)


def batch_of(
    given: Any,
    documents: Any,
    special: frozenset[int],
    names: list[str],
    pad: int | None,
    is_turned: bool,
) -> GivenBatch:
    """What was given, read; InputError where it holds nothing that could be changed. `names` are
    the model's arguments. `is_turned`: embeddings are (L, B, D)."""
    described, key = f"a {type(given).__name__}", ""
    was_bare = _are_ids(given) and "input_ids" in names
    given = {"input_ids": given} if was_bare else given
    entries: dict[str, Any] = {"": given}
    if isinstance(given, Mapping):
        entries = {name: x for name, x in given.items() if name != "labels"}
        described = f"a mapping with {', '.join(map(str, entries)) or 'nothing'}"
        tensors = [name for name, x in entries.items() if isinstance(x, Tensor)]
        tensors = [name for name in tensors if not _BESIDE.search(name)]
        tensors.sort(key=lambda name: names.index(name) if name in names else len(names))
        key = next((name for name in (*_TOKENS, *tensors) if name in tensors), "")
        if key == "input_ids" and "decoder_input_ids" in names:
            key, entries["decoder_input_ids"] = "decoder_input_ids", entries[key].roll(1, -1)
    source, tokens = entries.get("input_ids"), entries.get(key)
    if not isinstance(tokens, Tensor) or not tokens.numel():
        raise InputError(
            f"batch is {described}; give token ids, embeddings or pictures as a tensor, or a "
            "mapping that holds such a tensor"
        )
    if key == "decoder_input_ids" and isinstance(source, Tensor) and len(tokens) != len(source):
        raise InputError(
            f"decoder_input_ids has {len(tokens)} rows and input_ids {len(source)}: which of them "
            "are one sequence is not known; give as many"
        )
    cuts = [(name, x) for name, x in _nested(given) if _CUTS.search(name) and _is_row(x)]
    axes = 3 if tokens.is_floating_point() or (key in _TOKENS and tokens.ndim == 3) else 2
    # patches of all pictures lie in one row, and a grid counts them
    grids = [x for name, x in entries.items() if "grid" in str(name) and isinstance(x, Tensor)]
    is_row_of = any(x.ndim == 2 and int(x.prod(1).sum()) == len(tokens) for x in grids)
    is_flat = is_row_of or (tokens.ndim == axes - 1 and (axes == 2 or bool(cuts)))
    is_turned = is_turned and tokens.ndim == axes == 3
    tokens = tokens[None] if is_flat else tokens.transpose(0, 1) if is_turned else tokens
    shape = tokens.shape[:2] if tokens.ndim == axes or is_row_of else (len(tokens), 1)
    real = torch.ones(shape, dtype=torch.bool, device=tokens.device)
    masks = [name for name in _MASKS if name in names or name in entries]
    masks = masks if key and shape[1] > 1 else []
    if key not in _SOUNDS and any(name in (*entries, *names) for name in _SOUNDS):
        masks = [name for name in masks if getattr(entries.get(name), "shape", None) == real.shape
                 and name == "attention_mask"]  # others may be of the sound  # fmt: skip
    if key in _OWN_MASKS:
        masks = [name for name in _OWN_MASKS[key] if name in names or name in entries]
    mask = entries.get(masks[0]) if masks else None
    if isinstance(mask, Tensor) and mask.shape == real.shape:
        real = mask == 0 if "padding" in masks[0] else mask != 0
    elif mask is not None:
        masks = []  # a mask of cells, say
    own = "decoder_position_ids" if key.startswith("decoder") else "position_ids"
    batch = GivenBatch(
        entries, key, real, is_flat, is_turned, special=special, pad=pad, was_bare=was_bare,
        mask_name=masks[0] if masks else "", positions=own if key and own in names else "",
    )  # fmt: skip
    ids, by = _documents(batch, documents, cuts)
    return replace(batch, documents=ids, declared_by=by)


def _documents(batch: GivenBatch, declared: Any, cuts: list[Any]) -> tuple[Tensor | None, str]:
    """Which document each position is of, and what says so."""
    shape, device = batch.real.shape, batch.tokens.device
    if declared is False or (declared is None and batch.shape[1] == 1):
        return None, ""
    if declared is not None:
        ids = torch.as_tensor(declared, device=device)
        if ids.shape[-1:] != shape[1:] or ids.numel() not in (shape[1], shape.numel()):
            raise InputError(
                f"documents has shape {tuple(ids.shape)}; give a number for each of the "
                f"{shape[0]} × {shape[1]} positions"
            )
        return ids.expand(shape), "documents="
    if cuts and shape[0] == 1:
        name, row = cuts[0]
        places = torch.arange(shape[1], device=device)
        ids = torch.bucketize(places, row.to(device)[1:], right=True)[None]
        return (ids, name) if int(ids.max()) else (None, "")
    positions = batch.entries.get("position_ids")
    if isinstance(positions, Tensor) and batch.is_whole:
        positions = positions[None] if positions.ndim == 1 else positions
        begins = positions == positions[:, :1]
        if begins.shape == shape and bool((begins.sum(1) > 1).any()):
            return begins.cumsum(1) - 1, "position_ids that start again"
    return None, ""


def _as_one(name: str, entry: Any, length: int) -> Any:
    """An entry of a pack for one document alone: what says where documents begin, also within
    mappings and plain objects, says so of one of this length."""
    if _CUTS.search(name) and _is_row(entry):
        return entry.new_tensor([0, length])
    if _LONGEST.search(name) and isinstance(entry, int):
        return length
    inner = {each: _as_one(each, x, length) for each, x in _within(entry).items()}
    if all(inner[each] is x for each, x in _within(entry).items()):
        return entry
    if isinstance(entry, Mapping):
        return inner
    if hasattr(entry, "_replace"):
        return entry._replace(**inner)
    alike = copy.copy(entry)
    for each, x in inner.items():
        object.__setattr__(alike, each, x)
    return alike


def _within(entry: Any) -> Mapping[str, Any]:
    """Names and entries of a mapping or a plain object."""
    if isinstance(entry, Mapping):
        return entry
    if is_dataclass(entry) and not isinstance(entry, type):
        return {each.name: getattr(entry, each.name) for each in fields(entry)}
    if isinstance(entry, Tensor | nn.Module) or type(entry).__module__ == "builtins":
        return {}
    known: Mapping[str, Any] = (
        entry._asdict() if hasattr(entry, "_asdict") else getattr(entry, "__dict__", {})
    )
    return known


def _are_ids(x: Any) -> bool:
    return isinstance(x, Tensor) and not x.is_floating_point()


def _is_row(x: Any) -> bool:
    return isinstance(x, Tensor) and x.ndim == 1


def _nested(entry: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Names and entries of mappings and plain objects within one another."""
    for name, within in _within(entry).items() if depth < 4 else ():
        yield str(name), within
        yield from _nested(within, depth + 1)
