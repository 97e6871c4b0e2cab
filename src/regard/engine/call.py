"""One call of attend, as values: what is asked, the tensors it is asked about, the answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor

from regard.mask import Mask, Pack
from regard.score import Bias, ScoreRule
from regard.shapes import AttentionShape
from regard.summary import Measured, Summary

What: TypeAlias = Literal["weights", "scores"]

NO_DOT = "its raw scores are dot products of queries and keys, these are not"


@dataclass(frozen=True)
class Problem:
    """What implementations decide by, without looking into any tensor."""

    shape: AttentionShape
    dtype: torch.dtype
    device: str  # the device's type: "cpu", "cuda", …
    mask: Mask | None  # its arrays may hold anything: only dtypes and shapes count
    bias: Bias | None
    softcap: bool
    sink: bool
    dropout: bool
    gradients: bool
    bias_gradient: bool
    summaries: frozenset[Any]
    dot: bool = True  # whether raw scores are dot products


@dataclass(frozen=True, eq=False)
class Call:
    """The tensors of one call; mask and score already hold tensors of the same device."""

    query: Tensor  # (*batch, Hq, L, D)
    key: Tensor  # (*batch, Hkv, S, D)
    value: Tensor  # (*batch, Hkv, S, Dv); Dv = 0 where only the matrix matters
    mask: Mask | None
    score: ScoreRule
    shape: AttentionShape
    dropout: float = 0.0
    seed: int = 0  # of the dropout
    place: int | None = None  # where query 0 stands among these keys; at the end where None
    pack: Pack | None = None  # of packed sequences: where they begin
    # of keys in a cache, which `key` is then, (blocks, Hkv, size, D): block · size + place in it
    slots: Tensor | None = None  # (S,) int64

    @property
    def position(self) -> int | Tensor:
        """Query i stands at key i + position, where distances are measured: one number, or one a
        query (L,) where the mask says so."""
        return position_of(self.mask, self.shape, self.place, self.query.device)

    @property
    def place_of_first(self) -> int:
        """The key at which query 0 stands, where the mask does not say so."""
        return self.shape.extent.shift("end") if self.place is None else self.place

    @property
    def exact(self) -> torch.dtype:
        """What is computed in: float32, or float64 for float64 inputs."""
        return torch.promote_types(self.query.dtype, torch.float32)

    @property
    def gradients(self) -> bool:
        """Whether a graph begins here."""
        if not torch.is_grad_enabled():
            return False
        return any(t.requires_grad for t in self.tensors())

    def tensors(self) -> list[Tensor]:
        """Everything a gradient may flow into: q, k, v, then the rule's arrays."""
        return [self.query, self.key, self.value, *self.score.arrays()]

    @property
    def arrays(self) -> tuple[Tensor, ...]:
        """The mask's arrays, then the rule's."""
        mask, score = self.mask, self.score
        inside = () if mask is None or mask.is_flat else tuple(mask.arrays())
        if score.bias is None and score.sink is None:
            return inside
        return (*inside, *score.arrays())

    def keys_at(self, cols: range) -> Tensor:
        """(…, Hkv, n, D): some of the keys; out of a cache they are copied."""
        if self.slots is None:
            return self.key[..., cols.start : cols.stop, :]
        slots, size = self.slots[cols.start : cols.stop], self.key.shape[2]
        return self.key[slots // size, :, slots % size].transpose(0, 1)

    def read(self) -> Call:
        """The call with its keys in a tensor of their own, where they are in a cache."""
        if self.slots is None:
            return self
        return replace(self, key=self.keys_at(range(self.shape.keys)), slots=None)

    def map(self, convert: Callable[[Tensor], Tensor]) -> Call:
        """The same call with each tensor replaced by convert(tensor)."""
        return replace(
            self,
            query=convert(self.query),
            key=convert(self.key),
            value=convert(self.value),
            mask=None if self.mask is None else self.mask.map(convert),
            score=self.score.map(convert),
        )

    def with_value(self, value: Tensor) -> Call:
        """The same matrix over other values (*batch, Hkv, S, M)."""
        shape = replace(self.shape, value_dim=value.shape[-1])
        return Call(
            self.query, self.key, value, self.mask, self.score, shape, seed=self.seed,
            place=self.place, slots=self.slots,
        )  # fmt: skip

    def of_rows(self, rows: range) -> Call:
        """The matrix of some of the queries, side by side, and all keys; no output."""
        mask, score, shape = self.mask, self.score, self.shape
        part = rows.start, 0, shape.queries, shape.keys
        window = None if mask is None else mask.as_window()
        is_same = window is not None and window.align == "end" and rows.stop == shape.queries
        if mask is not None and not is_same:
            mask = mask.seen_from(*part)
        if score.bias is not None:
            score = replace(score, bias=score.bias.seen_from(*part))
        at_end = self.place is None and rows.stop == shape.queries
        place = None if at_end else self.place_of_first + rows.start
        return Call(
            self.query[..., rows.start : rows.stop, :], self.key, self.value[..., :0], mask, score,
            replace(shape, queries=len(rows), value_dim=0), place=place, slots=self.slots,
        )  # fmt: skip

    def of_sequence(self, queries: range, keys: range, n: int) -> Call:
        """The attention of one packed sequence, alone."""
        part = queries.start, keys.start, self.shape.queries, self.shape.keys
        score, rows = self.score, slice(queries.start, queries.stop)
        bias = None if score.bias is None else score.bias.of_sequence(n, *part)
        cols = slice(keys.start, keys.stop)
        slots = None if self.slots is None else self.slots[cols]
        return Call(
            self.query[..., rows, :],
            self.key[..., cols, :] if slots is None else self.key,
            self.value[..., cols, :],
            None if self.mask is None else self.mask.of_sequence(n, *part),
            replace(score, bias=bias), replace(self.shape, queries=len(queries), keys=len(keys)),
            slots=slots,
        )  # fmt: skip

    def problem(self, summaries: tuple[Summary, ...] = (), learns: bool = False) -> Problem:
        """The call without its tensors. `learns`: its bias does, whatever autograd says here."""
        return Problem(
            shape=self.shape,
            dtype=self.query.dtype,
            device=self.query.device.type,
            mask=self.mask,
            bias=self.score.bias,
            softcap=self.score.softcap is not None,
            sink=self.score.sink is not None,
            dropout=self.dropout > 0,
            gradients=self.gradients,
            bias_gradient=learns or self.bias_learns(),
            summaries=frozenset(summaries),
            dot=self.score.is_dot,
        )

    def bias_learns(self) -> bool:
        """Whether a gradient may flow into the bias."""
        bias = self.score.bias
        if bias is None or not torch.is_grad_enabled():
            return False
        return any(array.requires_grad for array in bias.arrays())


def position_of(
    mask: Mask | None, shape: AttentionShape, place: int | None, device: torch.device
) -> int | Tensor:
    """Where queries stand among their keys: see `Call.position`."""
    moved = None
    if mask is not None and not mask.is_flat:
        moved = mask.shifts(torch.arange(shape.queries, device=device), shape.extent)
    if moved is not None:
        return cast(Tensor, moved)
    return shape.extent.shift("end") if place is None else place


class RowState(NamedTuple):
    """What a row sweep leaves for later ones: lse = peak + log, kept apart because one number
    would lose the small part where scores are large. (*batch, Hq, L); peak is −∞ in rows that
    see nothing."""

    peak: Tensor
    log: Tensor

    @property
    def lse(self) -> Tensor:
        """(*batch, Hq, L)."""
        return self.peak + self.log


def gap_of(sink: Tensor, lse: Tensor) -> Tensor:
    """(*batch, Hq, L): the sink's score − lse, of sinks (Hq,); −∞ where a row sees nothing and its
    sink is −∞."""
    nothing = lse == -torch.inf
    return (sink.to(lse.dtype)[:, None] - lse.masked_fill(nothing, 0.0)).masked_fill(
        nothing, -torch.inf
    )


def share_of(sink: Tensor, lse: Tensor) -> Tensor:
    """(*batch, Hq, L): the weight of the sink in each row."""
    return gap_of(sink, lse).exp()


class Brought:
    """The mass (*batch, Hq, S) that each key received, once a backward has brought it. An attention
    must not be held by its own graph, nor the graph by what it brings, or neither would ever be let
    go: both hold this, which holds nothing else."""

    __slots__ = ("mass",)

    def __init__(self) -> None:
        self.mass: Tensor | None = None


@dataclass
class Known:
    """What was measured of one attention, detached."""

    values: dict[Summary, Measured] = field(default_factory=dict)
    entropy: Tensor | None = None  # with its graph, from the same node as the output
    brought: Brought | None = None

    def map(self, convert: Callable[[Tensor], Tensor]) -> Known:
        """The same with every tensor converted; what carries a graph is left behind."""
        values = {name: map_parts(value, convert) for name, value in self.values.items()}
        return Known(values, brought=self.brought)


class Answers(NamedTuple):
    """What one forward sweep brings back."""

    output: Tensor | None  # (*batch, Hq, L, Dv); None: it is another kernel's
    lse: Tensor | None  # (*batch, Hq, L); None: to be swept for when it is asked for
    known: Known
    state: RowState | None = None  # for later sweeps, where the implementation keeps one


def parts_of(value: Any) -> tuple[Tensor, ...]:
    """The tensors a value is made of."""
    if isinstance(value, Tensor):
        return (value,)
    return tuple([part for part in value if part is not None])


def map_parts(value: Any, convert: Callable[[Tensor], Tensor]) -> Any:
    """A value of one tensor or several, each converted."""
    if isinstance(value, Tensor):
        return convert(value)
    return type(value)(*(None if part is None else convert(part) for part in value))


class Place(NamedTuple):
    """A rectangle of some heads: index vectors into (batch × heads), queries and keys."""

    units: Tensor  # (U,)
    rows: Tensor  # (R,)
    cols: Tensor  # (C,)
