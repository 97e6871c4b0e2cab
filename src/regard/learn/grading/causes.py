"""Why the first wrong step is wrong, where a simple slip explains it.

A suspect explains the given numbers where they all agree with it: all cells of the step, or all
of the rows with a wrong cell, or the wrong cells alone. The widest agreement wins, then the
closest, then the order of the suspects. Agreement must be more than chance: a number that is off
by a few units of its last place agrees with too much to tell anything.

The name of a slip in a step that was not printed is passed on to the step that shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from regard.learn.grading.bands import ALLOWED, Band
from regard.learn.grading.marking import Cell, Mark, StepMark

# How much agreement by chance a suspect may have and still be named: a wrong rule changes whole
# rows and is common, a single cell must fit closely, a term is one of many that could fit.
_RULE, _CELL, _TERM = 0.3, 0.05, 0.02
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
class Suspect:
    """What a slip would give; `chance` is the most of it that may be left to chance."""

    cause: Cause
    band: Band
    chance: float = _RULE
    cells_too: bool = False  # whether it may explain single cells of a row


def suspects_of(mark: Mark, step: str) -> Iterator[Suspect]:
    """Slips in this step, in steps before it that were not printed, and such as happen anywhere."""
    yield from _own(mark, step)
    right = mark.working.recompute(step)
    if right is not None:
        yield from _anywhere(mark, right)


def _own(mark: Mark, step: str) -> Iterator[Suspect]:
    yield from _SUSPECTS[step](mark, step)
    sources = mark.working.sources(step)
    for source in sources:
        if source in mark.submission.steps or source not in _SUSPECTS:
            continue
        for suspect in _own(mark, source):
            if suspect.chance >= _RULE and suspect.band.shape == mark.known[source].shape:
                bands = (suspect.band if name == source else mark.known[name] for name in sources)
                yield replace(suspect, band=mark.working.apply(step, *bands))


def _anywhere(mark: Mark, right: Band) -> Iterator[Suspect]:
    """Slips that can happen in any step."""
    yield Suspect(Cause("sign", "the sign is wrong"), _negative(right), _CELL, cells_too=True)
    for factor, side in ((10.0, "right"), (0.1, "left")):
        cause = Cause("decimal-point", f"the decimal point is one place too far to the {side}")
        yield Suspect(cause, right * factor, _CELL, cells_too=True)
    count = min(right.shape[0], _MOST)
    for row in range(count):
        cause = Cause("wrong-row", f"this is the row of {mark.token(row)}")
        yield Suspect(cause, _rows(right, np.full(right.shape[0], row)), _CELL)
    for one, other in combinations(range(count), 2):
        order = np.arange(right.shape[0])
        order[[one, other]] = order[[other, one]]
        text = f"the rows of {mark.token(one)} and {mark.token(other)} are exchanged"
        yield Suspect(Cause("rows-exchanged", text), _rows(right, order), _CELL)


def _rows(band: Band, order: NDArray[np.int_]) -> Band:
    return Band(band.value[order], band.low[order], band.high[order])


def _negative(band: Band) -> Band:
    return Band(-band.value, -band.high, -band.low)


def _terms(left: Band, right: Band, names: list[str], notes: tuple[str, str]) -> Iterator[Suspect]:
    """One term of a sum of products counted twice, or left out."""
    for index, name in enumerate(names[:_MOST]):
        times = np.ones(left.shape[1])
        times[index] = 2.0
        twice = Cause("term-twice", f"{name} counted twice", notes[0])
        yield Suspect(twice, (left * times) @ right, _TERM, cells_too=True)
        times[index] = 0.0
        missing = Cause("term-left-out", f"{name} left out", notes[1])
        yield Suspect(missing, (left * times) @ right, _TERM, cells_too=True)


def _dimensions(count: int) -> list[str]:
    return [f"dimension {i + 1}" for i in range(count)]


def _projection(mark: Mark, step: str) -> Iterator[Suspect]:
    name = f"w_{step.lower()}"
    x, w = mark.known["embeddings"], mark.known[name]
    if x.shape[1] == w.shape[1]:
        text = f"multiplied by the transpose of {name}; rows are tokens: {step} = x · {name}"
        yield Suspect(Cause("transposed-projection", text), x @ w.T)
    for other in ("w_q", "w_k", "w_v"):
        if other != name and other in mark.known and mark.known[other].shape[0] == x.shape[1]:
            cause = Cause("wrong-projection", f"{other} used in place of {name}")
            yield Suspect(cause, x @ mark.known[other])
    yield Suspect(Cause("not-projected", f"not multiplied by {name}"), x)
    yield from _terms(x, w, _dimensions(x.shape[1]), ("", ""))


def _scores(mark: Mark, _: str) -> Iterator[Suspect]:
    known, d_k = mark.known, mark.d_k or 1
    q, k = known["Q"], known["K"]
    yield Suspect(
        Cause("scores-transposed", "transposed: rows are queries, columns are keys"), k @ q.T
    )
    if "V" in known and known["V"].shape[1] == q.shape[1]:
        cause = Cause("values-for-keys", "values confused with keys: this is Q · Vᵀ, not Q · Kᵀ")
        yield Suspect(cause, q @ known["V"].T)
    yield Suspect(Cause("queries-for-keys", "queries confused with keys: this is Q · Qᵀ"), q @ q.T)
    yield Suspect(Cause("keys-for-queries", "keys confused with queries: this is K · Kᵀ"), k @ k.T)
    if q.shape[1] == k.shape[0]:
        yield Suspect(Cause("keys-not-transposed", "K not transposed: this is Q · K"), q @ k)
    text = "already divided by √d_k; that is the next step"
    yield Suspect(Cause("scaled-early", text), (q @ k.T) * (1 / np.sqrt(d_k)))
    yield from _terms(q, k.T, _dimensions(q.shape[1]), ("", ""))


def _divisors(mark: Mark, tokens: int) -> Iterator[tuple[Cause, float]]:
    """What scores are divided by in place of √d_k."""
    d_k = mark.d_k or 1
    yield Cause("not-scaled", f"not scaled: divide by √d_k = √{d_k}"), 1.0
    yield Cause("scaled-by-d_k", f"scaled by d_k = {d_k} instead of √d_k = √{d_k}"), d_k
    widths = {mark.known[n].shape[s] for n, s in (("embeddings", 1), ("w_q", 0)) if n in mark.known}
    for width in widths - {d_k}:
        text = f"divided by √{width}, the width of the embeddings, instead of √d_k = √{d_k}"
        yield Cause("scaled-by-width", text), np.sqrt(width)
    yield Cause("multiplied", "multiplied by √d_k instead of divided"), 1 / np.sqrt(d_k)
    text = f"divided by the root of the number of tokens, √{tokens}, instead of √d_k = √{d_k}"
    yield Cause("scaled-by-tokens", text), np.sqrt(tokens)


def _scaled(mark: Mark, _: str) -> Iterator[Suspect]:
    scores = mark.known["scores"]
    for cause, divisor in _divisors(mark, scores.shape[1]):
        yield Suspect(cause, scores * (1 / divisor))


def _masked(mark: Mark, _: str) -> Iterator[Suspect]:
    scaled = mark.known["scaled"]
    cause = Cause("mask-missing", "not masked: no query sees the keys after it")
    yield Suspect(cause, scaled)
    hidden = _above(scaled)
    cause = Cause("masked-with-0", "hidden with 0 instead of −∞; e^0 is 1, not 0")
    yield Suspect(cause, scaled * np.where(hidden, 0.0, 1.0))
    cause = Cause("mask-transposed", "the mask hides the keys before the query, not those after it")
    yield Suspect(cause, _hiding(scaled, hidden.T))


def _above(band: Band) -> NDArray[np.bool_]:
    return np.triu(np.ones(band.shape, bool), 1)


def _hiding(band: Band, hidden: NDArray[np.bool_]) -> Band:
    if hidden.shape != band.shape:
        return band
    return Band(*(np.where(hidden, -np.inf, part) for part in (band.value, band.low, band.high)))


def _weights(mark: Mark, _: str) -> Iterator[Suspect]:
    known = mark.known
    scaled = known["masked" if mark.causal else "scaled"]
    right = scaled.softmax()
    if "scores" in known:
        for cause, divisor in _divisors(mark, scaled.shape[1]):
            text = f"{cause.text}, before the softmax"
            divided = mark.working.masked(known["scores"] * (1 / divisor))
            yield Suspect(replace(cause, text=text), divided.softmax())
    yield from _visibility(mark, known.get("scaled", scaled), right)
    text = "softmax over the columns; it runs along each row, over the keys"
    yield Suspect(Cause("softmax-over-columns", text), scaled.softmax(axis=0))
    text = "softmax over the whole matrix; it runs along each row, and each row sums to 1"
    yield Suspect(Cause("softmax-over-all", text), scaled.softmax_over_all())
    cause = Cause("base-2", "powers of 2 instead of e")
    yield Suspect(cause, (scaled * float(np.log(2))).softmax())
    for name in ("Q", "K", "V"):
        if name in known:
            text = f"softmax over the dimensions of {name}; it runs over the tokens"
            yield Suspect(Cause("softmax-over-dimensions", text), known[name].softmax())
    yield Suspect(Cause("weights-transposed", "transposed: rows are queries"), right.T)
    shares = scaled.value / scaled.value.sum(axis=1, keepdims=True)
    text = "divided by the sum without taking exponentials first"
    yield Suspect(Cause("no-exponential", text), Band.around(shares))
    cause = Cause("not-normalised", "exponentials not divided by their sum")
    yield Suspect(cause, Band(np.exp(scaled.value), np.exp(scaled.low), np.exp(scaled.high)))
    yield from _hidden(mark, scaled)
    yield from _denominators(mark, right)


def _visibility(mark: Mark, scaled: Band, right: Band) -> Iterator[Suspect]:
    """A mask where none was asked for, or none where one was; or one in the wrong place."""
    if mark.causal:
        cause = Cause("mask-missing", "no causal mask: a query must not see the keys after it")
        yield Suspect(cause, scaled.softmax())
    elif scaled.shape[1] > 1:
        text = "a causal mask was applied; if that was the task, write causal: yes"
        cause = Cause("causal-mask", text)
        yield Suspect(cause, _hiding(scaled, _above(scaled)).softmax())
    shown = np.where(_above(right), 0.0, 1.0)
    text = "masked after the softmax, so that rows no longer sum to 1; hide the scores before it"
    yield Suspect(Cause("masked-late", text), scaled.softmax() * shown)


def _hidden(mark: Mark, scaled: Band) -> Iterator[Suspect]:
    """Softmax over all keys but one."""
    for key in range(min(scaled.shape[1], _MOST)):
        hide = np.zeros(scaled.shape, bool)
        hide[:, key] = True
        cause = Cause("term-left-out", f"{mark.token(key)} left out of the softmax")
        yield Suspect(cause, _hiding(scaled, hide).softmax(), _TERM)
    if scaled.shape[0] == scaled.shape[1]:
        text = "each token's own key left out; the keys are those of all tokens"
        cause = Cause("own-key-left-out", text)
        yield Suspect(cause, _hiding(scaled, np.eye(scaled.shape[0], dtype=bool)).softmax())


def _denominators(mark: Mark, right: Band) -> Iterator[Suspect]:
    """One exponential counted twice in the sum below the fraction bar, or left out of it."""
    for key in range(min(right.shape[1], _MOST)):
        name = mark.token(key)
        value, low, high = (part[:, [key]] for part in (right.value, right.low, right.high))
        cause = Cause("term-twice", f"{name} counted twice in the sum of exponentials")
        band = Band(right.value / (1 + value), right.low / (1 + high), right.high / (1 + low))
        yield Suspect(cause, band, _TERM, cells_too=True)
        cause = Cause("term-left-out", f"{name} left out of the sum of exponentials")
        band = Band(right.value / (1 - value), right.low / (1 - low), right.high / (1 - high))
        yield Suspect(cause, band, _TERM, cells_too=True)


def _output(mark: Mark, _: str) -> Iterator[Suspect]:
    known = mark.known
    weights, values = known["weights"], known["V"]
    tokens = [mark.token(i) for i in range(weights.shape[1])]
    yield from _terms(weights, values, tokens, (_SAME_LOOK, _SAME_GAP))
    for name, plural in (("K", "keys"), ("Q", "queries"), ("embeddings", "embeddings")):
        if name in known and known[name].shape[0] == weights.shape[1]:
            kind = "values-for-keys" if name == "K" else f"{plural}-for-values"
            text = f"values confused with {plural}: this is weights · {name}, not weights · V"
            yield Suspect(Cause(kind, text), weights @ known[name])
    if weights.shape[0] == weights.shape[1]:
        cause = Cause(
            "weights-transposed", "summed down the columns of the weights, not along rows"
        )
        yield Suspect(cause, weights.T @ values)
    for name in ("scaled", "scores"):
        if name in known:
            text = f"{name} used in place of the weights; the softmax is missing"
            yield Suspect(Cause("no-softmax", text), known[name] @ values)
            text = "softmax over the dimensions of the output; it runs over the tokens, earlier"
            cause = Cause("softmax-over-dimensions", text)
            yield Suspect(cause, (known[name] @ values).softmax())
    cause = Cause("softmax-over-dimensions", "a second softmax, over the dimensions of the output")
    yield Suspect(cause, (weights @ values).softmax())
    same = Band.around(np.full(weights.shape, 1 / weights.shape[1]))
    yield Suspect(
        Cause("unweighted", "a plain average of the values, without the weights"), same @ values
    )


_SUSPECTS = {
    "Q": _projection, "K": _projection, "V": _projection, "scores": _scores, "scaled": _scaled,
    "masked": _masked, "weights": _weights, "output": _output,
}  # fmt: skip

_FEW_UNITS = 5  # off by this many in the last place is called rounding
_MOST_DIGITS = 12
_CHANGED = Cause(
    "given-changed", "a number that the sheet gives was changed",
    "Everything after it is judged by the exercise's own numbers.",
)  # fmt: skip


def explain(mark: Mark) -> Cause | None:
    """The likeliest cause of the first wrong step; None where nothing is wrong."""
    return next(iter(causes(mark)), None)


def causes(mark: Mark) -> list[Cause]:
    """All that explain the first wrong step, the likeliest first; the last says only "a slip"."""
    step = mark.first_wrong
    if step is None or step.right is None:
        return []
    if step.step in mark.submission.filled:
        return [_CHANGED]
    with np.errstate(all="ignore"):  # a suspect may divide by 0 or overflow; then it fits nothing
        return causes_among(step, step.right, suspects_of(mark, step.step))


def causes_among(step: StepMark, right: Band, suspects: Iterable[Suspect]) -> list[Cause]:
    """Those of the suspects that explain a wrong step, slips of the pen, and last "a slip"."""
    return [*_fitting(step, right, suspects), Cause("arithmetic", "an arithmetic slip")]


def _fitting(step: StepMark, right: Band, suspected: Iterable[Suspect]) -> Iterator[Cause]:
    suspects = [s for s in suspected if s.band.shape == right.shape]
    telling = [s for s in suspects if _chance(s.band, step, right) <= s.chance]
    rows = step.wrong.any(axis=1, keepdims=True) & step.checked
    yield from _agreeing(telling, step, step.checked)
    yield from _agreeing(telling, step, rows)
    yield from _rounding(step, right)
    yield from _swapped(step)
    yield from _agreeing([s for s in telling if s.cells_too], step, step.wrong)


def _chance(band: Band, step: StepMark, right: Band) -> float:
    """How likely numbers as far off as the given ones would all agree with the suspect."""
    if Band.around(band.value).allows(step.printed)[step.wrong].all():
        # It fits without any rounding of the step before.
        band, right = Band.around(band.value), Band.around(right.value)
    off = np.maximum(right.low - step.printed.values, step.printed.values - right.high)
    width = band.high - band.low + 2 * ALLOWED * step.printed.units
    share = (width / (4 * off))[step.wrong]
    return float(np.prod(np.minimum(share, 1.0)))


def _agreeing(suspects: list[Suspect], step: StepMark, scope: NDArray[np.bool_]) -> Iterator[Cause]:
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
    elif all(map(_is_padded, step.cells())):
        yield Cause("rounding", "rounded to fewer places, then filled up with zeros")


def _is_padded(cell: Cell) -> bool:
    """Whether it is the right number with fewer places, but at least two: 1.0000 for 0.9994."""
    places = _places(cell)
    return any(
        round(round(cell.right, fewer) - cell.given, places + 2) == 0 for fewer in range(2, places)
    )


def _swapped(step: StepMark) -> Iterator[Cause]:
    """Two neighbouring digits in each other's place."""
    meant = [_with_two_swapped(cell) for cell in step.cells()]
    if all(meant):
        first = next(step.cells())
        given = f"{first.given:.{_places(first)}f}"
        yield Cause("digits-swapped", f"two digits are swapped: {given} in place of {meant[0]}")


def _with_two_swapped(cell: Cell) -> str:
    """The given number with two digits swapped, where that is the right one rounded or cut."""
    places = _places(cell)
    if not np.isfinite(cell.given) or (cell.unit == 0 and cell.given != round(cell.given)):
        return ""
    text = f"{abs(cell.given):.{places}f}"
    at = [i for i, letter in enumerate(text) if letter.isdigit()][:_MOST_DIGITS]
    sign = "-" if cell.given < 0 else ""
    for one, other in pairwise(at):
        letters = list(text)
        letters[one], letters[other] = letters[other], letters[one]
        swapped = sign + "".join(letters)
        off = abs(float(swapped) - cell.right)
        if swapped != sign + text and off < max(cell.unit, 1e-9):
            return swapped
    return ""


def _places(cell: Cell) -> int:
    return max(0, round(-np.log10(cell.unit))) if cell.unit > 0 else 0
