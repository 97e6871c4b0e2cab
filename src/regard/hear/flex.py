"""FlexAttention: its functions of (batch, head, query, key) as a mask and a bias of ours.

What a score function does is found by asking it at every place: one that adds a number, caps or
scales every score alike is a rule of ours, evaluated tile by tile. Of any other one, the numbers
it would have to add are computed from the scores at hand: in one table where that is small, else
tile by tile.

Uncompiled, FlexAttention holds all N×N scores. So regard computes it, forward and backward, except
where a gradient flows into what a score function holds.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.declare import array
from regard.engine.api import attend
from regard.hear.attached import replace as replace_for_now
from regard.hear.holders import inside, is_heard, is_inside, tell
from regard.hear.packing import HeardCall, UnreadableError
from regard.mask import Extent, Intervals, Mask
from regard.mask.kinds import TileRule
from regard.mask.spans import runs_of
from regard.score import ALiBi, Bias, BiasTable

_Function = Callable[..., Any]
_MOST_TABLE = 2**30  # bytes of scores whose changes are held at once
_PROBES = (1.7, -2.3)  # scores
_FAR = 1e6  # one beyond every cap
_STRIP = 2**22  # places that are asked about at a time
_NONE = ("_identity", "noop_mask")  # torch's own names for no function


@dataclass(frozen=True, kw_only=True)
class FlexRules:
    """What FlexAttention's arguments say."""

    mask: Mask | None
    bias: Bias | None
    softcap: float | None
    scale: float
    learned: bool  # gradients flow into what the score function holds


_HOME = "torch.nn.attention.flex_attention"


def flex_by_regard() -> None:
    """Until nothing is followed, FlexAttention's operator is computed by `attend` where a follower
    is in scope, which tells those who listen; where it cannot be, by torch, and followers get the
    call."""
    home = sys.modules.get(_HOME)
    if home is not None:
        real = home.flex_attention_hop
        replace_for_now(home, "flex_attention_hop", partial(_computed, real))


def _computed(
    real: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: _Function,
    block_mask: tuple[Any, ...],
    scale: float,
    options: dict[str, Any],
    *buffers: Any,
) -> Any:
    """The output, the lse in powers of two and, in newer versions, the largest scores."""
    given = (query, key, value, score_mod, block_mask, scale, options, *buffers)
    if is_inside() or not is_heard():
        return real(*given)
    told: FlexRules | UnreadableError
    try:
        told = read_flex(query, key, score_mod, block_mask, scale, *buffers)
    except UnreadableError as why:
        told = why
    if isinstance(told, UnreadableError) or told.learned or options.get("OUTPUT_MAX"):
        with inside():
            found = real(*given)
        tell(lambda: _said(told, query, key, value, found[0]))
        return found
    made = attend(
        query, key, value, mask=told.mask, scale=told.scale, bias=told.bias, softcap=told.softcap
    )
    lse = made.lse / math.log(2)
    newer = hasattr(sys.modules[_HOME], "AuxOutput")
    return (made.output, lse, lse.new_empty(0)) if newer else (made.output, lse)


def _said(
    told: FlexRules | UnreadableError, query: Tensor, key: Tensor, value: Tensor, output: Tensor
) -> HeardCall:
    if isinstance(told, UnreadableError):
        raise told
    return HeardCall(
        query=query, key=key, value=value, output=output, mask=told.mask, bias=told.bias,
        scale=told.scale, softcap=told.softcap,
    )  # fmt: skip


class ScoreMod(Bias):
    """A function of FlexAttention that adds to each score what only its place decides.

    fn   (heads, queries, keys), index vectors → (heads, queries, keys)
    """

    fn: _Function
    first_head: int = 0

    def tile(self, i: Any, j: Any, extent: Extent) -> Any:
        """(heads, R, C)."""
        heads = torch.arange(self.first_head, self.first_head + extent.heads)
        return self.fn(heads, torch.as_tensor(i), torch.as_tensor(j))

    def cut(
        self,
        extent: Extent,
        batch: Sequence[range],
        heads: range,
        queries: range | None = None,
        keys: range | None = None,
    ) -> ScoreMod:
        """The function is told the heads of the whole problem."""
        return replace(self, first_head=self.first_head + heads.start)

    def __repr__(self) -> str:
        return f"ScoreMod({getattr(self.fn, '__name__', 'a function')})"


class ScoreChange(Bias):
    """fn(score) − score of any function of FlexAttention, tile by tile: the scores are computed
    again. A constant to autograd.

    query, key   (*batch, Hq, tokens, D), the key heads repeated
    entry, head  the function's first two places, of what is left after a cut
    """

    fn: _Function
    scale: float
    query: Any = array("heads", "queries", "dim")
    key: Any = array("heads", "keys", "dim")
    entry: Any = array()
    head: Any = array("heads", batch=False)

    def tile(self, i: Any, j: Any, extent: Extent) -> Any:
        """(*batch, heads, R, C)."""
        scores = _scores(self.query[..., i, :], self.key[..., j, :], self.scale)
        every = scores.reshape(-1, *scores.shape[-3:])  # (B, heads, R, C)
        places = _at(every.device, self.entry, self.head, i, j)
        return (_changed(self.fn, places, every) - every).reshape(scores.shape)

    def map_numbers(self, fn: Callable[[Any], Any]) -> ScoreChange:
        """None of its arrays is added to a score."""
        return self

    def cut(
        self,
        extent: Extent,
        batch: Sequence[range],
        heads: range,
        queries: range | None = None,
        keys: range | None = None,
    ) -> ScoreChange:
        """Places are those of the whole problem."""
        return super().cut(extent, batch, heads)

    def __repr__(self) -> str:
        return f"ScoreChange({getattr(self.fn, '__name__', 'a function')})"


def read_flex(
    query: Tensor,
    key: Tensor,
    score_mod: _Function,
    block_mask: tuple[Any, ...],
    scale: float,
    score_buffers: tuple[Any, ...] = (),
    mask_buffers: tuple[Any, ...] = (),
) -> FlexRules:
    """What the operator is given, which has its mask function last in `block_mask`."""
    mask_mod = block_mask[-1]
    blocks = next(one for one in block_mask if isinstance(one, Tensor))  # (B, H, …)
    mask = None
    if getattr(mask_mod, "__name__", "") not in _NONE:
        extent = Extent(query.shape[2], key.shape[2], tuple(query.shape[:1]), query.shape[1])
        mask = _as_mask(_with(mask_mod, mask_buffers), blocks.shape[:2], extent, query.device)
    if getattr(score_mod, "__name__", "") in _NONE:
        return FlexRules(mask=mask, bias=None, softcap=None, scale=scale, learned=False)
    return _as_score(_with(score_mod, score_buffers), mask, query, key, scale)


def _with(fn: _Function, buffers: tuple[Any, ...]) -> _Function:
    return (lambda *given: fn(*given, *buffers)) if buffers else fn


def _as_mask(fn: _Function, blocks: Sequence[int], extent: Extent, device: torch.device) -> Mask:
    """A mask made for one batch entry or one head is the same for all of them. Where each query
    sees one run of keys, the mask is these: kernels skip by them, and a file holds them."""
    zero = torch.zeros(1, dtype=torch.int64, device=device)

    def whole(i: Any, j: Any) -> Any:
        found = _everywhere(fn, None, zero, zero, *_at(device, i, j))
        return found[0, 0].to(i.device)

    def each(batch: Any, head: Any, i: Any, j: Any) -> Any:
        entries, heads, rows, keys = _at(device, batch, head, i, j)
        entries = zero if blocks[0] == 1 else entries
        heads = zero if blocks[1] == 1 else heads
        found = _everywhere(fn, None, entries, heads, rows, keys).to(i.device)
        if len(entries) == 1:
            return found[0]
        return found.reshape(*batch.shape[:-3], *found.shape[1:])

    if tuple(blocks) != (1, 1):
        return TileRule(each)
    one = TileRule(whole)
    runs = runs_of(one, extent, lambda start, stop: torch.arange(start, stop, device=device))
    if runs is None:
        return one
    return Intervals(*(torch.from_numpy(ends).to(device) for ends in runs))


def _at(device: torch.device, *places: Any) -> list[Tensor]:
    return [torch.as_tensor(one).to(device).reshape(-1) for one in places]


def _as_score(
    fn: _Function, mask: Mask | None, query: Tensor, key: Tensor, scale: float
) -> FlexRules:
    """What a score function does to a score, wherever it stands."""
    with torch.enable_grad():
        learned = _everywhere(fn, 0.0, *_corner(query)).requires_grad
    with torch.no_grad():
        found = _alike_everywhere(fn, mask, query, key)
        if found is None:
            change, own = _change(fn, query, key, scale)
            return FlexRules(mask=mask, bias=change, softcap=None, scale=scale, learned=own)
    factor, cap, added = found
    bias = added if isinstance(added, Bias) else None
    if added is True:
        bias = ScoreMod(_adding(fn, query.device))
    return FlexRules(mask=mask, bias=bias, softcap=cap, scale=scale * factor, learned=learned)


def _adding(fn: _Function, device: torch.device) -> _Function:
    def score_mod(heads: Tensor, i: Tensor, j: Tensor) -> Tensor:
        entry, *places = _at(device, heads[:1] * 0, heads, i, j)
        return _everywhere(fn, 0.0, entry, *places)[0].to(i.device)

    return score_mod


def _corner(query: Tensor) -> list[Tensor]:
    """Every batch entry and head at the first query and key, which nearly all masks show."""
    entries, heads = (torch.arange(n, device=query.device) for n in query.shape[:2])
    return [entries, heads, entries[:1] * 0, entries[:1] * 0]


def _alike_everywhere(
    fn: _Function, mask: Mask | None, query: Tensor, key: Tensor
) -> tuple[float, float | None, Bias | bool] | None:
    """The factor and the cap of every score, and what is added: ALiBi, or whether anything is.
    None where scores are treated differently, or by each batch entry in its own way."""
    left, adds = _ways(fn, query), False
    slopes: Tensor | None = _slopes(fn, query, key)
    extent = Extent(query.shape[2], key.shape[2], tuple(query.shape[:1]), query.shape[1])
    entries, heads = (torch.arange(n, device=query.device) for n in query.shape[:2])
    keys = torch.arange(key.shape[2], device=query.device)
    step = max(_STRIP // max(len(entries) * len(heads) * len(keys), 1), 1)
    for start in range(0, query.shape[2], step):
        rows = torch.arange(start, min(start + step, query.shape[2]), device=query.device)
        where = (entries, heads, rows, keys)
        added = _everywhere(fn, 0.0, *where).double()
        given = [(one, _everywhere(fn, one, *where).double()) for one in _PROBES]
        if not torch.equal(added, added[:1].expand_as(added)):
            return None
        adds = adds or bool((added != 0).any())
        left = [
            (factor, cap)
            for factor, cap in left
            if all(_is_near(at, added, _capped(one * factor, cap)) for one, at in given)
        ]
        if not left:
            return None
        if slopes is not None:
            seen = torch.tensor(True) if mask is None else mask.allows(rows, keys, extent)
            line = -slopes[:, None, None] * (rows[:, None] - keys).abs()
            off = (added - line).abs() > 1e-6 * (1 + line.abs())
            slopes = None if bool((off & seen.to(off.device)).any()) else slopes
    if not adds or slopes is None:
        return (*left[0], adds)
    return (*left[0], ALiBi(slopes.float(), "start"))


def _slopes(fn: _Function, query: Tensor, key: Tensor) -> Tensor | None:
    """(Hq,): what each step away from the key takes off the score, judged by one cell that most
    masks show; None where there is none so far away."""
    last = min(query.shape[2], key.shape[2]) - 1
    if last < 1:
        return None
    entry, heads, first, _ = _corner(query)
    found = _everywhere(fn, 0.0, entry[:1], heads, first + last, first)[0, :, 0, 0].double()
    slopes = -found / last
    return slopes if bool(torch.isfinite(slopes).all()) else None


def _ways(fn: _Function, query: Tensor) -> list[tuple[float, float | None]]:
    """What may be done to every score, judged by one place: (factor, cap)."""
    corner = _corner(query)
    low, one, far = (float(_everywhere(fn, s, *corner)[0, 0, 0, 0]) for s in (0.0, 1.0, _FAR))
    ways: list[tuple[float, float | None]] = [(1.0, None), (one - low, None), (1.0, far - low)]
    return [way for way in ways if all(n is None or (math.isfinite(n) and n > 0) for n in way)]


def _is_near(found: Tensor, added: Tensor, score: float) -> bool:
    """As single precision allows; nothing is left of a score where −∞ was added."""
    hidden = added == -math.inf
    off = (found - added - score).masked_fill(hidden, 0.0).abs()
    room = 1e-6 * (1 + added.masked_fill(hidden, 0.0).abs() + abs(score))
    return bool((off <= room).all()) and bool((found[hidden] == -math.inf).all())


def _capped(score: float, cap: float | None) -> float:
    return score if cap is None else cap * math.tanh(score / cap)


def _change(
    fn: _Function, query: Tensor, key: Tensor, scale: float
) -> tuple[BiasTable | ScoreChange, bool]:
    """What a function changes of the scores that these queries and keys have; and whether torch is
    to compute it, which needs as much memory as the table, or whose gradient is asked for."""
    (batch, heads, queries), keys = query.shape[:3], key.shape[2]
    entry, head = (torch.arange(n, device=query.device) for n in (batch, heads))
    wide = key.detach().repeat_interleave(heads // key.shape[1], 1)
    change = ScoreChange(fn, scale, query.detach(), wide, entry, head)
    if batch * heads * queries * keys * 4 > _MOST_TABLE:
        return change, query.requires_grad or key.requires_grad
    extent = Extent(queries, keys, (batch,), heads)
    i, j = (torch.arange(n, device=query.device) for n in (queries, keys))
    return BiasTable(change.tile(i, j, extent)), True


def _scores(query: Tensor, key: Tensor, scale: float) -> Tensor:
    """At least in single precision."""
    exact = torch.promote_types(query.dtype, torch.float32)
    scores: Tensor = (query.to(exact) @ key.to(exact).mT) * scale
    return scores


def _changed(fn: _Function, places: list[Tensor], scores: Tensor) -> Tensor:
    """(B, H, R, C): the function at these places, of these scores."""
    with torch.no_grad():
        return _mapped(lambda b, h, i, j, s: fn(s, b, h, i, j), places, scores)


def _everywhere(fn: _Function, score: float | None, *places: Tensor) -> Tensor:
    """(B, H, R, C): the function at all pairs of places, given a score or none."""
    if score is None:
        return _mapped(fn, [*places], None)
    there = torch.tensor(score, device=places[0].device)
    return _mapped(lambda *where: fn(there, *where), [*places], None)


def _mapped(fn: _Function, places: list[Tensor], scores: Tensor | None) -> Tensor:
    """By torch's vmap, as FlexAttention itself calls functions of single places. Its mode lets them
    index tensors, which vmap of torch 2.7 cannot without."""
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    for axis in reversed(range(4)):
        dims: list[int | None] = [0 if n == axis else None for n in range(4)]
        fn = torch.vmap(fn, in_dims=(*dims, 0) if scores is not None else tuple(dims))
    with TransformGetItemToIndex():
        found: Tensor = fn(*places) if scores is None else fn(*places, scores)
    return found
