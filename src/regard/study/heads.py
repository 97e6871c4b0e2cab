"""What the heads of a recording do: every pattern, looked for in every head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, Protocol, TypeAlias

from regard.errors import InputError
from regard.recording import PromptView, Recording
from regard.study.chance import LEAST_TOKENS, Trial, beyond_many
from regard.study.evidence import rows_that_show
from regard.study.facts import HeadFacts, PlaceFacts
from regard.study.finding import Finding, HeadStudy, SeenAt
from regard.study.pattern import Measure, Needle, Pattern, every_pattern, patterns_of

Evidence: TypeAlias = Literal["labels", "all", "none"]
WITHHELD: Final = (
    "no head of this recording leaves its chance, as in a model that has not been trained: "
    "labels are withheld"
)


class Recorded(Protocol):
    """Who has made a recording: `regard.record(…)` after its block."""

    @property
    def recording(self) -> Recording:
        """The recording, open for reading."""
        ...


def opened(given: Recording | Recorded) -> Recording:
    """The recording itself."""
    return given if isinstance(given, Recording) else given.recording


def patterns(
    recording: Recording | Recorded,
    prompt: int = 0,
    *,
    needle: range | None = None,
    generated: int | None = None,
    causal: Mapping[str, float] | None = None,
    evidence: Evidence = "labels",
) -> list[HeadStudy]:
    """Every pattern in every recorded head of one prompt.

        for head in study.patterns(rec):
            print(head)                       # L16H0: previous 0.77
            print(head["previous"].rows[0])   # the row that shows it best

    needle     the tokens of a needle, for the retrieval pattern: the recording goes on with tokens
               that the model wrote; `generated` says how many, where the recording does not
    causal     by head, how much its knock-out lowers the log-probability of the token that is
               copied; beside it prefix-matching is called induction
    evidence   for which findings rows are shown: those whose label holds, all, or none

    Of a text, everything is read from sums that were taken while recording; no q and k are needed.
    Where a patch of a picture looks is computed from q and k, of all rows or a sample of them.
    """
    if evidence not in ("labels", "all", "none"):
        raise InputError(f"evidence={evidence!r}; give 'labels', 'all' or 'none'")
    view = prompt_of(opened(recording), prompt)
    wanted = None if needle is None else Needle(needle, generated)
    found: list[HeadStudy] = []
    for label in view.places:
        place = PlaceFacts(view, label)
        table = patterns_of(place, wanted)
        for head in place.heads():
            found.append(_study(head, table, (causal or {}).get(head.label), evidence))
    return found if _leaves_chance(found) else [_without_labels(head, evidence) for head in found]


def _leaves_chance(heads: Sequence[HeadStudy]) -> bool:
    """Whether a head looks somewhere, by more than the best of so many heads does by chance; or
    its rows are even, or single, to rounding, which no scores are by chance."""
    return any(
        one.is_exact
        or (not one.is_shape and beyond_many(max(one.p_value, one.by_tokens), len(heads)))
        for head in heads
        for one in head
        if one.holds and "forced" not in one.detail
    )


def _without_labels(head: HeadStudy, evidence: Evidence) -> HeadStudy:
    """The same numbers; what the mask forces still is so."""
    shown: Any = {} if evidence == "all" else {"rows": (), "counter": None}
    findings = [
        replace(one, why_not=WITHHELD, **shown) if one.holds and "forced" not in one.detail else one
        for one in head
    ]
    return replace(head, findings=tuple(findings))


def shown_by(
    view: PromptView, wanted: Iterable[tuple[str, str]], *, needle: range | None = None
) -> dict[tuple[str, str], tuple[tuple[SeenAt, ...], SeenAt | None]]:
    """By head and pattern, the rows that show it best and one that does not."""
    asked: dict[str, list[str]] = {}
    for label, name in wanted:
        asked.setdefault(label, []).append(name)
    found = {}
    for label, place in view.places.items():
        if not any(f"{label}H{head}" in asked for head in place.heads):
            continue
        facts = PlaceFacts(view, label)
        several = patterns_of(facts, None if needle is None else Needle(needle))
        table = {one.name: one for one in several}
        for head in facts.heads():
            for name in asked.get(head.label, ()):
                measure = table[name].measure(head)
                found[head.label, name] = rows_that_show(table[name], head, measure)
    return found


def prompt_of(recording: Recording, number: int) -> PromptView:
    """A prompt by its number; InputError where there is none."""
    return recording.prompt(number)


def _study(
    head: HeadFacts, table: Sequence[Pattern], causal: float | None, evidence: Evidence
) -> HeadStudy:
    place = head.place.place
    findings = tuple(_finding(one, head, causal, evidence) for one in table)
    return HeadStudy(
        head.label, place.stack, place.layer, head.number, head.sink, head.non_sink, findings
    )


def _finding(
    pattern: Pattern, head: HeadFacts, causal: float | None, evidence: Evidence
) -> Finding:
    measure = pattern.measure(head)
    why_not = pattern.objection(head, measure) or _too_short(head, measure)
    wanted = evidence == "all" or (evidence == "labels" and not why_not)
    found = wanted and not measure.unknown
    rows, counter = rows_that_show(pattern, head, measure) if found else ((), None)
    compared = measure.score if measure.compared is None else measure.compared
    return Finding(
        pattern.name, measure.score, measure.chance, pattern.threshold,
        _conditional(head, measure), why_not, measure.detail, rows, counter, compared, causal,
        *(measure.trial or Trial(0, float("nan"), ""))[:3], pattern.undecided(head, measure),
        pattern.is_shape, measure.by_tokens, measure.is_exact,
    )  # fmt: skip


def _too_short(head: HeadFacts, measure: Measure) -> str:
    """A text that shows nothing, unless the mask leaves no choice."""
    tokens = head.place.place.keys
    if tokens >= LEAST_TOKENS or "forced" in measure.detail:
        return ""
    what = "a text" if head.place.patches is None else "a sequence"
    return f"{what} of {tokens} tokens; {LEAST_TOKENS} needed"


def _conditional(head: HeadFacts, measure: Measure) -> float:
    """Of the mass that is not on sinks."""
    if measure.conditional is not None:
        return measure.conditional
    return min(measure.apart / head.non_sink, 1.0) if head.non_sink > 0 else float("nan")


def mean_retrieval(
    cases: Iterable[tuple[Recording | Recorded, int, range]], generated: int | None = None
) -> dict[str, float]:
    """Each head's retrieval score, averaged over (recording, prompt, needle): over lengths and
    depths of one needle test."""
    scores: dict[str, list[float]] = {}
    for recording, prompt, needle in cases:
        retrieval = every_pattern(Needle(needle, generated))
        (pattern,) = (one for one in retrieval if one.name == "retrieval")
        view = prompt_of(opened(recording), prompt)
        for label in view.places:
            for head in PlaceFacts(view, label).heads():
                measure = pattern.measure(head)
                if not measure.unknown:
                    scores.setdefault(head.label, []).append(measure.score)
    return {label: sum(each) / len(each) for label, each in scores.items()}
