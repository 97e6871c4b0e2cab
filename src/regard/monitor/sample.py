"""The statistics of one sampled step, from one attention to all ranks.

attention ─rows_of→ RowNumbers ─summed→ HeadSums ─Tally→ sums of a step ─Collector, Ranks→ Sample

The calls of a forward are summed together: a model has many layers alike, and what the host does
for each of them would take longer than the GPU. Nothing is fetched from the device before the
sample itself, which comes in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.monitor.gradients import (
    GradientRows,
    HeldRows,
    find_projections,
    gradient_rows,
    sum_dtype,
)
from regard.monitor.loss import Loss, loss_and_count
from regard.monitor.sink import sink_mass
from regard.summary import Entropy, MaxLogit, MaxScore, Summary, Visible, normalize

STATISTICS: Final[dict[str, str]] = {
    "normalized_entropy": "mean entropy of a row ÷ log(visible keys), rows with a choice only",
    "max_score": "largest scale·q·k of any row and visible key, before cap and bias; inf where a "
    "score is NaN or infinite",
    "peak": "mean weight of a row's heaviest key",
    "sink_mass": "mean weight of a row's first visible key, and of the learned sink where there is "
    "one",
    "grad_w_q": "norm of the gradient of the head's part of w_q",
    "grad_w_k": "norm of the gradient of the head's part of w_k; of its group's where shared",
}

# Added up over rows: the mean of a statistic is its sum over the count beside it.
SUMMED: Final = ("normalized_entropy", "choosing_rows", "peak", "sink_mass", "rows")


class AttentionSite(NamedTuple):
    """One attention of a model."""

    label: str  # L5, cross.L5
    path: str  # of the module
    heads: int
    dim: int  # of queries and keys


@dataclass(frozen=True)
class Sample:
    """One step. `values[name][place, head]` is NaN where a head took no part in it."""

    step: int
    places: tuple[str, ...]  # labels, one per row
    values: dict[str, NDArray[np.float32]]  # (places, heads) each, by the names of STATISTICS
    maps: dict[str, NDArray[np.float32]] = field(default_factory=dict)  # pooled maps by head
    loss: float | None = None  # mean over the ranks that gave one; None where none did

    def __getitem__(self, statistic: str) -> NDArray[np.float32]:
        return self.values[statistic]

    def heads(self) -> Iterator[tuple[str, dict[str, float]]]:
        """The label and the numbers of every head that took part."""
        every = {name: value.tolist() for name, value in self.values.items()}
        for place, head in np.argwhere(~np.isnan(self["max_score"])).tolist():
            numbers = {name: value[place][head] for name, value in every.items()}
            yield f"{self.places[place]}H{head}", numbers

    def scalars(self, heads: bool = False) -> dict[str, float]:
        """Flat names for loggers: minimum, mean and maximum over heads; optionally each head; the
        loss as it is, finite or not."""
        scalars: dict[str, float] = {} if self.loss is None else {"attention/loss": self.loss}
        for name, value in self.values.items():
            known = value[~np.isnan(value)]
            if known.size:
                scalars[f"attention/{name}/min"] = float(known.min())
                scalars[f"attention/{name}/mean"] = float(known.mean(dtype=np.float64))
                scalars[f"attention/{name}/max"] = float(known.max())
        for label, numbers in self.heads() if heads else ():
            for name, number in numbers.items():
                if not np.isnan(number):
                    scalars[f"attention/{name}/{label}"] = number
        return scalars

    def __repr__(self) -> str:
        shape: Any = next(iter(self.values.values())).shape if self.values else ()
        return f"Sample(step={self.step}, {' × '.join(map(str, shape))} heads)"


# ── one attention ────────────────────────────────────────────────────────────────────────────


class HeadSums(NamedTuple):
    """Of one call, or of several."""

    largest: Tensor  # (H,): max score; −∞ where no row has a key, ∞ where a score is not finite
    sums: Tensor  # (len(SUMMED), H)

    def joined(self, other: HeadSums) -> HeadSums:
        """Of both calls together."""
        return HeadSums(torch.maximum(self.largest, other.largest), self.sums + other.sums)


@dataclass(frozen=True, kw_only=True)
class RowNumbers:
    """Of the rows of one call, (B, H, L) each."""

    seen: Tensor  # visible keys
    lse: Tensor
    entropy: Tensor
    largest: Tensor  # max score
    heaviest: Tensor | None  # final score of the heaviest key, where that is not the largest
    mass: Tensor  # of the first key that the row sees, and of the learned sink
    sink: bool
    real: Tensor | None  # (B, L) booleans: tokens that are no padding

    @property
    def kind(self) -> tuple[Any, ...]:
        """Equal for calls that can be summed together."""
        seen = self.seen
        return (
            seen.shape, seen.device, self.lse.dtype, self.heaviest is None, self.sink, id(self.real)
        )  # fmt: skip


def wanted(call: Call) -> tuple[Summary, ...]:
    """What one row sweep measures; the heaviest weight follows from the largest score and lse,
    unless a bias is added in between."""
    return measured(call.score.bias is not None)


def measured(biased: bool) -> tuple[Summary, ...]:
    """The same, by whether there is a bias."""
    return (Entropy(), MaxScore(), Visible(), *((MaxLogit(),) if biased else ()))


def measure(attention: Attention, real: Tensor | None) -> HeadSums:
    """Sums over batch and rows, on the attention's device; known padding is left out."""
    return summed([rows_of(attention, real)])[0]


def rows_of(attention: Attention, real: Tensor | None) -> RowNumbers:
    """What is known of each row, detached."""
    call, asked = attention._call, wanted(attention._call)
    lse = attention._rows(asked).lse.detach()  # one sweep for it and for them
    summaries = attention.summarize(*asked)
    heads = call.shape.query_heads
    same = call.score.softcap is None and call.score.bias is None
    heaviest = _heaviest(call, summaries.get(MaxLogit(), summaries[MaxScore()]))
    return RowNumbers(
        seen=_rows(summaries[Visible()], heads),
        lse=_rows(lse, heads),
        entropy=_rows(summaries[Entropy()], heads),
        largest=_rows(summaries[MaxScore()], heads),
        heaviest=None if same else _rows(heaviest, heads),
        mass=_rows(sink_mass(attention, lse), heads),
        sink=call.score.sink is not None,
        real=real,
    )


def summed(calls: list[RowNumbers]) -> list[HeadSums]:
    """Sums over batch and rows of calls of one kind, all at once: (calls, B, H, L) → (H,) each."""
    sink, real = calls[0].sink, calls[0].real
    seen, lse, entropy, largest, mass = (
        torch.stack([getattr(one, name) for one in calls])
        for name in ("seen", "lse", "entropy", "largest", "mass")
    )
    others = [one.heaviest for one in calls if one.heaviest is not None]
    heaviest = torch.stack(others) if others else largest
    some = seen > 0
    counts = torch.ones_like(some) if sink else some
    if real is not None:
        counts = counts & real[:, None]
    choosing = counts & (seen + int(sink) > 1)
    peak = (heaviest - lse).exp().clamp(max=1)
    # ∞, not NaN: a maximum over batches and ranks keeps it, and NaN marks heads without a row
    broken = some & ~(largest.isfinite() & lse.isfinite())
    kept = torch.where(counts, largest.masked_fill(broken, torch.inf), -torch.inf)
    sums = [
        _sum(normalize(entropy, seen, sink), choosing), _sum(choosing, choosing),
        _sum(peak, counts & some), _sum(mass, counts), _sum(counts, counts),
    ]  # fmt: skip
    return [HeadSums(*one) for one in zip(kept.amax((1, 3)), torch.stack(sums, 1), strict=True)]


def _rows(tensor: Tensor, heads: int) -> Tensor:
    """(*batch, H, L) → (B, H, L)."""
    return tensor.detach().reshape(-1, heads, tensor.shape[-1])


def _sum(values: Tensor, where: Tensor) -> Tensor:
    """(calls, B, H, L) → (calls, H), over the chosen rows."""
    return torch.where(where, values, 0).sum(-1).to(sum_dtype(values.device)).sum(1)


def _heaviest(call: Call, largest: Tensor) -> Tensor:
    """The final score of the heaviest key."""
    cap = call.score.softcap
    if cap is None or call.score.bias is not None:
        return largest
    return cap * (largest / cap).tanh()


# ── one step ─────────────────────────────────────────────────────────────────────────────────


class Tally:
    """Sums by place, over all calls of a step. A place whose shape changes starts again."""

    def __init__(self) -> None:
        self.places: dict[str, AttentionSite] = {}
        self._sums: dict[str, HeadSums] = {}
        self._waiting: list[tuple[AttentionSite, RowNumbers]] = []
        self._rows = 0  # of those

    def note(self, place: AttentionSite, numbers: RowNumbers) -> None:
        """Add one call of this place, with the next ones if that may wait."""
        self._waiting.append((place, numbers))
        self._rows += numbers.seen.numel()
        if self._rows >= _MOST_ROWS:
            self.settle()

    def settle(self) -> None:
        """Add all that waits."""
        waiting, self._waiting, self._rows = self._waiting, [], 0
        alike: dict[Any, list[tuple[AttentionSite, RowNumbers]]] = {}
        for place, numbers in waiting:
            alike.setdefault(numbers.kind, []).append((place, numbers))
        for calls in alike.values():
            found = summed([numbers for _, numbers in calls])
            for (place, _), sums in zip(calls, found, strict=True):
                self._add(place, sums)

    def _add(self, place: AttentionSite, sums: HeadSums) -> None:
        before = self._sums.get(place.label) if self.places.get(place.label) == place else None
        self.places[place.label] = place
        self._sums[place.label] = sums if before is None else before.joined(sums)

    @property
    def device(self) -> torch.device | None:
        """The device of the sums; None while there are none."""
        return next((sums.largest.device for sums in self._sums.values()), None)

    def packed(self, layout: list[AttentionSite]) -> tuple[Tensor, Tensor]:
        """(places, heads) largest and (places, len(SUMMED), heads) sums, in this order of places;
        −∞ and 0 where there was no call."""
        heads = max((place.heads for place in layout), default=0)
        device = self.device or torch.device("cpu")
        nothing = HeadSums(
            torch.full((0,), -torch.inf, device=device),
            torch.zeros(len(SUMMED), 0, dtype=sum_dtype(device), device=device),
        )
        largest, total = [], []
        for place in layout:
            sums = self._sums.get(place.label, nothing)
            sums = sums if sums.largest.shape[0] == place.heads else nothing
            largest.append(_widened(sums.largest.to(nothing.largest), heads, -torch.inf))
            total.append(_widened(sums.sums.to(nothing.sums), heads, 0.0))
        return torch.stack(largest), torch.stack(total)


_MOST_ROWS = 2**24  # of calls that wait: 64 MiB of each number


def _widened(tensor: Tensor, heads: int, by: float) -> Tensor:
    """(…, some heads) → (…, heads)."""
    missing = heads - tensor.shape[-1]
    return torch.nn.functional.pad(tensor, (0, missing), value=by) if missing else tensor


class Collector:
    """Makes samples: gradient norms added, ranks reduced, sums divided into means."""

    def __init__(self, model: nn.Module, ranks: Ranks) -> None:
        self.layout: list[AttentionSite] = []  # in the order that all ranks share
        self.reasons: dict[str, str] = {}  # by place: why its gradient norms are not known
        self._model, self._ranks = model, ranks
        self._rows = GradientRows()

    def sample(
        self, step: int, tally: Tally, maps: dict[str, Any], losses: Sequence[Loss] = ()
    ) -> Sample | None:
        """The step's numbers, in two reductions over the ranks; None without any attention.
        `losses` are this rank's, one per micro-batch."""
        tally.settle()
        if not self.layout or self._ranks.count == 1:
            self._extend_layout(tally)
        if not self.layout:
            return None
        device = self._ranks.device(tally.device)
        largest, sums = (part.to(device) for part in tally.packed(self.layout))
        squares = self._gradient_squares(sums)
        known = {place.label for place in self.layout}
        has_new = sums.new_full((1,), float(any(label not in known for label in tally.places)))
        loss = loss_and_count(losses, sums)
        packed = torch.cat([part.flatten() for part in (sums, squares, has_new, loss)])
        largest, packed = self._ranks.reduce(largest, packed)
        flat = torch.cat([packed, largest.flatten().to(packed)]).cpu().numpy()  # the only copy
        at_sums, at_squares = sums.numel(), sums.numel() + squares.numel()
        values = _statistics(
            flat[at_squares + 3 :].reshape(largest.shape),
            flat[:at_sums].reshape(sums.shape),
            flat[at_sums:at_squares].reshape(squares.shape),
        )
        total, count = flat[at_squares + 1 : at_squares + 3].tolist()
        places = tuple(place.label for place in self.layout)
        sample = Sample(step, places, values, maps, total / count if count else None)
        if flat[at_squares] > 0:  # some rank has a new place, and all ranks know it
            self._extend_layout(tally)
        return sample

    def _extend_layout(self, tally: Tally) -> None:
        """Append the new places of all ranks, sorted by stack and layer."""
        known = {place.label for place in self.layout}
        new = [
            (*place.label.rpartition("L")[::2], place)
            for label, place in tally.places.items()
            if label not in known
        ]
        stacks = list(dict.fromkeys(stack for stack, _, _ in new))
        new.sort(key=lambda entry: (stacks.index(entry[0]), int(entry[1])))
        self.layout = self._ranks.agree([*self.layout, *(place for _, _, place in new)])

    def _gradient_squares(self, sums: Tensor) -> Tensor:
        """(places, 2, heads): shares of the sums of squares of w_q's and w_k's gradients."""
        self.reasons = {}
        found: dict[tuple[int, int], HeldRows] = {}
        for at, place in enumerate(self.layout):
            module = self._model.get_submodule(place.path)
            projections = find_projections(module, place.heads, place.dim)
            if isinstance(projections, str):
                self.reasons[place.label] = projections
                continue
            for n, projection in enumerate(projections):
                rows = gradient_rows(projection)
                if isinstance(rows, str):
                    self.reasons[place.label] = rows
                else:
                    found[at, n] = rows
        heads = [place.heads for place in self.layout]
        return self._rows.squares(found, heads, self._ranks.count, sums)


def _statistics(
    largest: NDArray[Any], sums: NDArray[Any], squares: NDArray[Any]
) -> dict[str, NDArray[np.float32]]:
    """(places, heads) each, from what the ranks reduced."""
    total = {name: sums[:, n] for n, name in enumerate(SUMMED)}
    with np.errstate(invalid="ignore", divide="ignore"):
        values = {
            "normalized_entropy": total["normalized_entropy"] / total["choosing_rows"],
            "max_score": np.where(total["rows"] > 0, largest, np.nan),
            "peak": total["peak"] / total["rows"],
            "sink_mass": total["sink_mass"] / total["rows"],
            "grad_w_q": np.sqrt(squares[:, 0]),
            "grad_w_k": np.sqrt(squares[:, 1]),
        }
    return {name: value.astype(np.float32) for name, value in values.items()}


class Ranks:
    """The ranks of a process group, or this process alone.

    group   None: all ranks, where torch.distributed is initialised; False: this process alone
    """

    def __init__(self, group: Any) -> None:
        self.group: Any = group

    @property
    def count(self) -> int:
        """Number of ranks."""
        if self.group is False or not (dist.is_available() and dist.is_initialized()):
            return 1
        return dist.get_world_size(self.group)

    @property
    def is_first(self) -> bool:
        """Whether this rank writes."""
        return self.count == 1 or dist.get_rank(self.group) == 0

    def reduce(self, largest: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
        """Over all ranks, in two reductions."""
        if self.count > 1:
            dist.all_reduce(largest, dist.ReduceOp.MAX, group=self.group)
            dist.all_reduce(sums, dist.ReduceOp.SUM, group=self.group)
        return largest, sums

    def agree(self, places: list[AttentionSite]) -> list[AttentionSite]:
        """The places of all ranks in one order; those of the first rank come first."""
        if self.count == 1:
            return places
        gathered: list[Any] = [None] * self.count
        dist.all_gather_object(gathered, places, group=self.group)
        merged: dict[str, AttentionSite] = {}
        for place in (place for of_rank in gathered for place in of_rank):
            merged.setdefault(place.label, place)
        return list(merged.values())

    def device(self, default: torch.device | None) -> torch.device:
        """The device for reductions."""
        if default is not None:
            return default
        if self.count > 1 and "nccl" in str(dist.get_backend(self.group)):
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("cpu")
