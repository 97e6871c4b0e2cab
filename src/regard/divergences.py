"""How far one attention is from another, row by row: the definition, for numpy and torch alike.

P (of the teacher) and Q (of the student) are distributions over the same keys:

    kl           Σ P log(P/Q)
    reverse_kl   Σ Q log(Q/P)
    js           ½ Σ P log(P/M) + ½ Σ Q log(Q/M),   M = (P + Q)/2
    tv           ½ Σ |P − Q|

Which heads make P and Q:

    "each"       head h of one and head h of the other
    "sum"        all heads of a side added up and divided by their sum over the keys: Σ_h p_h ÷ Σ_j
                 Σ_h p_h. A sink takes part in the p_h, and is no key of the result
    mapping      student head → a teacher head, or several, of which P is the mean

Where heads are not summed, a sink is one more key. A key that P gives weight to and Q does not
see makes kl infinite. A row that sees nothing is no distribution: it counts 0 in kl where it is the
teacher's, in reverse_kl where it is the student's, everywhere where it is both; else infinity.

Everything is computed from logarithms of weights, u = score − lse, because a weight that is too
small for a float still has its logarithm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import inf, log
from operator import index
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from regard.arrays import amax, filled, library, where
from regard.errors import InputError, ShapeError
from regard.summary.columns import frozen_queries, queries_meant

How: TypeAlias = Literal["kl", "reverse_kl", "js", "tv"]
Heads: TypeAlias = "Literal['each', 'sum'] | Mapping[int, int | Sequence[int]]"


@dataclass(frozen=True)
class DivergenceOptions:
    """What `divergence` was asked for."""

    how: How
    heads: Any  # "each", "sum", or a tuple of (student head, teacher heads)
    queries: Any  # as `Received` has them

    def rows(self, count: int) -> range | list[int]:
        """The chosen queries, ascending."""
        return queries_meant(self.queries, count)

    def pairing(self, teacher: int, student: int) -> Pairing:
        """Which heads are compared, of so many on either side."""
        if self.heads == "sum":
            return Pairing((tuple(range(teacher)),), (tuple(range(student)),), over_keys=True)
        if self.heads == "each":
            if teacher != student:
                raise ShapeError(
                    f"heads='each': the teacher has {teacher} heads, the student {student}; give "
                    "heads='sum', or a mapping {student head: teacher heads}"
                )
            alone = tuple((h,) for h in range(teacher))
            return Pairing(alone, alone)
        for student_head, teacher_heads in self.heads:
            _check_heads("student", (student_head,), student)
            _check_heads("teacher", teacher_heads, teacher)
        return Pairing(tuple(t for _, t in self.heads), tuple((s,) for s, _ in self.heads))


class Pairing(NamedTuple):
    """The heads that make each pair, of the teacher and of the student."""

    teacher: tuple[tuple[int, ...], ...]
    student: tuple[tuple[int, ...], ...]
    over_keys: bool = False  # divided by the sum over the keys; a sink is none


def divergence(
    teacher: Any,
    student: Any,
    *,
    how: How = "kl",
    heads: Heads = "each",
    queries: Any = None,
) -> Any:
    """How far the student's attention is from the teacher's: (…, heads, queries), in nats.

    teacher  what `attend`, `replay` or `lightning_indexer` returned, or a recorded head; the keys
             are those of the student. Number and size of heads may differ
    how      "kl" is KL(teacher ‖ student), "reverse_kl" KL(student ‖ teacher), "js" the
             Jensen-Shannon divergence, "tv" the total variation, 0 … 1
    heads    "each" compares head h with head h. "sum" compares the sums of all heads, divided by
             their sum over the keys, as the training of sparse attention does; the result has one
             head. {student head: teacher heads} compares with the mean of these
    queries  None for all; a slice, range or indices; a whole number n for the last n

    Exact, and in memory that grows with the number of keys. Gradients flow to q, k, biases and
    sinks of both sides; detach() the teacher to leave it as it is.
    """
    if how not in get_args(How):
        raise InputError(f"how={how!r}; give one of {', '.join(map(repr, get_args(How)))}")
    asked = DivergenceOptions(how, _checked_heads(heads), frozen_queries(queries))
    sides = [_one_or_many(side) for side in (teacher, student)]
    for name, (first, _) in zip(("teacher", "student"), sides, strict=True):
        if not hasattr(first, "_divergence_from"):
            raise InputError(
                f"{name} is a {type(first).__name__}; give what regard.attend or regard.replay "
                "returned, or heads of a recording"
            )
    (first, taught), (other, many) = sides
    if type(first) is not type(other):
        raise InputError(
            f"teacher is a {type(first).__name__}, student a {type(other).__name__}; compare live "
            "attentions with live ones, recorded heads with recorded ones"
        )
    return many[0]._divergence_from(taught, many, asked)


def _one_or_many(side: Any) -> tuple[Any, tuple[Any, ...]]:
    """The first, and all: several recorded heads make one side."""
    many = tuple(side) if isinstance(side, (list, tuple)) else (side,)
    if not many:
        raise InputError("a side without heads; give at least one")
    return many[0], many


def _checked_heads(heads: Any) -> Any:
    if isinstance(heads, str):
        if heads not in ("each", "sum"):
            raise InputError(f"heads={heads!r}; give 'each', 'sum' or {{student: teacher heads}}")
        return heads
    if not isinstance(heads, Mapping) or not heads:
        raise InputError(f"heads={heads!r}; give 'each', 'sum' or {{student head: teacher heads}}")
    try:
        return tuple(
            (index(s), tuple(map(index, t)) if isinstance(t, Iterable) else (index(t),))
            for s, t in heads.items()
        )
    except TypeError as error:
        raise InputError(f"heads={heads!r}; heads are whole numbers") from error


def _check_heads(whose: str, heads: Sequence[int], count: int) -> None:
    wrong = [h for h in heads if not 0 <= h < count]
    if wrong or not heads or len(set(heads)) < len(heads):
        what = f"head {wrong[0]} of the {whose}" if wrong else f"{whose} heads {tuple(heads)}"
        raise InputError(f"heads: {what}; name each once, from 0 to {count - 1}")


# ── the definition ───────────────────────────────────────────────────────────────────────────


def mixed(u: Any, heads: Sequence[Sequence[int]], over_keys: bool) -> Any:
    """(…, G, R, C): log P of each pair, from the log weights u (…, H, R, C) of whole rows."""
    if not over_keys and _is_each(heads, u):
        return u
    made = library(u).stack([_log_sum(u, of) for of in heads], -3)
    if over_keys:
        return made - _log_sum_of_row(made)
    counts = filled(u, (len(heads), 1, 1), 0.0)
    for n, of in enumerate(heads):
        counts[n] = log(len(of))
    return made - counts


def row_divergence(how: How, p: Any, q: Any) -> Any:
    """(…, R), from log P and log Q (…, R, C) of whole rows."""
    value = divergence_cells(how, p, q).sum(-1)
    if how in ("kl", "reverse_kl"):
        return value
    return where((_peak(p) == -inf) ^ (_peak(q) == -inf), inf, value)


def divergence_cells(how: How, p: Any, q: Any) -> Any:
    """What each key adds."""
    if how == "kl":
        return _relative(p, q)
    if how == "reverse_kl":
        return _relative(q, p)
    if how == "js":
        middle = _middle(p, q)
        return (_relative(p, middle) + _relative(q, middle)) / 2
    return abs(_exp(p) - _exp(q)) / 2


def teacher_slopes(how: How, p: Any, q: Any) -> Any:
    """(…, R, C): what the divergence gains by log P."""
    if how == "kl":
        return _relative(p, q) + _exp(p)
    if how == "reverse_kl":
        return student_slopes("kl", q, p)
    if how == "js":
        return _relative(p, _middle(p, q)) / 2
    return library(p).sign(_exp(p) - _exp(q)) / 2 * _exp(p)


def student_slopes(how: How, p: Any, q: Any) -> Any:
    """(…, R, C): what the divergence gains by log Q."""
    if how == "kl":
        return where(q == -inf, 0.0, -_exp(p))
    return teacher_slopes("kl" if how == "reverse_kl" else how, q, p)


def head_slopes(u: Any, heads: Sequence[Sequence[int]], over_keys: bool, slopes: Any) -> Any:
    """(…, H, R, C): what is gained by the scores of every head, lse's part included, from what is
    gained by log P (…, G, R, C). A sink among the columns of u is none of P where sums are taken
    over the keys, and follows by its share in the softmax."""
    if not over_keys and _is_each(heads, u):
        return slopes - _exp(u) * slopes.sum(-1)[..., None]
    made, keys = filled(u, u.shape, 0.0), u[..., : slopes.shape[-1]]
    for n, of in enumerate(heads):
        together, gain = _log_sum(keys, of), slopes[..., n, :, :]
        if over_keys:
            share = _exp(together - _log_sum_of_row(together))
            gain = gain - share * gain.sum(-1)[..., None]
        for h in of:
            part = gain * _exp(where(together == -inf, -inf, keys[..., h, :, :] - together))
            made[..., h, :, : part.shape[-1]] += part
            made[..., h, :, :] -= _exp(u[..., h, :, :]) * part.sum(-1)[..., None]
    return made


def _is_each(heads: Sequence[Sequence[int]], u: Any) -> bool:
    """Every head alone, in its place."""
    return len(heads) == u.shape[-3] and all(tuple(of) == (n,) for n, of in enumerate(heads))


def _relative(p: Any, q: Any) -> Any:
    """P log(P/Q) of each cell, from logarithms: 0 where P is hidden, ∞ where Q alone is."""
    return where(p == -inf, 0.0, where(q == -inf, inf, _exp(p) * (p - q)))


def _middle(p: Any, q: Any) -> Any:
    """log (P + Q)/2, which is log P to the bit where both are the same."""
    xp = library(p)
    return xp.maximum(p, q) + xp.log1p(xp.expm1(-abs(p - q)) / 2)


def _exp(u: Any) -> Any:
    return library(u).exp(u)


def _peak(u: Any) -> Any:
    """(…, R): the largest of a row; −∞ where there is no key at all."""
    return amax(u) if u.shape[-1] else filled(u, u.shape[:-1], -inf)


def _log_sum(u: Any, heads: Sequence[int]) -> Any:
    """(…, R, C): log Σ_h exp u_h."""
    if len(heads) == 1:
        return u[..., heads[0], :, :]
    top = reduce(library(u).maximum, [u[..., h, :, :] for h in heads])
    top = where(top == -inf, 0.0, top)
    total = sum(_exp(u[..., h, :, :] - top) for h in heads)
    return library(u).log(total) + top


def _log_sum_of_row(u: Any) -> Any:
    """(…, R, 1): log Σ_j exp u_j; 0 where a row sees nothing."""
    top = _peak(u)[..., None]
    top = where(top == -inf, 0.0, top)
    total = _exp(u - top).sum(-1)[..., None]
    return where(total == 0, 0.0, library(u).log(total) + top)
