"""Ranges as they are typed."""

from __future__ import annotations

import pytest

from regard.cli.spans import parse_span
from regard.errors import InputError
from regard.recording import Memory, Recording
from support.recordings import in_memory


@pytest.mark.parametrize(
    ("text", "span"),
    [
        (None, range(20)),
        ("3:7", range(3, 7)),
        (":7", range(7)),
        ("15:", range(15, 20)),
        (":", range(20)),
        ("-5:", range(15, 20)),
        ("-5:-2", range(15, 18)),
        ("7", range(7, 8)),
        ("-1", range(19, 20)),
        (" 3 : 7 ", range(3, 7)),
    ],
)
def test_ranges(text, span):
    assert parse_span("--keys", text, range(20)) == span


@pytest.mark.parametrize("text", ["abc", "", "1:2:3", "1.5", "a:b", "1-5", "9" * 40])
def test_what_is_no_range(text):
    with pytest.raises(InputError, match=r"--keys .*: give a range such as 10:20"):
        parse_span("--keys", text, range(20))


@pytest.mark.parametrize("text", ["7:3", "20", "5:21", "-21:", "5:5"])
def test_ranges_of_what_is_not_there(text):
    with pytest.raises(InputError, match="not a part of what there is; that is 0:20"):
        parse_span("--keys", text, range(20))


def test_rows_count_as_the_model_does():
    recorded = range(10, 20)
    assert parse_span("--rows", ":12", recorded, 30) == range(10, 12)
    assert parse_span("--rows", "-15:-12", recorded, 30) == range(15, 18)
    with pytest.raises(InputError, match="that is 10:20"):
        parse_span("--rows", "-1", recorded, 30)
    with pytest.raises(InputError, match="that is nothing"):
        parse_span("--rows", "0", range(0), 30)


@pytest.mark.parametrize(("number", "meant"), [(0, 0), (1, 1), (-1, 1), (-2, 0)])
def test_prompts(number, meant):
    rec, _ = in_memory(prompts=2, layers=1)
    assert rec.prompt(number).number == meant


@pytest.mark.parametrize(("count", "have"), [(1, "0"), (2, "0–1")])
def test_prompts_that_do_not_exist(count, have):
    rec, _ = in_memory(prompts=count, layers=1)
    for number in (count, -count - 1):
        with pytest.raises(InputError, match=f"does not exist; this recording has {have}$"):
            rec.prompt(number)


def test_no_prompt_at_all():
    store = Memory()
    store.note({"contents": "attention/1"})
    with pytest.raises(InputError, match="nothing was recorded yet"):
        Recording(store).prompt(0)
