"""One layer of one prompt: what was measured, written out piece by piece."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.declare import encode, is_portable
from regard.errors import InputError
from regard.mask import Causal, Extent, Intervals, Mask, Table
from regard.mask.spans import runs_of
from regard.recorder.background_writer import Store
from regard.recorder.bins import Gathered, Overlay, Profile, binned, grain
from regard.recorder.plan import Plan
from regard.recording.measures import Kind
from regard.recording.schema import PLACE_NOTE, UNKNOWN, Place, Segment, tensor_name
from regard.recording.sinks import heaviest
from regard.score import BiasTable, ScoreRule

_Array = NDArray[Any]

_LARGEST_PIECE = 8192  # rows: whoever reads one cell checks the piece it lies in
_HEAVY = ("heavy_keys", "heavy_received")  # where keys are binned: sinks are among them


@dataclass(frozen=True, kw_only=True)
class SliceNumbers:
    """One call's part of one prompt: n rows against m keys. H recorded heads, K key heads."""

    count: int  # n
    row_start: int
    key_start: int
    bins: dict[str, _Array]  # (H, b, …) by name: the whole bins of the rows, where made already
    rows: dict[str, _Array]  # (H, r, …) by name: the rows behind them, where there are any
    totals: dict[str, _Array]  # (H,) by name: of all n rows
    received: _Array  # (H, m)
    offsets: _Array  # (H, diagonals)
    offset_shift: int  # entry e of offsets has distance shift − e
    pooled: _Array  # (H, R, C): sums over cells, from cell (row_start, key_start) // cell on
    value_norm: _Array  # (K, new keys): of the last of the m keys, which had not been seen before
    words: dict[str, tuple[_Array, str | None]]
    """q (H, n, D) and k (K, new keys, D), where they are kept, and the format's names of their
    dtypes."""
    rules: Rules


class LayerWriter:
    """Gathers pages, keeps the sums, writes pieces."""

    def __init__(
        self, prompt: int, place: Place, plan: Plan, store: Store, first_key: int = 0
    ) -> None:
        self.prompt, self.place, self._plan, self._store = prompt, place, plan, store
        self._first_key = first_key  # those before it are in another recording
        self._pieces: dict[str, Gathered] = {}
        self._dtypes: dict[str, str | None] = {}
        heads = len(place.heads)
        self._received = Overlay(heads, 0)
        self._pooled = Overlay(heads, 0, 0, dtype=np.float32)
        self._profile = Profile(heads, plan.distances)
        self._totals: dict[str, _Array] = {}
        self._arrays: list[_Array] = []  # of masks and score rules, each written once

    def take(self, page: SliceNumbers) -> None:
        """One more page."""
        if page.count:
            self._take_rows(page)
        if page.value_norm.shape[1]:
            self._gather("value_norm", self._plan.key_bin, "sum").put(page.value_norm)
        for name, (words, dtype) in page.words.items():
            if self.place.exact and words.shape[1]:
                self._gather(name, 1, "every").put(words)
                self._dtypes[name] = dtype
        if self.place.segments:  # a place of which no row is ever recorded leaves nothing behind
            self._write(last=False)

    def _take_rows(self, page: SliceNumbers) -> None:
        self._enter(page, page.count)
        for name in page.bins | page.rows:
            if name == "lse" and self._plan.row_bin > 1 and not self.place.exact:
                continue  # of use with q and k only, and large
            pieces = self._gather(name, *grain(name, self._plan))
            pieces.put(page.rows.get(name), page.bins.get(name))
        self._sum(page)

    def finish(self, queries: int, keys: int) -> None:
        """Write what is left and the sums. So many rows and keys there were, recorded or not."""
        if not self.place.segments:
            return
        self.place = replace(self.place, queries=queries, keys=keys)
        self._write(last=True)
        cell, heads = self.place.pool_cell, len(self.place.heads)
        mass = self._received.total(heads, keys)
        pooled = self._pooled.total(heads, -(-queries // cell), -(-keys // cell))
        kept = self._plan.key_bin
        received = binned(mass.astype(np.float32), kept, "sum")
        profile, edges = self._profile.finish()
        for what, array in (
            ("received", received),
            ("offsets", profile),
            ("offset_edges", edges),
            ("pooled", pooled),
        ):
            self._add(what, None, np.ascontiguousarray(array))
        if kept > 1:
            for what, array in zip(_HEAVY, heaviest(mass), strict=True):
                self._add(what, None, array)
        names, totals = (
            {"names": json.dumps([*self._totals])},
            np.stack([*self._totals.values()], 1),
        )
        self._store.add(tensor_name(self.prompt, self.place.label, "totals"), totals, names)
        self.note()

    def note(self) -> None:
        """The place as it stands."""
        label = f"{PLACE_NOTE}{self.prompt}/{self.place.label}"
        self._store.note({label: self.place.to_json()})

    # ── the place itself ─────────────────────────────────────────────────────────────────────

    def _enter(self, page: SliceNumbers, rows: int) -> None:
        """Rows, keys and the segment they belong to."""
        start, stop = page.row_start, page.row_start + rows
        key_stop = page.key_start + page.received.shape[1]
        place = self.place
        first = start if place.rows == (0, 0) else place.rows[0]
        segments = list(place.segments)
        made = self._segment(page, (start, stop), (page.key_start, key_stop))
        if segments and _joined(segments[-1], made, page):
            last = segments.pop()
            made = replace(last, rows=(last.rows[0], stop), keys=(last.keys[0], key_stop))
        exact = place.exact and not page.rules.why_not
        self.place = replace(
            place,
            rows=(first, stop),
            queries=max(place.queries, stop),
            keys=max(place.keys, key_stop),
            segments=(*segments, made),
            exact=exact,
            why_not=place.why_not or page.rules.why_not,
        )
        changed = len(self.place.segments) != len(place.segments) or exact != place.exact
        if changed or rows >= self._plan.write_rows:
            self.note()

    def _segment(self, page: SliceNumbers, rows: tuple[int, int], keys: tuple[int, int]) -> Segment:
        names = tuple(self._named(array) for array in page.rules.arrays)
        return page.rules.segment(rows, keys, names)

    def _named(self, array: _Array) -> str:
        """The tensor that holds this array, written the first time it is met."""
        for number, known in enumerate(self._arrays):
            if known.dtype == array.dtype and np.array_equal(known, array, equal_nan=False):
                return tensor_name(self.prompt, self.place.label, f"rule_{number}")
        self._arrays.append(array)
        name = tensor_name(self.prompt, self.place.label, f"rule_{len(self._arrays) - 1}")
        self._store.add(name, array)
        return name

    # ── sums ─────────────────────────────────────────────────────────────────────────────────

    def _sum(self, page: SliceNumbers) -> None:
        self._received.add(page.received, page.key_start)
        self._profile.add(page.offsets, page.offset_shift)
        cell = self.place.pool_cell
        self._pooled.add(page.pooled, page.row_start // cell, page.key_start // cell)
        for name, more in page.totals.items():
            join = Kind(name, joins=self._plan.join(name)).join
            self._totals[name] = join(self._totals[name], more) if name in self._totals else more

    # ── pieces ───────────────────────────────────────────────────────────────────────────────

    def _gather(self, name: str, size: int, how: Any) -> Gathered:
        if name not in self._pieces:
            self._pieces[name] = Gathered(size, how)
        return self._pieces[name]

    def _write(self, last: bool) -> None:
        for name, pieces in self._pieces.items():
            if not last and pieces.held < self._plan.write_rows:
                continue
            piece = pieces.take(last)
            if piece is not None:
                of_keys = name in ("k", "value_norm")
                first = self._first_key if of_keys else self.place.rows[0]
                tokens = pieces.taken - piece[0]
                self._add_pieces(name, first + piece[0], piece[1], pieces.size, tokens)

    def _add_pieces(self, name: str, start: int, array: _Array, size: int, tokens: int) -> None:
        """Cut where it is long. A sum is divided by its tokens: the piece says how many it has."""
        for at in range(0, array.shape[1], _LARGEST_PIECE):
            part = array[:, at : at + _LARGEST_PIECE]  # whoever writes it makes it contiguous
            count = min(part.shape[1] * size, tokens - at * size)
            facts = {"tokens": str(count)} if size > 1 else {}
            self._add(name, start + at * size, part, self._dtypes.get(name), facts)

    def _add(
        self,
        what: str,
        start: int | None,
        array: _Array,
        dtype: str | None = None,
        facts: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        name = tensor_name(self.prompt, self.place.label, what, start)
        self._store.add(name, array, {"what": what, **facts}, dtype=dtype)


def _joined(last: Segment, made: Segment, page: SliceNumbers) -> bool:
    """Whether two segments are one: a growing cache, looked at backwards from the end."""
    return (
        (page.rules.joins or page.rules.causal_step)
        and last.rows[1] == made.rows[0]
        and (last.mask, last.score, last.arrays) == (made.mask, made.score, made.arrays)
        and last.keys[0] == made.keys[0]
        and last.keys[1] == last.rows[1]
        and made.keys[1] == made.rows[1]
    )


# ── masks and score rules, as text and arrays ──────────────────────────────────────────────────


_MOST_TABLE = 64 * 2**20  # bytes of one mask or bias table that a recording takes in


@dataclass(frozen=True)
class Rules:
    """A mask and a score rule as text and arrays; `why_not` where they cannot be written down."""

    mask: str
    score: str
    arrays: tuple[NDArray[Any], ...]
    why_not: str = ""
    joins: bool = False  # these rows can be joined with the rows before
    causal_step: bool = False  # a single row that sees every key: a causal mask says the same

    def segment(
        self, rows: tuple[int, int], keys: tuple[int, int], names: tuple[str, ...] = ()
    ) -> Segment:
        """Rows and keys under these rules; their arrays are the tensors of these names."""
        mask = encode(Causal()) if self.causal_step else self.mask
        return Segment(rows, keys, mask, self.score, names)


def as_heads(
    mask: Mask | None, score: ScoreRule, extent: Extent, entries: list[tuple[int, ...]]
) -> tuple[Mask | None, ScoreRule]:
    """The rules of several batch entries that stand beside each other as heads."""
    i, j = torch.arange(extent.queries), torch.arange(extent.keys)
    alone = replace(extent, batch=())
    one = (extent.heads, extent.queries, extent.keys)

    def together(tile: Callable[[tuple[int, ...]], Any]) -> Tensor:
        return torch.cat([tile(entry).expand(one) for entry in entries])

    if mask is not None and (any(True for _ in mask.arrays()) or not is_portable(mask)):
        held = mask.map(lambda array: torch.as_tensor(array).cpu())
        mask = Table(together(lambda entry: held.select(entry).allows(i, j, alone)))
    bias, sink = score.bias, score.sink
    if bias is not None:
        held_bias = bias.map(lambda array: torch.as_tensor(array).cpu())
        bias = BiasTable(together(lambda entry: held_bias.select(entry).tile(i, j, alone)))
    if sink is not None:
        sink = torch.as_tensor(sink).repeat(len(entries))
    return mask, replace(score, bias=bias, sink=sink)


def rules_for(mask: Mask | None, score: ScoreRule, extent: Extent) -> Rules:
    """What one batch entry's rows were computed by."""
    is_flat = (mask is None or mask.is_flat) and score.bias is None and score.sink is None
    if is_flat and (mask is None or is_portable(mask)):
        return _written_down(mask, score.scale, score.softcap)
    mask = None if mask is None else mask.map(_numpy)
    score = score.map(_numpy)
    why_not = ""
    if mask is not None and not is_portable(mask):
        mask, why_not = _spelt_out(mask, extent)
    if score.bias is not None and not is_portable(score.bias):
        score, said = _spelt_bias(score, extent)
        why_not = why_not or said
    elif score.bias is not None:
        size = sum(array.nbytes for array in score.bias.arrays())
        if size > _MOST_TABLE:
            why_not = f"its bias is a table of {size / 1e6:.0f} MB, too large to keep"
    if why_not:
        return Rules(UNKNOWN, encode(ScoreRule(score.scale, score.softcap)), (), why_not)
    held = [] if mask is None else list(mask.arrays())
    return Rules(encode(mask), encode(score), (*held, *score.arrays()))


@lru_cache(maxsize=256, typed=True)
def _written_down(mask: Mask | None, scale: float, softcap: float | None) -> Rules:
    """Of rules that hold no array, which layers and documents share."""
    return Rules(encode(mask), encode(ScoreRule(scale, softcap)), ())


def _numpy(array: Any) -> NDArray[Any]:
    if not isinstance(array, Tensor):
        return np.asarray(array)
    plain = array.detach().cpu()
    return (plain.float() if plain.is_floating_point() and plain.itemsize == 2 else plain).numpy()


def _spelt_out(mask: Mask, extent: Extent) -> tuple[Mask | None, str]:
    """A function cannot be written down, but what it allows can: one run of keys for each query,
    or any keys, where that is small."""
    held = mask.map(torch.as_tensor)
    runs = runs_of(held, extent, lambda start, stop: torch.arange(start, stop))
    if runs is not None:
        return Intervals(*runs), ""
    if math.prod(extent.full[-2:]) > _MOST_TABLE:
        return None, "its mask is a function, and too large as a table"
    i, j = torch.arange(extent.queries), torch.arange(extent.keys)
    seen = held.allows(i, j, extent)
    table = np.broadcast_to(seen.numpy(), np.broadcast_shapes(seen.shape, extent.full[-2:]))
    if table.ndim > 3:
        raise InputError("a mask of one batch entry speaks of several")
    return Table(np.ascontiguousarray(table)), ""


def _spelt_bias(score: ScoreRule, extent: Extent) -> tuple[ScoreRule, str]:
    """The same of a bias that has no tag: a class of the caller's, or a function."""
    bias = score.bias
    assert bias is not None
    name = type(bias).__name__
    if extent.heads * extent.queries * extent.keys * 4 > _MOST_TABLE:
        return score, f"its bias, a {name}, has no tag for a file, and is too large as a table"
    i, j = torch.arange(extent.queries), torch.arange(extent.keys)
    tile = bias.map(torch.as_tensor).tile(i, j, extent)
    if tile.ndim > 3:
        raise InputError(f"a bias of one batch entry, {name}, speaks of several")
    full = (extent.heads, extent.queries, extent.keys)
    return replace(score, bias=BiasTable(np.ascontiguousarray(_numpy(tile.expand(full))))), ""


def follows(mask: Mask | None, queries: int) -> bool:
    """Whether rows under this mask can be joined with the rows before them: it looks backwards
    from each row's own position and holds no array."""
    if mask is None:
        return queries == 1
    windows = [one.as_window() for one in mask.conditions()]
    return all(w is not None and w.align == "end" and w.right == 0 for w in windows)
