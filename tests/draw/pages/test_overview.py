"""The first look at a recording."""

from __future__ import annotations

import json

import numpy as np
import pytest

from recording.test_statistics import sinking
from regard.draw import Paper, finished, plain
from regard.draw.pages import overview_lines
from regard.errors import InputError
from regard.mask import Causal
from regard.recording import STATISTICS, Memory, Recording
from regard.recording.statistics import PlaceStatistics
from regard.study import make_report
from regard.views.overview import whole_overview
from support.recordings import Chunk, in_memory, write_prompt, write_recording

PAPER = Paper()


def text(rec, statistic, paper=PAPER, prompt=0) -> str:
    """The page as text."""
    lines = overview_lines(rec, prompt, statistic, paper)
    return "\n".join(plain(finished(lines, paper)))


def test_model_prompt_what_was_kept_and_the_grid():
    rec, _ = in_memory()
    shown = text(rec, "entropy")
    for words in ("tiny ·", "prompt 0,", "every cell of layer 0 ", "entropy: mean entropy"):
        assert words in shown
    grid = rec.grid("entropy")
    assert f"L1  {grid[1, 0]:.3f} {grid[1, 1]:.3f}" in shown


@pytest.mark.parametrize("statistic", STATISTICS)
def test_every_statistic_has_a_grid(statistic):
    rec, _ = in_memory()
    assert f"scale: {STATISTICS[statistic].title}, linear" in text(rec, statistic)
    value = json.loads(json.dumps(whole_overview(rec), allow_nan=False))
    found = np.array(value["stacks"][0]["grids"][statistic], float)
    np.testing.assert_array_equal(found, rec.grid(statistic))


def test_a_statistic_that_does_not_exist():
    with pytest.raises(InputError, match="no statistic 'nonsense'; there are on sinks"):
        text(in_memory()[0], "nonsense")


def test_heads_that_stand_out_are_those_of_the_report():
    query, key = sinking()
    store, _ = write_recording(
        chunks=[Chunk((0, 200), (0, 200), Causal())], query=query, key=key, exact=False
    )
    rec = Recording(store)
    every = make_report(rec).found[:5]
    found = [one for one in every if not one.is_first_sink]
    assert every[-1].is_first_sink and every[-1].head.label == "L0H0"
    shown = " ".join(text(rec, "sink").split())
    at = [shown.index(" ".join(one.sentence.split())) for one in found]
    assert at == sorted(at) and "parks on key 0" not in shown
    said = whole_overview(rec)["stands_out"]
    assert [one["sentence"] for one in said] == [one.sentence for one in found]


def test_where_no_head_stands_out_it_is_said():
    assert "12 tokens show no pattern; labels need 16" in text(in_memory()[0], "sink")
    alike = Recording(
        write_recording(chunks=[Chunk((0, 40), (0, 40), Causal())], heads=1, key_heads=1)[0]
    )
    assert "no head shows a pattern beyond chance" in text(alike, "sink")


def test_every_stack_has_its_grid():
    small = [Chunk((0, 12), (0, 12), Causal())]
    store, _ = write_recording(chunks=small, stack="encoder")
    write_prompt(
        store, [Chunk((0, 12), (0, 9))], stack="cross", kind="cross", tokens=False, note=False
    )
    rec = Recording(store)
    shown = text(rec, "first")
    assert "encoder, on the first token (first): mass on key 0" in shown
    assert "cross, on the first token (first): mass on key 0" in shown
    assert {one["name"] for one in whole_overview(rec)["stacks"]} == {"encoder", "cross"}


def test_another_prompt():
    rec, _ = in_memory(prompts=2)
    assert "generated: text 1" in text(rec, "first", prompt=1)
    value = whole_overview(rec, 1)
    assert value["prompt"] == 1
    found = np.array(value["stacks"][0]["grids"]["first"], float)
    np.testing.assert_array_equal(found, rec.grid("first", prompt=1))


def test_nothing_was_recorded_yet():
    store = Memory()
    store.note({"contents": "attention/1"})
    rec = Recording(store)
    assert "nothing was recorded yet" in text(rec, "sink")
    assert whole_overview(rec)["prompts"] == [] and whole_overview(rec)["stands_out"] == []


def test_sinks_that_bins_cannot_tell_are_explained(monkeypatch):
    chunk = Chunk((0, 80), (0, 80), Causal())
    rec = Recording(write_recording(chunks=[chunk], key_bin=64)[0])
    assert "sinks cannot be told" not in text(rec, "previous")
    known = PlaceStatistics.sums

    def unknown(self, name):
        mass, count = known(self, name)
        return (mass * np.nan if name.endswith("sink") else mass), count

    monkeypatch.setattr(PlaceStatistics, "sums", unknown)
    for key_bin, said in ((64, True), (1, False)):
        rec = Recording(write_recording(chunks=[chunk], key_bin=key_bin)[0])
        assert ("sinks cannot be told" in text(rec, "non_sink")) == said
        assert ("non_sink" in whole_overview(rec)["why_unknown"]) == said
        assert "not known: ·" in text(rec, "non_sink")
    bare = Recording(write_recording(chunks=[chunk], key_bin=64, statistics=False)[0])
    assert whole_overview(bare)["why_unknown"] == {}  # not kept: bins are not the reason
