"""Why the first wrong step is wrong, where a simple slip explains it.

Each suspect is a slip carried out on purpose: the step recomputed the wrong way. It explains the
given numbers where they all agree with it: all cells of the step, or all of the rows with a wrong
cell, or the wrong cells alone. The widest agreement wins, then the closest, then the order below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from regard.learn.grading.bands import Band
from regard.learn.grading.marking import Mark, StepMark

__all__ = ["Cause", "causes", "explain"]

_FEW_UNITS = 5  # off by this many in the last place is called rounding
_MOST = 24  # terms and rows tried one by one; a calculation by hand has fewer
_SAME_LOOK = "A doubled value, a doubled weight and a double addition look the same in the result."
_SAME_GAP = "A forgotten addition, a weight of 0 and a value of 0 look the same in the result."


@dataclass(frozen=True)
class Cause:
    """A slip that would give exactly these numbers. `note` says what cannot be told from them."""

    kind: str
    text: str
    note: str = ""


@dataclass(frozen=True)
class _Suspect:
    cause: Cause
    band: Band
    cells_too: bool = False  # whether it may explain single cells of a row


def explain(mark: Mark) -> Cause | None:
    """The likeliest cause of the first wrong step; None where nothing is wrong."""
    return next(iter(causes(mark)), None)


def causes(mark: Mark) -> list[Cause]:
    """All that explain the first wrong step, the likeliest first; the last says only "a slip"."""
    step = mark.first_wrong
    if step is None or step.right is None:
        return []
    with np.errstate(all="ignore"):  # a suspect may divide by 0 or overflow; then it fits nothing
        return [*_fitting(mark, step, step.right), Cause("arithmetic", "an arithmetic slip")]


def _fitting(mark: Mark, step: StepMark, right: Band) -> Iterator[Cause]:
    suspects = [
        suspect
        for suspect in (*_SUSPECTS[step.step](mark, step.step), *_anywhere(mark, right))
        if suspect.band.shape == right.shape
    ]
    rows = step.wrong.any(axis=1, keepdims=True) & step.checked
    yield from _agreeing(suspects, step, step.checked)
    yield from _agreeing(suspects, step, rows)
    yield from _rounding(step, right)
    yield from _agreeing([s for s in suspects if s.cells_too], step, step.wrong)


def _agreeing(
    suspects: list[_Suspect], step: StepMark, scope: NDArray[np.bool_]
) -> Iterator[Cause]:
    """Those that fit; first those that need no rounding of the step before to fit."""

    def fits(band: Band) -> bool:
        return bool(band.allows(step.printed)[scope].all())

    fitting = [suspect for suspect in suspects if fits(suspect.band)]
    fitting.sort(key=lambda suspect: not fits(Band.around(suspect.band.value)))
    return (suspect.cause for suspect in fitting)


def _rounding(step: StepMark, right: Band) -> Iterator[Cause]:
    off = np.maximum(right.low - step.printed.values, step.printed.values - right.high)
    if (off <= (_FEW_UNITS + 0.5) * step.printed.units)[step.wrong].all():
        yield Cause("rounding", "a rounding slip: only the last printed places are off")


def _anywhere(mark: Mark, right: Band) -> Iterator[_Suspect]:
    """Slips that can happen in any step."""
    yield _Suspect(Cause("sign", "the sign is wrong"), _negative(right), cells_too=True)
    for factor, side in ((10.0, "right"), (0.1, "left")):
        text = f"the decimal point is one place too far to the {side}"
        yield _Suspect(Cause("decimal-point", text), right * factor, cells_too=True)
    count = min(right.shape[0], _MOST)
    for row in range(count):
        cause = Cause("wrong-row", f"this is the row of {mark.token(row)}")
        yield _Suspect(cause, _rows(right, np.full(right.shape[0], row)))
    for one, other in combinations(range(count), 2):
        order = np.arange(right.shape[0])
        order[[one, other]] = order[[other, one]]
        text = f"the rows of {mark.token(one)} and {mark.token(other)} are exchanged"
        yield _Suspect(Cause("rows-exchanged", text), _rows(right, order))


def _rows(band: Band, order: NDArray[np.int_]) -> Band:
    return Band(band.value[order], band.low[order], band.high[order])


def _negative(band: Band) -> Band:
    return Band(-band.value, -band.high, -band.low)


def _terms(left: Band, right: Band, names: list[str], notes: tuple[str, str]) -> Iterator[_Suspect]:
    """One term of a sum of products counted twice, or left out."""
    for index, name in enumerate(names[:_MOST]):
        times = np.ones(left.shape[1])
        times[index] = 2.0
        twice = Cause("term-twice", f"{name} counted twice", notes[0])
        yield _Suspect(twice, (left * times) @ right, cells_too=True)
        times[index] = 0.0
        missing = Cause("term-left-out", f"{name} left out", notes[1])
        yield _Suspect(missing, (left * times) @ right, cells_too=True)


def _dimensions(count: int) -> list[str]:
    return [f"dimension {i + 1}" for i in range(count)]


def _projection(mark: Mark, step: str) -> Iterator[_Suspect]:
    name = f"w_{step.lower()}"
    x, w = mark.known["embeddings"], mark.known[name]
    if x.shape[1] == w.shape[1]:
        text = f"multiplied by the transpose of {name}; rows are tokens: {step} = x · {name}"
        yield _Suspect(Cause("transposed-projection", text), x @ w.T)
    for other in ("w_q", "w_k", "w_v"):
        if other != name and other in mark.known and mark.known[other].shape[0] == x.shape[1]:
            cause = Cause("wrong-projection", f"{other} used in place of {name}")
            yield _Suspect(cause, x @ mark.known[other])
    yield _Suspect(Cause("not-projected", f"not multiplied by {name}"), x)
    yield from _terms(x, w, _dimensions(x.shape[1]), ("", ""))


def _scores(mark: Mark, _: str) -> Iterator[_Suspect]:
    known, d_k = mark.known, mark.d_k or 1
    q, k = known["Q"], known["K"]
    yield _Suspect(
        Cause("scores-transposed", "transposed: rows are queries, columns are keys"), k @ q.T
    )
    if "V" in known and known["V"].shape[1] == q.shape[1]:
        cause = Cause("values-for-keys", "values confused with keys: this is Q · Vᵀ, not Q · Kᵀ")
        yield _Suspect(cause, q @ known["V"].T)
    yield _Suspect(Cause("queries-for-keys", "queries confused with keys: this is Q · Qᵀ"), q @ q.T)
    yield _Suspect(Cause("keys-for-queries", "keys confused with queries: this is K · Kᵀ"), k @ k.T)
    if q.shape[1] == k.shape[0]:
        yield _Suspect(Cause("keys-not-transposed", "K not transposed: this is Q · K"), q @ k)
    text = "already divided by √d_k; that is the next step"
    yield _Suspect(Cause("scaled-early", text), (q @ k.T) * (1 / np.sqrt(d_k)))
    yield from _terms(q, k.T, _dimensions(q.shape[1]), ("", ""))


def _scaled(mark: Mark, _: str) -> Iterator[_Suspect]:
    scores, d_k = mark.known["scores"], mark.d_k or 1
    yield _Suspect(Cause("not-scaled", f"not scaled: divide by √d_k = √{d_k}"), scores)
    text = f"scaled by d_k = {d_k} instead of √d_k = √{d_k}"
    yield _Suspect(Cause("scaled-by-d_k", text), scores * (1 / d_k))
    text = "multiplied by √d_k instead of divided"
    yield _Suspect(Cause("multiplied", text), scores * np.sqrt(d_k))
    tokens = scores.shape[1]
    text = f"divided by the root of the number of tokens, √{tokens}, instead of √d_k = √{d_k}"
    yield _Suspect(Cause("scaled-by-tokens", text), scores * (1 / np.sqrt(tokens)))


def _weights(mark: Mark, _: str) -> Iterator[_Suspect]:
    known, scaled = mark.known, mark.known["scaled"]
    right = scaled.softmax()
    if "scores" in known:
        cause = Cause("not-scaled", "not scaled: this is the softmax of the undivided scores")
        yield _Suspect(cause, known["scores"].softmax())
        cause = Cause("scaled-by-d_k", "scaled by d_k instead of √d_k before the softmax")
        yield _Suspect(cause, (known["scores"] * (1 / (mark.d_k or 1))).softmax())
    text = "softmax over the columns; it runs along each row, over the keys"
    yield _Suspect(Cause("softmax-over-columns", text), scaled.softmax(axis=0))
    for name in ("Q", "K", "V"):
        if name in known:
            text = f"softmax over the dimensions of {name}; it runs over the tokens"
            yield _Suspect(Cause("softmax-over-dimensions", text), known[name].softmax())
    yield _Suspect(Cause("weights-transposed", "transposed: rows are queries"), right.T)
    shares = scaled.value / scaled.value.sum(axis=1, keepdims=True)
    text = "divided by the sum without taking exponentials first"
    yield _Suspect(Cause("no-exponential", text), Band.around(shares))
    cause = Cause("not-normalised", "exponentials not divided by their sum")
    yield _Suspect(cause, Band(np.exp(scaled.value), np.exp(scaled.low), np.exp(scaled.high)))
    yield from _hidden(mark, scaled)
    yield from _denominators(mark, right)


def _hidden(mark: Mark, scaled: Band) -> Iterator[_Suspect]:
    """Softmax over all keys but one."""
    for key in range(min(scaled.shape[1], _MOST)):
        hide = np.zeros(scaled.shape)
        hide[:, key] = -np.inf
        cause = Cause("term-left-out", f"{mark.token(key)} left out of the softmax")
        yield _Suspect(cause, _shifted(scaled, hide).softmax())
    if scaled.shape[0] == scaled.shape[1]:
        own = np.where(np.eye(scaled.shape[0], dtype=bool), -np.inf, 0.0)
        text = "each token's own key left out; the keys are those of all tokens"
        yield _Suspect(Cause("own-key-left-out", text), _shifted(scaled, own).softmax())


def _shifted(band: Band, by: NDArray[np.float64]) -> Band:
    return Band(band.value + by, band.low + by, band.high + by)


def _denominators(mark: Mark, right: Band) -> Iterator[_Suspect]:
    """One exponential counted twice in the sum below the fraction bar, or left out of it."""
    for key in range(min(right.shape[1], _MOST)):
        name = mark.token(key)
        value, low, high = (part[:, [key]] for part in (right.value, right.low, right.high))
        cause = Cause("term-twice", f"{name} counted twice in the sum of exponentials")
        band = Band(right.value / (1 + value), right.low / (1 + high), right.high / (1 + low))
        yield _Suspect(cause, band, cells_too=True)
        cause = Cause("term-left-out", f"{name} left out of the sum of exponentials")
        band = Band(right.value / (1 - value), right.low / (1 - low), right.high / (1 - high))
        yield _Suspect(cause, band, cells_too=True)


def _output(mark: Mark, _: str) -> Iterator[_Suspect]:
    known = mark.known
    weights, values = known["weights"], known["V"]
    tokens = [mark.token(i) for i in range(weights.shape[1])]
    yield from _terms(weights, values, tokens, (_SAME_LOOK, _SAME_GAP))
    for name, plural in (("K", "keys"), ("Q", "queries"), ("embeddings", "embeddings")):
        if name in known and known[name].shape[0] == weights.shape[1]:
            kind = "values-for-keys" if name == "K" else f"{plural}-for-values"
            text = f"values confused with {plural}: this is weights · {name}, not weights · V"
            yield _Suspect(Cause(kind, text), weights @ known[name])
    if weights.shape[0] == weights.shape[1]:
        cause = Cause(
            "weights-transposed", "summed down the columns of the weights, not along rows"
        )
        yield _Suspect(cause, weights.T @ values)
    for name in ("scaled", "scores"):
        if name in known:
            text = f"{name} used in place of the weights; the softmax is missing"
            yield _Suspect(Cause("no-softmax", text), known[name] @ values)
            text = "softmax over the dimensions of the output; it runs over the tokens, earlier"
            cause = Cause("softmax-over-dimensions", text)
            yield _Suspect(cause, (known[name] @ values).softmax())
    cause = Cause("softmax-over-dimensions", "a second softmax, over the dimensions of the output")
    yield _Suspect(cause, (weights @ values).softmax())
    same = Band.around(np.full(weights.shape, 1 / weights.shape[1]))
    yield _Suspect(
        Cause("unweighted", "a plain average of the values, without the weights"), same @ values
    )


_SUSPECTS = {
    "Q": _projection, "K": _projection, "V": _projection,
    "scores": _scores, "scaled": _scaled, "weights": _weights, "output": _output,
}  # fmt: skip
