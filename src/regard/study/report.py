"""The report: what stands out in a recording, in order of surprise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload

from regard.errors import InputError
from regard.recording import Recording
from regard.study.chance import LEAST_TOKENS
from regard.study.finding import Finding, HeadStudy, as_number
from regard.study.heads import WITHHELD, Recorded, opened, patterns, prompt_of, shown_by
from regard.study.surprise import surprises
from regard.study.words import CAVEAT, KNOCK_OUT, sentence

UNCLEAR = "unclear"


@dataclass(frozen=True)
class Ranked:
    """A label of a head, and how far its number lies from those of its layer."""

    head: HeadStudy
    finding: Finding
    surprise: float  # robust deviations

    @property
    def is_first_sink(self) -> bool:
        """Whether it says no more than that attention is parked on the first token, which is no
        discovery: such labels come last."""
        return is_first_sink(self.finding)

    @property
    def row(self) -> int | None:
        """The row that shows it best."""
        return self.finding.rows[0].row if self.finding.rows else None

    @property
    def sentence(self) -> str:
        """The finding as a sentence with its numbers."""
        return sentence(self.head, self.finding)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        head = self.head
        return {
            "label": head.label, "stack": head.stack, "layer": head.layer, "head": head.head,
            "row": self.row, "surprise": as_number(self.surprise),
            "non_sink": as_number(head.non_sink), **self.finding.as_dict(),
            "sentence": self.sentence,
        }  # fmt: skip


def is_first_sink(finding: Finding) -> bool:
    """Whether a label says that attention is parked on the first token, and no more."""
    return finding.pattern == "sink" and finding.detail.get("keys") == [0]


class RankedLabels(Sequence[Ranked]):
    """Labels, most surprising first. The rows that show one are looked for when it is first read:
    of a long text that takes long, and an overview tells a few of them."""

    def __init__(
        self, bare: Sequence[Ranked], show: Callable[[Sequence[Ranked]], list[Ranked]]
    ) -> None:
        self._bare, self._show = bare, show
        self._shown: dict[int, Ranked] = {}

    def __len__(self) -> int:
        return len(self._bare)

    @overload
    def __getitem__(self, at: int) -> Ranked: ...
    @overload
    def __getitem__(self, at: slice) -> list[Ranked]: ...
    def __getitem__(self, at: int | slice) -> Ranked | list[Ranked]:
        which = range(len(self))[at]
        if isinstance(which, int):
            return self[which : which + 1][0]
        new = [n for n in which if n not in self._shown]
        made = self._show([self._bare[n] for n in new])
        self._shown.update(zip(new, made, strict=True))
        return [self._shown[n] for n in which]

    def __iter__(self) -> Iterator[Ranked]:
        return iter(self[:])  # at once: heads of one layer share what they are judged by


@dataclass(frozen=True)
class Report:
    """What stands out in one prompt of a recording."""

    file: str
    model: str
    prompt: int
    title: str
    tokens: int
    heads: Sequence[HeadStudy]  # without rows: `found` has those
    found: Sequence[Ranked]  # every label, most surprising first
    top: int  # how many of them are told
    doubts: Sequence[str] = ()  # what is wrong with the recording itself
    knocked: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # evidence by label

    @property
    def told(self) -> Sequence[Ranked]:
        """The `top` most surprising findings."""
        return self.found[: self.top]

    @property
    def discoveries(self) -> int:
        """How many labels say more than that attention is parked on the first token."""
        return sum(one.holds and not is_first_sink(one) for head in self.heads for one in head)

    @property
    def withheld(self) -> str:
        """Why labels that heads would have are not given; "" where they are."""
        is_withheld = any(one.why_not == WITHHELD for head in self.heads for one in head)
        return WITHHELD if is_withheld else ""

    def counts(self) -> dict[str, int]:
        """How many heads have each label, most frequent first; `unclear` last."""
        counted = Counter(label for head in self.heads for label in head.labels)
        ranked = dict(counted.most_common())
        unclear = sum(not head.labels for head in self.heads)
        return ranked | ({UNCLEAR: unclear} if unclear else {})

    def strongest(self, label: str, most: int = 3) -> list[tuple[str, float]]:
        """The heads with a label whose numbers say it most."""
        named = [
            (head, one) for head in self.heads for one in head if one.holds and one.name == label
        ]
        sign = 1 if label == "inactive" else -1
        named.sort(key=lambda pair: (sign * pair[1].score, -self._away(*pair)))
        return [(head.label, one.score) for head, one in named[:most]]

    def _away(self, head: HeadStudy, finding: Finding) -> float:
        return self._surprises.get((head.label, finding.pattern), 0.0)

    @cached_property
    def _surprises(self) -> dict[tuple[str, str], float]:
        return surprises(self.heads)

    def unknown(self) -> dict[str, str]:
        """Labels that are not known of every head, and why."""
        found: dict[str, list[Finding]] = {}
        for head in self.heads:
            for one in head:
                found.setdefault(one.pattern, []).append(one)
        words = {}
        for pattern, every in found.items():
            dark = [one for one in every if one.undecided]
            some = f" (of {len(dark)} heads)" if len(dark) < len(self.heads) else ""
            if dark:
                words[pattern] = dark[0].why_not + some
        return words

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the findings that are told, and the scores of all heads."""
        return {
            "file": self.file, "model": self.model, "prompt": self.prompt, "title": self.title,
            "tokens": self.tokens, "doubts": list(self.doubts), "caveat": CAVEAT,
            "causal_check": KNOCK_OUT, "counts": self.counts(), "unknown": self.unknown(),
            "labels": len(self.found), "knocked": {k: dict(v) for k, v in self.knocked.items()},
            "findings": [one.as_dict() for one in self.told],
            "heads": [head.as_dict() for head in self.heads],
        }  # fmt: skip


def make_report(
    given: Recording | Recorded,
    prompt: int = 0,
    *,
    top: int = 12,
    needle: range | None = None,
    knocked: Mapping[str, Mapping[str, Any]] | None = None,
) -> Report:
    """Every label of every head, ordered by surprise; see `patterns`.

    knocked   by head, what `regard.intervene.causal_evidence` found, as its `to_dict()` says it;
              it comes before what the recording keeps of earlier knock-outs
    """
    if top < 0:
        raise InputError(f"top={top}; give how many findings to tell, 0 or more")
    recording = opened(given)
    view = prompt_of(recording, prompt)
    known = {**view.knocked, **(knocked or {})}
    causal = {label: -one["copying"]["delta_logprob"] for label, one in known.items()}
    heads = patterns(recording, prompt, needle=needle, causal=causal, evidence="none")
    away = surprises(heads)
    ranked = [
        Ranked(head, one, away.get((head.label, one.pattern), 0.0))
        for head in heads
        for one in head
        if one.holds
    ]
    ranked.sort(key=lambda one: (one.is_first_sink, -one.surprise))

    def show(some: Sequence[Ranked]) -> list[Ranked]:
        wanted = [(one.head.label, one.finding.pattern) for one in some]
        shown = shown_by(view, wanted, needle=needle)
        return [
            replace(one, finding=replace(one.finding, rows=rows, counter=counter))
            for one, (rows, counter) in zip(some, map(shown.__getitem__, wanted), strict=True)
        ]

    found = RankedLabels(ranked, show)
    found[:top]  # what is told is there when the file is closed
    model, tokens = str(recording.model.get("name", "")), view.length
    doubts = _doubts(recording, view.finished)
    if 0 < tokens < LEAST_TOKENS:
        doubts.append(f"{tokens} tokens: labels need {LEAST_TOKENS}, fewer show nothing")
    return Report(
        recording.name, model, view.number, view.title, tokens, heads, found, top, doubts,
        known,
    )  # fmt: skip


def _doubts(recording: Recording, finished: bool) -> list[str]:
    doubts = [f"damaged at byte {one.offset}: {one.reason}" for one in recording.damage[:3]]
    if recording.not_recorded:
        doubts.append(f"not recorded: {', '.join(recording.not_recorded)}")
    if recording.is_live:
        doubts.append("still being written: this is about what there is so far")
    elif not finished:
        doubts.append("this prompt was not finished: sums over its rows may be missing")
    return doubts
