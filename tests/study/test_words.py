"""Sentences: the label, its numbers, the rows."""

from __future__ import annotations

import math
from typing import Any

import pytest

from regard import study
from regard.study import Finding, HeadStudy, SeenAt
from regard.study.pattern import every_pattern
from regard.study.words import CAVEAT, KNOCK_OUT, in_figures, what_it_does

ROW = SeenAt(412, 412, " moon", 0.98, True, 411, " the", 0.98)


def head(*findings: Finding, sink: float = 0.0) -> HeadStudy:
    return HeadStudy("L5H1", "", 5, 1, sink, 1 - sink, findings)


def test_the_sentence_of_the_issue() -> None:
    one = Finding("previous", 0.83, 0.01, 0.3, 0.83, "", rows=(ROW,))
    assert study.sentence(head(one), one) == (
        "L5H1 looks at the token before (0.83 of its mass; chance 0.01); "
        "best seen at row 412 ' moon' (0.98)"
    )


def test_the_share_of_what_is_not_on_sinks_comes_second() -> None:
    one = Finding("previous", 0.4, 0.01, 0.3, 0.8, "")
    assert study.sentence(head(one, sink=0.5), one).endswith(
        "(0.40 of its mass; chance 0.01; 0.80 of what is not on sinks)"
    )


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ({"offset": 5}, "looks 5 tokens back"),
        ({"offset": -1}, "looks 1 token ahead"),
        ({"offset": 65, "to": 67}, "looks 65–67 tokens back"),
        ({"offset": -4, "to": -3}, "looks 3–4 tokens ahead"),
    ],
)
def test_offsets(detail: dict[str, int], words: str) -> None:
    assert what_it_does(Finding("offset", 0.5, 0.0, 0.3, 0.5, "", detail))[0] == words


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ({"keys": [0], "tokens": ["<s>"]}, "parks on key 0 '<s>'"),
        ({"keys": [0, 7], "tokens": ["<s>", "."]}, "parks on keys 0 '<s>', 7 '.'"),
        ({"keys": [0]}, "parks on key 0"),
        ({"keys": [1, 2, 3, 4, 5]}, "parks on keys 1, 2, 3 and 2 more"),
        ({"keys": [], "learned": 0.9}, "parks on a learned sink"),
        ({"keys": [0], "learned": 0.4}, "parks on key 0 and a learned sink"),
    ],
)
def test_sinks(detail: dict[str, Any], words: str) -> None:
    assert what_it_does(Finding("sink", 0.5, 0.0, 0.3, math.nan, "", detail))[0] == words


def test_every_pattern_has_words() -> None:
    for pattern in every_pattern():
        detail = {"offset": 3, "keys": [0], "max_score": 120.0}
        one = Finding(pattern.name, 0.5, math.nan, 0.3, math.nan, "", detail)
        words = study.sentence(head(one), one)
        assert words.startswith("L5H1 ") and "0.50 of " in words


def test_a_row_that_counters_and_one_that_only_shows_less() -> None:
    low = SeenAt(17, 17, "\n", 0.02, True, 3, "\x1b[2J", 0.7)
    one = Finding("previous", 0.83, 0.01, 0.3, 0.83, "", rows=(ROW,), counter=low)
    words = study.sentence(head(one), one)
    assert words.endswith(r"; not at row 17 '\n' (0.02), which looks at key 3 '\x1b[2J' (0.70)")
    high = SeenAt(17, 19, "a", 0.5, False)
    one = Finding("previous", 0.83, 0.01, 0.3, 0.83, "", rows=(ROW,), counter=high)
    assert study.sentence(head(one), one).endswith("; least at rows 17–19 'a' (at least 0.50)")


def test_long_tokens_are_cut() -> None:
    long = SeenAt(1, 1, "x" * 500, 0.9, True)
    one = Finding("self", 0.83, 0.01, 0.3, 0.83, "", rows=(long,))
    assert len(study.sentence(head(one), one)) < 160


def test_figures_and_caveats() -> None:
    assert [in_figures(x) for x in (0.834, 0.0123, 0.0, 1.0, 2e-7, math.nan)] == [
        "0.83", "0.012", "0.00", "1.00", "<0.001", "not known"
    ]  # fmt: skip
    assert "not why the model answers" in CAVEAT and "knock the head out" in KNOCK_OUT
