"""What was measured of a call → the numbers of each prompt's part of it, on the host.

Rows become bins and sums where they are measured, so that a GPU hands over little.

Shapes: H recorded heads, n rows. E batch entries, L queries of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.engine.api import replay
from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.engine.observers import unheard
from regard.hear.inputs import without_padding
from regard.mask import Extent, Mask
from regard.mask.base import Part
from regard.recorder.background_writer import bring
from regard.recorder.bins import folded, grain
from regard.recorder.call_slice import CallPlan, CallSlice, entry_of
from regard.recorder.layer_writer import Rules, SliceNumbers, as_heads, follows, rules_for
from regard.recorder.measure import CallMeasures, Measured, matched, measured, norms
from regard.recorder.plan import Plan
from regard.recording.measures import KINDS, TOTALS
from regard.score import PartBias, ScoreRule

_Array = NDArray[Any]
Arriving: TypeAlias = Callable[[], SliceNumbers]  # waits for the copies from the GPU

SHARP = 0.99  # a row is, whose heaviest weight is above this


def in_bins(
    rows: dict[str, Tensor], plan: Plan, begins: bool
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """By name, whole bins (H, b, …) and the rows behind them, which fill none; of each only those
    that are there. Where the first row does not begin a bin, all rows are such."""
    bins: dict[str, Tensor] = {}
    loose: dict[str, Tensor] = {}
    alike: dict[Any, dict[str, Tensor]] = {}  # what becomes bins in the same way
    for name, numbers in rows.items():
        size, how = grain(name, plan)
        count = numbers.shape[1]
        whole = count // size * size if begins or size == 1 else 0
        if whole < count:
            loose[name] = numbers[:, whole:] if whole else numbers
        if whole:
            way = (size, how, whole, numbers.dtype, numbers.shape)
            alike.setdefault(way, {})[name] = numbers
    for (size, how, whole, *_), together in alike.items():
        bins |= _binned(together, size, how, whole)
    return bins, loose


def _binned(rows: dict[str, Tensor], size: int, how: str, whole: int) -> dict[str, Tensor]:
    """The first `whole` rows of each, in bins."""
    some = {name: n if n.shape[1] == whole else n[:, :whole] for name, n in rows.items()}
    if size == 1:
        return some
    if how == "every":
        return {name: numbers[:, ::size] for name, numbers in some.items()}
    together = torch.cat(list(some.values()))
    if together.device.type == "cuda":
        together = _over(together.reshape(len(together), -1, size), how, 2)
    elif how == "sum":
        together = folded(together.double(), size, torch.add)
    else:
        together = folded(together, size, torch.maximum if how == "max" else torch.minimum)
    made = together.to(next(iter(some.values())).dtype)  # summed in float64
    return dict(zip(some, made.chunk(len(some)), strict=True))


def totals(
    rows: dict[str, Tensor],
    normalized: Tensor,
    visible: Tensor,
    plan: Plan,
    over: Callable[[Tensor, str], Tensor] | None = None,
) -> tuple[tuple[str, ...], Tensor]:
    """Names, and (H, names) in float64: the rows, joined as the plan says.

    normalized   (H, n)
    visible      (H or 1, n): how many keys each row may see
    over         joins the rows of (names, H, n), or of whatever stands for H, n in all of these
    """
    over = over or (lambda numbers, join: _over(numbers, join, 2))
    several = visible > 1
    known = rows | {
        "normalized_entropy": torch.where(several, normalized, 0.0),
        "sharp": (rows["peak"] > SHARP).to(normalized.dtype),
    }
    for name, which in (("rows", visible > 0), ("normalized_rows", several)):
        known[name] = which.to(normalized.dtype).expand_as(normalized)
    alike: dict[str, list[str]] = {}
    for name in known:
        if name not in KINDS or KINDS[name].has_total:
            alike.setdefault(plan.join(name), []).append(name)
    sums: dict[str, Tensor] = {}
    for join, same in alike.items():
        joined = over(torch.stack([known[name] for name in same]), join)
        sums |= dict(zip(same, joined, strict=True))
    for name in set(TOTALS) - set(sums):  # 0: what depends on token ids, without them
        sums[name] = torch.zeros_like(sums["rows"])
    names = tuple(dict.fromkeys((*TOTALS, *sums)))
    return names, torch.stack([sums[name] for name in names], dim=1)


def _over(numbers: Tensor, join: str, axis: int) -> Tensor:
    """An axis joined, in float64."""
    if join == "sum":
        return numbers.sum(dim=axis, dtype=torch.float64)
    return (numbers.amax(dim=axis) if join == "max" else numbers.amin(dim=axis)).double()


# ── each prompt's part of a call ───────────────────────────────────────────────────────────────


def reduced(
    attention: Attention, output: Tensor, value: Tensor, decided: CallPlan
) -> list[Arriving]:
    """The numbers of each slice; `value` are those of all keys, or of the new ones of one slice.
    Nothing of the attention itself is held."""
    call, measures, plan = attention._call, decided.measures, decided.plan
    made: list[Arriving] = []
    everything: Measured | None = None
    with unheard(), torch.no_grad():
        for part in decided.slices:
            if not part.kept:
                made.append(_keys_alone(call, value, part))
            elif part.whole:
                if everything is None:
                    everything = measured(attention, measures, output, value)
                    everything.rows["first"] = first_weights(attention, everything, decided.slices)
                made.append(_numbers(attention, everything, part, plan, 0))
            else:
                rows, numbers = _some_rows(attention, output, value, measures, part)
                alone = replace(part, first=0, count=1)
                numbers.rows["first"] = first_weights(rows, numbers, [alone])
                made.append(_numbers(rows, numbers, alone, plan, part.kept.start))
    return made


def _some_rows(
    attention: Attention, output: Tensor, value: Tensor, measures: CallMeasures, part: CallSlice
) -> tuple[Attention, Measured]:
    """The recorded rows alone, in numbers."""
    alone = _narrowed(attention._call, part)
    rows = slice(part.kept.start, part.kept.stop)
    outputs, values = (_flat(t)[part.entries].flatten(0, 1) for t in (output, value))
    plain = replace(measures, cell=0, duplicate=None, prefix=None)
    numbers = measured(alone, plain, outputs[:, rows], values)
    # which key is earlier is known to all the rows together
    for name, found in matched(attention, measures).items():
        numbers.rows[name] = found[part.entries, :, rows]
    return alone, numbers


def _keys_alone(call: Call, value: Tensor, part: CallSlice) -> Arriving:
    """No row of a call is recorded, but rows that are may look at its keys."""
    norm = norms(_flat(value)[part.entries, :, part.fresh]).flatten(0, 1)
    words = {"k": _key_words(call, part)} if part.exact else {}
    coming = bring({"value_norm": norm} | {name: tensor for name, (tensor, _) in words.items()})
    kinds = {name: kind for name, (_, kind) in words.items()}
    none = np.zeros((len(part.heads), 0), np.float32)
    row_start, key_start = part.row_start, part.key_start

    def arrived() -> SliceNumbers:
        found = coming()
        return SliceNumbers(
            count=0,
            row_start=row_start,
            key_start=key_start,
            bins={},
            rows={},
            totals={},
            received=none,
            offsets=none,
            offset_shift=0,
            pooled=none[:, :, None],
            value_norm=found["value_norm"],
            words={name: (found[name], kind) for name, kind in kinds.items()},
            rules=Rules("null", "", ()),
        )

    return arrived


def _numbers(
    attention: Attention, numbers: Measured, part: CallSlice, plan: Plan, down: int
) -> Arriving:
    """`down` is the call's row that stands first in `numbers`."""
    call = attention._call
    rows = slice(part.kept.start - down, part.kept.stop - down)
    per_head, per_row = _picker(numbers, part), _picker(numbers, part, rows)
    keys = slice(part.keys.start, part.keys.stop)
    row_start = part.row_start + (part.kept.start - part.rows.start)
    queries = numbers.normalized.shape[-1]
    shift = row_start - rows.start - part.key_start + keys.start + queries - 1
    kept = {name: per_row(value) for name, value in numbers.rows.items()}
    even, seen = per_row(numbers.normalized), _seen(numbers, part)[:, rows]
    mass, summed = _pooled(attention, numbers, part, plan.pool_cell, rows, row_start)
    words = _all_words(call, part, rows)
    names, sums = totals(kept, even, seen, plan)
    fields = {
        "totals": sums,
        "received": per_head(numbers.received)[:, keys],
        "offsets": per_head(numbers.offsets),
        "pooled": mass,
        "value_norm": _of_fresh(numbers.value_norm, part),
    }
    kept["top_weights"] = per_row(numbers.top_weights)
    kept["top_keys"] = _moved(per_row(numbers.top_keys), part.key_start - keys.start)
    if plan.row_bin > 1 and not part.exact:
        del kept["lse"]  # of use with q and k only, and large
    bins, loose = map(bring, in_bins(kept, plan, part.begins))
    others = bring(fields | {name: tensor for name, (tensor, _) in words.items()})
    kinds = {name: kind for name, (_, kind) in words.items()}
    rules = prompt_rules(call, part, down)

    def arrived() -> SliceNumbers:  # holds no tensor of a GPU
        found = others()
        return SliceNumbers(
            count=len(part.kept),
            row_start=row_start,
            key_start=part.key_start,
            bins=bins(),
            rows=loose(),
            totals=dict(zip(names, found["totals"].T, strict=True)),
            received=found["received"],
            offsets=found["offsets"],
            offset_shift=shift,
            pooled=summed(found["pooled"]),
            value_norm=found["value_norm"],
            words={name: (found[name], kind) for name, kind in kinds.items()},
            rules=rules,
        )

    return arrived


def _flat(tensor: Tensor) -> Tensor:
    """(*batch, H, N, D) → (E, H, N, D); what has no heads gets one."""
    wide = tensor.unsqueeze(0) if tensor.ndim == 2 else tensor
    return wide.reshape(-1, *wide.shape[-3:])


def _narrowed(call: Call, part: CallSlice) -> Attention:
    """The attention of the recorded rows alone, windows as heads."""
    rows = slice(part.kept.start, part.kept.stop)
    place = (part.kept.start, 0, call.shape.queries, call.shape.keys)
    mask, score = _alone(call, part)
    mask = None if mask is None else Part(mask, *place)
    bias = None if score.bias is None else PartBias(score.bias, *place)
    query, key = (_flat(t)[part.entries].flatten(0, 1) for t in (call.query, call.key))
    return replay(
        query[:, rows], key, mask=mask, bias=bias, scale=score.scale, softcap=score.softcap,
        sink=score.sink,
    )  # fmt: skip


def _alone(call: Call, part: CallSlice) -> tuple[Mask | None, ScoreRule]:
    """The rules of one prompt's entry, or of its windows as heads."""
    if part.count == 1:
        entry = entry_of(call, part.first)
        return None if call.mask is None else call.mask.select(entry), call.score.select(entry)
    entries = range(part.first, part.first + part.count)
    return as_heads(call.mask, call.score, call.shape.extent, [entry_of(call, n) for n in entries])


def _picker(
    numbers: Measured, part: CallSlice, rows: slice | None = None
) -> Callable[[Tensor], Tensor]:
    """(E, H, …) → recorded heads of this prompt; of (E, H, L, …) these rows where given."""
    entries, total, queries = numbers.normalized.shape
    heads = None if part.heads == tuple(range(part.count * total)) else list(part.heads)
    some = None if rows == slice(0, queries) else rows

    # as few calls as can be: for a single row they cost more than what they do
    def pick(tensor: Tensor) -> Tensor:
        every = tensor[0] if entries == 1 else tensor[part.entries].flatten(0, 1)
        every = every if heads is None else every[heads]
        return every if some is None else every[:, some]

    return pick


def first_weights(attention: Attention, numbers: Measured, slices: Sequence[CallSlice]) -> Tensor:
    """(E, H, L): in every row the weight of its prompt's first key; 0 where it is gone from a
    sliding cache."""
    there = [part for part in slices if part.key_start == 0 and len(part.keys)]
    starts = {part.keys.start for part in there}
    rows = numbers.normalized
    if not there:
        return torch.zeros_like(rows)
    shared = len(starts) == 1 and len(there) == len(slices)
    if shared and rows.shape[-1] == 1:  # what the keys received is the row itself
        return numbers.received[..., min(starts), None]
    if shared:
        return attention[..., min(starts)].float().reshape(rows.shape)
    # padding on the left: another key in every prompt
    keys = attention.shape[-1]
    first = rows.new_zeros(len(rows), 1, keys, 1)
    for part in there:
        first[part.entries, :, part.keys.start] = 1
    product = attention @ first.reshape(*attention._call.shape.batch, 1, keys, 1)
    return product.float().reshape(rows.shape)


def _seen(numbers: Measured, part: CallSlice) -> Tensor:
    """(H or 1, L): how many keys the rows of this prompt may see."""
    visible = numbers.visible
    if part.count == 1 and visible.shape[1] == 1:
        return visible[part.first if len(visible) > 1 else 0]
    return _picker(numbers, part)(visible.expand_as(numbers.normalized))


def _moved(keys: Tensor, ahead: int) -> Tensor:
    """Keys of the call as keys of the prompt; −1 is none."""
    # nearly never, and a pass over the largest array there is
    return torch.where(keys < 0, -1, keys + ahead) if ahead else keys


def _all_words(call: Call, part: CallSlice, rows: slice) -> dict[str, tuple[Tensor, str | None]]:
    """q of the recorded rows and heads, k of the new keys, where they are kept."""
    if not part.exact:
        return {}
    return {
        "q": _words(call.query, part.entries, rows, list(part.heads)),
        "k": _key_words(call, part),
    }


def _key_words(call: Call, part: CallSlice) -> tuple[Tensor, str | None]:
    """(K, new keys, D); out of a paged cache these alone are copied."""
    if call.slots is None:
        return _words(call.key, part.entries, part.fresh, None)
    return words_of(call.keys_at(range(part.fresh.start, part.fresh.stop)).contiguous())


def _of_fresh(value_norm: Tensor, part: CallSlice) -> Tensor:
    """(K, new keys) of (E, K, keys), or of (E, K, new keys), which is all a paged cache is read
    for."""
    every = value_norm[part.entries].flatten(0, 1)
    return every if every.shape[1] == part.fresh.stop - part.fresh.start else every[:, part.fresh]


def _words(
    tensor: Tensor, entries: slice, tokens: slice, heads: list[int] | None
) -> tuple[Tensor, str | None]:
    """(heads, tokens, D), bf16 as its 16-bit words."""
    some = _flat(tensor)[entries, :, tokens].flatten(0, 1).detach()
    every = heads is None or heads == list(range(len(some)))
    return words_of((some if every else some[heads]).contiguous())


def words_of(tensor: Tensor) -> tuple[Tensor, str | None]:
    """bf16 as its 16-bit words, and the format's name of the dtype where words do not tell it."""
    plain = tensor.detach()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.uint16), "BF16"
    return plain, None


@dataclass(frozen=True)
class _CellSums:
    """Sums of what lies in one cell: those that begin at `starts` of an axis, or all are made."""

    starts: _Array | None = None
    axis: int = 0

    def __call__(self, mass: _Array) -> _Array:
        return mass if self.starts is None else np.add.reduceat(mass, self.starts, axis=self.axis)


def _pooled(
    attention: Attention,
    numbers: Measured,
    part: CallSlice,
    cell: int,
    rows: slice,
    row_start: int,
) -> tuple[Tensor, _CellSums]:
    """(H, R, C): mass in cells that are counted from the prompt's first row and key, or in parts
    of such, and how they become whole on the host."""
    per_head = _picker(numbers, part)
    if numbers.pooled is not None:
        tall, wide = -(-len(part.rows) // cell), -(-len(part.keys) // cell)
        return per_head(numbers.pooled)[:, :tall, :wide], _CellSums()
    keys = slice(part.keys.start, part.keys.stop)
    if attention._call.shape.queries == 1 and len(part.keys):
        received = per_head(numbers.received)[:, None, keys]
        return received, _CellSums(_starts(part.key_start, len(part.keys), cell), 2)
    columns = (np.arange(len(part.keys)) + part.key_start) // cell - part.key_start // cell
    indicator = np.zeros((attention.shape[-1], columns[-1] + 1 if len(columns) else 0))
    indicator[np.arange(keys.start, keys.stop), columns] = 1
    mass = attention @ torch.as_tensor(indicator, dtype=attention.dtype, device=attention.device)
    by_row = mass.reshape(*numbers.normalized.shape, mass.shape[-1])  # (E, H, L, columns)
    picked = _picker(numbers, part, rows)(by_row.float())
    return picked, _CellSums(_starts(row_start, len(part.kept), cell), 1)


def _starts(first: int, count: int, cell: int) -> _Array:
    """Where cells begin among so many tokens, at least one, from the `first` on."""
    return np.append(0, np.arange(cell - first % cell, count, cell))


def prompt_rules(call: Call, part: CallSlice, down: int) -> Rules:
    """The rules of the rows that are recorded, and whether they go on where others stopped."""
    mask, score = _alone(call, part)
    rows = range(part.kept.start - down, part.kept.stop - down)
    return rules_of(without_padding(mask, rows, part.keys), score, call, part, down)


def rules_of(mask: Mask | None, score: ScoreRule, call: Call, part: CallSlice, down: int) -> Rules:
    """The same, from one prompt's mask, less its padding, and score rule."""
    whole = (call.shape.queries, call.shape.keys)
    rows = range(part.kept.start - down, part.kept.stop - down)
    cut = (len(rows), len(part.keys)) != whole
    joins = follows(mask, len(rows)) and part.kind == "self"
    same_end = whole[0] - rows.stop == whole[1] - part.keys.stop
    place = (rows.start, part.keys.start, *whole)
    if cut and not (joins and same_end) and mask is not None:
        mask = Part(mask, *place)
    if cut and score.bias is not None:
        score = replace(score, bias=PartBias(score.bias, *place))
    heads = call.shape.query_heads * part.count
    found = rules_for(mask, score, Extent(len(rows), len(part.keys), (), heads))
    step = (
        mask is None
        and len(rows) == 1
        and part.kind == "self"
        and part.key_start == 0
        and len(part.keys) == part.row_start + (rows.start - (part.rows.start - down)) + 1
    )
    return replace(found, joins=joins and (not cut or same_end), causal_step=step)
