"""What is settled about a call by shapes, dtypes and numbers alone: once for all calls alike.

A model calls attention with the same shapes and the same mask again and again, and on a GPU the
host's time shows where a call takes well under a millisecond. So whatever was checked and chosen
for a call is kept for the next one like it. Only where nothing but q, k and v holds a tensor: no
tensor is kept alive here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from regard.engine.eager import unwatched
from regard.engine.problem import Call
from regard.mask import Causal, Mask, Window
from regard.score import ScoreRule
from regard.shapes import AttentionShape
from regard.summary import (
    Concentration,
    Distance,
    Entropy,
    MaxLogit,
    MaxScore,
    Offsets,
    Peak,
    Pooled,
    Received,
    Summary,
    Top,
    Visible,
)

if TYPE_CHECKING:
    from regard.engine.choose import Implementation

_MANY = 4096  # kinds of calls

# what has no tensor inside and is equal where it means the same
TENSORLESS = frozenset({type(None), Causal, Window})  # masks that numbers alone define
_SUMMARIES = frozenset(
    {Concentration, Distance, Entropy, MaxLogit, MaxScore, Offsets, Peak, Pooled, Received, Top,
     Visible}
)  # fmt: skip
_NUMBERS = frozenset({type(None), bool, int, float, str})


class Settled(NamedTuple):
    """All of a call but its tensors."""

    shape: AttentionShape
    mask: Mask | None
    score: ScoreRule
    dropout: float
    summaries: tuple[Summary, ...]
    chosen: Implementation

    @classmethod
    def of(cls, call: Call, summaries: tuple[Summary, ...], chosen: Implementation) -> Settled:
        """What was found for this call."""
        return cls(call.shape, call.mask, call.score, call.dropout, summaries, chosen)

    def call(self, query: Tensor, key: Tensor, value: Tensor) -> Call:
        """The call over these tensors."""
        if self.shape.headless:
            query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
        return Call(query, key, value, self.mask, self.score, self.shape, self.dropout)


_KEPT: dict[Any, Settled] = {}


def key_of(
    query: Tensor, key: Tensor, value: Tensor, mask: Any, summaries: Any, *numbers: Any
) -> tuple[Any, ...] | None:
    """What calls have in common that are settled alike; None where a call is to be settled by
    itself: somebody looks at it, tensors are none or of a kind of their own, have gradients, or
    stand elsewhere too, or something is none of the kinds that are asked for."""
    if not unwatched((query, key, value)):
        return None
    if query.requires_grad or key.requires_grad or value.requires_grad:
        return None
    if type(mask) not in TENSORLESS or not _NUMBERS.issuperset(map(type, numbers)):
        return None
    if type(summaries) is not tuple or not _SUMMARIES.issuperset(map(type, summaries)):
        return None
    return (
        query.shape, key.shape, value.shape, query.dtype, key.dtype, value.dtype, query.device,
        key.device, value.device, mask, summaries, *numbers,
    )  # fmt: skip


def kept(key: tuple[Any, ...] | None) -> Settled | None:
    """What was settled for such a call before."""
    return None if key is None else _KEPT.get(key)


def keep(key: tuple[Any, ...] | None, settled: Settled) -> None:
    """For the next call like this."""
    if key is None:
        return
    if len(_KEPT) >= _MANY:
        _KEPT.clear()
    _KEPT[key] = settled
