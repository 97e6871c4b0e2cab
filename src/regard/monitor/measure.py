"""One attention in sums: a few numbers a head, on the device it was computed on."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

from regard.engine.matrix import Attention
from regard.engine.problem import Call
from regard.summary import Entropy, MaxLogit, MaxScore, Summary, Visible, normalize

__all__ = ["SUMMED", "Real", "Sums", "measure", "wanted"]

# What is added up over rows: a statistic's mean is its sum over the count beside it.
SUMMED: Final = ("normalized_entropy", "choosing_rows", "peak", "sink_mass", "rows")


class Real(NamedTuple):
    """Which tokens of a padded batch are none of the padding."""

    rows: Tensor  # (B, L) booleans
    start: Tensor | None  # (B, 1): where each sequence begins; None where all do at key 0


class Sums(NamedTuple):
    """Of one call, or of several."""

    largest: Tensor  # (H,): max score; −∞ where no row saw a key, ∞ where a score is not finite
    sums: Tensor  # (len(SUMMED), H)

    def joined(self, other: Sums) -> Sums:
        """Of both calls together."""
        return Sums(torch.maximum(self.largest, other.largest), self.sums + other.sums)


def wanted(call: Call) -> tuple[Summary, ...]:
    """What one row sweep brings; the heaviest weight follows from the largest score and lse,
    unless a bias stands between them."""
    biased = (MaxLogit(),) if call.score.bias is not None else ()
    return (Entropy(), MaxScore(), Visible(), *biased)


def measure(attention: Attention, real: Real | None) -> Sums:
    """Sums over batch and rows; padding left out, where it is known."""
    call = attention._call
    found = attention.summarize(*wanted(call))
    sink = call.score.sink is not None
    heads, lse = call.shape.query_heads, attention._lse.detach()
    seen = _rows(found[Visible()], heads)
    counts = seen > 0 if not sink else torch.ones_like(seen, dtype=torch.bool)
    if real is not None:
        counts = counts & real.rows[:, None]
    even = normalize(_rows(found[Entropy()], heads), seen, sink)
    largest = _rows(found[MaxScore()], heads)
    heaviest = _heaviest(call, found.get(MaxLogit(), found[MaxScore()]))
    peak = (_rows(heaviest, heads) - _rows(lse, heads)).exp().clamp(max=1)
    # ∞ and not NaN: a maximum over batches and ranks keeps it, and NaN says that nothing was heard
    broken = (seen > 0) & ~(largest.isfinite() & _rows(lse, heads).isfinite())
    kept = torch.where(counts, largest.masked_fill(broken, torch.inf), -torch.inf)
    choosing = counts & (seen + int(sink) > 1)
    masses = _rows(_sink_mass(attention, call, lse, real), heads)
    sums = [
        _sum(even, choosing), _sum(choosing, choosing), _sum(peak, counts & (seen > 0)),
        _sum(masses, counts), _sum(counts, counts),
    ]  # fmt: skip
    return Sums(kept.amax((0, 2)), torch.stack(sums))


def _rows(tensor: Tensor, heads: int) -> Tensor:
    """(*batch, H, L) → (B, H, L)."""
    return tensor.reshape(-1, heads, tensor.shape[-1])


def _sum(values: Tensor, where: Tensor) -> Tensor:
    """(B, H, L) → (H,), over the chosen rows."""
    exact = torch.float32 if values.device.type == "mps" else torch.float64
    return torch.where(where, values, 0).sum(-1).to(exact).sum(0)


def _heaviest(call: Call, largest: Tensor) -> Tensor:
    """The final score of the heaviest key."""
    cap = call.score.softcap
    if cap is None or call.score.bias is not None:
        return largest
    return cap * (largest / cap).tanh()


def _sink_mass(attention: Attention, call: Call, lse: Tensor, real: Real | None) -> Tensor:
    """(*batch, H, L): the weight of the sequence's first token and of the learned sink."""
    mass = attention.sink_mass().detach().reshape(lse.shape)
    keys = call.shape.keys
    if keys == 0:
        return mass
    if real is None or real.start is None or real.rows.shape[-1] != keys:
        return mass + _first_weight(call, lse)
    # padding stands in front, so the first token is another key in every sequence
    first = lse.new_zeros(real.rows.shape).scatter_(-1, real.start, 1)
    product = attention @ first.reshape(*call.shape.batch, 1, keys, 1)
    return mass + product.reshape(lse.shape)


def _first_weight(call: Call, lse: Tensor) -> Tensor:
    """(*batch, H, L): the weight of key 0, by the definition."""
    score, shape, exact = call.score, call.shape, call.exact
    first = call.key[..., :1, :].to(exact).repeat_interleave(shape.group, dim=-3)
    scores = score.cap((call.query.to(exact) @ first.mT) * score.scale)  # (*batch, H, L, 1)
    i = torch.arange(shape.queries, device=lse.device)
    j = torch.zeros(1, dtype=torch.int64, device=lse.device)
    if score.bias is not None:
        scores = scores + score.bias.tile(i, j, shape.extent).to(exact)
    if call.mask is not None:
        scores = scores.masked_fill(~call.mask.allows(i, j, shape.extent), -torch.inf)
    return torch.where(lse == -torch.inf, 0, (scores[..., 0] - lse).exp())
