"""One tile: which ones there are, their scores, their weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.engine.call import Call, RowState
from regard.mask import Verdict

ROWS, KEYS = 128, 512


@dataclass(frozen=True)
class Tile:
    """Final scores of one tile, −∞ where hidden or outside."""

    rows: range
    cols: range
    scores: Tensor  # (*batch, Hq, ROWS, KEYS)
    scaled: Tensor  # before cap, bias and mask
    slope: Tensor | None  # d(capped)/d(scaled), where there is a cap


def blocks_of(queries: int) -> Iterator[range]:
    """Consecutive ranges of queries."""
    for start in range(0, queries, ROWS):
        yield range(start, min(start + ROWS, queries))


def tiles_of(call: Call, rows: range, wanted: Tensor | None = None) -> Iterator[Tile]:
    """The tiles that some row of the block may see, in order; only those with wanted keys."""
    shape = call.shape
    for start in range(0, shape.keys, KEYS):
        cols = range(start, min(start + KEYS, shape.keys))
        if wanted is not None and not len(places_in(wanted, cols)):
            continue
        verdict = Verdict.ALL if call.mask is None else call.mask.verdict(rows, cols, shape.extent)
        if verdict is not Verdict.NONE:
            yield score_tile(call, rows, cols, masked=verdict is Verdict.SOME)


def lengthened(part: Tensor, more: int) -> Tensor:
    """(…, R, D) → (…, R + more, D): zeros below. torch's pad takes no D of 0 until torch 2.10."""
    if part.numel() == 0:
        return part.new_zeros(*part.shape[:-2], part.shape[-2] + more, part.shape[-1])
    return F.pad(part, (0, 0, 0, more))


def score_tile(call: Call, rows: range, cols: range, masked: bool) -> Tile:
    """Scale, cap, bias and mask applied to one zero-padded tile of products."""
    exact, device = call.exact, call.query.device
    q = call.query.detach()[..., rows.start : rows.stop, :].to(exact)
    k = call.keys_at(cols).detach().to(exact)
    q, k = lengthened(q, ROWS - len(rows)), lengthened(k, KEYS - len(cols))
    scaled = call.score.product(q, repeated(k, q)) * call.score.scale
    scores, slope = call.score.cap(scaled), None
    if call.score.softcap is not None:
        slope = 1 - (scores / call.score.softcap).square()
    i = torch.arange(rows.start, rows.stop, device=device)
    j = torch.arange(cols.start, cols.stop, device=device)
    here = Tile(rows, cols, scores, scaled, slope)
    if call.score.bias is not None:
        tile = call.score.bias.tile(i, j, call.shape.extent).detach().to(exact)
        scores = scores.clone() if scores is scaled else scores
        inside(scores, here).add_(tile)
    if masked and call.mask is not None:
        scores = scores.clone() if scores is scaled else scores
        hidden = ~call.mask.allows(i, j, call.shape.extent)
        inside(scores, here).masked_fill_(hidden, -torch.inf)
    if len(cols) < KEYS:
        scores = scores.clone() if scores is scaled else scores
        scores[..., len(cols) :] = -torch.inf
    return Tile(rows, cols, scores, scaled, slope)


def inside(tensor: Tensor, tile: Tile) -> Tensor:
    """The part of a padded tile that lies in the matrix."""
    return tensor[..., : len(tile.rows), : len(tile.cols)]


def weights_of(tile: Tile, state: RowState) -> Tensor:
    """exp((s − peak) − log); 0 in rows that see nothing."""
    here = slice(tile.rows.start, tile.rows.stop)
    pad = (0, ROWS - len(tile.rows))
    peak, log = (F.pad(part[..., here], pad)[..., None] for part in state)
    p = ((tile.scores - peak) - log).exp()
    return torch.where(peak == -torch.inf, 0.0, p)


def times(a: Tensor, b: Tensor) -> Tensor:
    """(…, Hq, m, n) @ (…, Hkv, n, o): each key head serves its group of query heads."""
    return a @ repeated(b, a)


def repeated(shared: Tensor, like: Tensor) -> Tensor:
    """(…, Hkv, n, d) → (…, Hq, n, d), with the heads of `like`; none on either side as well."""
    if shared.shape[-3] == like.shape[-3]:
        return shared
    return shared.repeat_interleave(like.shape[-3] // shared.shape[-3], -3)


def grouped(per_query_head: Tensor, group: int) -> Tensor:
    """(…, Hq, n, d) → (…, Hkv, n, d): gradients of shared heads add up."""
    if group == 1:
        return per_query_head
    *lead, heads, n, d = per_query_head.shape
    return per_query_head.reshape(*lead, heads // group, group, n, d).sum(-3)


def places_in(wanted: Tensor, span: range) -> Tensor:
    """Which entries of an index vector fall into a range."""
    return ((wanted >= span.start) & (wanted < span.stop)).nonzero().squeeze(-1)


def kept_by_dropout(call: Call, tile: Tile) -> Tensor | None:
    """What dropout leaves of a tile, 1/(1 − p) or 0; the same numbers again in the backward."""
    if call.dropout == 0:
        return None
    seed = (call.seed * 1_000_003 + tile.rows.start) * 1_000_003 + tile.cols.start
    dice = torch.Generator(device=tile.scores.device).manual_seed(seed % 2**63)
    shape = inside(tile.scores, tile).shape
    kept = torch.rand(shape, generator=dice, device=tile.scores.device) >= call.dropout
    return kept.to(call.exact) / max(1 - call.dropout, torch.finfo(torch.float32).tiny)
