"""What can be asked about a recording: one table, name → type → answer. The server's addresses,
what a page that is one file carries, and the names in `web/src/source/answers.ts` follow from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar

from regard.errors import InputError
from regard.viewer import answers
from regard.viewer.opened import Opened
from regard.viewer.work import Lane
from regard.views.run import MOST_BINS, Snapshot, Strips
from regard.views.schema import (
    ComparisonAnswer,
    HeadFactsAnswer,
    How,
    OverviewAnswer,
    ProgressAnswer,
    ReportAnswer,
    RowFactsAnswer,
    TokensAnswer,
    TrainingFactsAnswer,
)
from regard.views.schema_sight import HeardAnswer, RolloutAnswer, SightAnswer
from regard.views.thumbnails import SIDE
from regard.views.uniform import Codes

_WHOLE: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
_MOST_LABEL: Final = 256
_MOST_HEADS: Final = 64  # in one question
_Value = TypeVar("_Value")


class UnreadableError(InputError):
    """A parameter that is missing, or that is no such thing."""


def no_stop() -> None:
    """Somebody waits for the answer, however long it takes."""


@dataclass(frozen=True)
class Asked:
    """The parameters of a question, read strictly."""

    given: Mapping[str, str]
    every: Sequence[Opened] = ()  # the recordings there are
    go_on: Callable[[], None] = no_stop  # raises where nobody waits any more

    def whole(self, name: str, default: int | None = None) -> int:
        """A whole number ≥ 0."""
        text = self.given.get(name)
        if text is None and default is not None:
            return default
        if text is None or _WHOLE.fullmatch(text) is None:
            raise UnreadableError(f"{name}: give a whole number")
        return int(text)

    def recording(self, name: str) -> Opened:
        """One of the recordings, by its number."""
        number = self.whole(name)
        if number >= len(self.every):
            raise InputError(
                f"recording {number} does not exist; there are {len(self.every)}. A server "
                "that was started again has none of those that were opened before"
            )
        return self.every[number]

    @property
    def prompt(self) -> int:
        """Which prompt; the first where none is named."""
        return self.whole("prompt", 0)

    @property
    def label(self) -> str:
        """Which head."""
        text = self.given.get("head", "")
        if not 0 < len(text) <= _MOST_LABEL:
            raise UnreadableError("head: give a label such as L0H0")
        return text

    def name(self, of: str) -> str:
        """A name that may be left out."""
        return self.given.get(of, "")[:_MOST_LABEL]

    @property
    def how(self) -> How:
        """How cells are pooled."""
        text = self.given.get("how", "mean")
        if text == "mean":
            return "mean"
        if text == "max":
            return "max"
        raise UnreadableError("how: give mean or max")

    @property
    def labels(self) -> list[str]:
        """Which heads: labels with a comma between them."""
        found = self.given.get("heads", "").split(",")
        if not 0 < len(found) <= _MOST_HEADS or not all(0 < len(x) <= _MOST_LABEL for x in found):
            raise UnreadableError(f"heads: give 1 to {_MOST_HEADS} labels such as L0H0,L0H1")
        return found

    def whole_or_none(self, name: str) -> int | None:
        """A whole number ≥ 0 that may be left out."""
        return None if name not in self.given else self.whole(name)

    def span(self, name: str) -> range:
        """From `name` on, `name`_count of them."""
        start = self.whole(name)
        return range(start, start + self.whole(f"{name}_count", 1))


class Binary(NamedTuple):
    """Numbers as they lie in memory, with their sizes; or a file."""

    content: bytes
    sizes: Mapping[str, int] = {}
    kind: str = "application/octet-stream"
    headers: Mapping[str, str] = {}


@dataclass(frozen=True)
class Question(Generic[_Value]):
    """One name.

    kind      what is answered: a type of `views.schema`, which goes as JSON, or Binary
    lane      how long it takes: see `work`
    carried   whether a page that is one file has the answer as it is
    ready     what needs no computing, asked first; None where there is no such
    """

    kind: type[_Value]
    answer: Callable[[Opened, Asked], _Value]
    lane: Lane = "quick"
    carried: bool = field(default=False, kw_only=True)
    ready: Callable[[Opened, Asked], _Value | None] | None = field(default=None, kw_only=True)


def _tile(one: Opened, asked: Asked) -> Binary:
    head_map = one.head_map(asked.prompt, asked.label)
    return _codes(head_map.tile(*_at(asked), asked.how, asked.go_on))


def _ready_tile(one: Opened, asked: Asked) -> Binary | None:
    """One that is stored, or was computed before."""
    made = one.head_map(asked.prompt, asked.label).ready_tile(*_at(asked), asked.how)
    return None if made is None else _codes(made)


def _at(asked: Asked) -> tuple[int, int, int]:
    return asked.whole("level"), asked.whole("y"), asked.whole("x")


def _codes(made: Codes) -> Binary:
    return Binary(made.codes.tobytes(), {"nan": made.nan})


def _thumbnails(one: Opened, asked: Asked) -> Binary:
    side = asked.whole("side", SIDE)
    made = answers.thumbnails(one, asked.prompt, asked.name("stack"), side, asked.go_on)
    sizes = zip(("layers", "heads", "side"), made.codes.shape, strict=False)
    return Binary(made.tobytes(), dict(sizes))


def _tokens(one: Opened, asked: Asked) -> TokensAnswer:
    part = asked.whole("start", 0), asked.whole("count", 1024)
    return answers.tokens(one, asked.prompt, asked.name("stream"), *part)


def _row(one: Opened, asked: Asked) -> RowFactsAnswer:
    row, top = asked.whole("row"), asked.whole("top", 32)
    return answers.row_facts(one, asked.prompt, asked.label, row, top)


def _weights(one: Opened, asked: Asked) -> Binary:
    return Binary(answers.weights(one, asked.prompt, asked.label, asked.whole("row")))


def _cells(one: Opened, asked: Asked) -> Binary:
    spans = asked.span("row"), asked.span("key")
    return Binary(answers.cells(one, asked.prompt, asked.label, *spans))


def _overlay(one: Opened, asked: Asked) -> Binary:
    query, key = asked.whole_or_none("query"), asked.whole_or_none("key")
    if (query is None) == (key is None):
        raise UnreadableError("query, key: give one of them")
    return Binary(answers.overlays(one, asked.prompt, asked.labels, query=query, key=key))


def _rollout(one: Opened, asked: Asked) -> RolloutAnswer:
    return answers.rollout(one, asked.prompt, asked.label, asked.whole_or_none("query"))


def _picture(one: Opened, asked: Asked) -> Binary:
    content, kind = answers.picture(one, asked.prompt, asked.whole("number", 0))
    return Binary(content, kind=kind)


def _strips(one: Opened, asked: Asked) -> Binary:
    return _numbers(answers.strips(one, asked.name("statistic"), asked.whole("bins", MOST_BINS)))


def _snapshot(one: Opened, asked: Asked) -> Binary:
    return _numbers(answers.snapshot(one, asked.label, asked.whole("step")))


def _numbers(made: Strips | Snapshot) -> Binary:
    return Binary(made.tobytes(), made.sizes())


def _compare(one: Opened, asked: Asked) -> ComparisonAnswer:
    other = asked.recording("other"), asked.whole("other_prompt", 0)
    return answers.comparison((one, asked.prompt), other, asked.go_on)


def _progress(one: Opened, asked: Asked) -> ProgressAnswer:
    other = asked.recording("other"), asked.whole("other_prompt", 0)
    return answers.comparison_progress((one, asked.prompt), other)


QUESTIONS: Final[dict[str, Question[Any]]] = {
    "overview": Question(
        OverviewAnswer, lambda one, asked: answers.overview(one, asked.prompt), carried=True
    ),
    "findings": Question(ReportAnswer, lambda one, asked: one.report(asked.prompt), "long"),
    "compare": Question(ComparisonAnswer, _compare, "tiles"),
    "progress": Question(ProgressAnswer, _progress),
    "tokens": Question(TokensAnswer, _tokens),
    "head": Question(
        HeadFactsAnswer, lambda one, asked: answers.head_facts(one, asked.prompt, asked.label)
    ),
    "row": Question(RowFactsAnswer, _row),
    "training": Question(TrainingFactsAnswer, lambda one, _: answers.training(one), "tiles"),
    "weights": Question(Binary, _weights),
    "cells": Question(Binary, _cells),
    "sight": Question(
        SightAnswer, lambda one, asked: answers.sight(one, asked.prompt), carried=True
    ),
    "overlay": Question(Binary, _overlay),
    "heard": Question(
        HeardAnswer, lambda one, asked: answers.heard(one, asked.prompt), "tiles", carried=True
    ),
    "rollout": Question(RolloutAnswer, _rollout, "tiles"),
    "picture": Question(Binary, _picture),
    "thumbnails": Question(Binary, _thumbnails, "tiles"),
    "tile": Question(Binary, _tile, "tiles", ready=_ready_tile),
    "strips": Question(Binary, _strips, "tiles"),
    "snapshot": Question(Binary, _snapshot, "tiles"),
}
