"""Attention over part of the keys, and the only merge there is.

For disjoint sets of keys A, B and one query, with w_X = exp(lse_X − lse):

    lse = logaddexp(lse_A, lse_B)                 out = w_A·out_A + w_B·out_B
    entropy = Σ w_X (H_X + lse − lse_X)           squares = Σ w_X²·q_X
    any mean under the weights merges like out; maxima take the maximum, counts add up, and
    the best keys are the best of both, by final score, with global key numbers

empty = (0, −∞, 0) is an identity on both sides, and two empties give empty. A Partial never
contains the sink; `finish` adds it once. Column mass and pooled maps do not merge over keys: they
are swept again once the global lse is known.

Weights depend on differences of lse, so what rounding took from it (`rest`) goes along: near
64,000 one float32 number is wrong by up to 0.002, and so would every weight be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.errors import DTypeError, InputError, ShapeError
from regard.summary import (
    Concentration,
    Distance,
    Entropy,
    MaxLogit,
    MaxScore,
    MergePart,
    Summary,
    TopKeys,
    TopScores,
)


@dataclass(frozen=True, eq=False)
class Partial:
    """Attention of some queries over some of their keys, normalised over those keys."""

    out: Tensor  # (…, Hq, L, Dv)
    lse: Tensor  # (…, Hq, L)
    summaries: Mapping[Summary, Any] = field(default_factory=dict)
    rest: Tensor | None = None  # (…, Hq, L): lse + rest is exact; None where nobody knows

    @classmethod
    def empty(cls, like: Partial) -> Partial:
        """Attention over no keys, in the shape of another partial."""
        return cls(
            torch.zeros_like(like.out),
            torch.full_like(like.lse, -torch.inf),
            {summary: summary.of_nothing(value) for summary, value in like.summaries.items()},
        )

    def finish(self, sink: Tensor | None = None) -> Finished:
        """The result over all keys merged so far; the sink (Hq,) is added here, once."""
        whole = self if sink is None else _merge(self, _sink_alone(self, sink))
        # the sink is never a key: what counts or ranks keys does not see it
        summaries = {
            summary: (whole if summary.counts_sink else self).summaries[summary]
            for summary in self.summaries
        }
        return Finished(whole.out, whole.lse, summaries, whole.rest)


@dataclass(frozen=True, eq=False)
class Finished:
    """What all parts together say: output, lse and the summaries that were asked for."""

    output: Tensor
    lse: Tensor
    summaries: Mapping[Summary, Any]
    rest: Tensor | None = None  # what rounding took from lse

    def __getitem__(self, summary: Any) -> Any:
        """A summary by its value; the best keys come as weights and keys."""
        if summary not in self.summaries:
            asked = ", ".join(map(repr, self.summaries)) or "none"
            raise InputError(f"{summary!r} was not asked of attend_partial; asked were: {asked}")
        value = self.summaries[summary]
        if not isinstance(value, TopScores):
            return value
        lse = self.lse.masked_fill(self.lse == -torch.inf, 0.0)
        above = value.scores - lse.unsqueeze(-1)
        above = above if self.rest is None else above - self.rest.unsqueeze(-1)
        return TopKeys(torch.exp(above), value.keys)

    def entropy(self) -> Tensor:
        """(…, Hq, L), where regard.Entropy() was asked for."""
        return self._tensor(Entropy())

    def max_score(self) -> Tensor:
        """(…, Hq, L), where regard.MaxScore() was asked for."""
        return self._tensor(MaxScore())

    def max_logit(self) -> Tensor:
        """(…, Hq, L), where regard.MaxLogit() was asked for."""
        return self._tensor(MaxLogit())

    def concentration(self) -> Tensor:
        """(…, Hq, L), where regard.Concentration() was asked for."""
        return self._tensor(Concentration())

    def distance(self) -> Tensor:
        """(…, Hq, L), where regard.Distance() was asked for."""
        return self._tensor(Distance())

    def top(self, k: int) -> TopKeys:
        """(…, Hq, L, k), where regard.Top of at least k was asked for; keys are global numbers."""
        best_of = {s: v for s, v in self.summaries.items() if isinstance(v, TopScores)}
        enough = [s for s, value in best_of.items() if value.keys.shape[-1] >= k]
        if not enough:
            raise InputError(f"Top({k}) was not asked of attend_partial; give it in summaries=")
        best = self[enough[0]]
        return TopKeys(best.weights[..., :k], best.keys[..., :k])

    def _tensor(self, summary: Summary) -> Tensor:
        return self[summary]


def merge(*partials: Partial) -> Partial:
    """Attention over the union of the parts' keys; the order does not matter."""
    if not partials:
        raise InputError("merge() needs at least one Partial")
    for one in partials:
        if not isinstance(one, Partial):
            raise DTypeError(
                f"merge: a {type(one).__name__} was given; give Partials, as attend_partial makes "
                "them, one after another: merge(a, b)"
            )
    found = partials[0]
    for other in partials[1:]:
        found = _merge(found, other)
    return found


def _merge(a: Partial, b: Partial) -> Partial:
    if a.out.shape != b.out.shape or a.lse.shape != b.lse.shape:
        raise ShapeError(
            f"merge: parts have outputs {tuple(a.out.shape)} and {tuple(b.out.shape)}; all parts "
            "must be of the same queries"
        )
    if set(a.summaries) != set(b.summaries):
        odd = sorted(map(repr, set(a.summaries) ^ set(b.summaries)))
        raise InputError(f"merge: only some of the parts have {', '.join(odd)}")
    neither = (a.lse == -torch.inf) & (b.lse == -torch.inf)
    peak = torch.maximum(a.lse, b.lse).detach().masked_fill(neither, 0.0)
    above = [_above(part, peak) for part in (a, b)]
    # of the sum, relative to the larger of the two
    log = torch.logaddexp(*(one.masked_fill(neither, 0.0) for one in above))
    weights = [torch.exp(one - log) for one in above]
    lse = (peak + log).masked_fill(neither, -torch.inf)
    rest = rounded_off(peak, log.detach()).masked_fill(neither, 0.0)
    out = weights[0].unsqueeze(-1) * a.out + weights[1].unsqueeze(-1) * b.out
    gaps = [(log - x).masked_fill(w == 0, 0.0) for x, w in zip(above, weights, strict=True)]
    summaries = {
        summary: summary.merge(
            [
                MergePart(part.summaries[summary], w, gap, part.summaries)
                for part, w, gap in zip((a, b), weights, gaps, strict=True)
            ]
        )
        for summary in a.summaries
    }
    return Partial(out, lse, summaries, rest)


def _above(part: Partial, peak: Tensor) -> Tensor:
    """lse − peak; the difference of two near numbers is exact, and then the rest counts."""
    gap = part.lse - peak
    return gap if part.rest is None else gap + part.rest


def rounded_off(a: Tensor, b: Tensor) -> Tensor:
    """What a + b lost by rounding: (a + b) + rounded_off(a, b) is exact."""
    total = a + b
    by_b = total - a
    lost = (a - (total - by_b)) + (b - by_b)
    return torch.where(total.isfinite(), lost, 0.0)


def _sink_alone(part: Partial, sink: Tensor) -> Partial:
    """The sink as a part of its own: one key with a score and the value zero."""
    if part.lse.ndim < 2 and sink.numel() == 1:
        score = sink.to(part.lse.dtype).reshape(()).expand(part.lse.shape)
    elif sink.shape == part.lse.shape[-2:-1]:
        score = sink.to(part.lse.dtype)[:, None].expand(part.lse.shape)
    else:
        raise ShapeError(
            f"finish(sink): sink has shape {tuple(sink.shape)}; give one number per query head: "
            f"{tuple(part.lse.shape[-2:-1])}"
        )
    nothing = Partial.empty(part)
    return Partial(nothing.out, score, nothing.summaries)
