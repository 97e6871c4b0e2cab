"""The steps of a hand calculation recomputed from each other, also by ways that were not printed.

Whoever leaves a step out may have rounded it in a notebook or a calculator before going on. Each
way of doing so is tried as a whole: a step is right where one way explains all of its cells. That
is sharper than one wide band, which would hold every mixture of ways and many slips besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, product

import numpy as np
from numpy.typing import NDArray

from regard.arrays import Array
from regard.errors import InputError, ShapeError
from regard.learn.grading.bands import Band
from regard.learn.grading.submission import Submission

HIDDEN_FROM = -1e4  # a score this low hides its key as −∞ does
_DECIMALS = (2, 3, 4)  # what a step that is not printed may have been rounded to
_MOST = 500  # ways kept apart; more become one band that holds them all
_BY_KEY = ("scores", "scaled", "masked", "weights")


class Working:
    """What is known of each step so far. `known` is exact where a step was not printed."""

    def __init__(self, submission: Submission) -> None:
        self.submission = submission
        self.d_k = _d_k(submission)
        self.causal = submission.causal or _is_masked(submission)
        self.known: dict[str, Band] = {}
        self._given: dict[str, NDArray[np.bool_]] = {}
        self._unrounded: dict[str, Band] = {}  # within a unit of what was printed
        self._ways: dict[str, list[Band]] = {}
        self._decimals = sorted({*_DECIMALS, *_printed_decimals(submission)})

    def keep(self, step: str, band: Band, given: NDArray[np.bool_], units: Array) -> None:
        """What a printed step is further on; `given` are the cells that were filled in."""
        self.known[step], self._given[step] = band, given
        self._unrounded[step] = _where(given, Band.around(band.value, units), band)

    def hidden(self, step: str, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """The cells of a step that a causal mask hides."""
        hides = self.causal and step in _BY_KEY
        return np.triu(np.ones(shape, bool), 1) if hides else np.zeros(shape, bool)

    def recompute(self, step: str) -> Band | None:
        """The step from the steps before it; None where one of them is not known."""
        sources = self.sources(step)
        if not sources or not all(name in self.known for name in sources):
            return None
        return self.apply(step, *(self.known[name] for name in sources))

    def sources(self, step: str) -> tuple[str, ...]:
        """The steps that lead to it."""
        if step in ("Q", "K", "V"):
            return ("embeddings", f"w_{step.lower()}")
        if step == "scaled":
            return ("scores",) if self.d_k else ()
        if step == "masked":
            return ("scaled",) if self.causal else ()
        if step == "weights":
            return ("masked",) if self.causal else ("scaled",)
        return {"scores": ("Q", "K"), "output": ("weights", "V")}.get(step, ())

    def masked(self, scaled: Band) -> Band:
        """−∞ where a causal mask hides the key; the same where nothing is masked."""
        hidden = self.hidden("masked", scaled.shape)
        parts = (scaled.value, scaled.low, scaled.high)
        return Band(*(np.where(hidden, -np.inf, part) for part in parts))

    def apply(self, step: str, *sources: Band) -> Band:
        """The step from given bands of its sources."""
        if step == "scaled":
            return sources[0] * (1 / np.sqrt(self.d_k or 1))
        if step == "masked":
            return self.masked(sources[0])
        if step == "weights":
            return sources[0].softmax()
        left, right = sources
        return _product(step, left, right.T if step == "scores" else right)

    def ways_to(self, step: str, *, exponentials: bool = True) -> Iterable[Band]:
        """The step by every way of rounding what leads to it and was not printed."""
        for sources in product(*map(self._ways_of, self.sources(step))):
            yield self.apply(step, *sources)
            if step == "weights" and exponentials:  # they are never printed
                yield from (
                    sources[0].softmax_of_rounded(decimals, cut=cut)
                    for decimals, cut in self._roundings()
                )

    def _ways_of(self, step: str) -> list[Band]:
        """What the next step may have gone on with; only cells that were not given vary.

        Where a step before it was rounded in secret, the unrounded number is only known to be
        within a unit of the printed one.
        """
        if step not in self._ways:
            band, given = self.known[step], self._given.get(step)
            if self._is_whole(step):
                loose = [self._unrounded[step]] if self._follows_hidden(step) else []
                self._ways[step] = [band, *loose]
            else:
                self._ways[step] = _merged(self._rounded(step, band, given))
        return self._ways[step]

    def _is_whole(self, step: str) -> bool:
        """Whether every cell was given, or nothing leads to those that were not."""
        given = self._given.get(step)
        return self.recompute(step) is None or (given is not None and bool(given.all()))

    def _follows_hidden(self, step: str) -> bool:
        sources = self.sources(step) if self.recompute(step) is not None else ()
        return any(not self._is_whole(name) or self._follows_hidden(name) for name in sources)

    def _rounded(self, step: str, band: Band, given: NDArray[np.bool_] | None) -> Iterator[Band]:
        yield band
        for way in self.ways_to(step):
            fixed = way if given is None else _where(given, band, way)
            yield fixed
            if step != "masked":
                for decimals, cut in self._roundings():
                    loose = fixed.rounded(decimals, cut=cut)
                    yield loose if given is None else _where(given, band, loose)

    def _roundings(self) -> Iterator[tuple[int, bool]]:
        return product(self._decimals, (False, True))


def _merged(ways: Iterator[Band]) -> list[Band]:
    """Ways that differ; where they are too many, the first and one band that holds all."""
    apart: dict[bytes, Band] = {}
    first = next(ways)
    low, high = first.low, first.high
    for way in (first, *ways):
        low, high = np.fmin(low, way.low), np.fmax(high, way.high)
        if len(apart) <= _MOST:
            apart.setdefault((np.stack([way.low, way.high]).round(12) + 0.0).tobytes(), way)
    if len(apart) > _MOST:
        return [first, Band(first.value, low, high)]
    return list(islice(apart.values(), _MOST))


def _where(given: NDArray[np.bool_], band: Band, other: Band) -> Band:
    return Band(
        np.where(given, band.value, other.value),
        np.where(given, band.low, other.low),
        np.where(given, band.high, other.high),
    )


def _printed_decimals(submission: Submission) -> set[int]:
    units = [printed.units.ravel() for printed in submission.steps.values()]
    finite = np.unique(np.concatenate([np.zeros(0), *units]))
    places = {round(-np.log10(unit)) for unit in finite if unit > 0}
    return {int(place) for place in sorted(places) if 2 <= place <= 8}


def _is_masked(submission: Submission) -> bool:
    """Whether −∞ stands above the diagonal of the scores, and nowhere else."""
    for step in ("scores", "scaled", "masked"):
        if step in submission.steps:
            values = submission.steps[step].values
            off = values <= HIDDEN_FROM
            above = np.triu(np.ones(values.shape, bool), 1) & ~np.isnan(values)
            if off.any() and (off == above).all():
                return True
    return False


def _d_k(submission: Submission) -> int | None:
    widths = {
        name: submission.steps[name].values.shape[1]
        for name in ("K", "Q", "w_k", "w_q")
        if name in submission.steps
    }
    for name, width in widths.items():
        if submission.d_k not in (None, width):
            raise InputError(f"d_k is given as {submission.d_k}, but {name} has {width} columns")
    return next(iter(widths.values()), submission.d_k)


def size_of(shape: tuple[int, ...]) -> str:
    """3×4."""
    return f"{shape[0]}×{shape[1]}"


def _product(step: str, left: Band, right: Band) -> Band:
    if left.shape[1] != right.shape[0]:
        names = {"scores": ("Q", "Kᵀ"), "output": ("weights", "V")}
        one, other = names.get(step, ("embeddings", f"w_{step.lower()}"))
        sizes = f"{one} is {size_of(left.shape)} and {other} is {size_of(right.shape)}"
        raise ShapeError(
            f"{step} = {one} · {other} cannot be multiplied: {sizes}; "
            "the columns of the first must be as many as the rows of the second"
        )
    return left @ right
