"""The first look at a recording."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.draw import Paper, finished, plain
from regard.draw.pages import make_overview
from regard.draw.spelling import cells
from regard.errors import InputError
from regard.mask import Causal
from regard.recording import STATISTICS, Finding, Memory, Recording
from regard.recording.statistics import PlaceStatistics
from regard.testing.recordings import HOSTILE, Chunk, in_memory, write_prompt, write_recording

PAPER = Paper()


def text(page, paper=PAPER) -> str:
    """The page as text."""
    return "\n".join(plain(finished(page.lines(paper), paper)))


def test_model_prompt_what_was_kept_and_the_grid():
    rec, _ = in_memory()
    shown = text(make_overview(rec, 0, "entropy"))
    for words in ("tiny ·", "prompt 0,", "every cell of layer 0 ", "entropy: mean entropy"):
        assert words in shown
    grid = rec.grid("entropy")
    assert f"L1  {grid[1, 0]:.3f} {grid[1, 1]:.3f}" in shown


@pytest.mark.parametrize("statistic", STATISTICS)
def test_every_statistic_has_a_grid(statistic):
    rec, _ = in_memory()
    page = make_overview(rec, 0, statistic)
    assert f"scale: {statistic}, linear" in text(page)
    value = json.loads(json.dumps(page.as_dict(), allow_nan=False))
    found = np.array(value["grid"][""], float)
    np.testing.assert_array_equal(found, rec.grid(statistic))


def test_a_statistic_that_does_not_exist():
    with pytest.raises(InputError, match="no statistic 'nonsense'; there are sink"):
        make_overview(in_memory()[0], 0, "nonsense")


def test_heads_that_stand_out(monkeypatch):
    finding = Finding("L1H2", "previous", 0.91, 0.05, 12.0)
    name = "regard.draw.pages.overview.most_surprising"
    monkeypatch.setattr(name, lambda rec, n, prompt: [finding])
    page = make_overview(in_memory()[0], 0, "sink")
    said = "L1H2 gives 0.910 of its attention to the token before; its layer's median is"
    assert said in " ".join(text(page).split())
    assert page.as_dict()["surprising"][0]["label"] == "L1H2"


def test_every_stack_has_its_grid():
    small = [Chunk((0, 12), (0, 12), Causal())]
    store, _ = write_recording(chunks=small, stack="encoder")
    write_prompt(
        store, [Chunk((0, 12), (0, 9))], stack="cross", kind="cross", tokens=False, note=False
    )
    rec = Recording(store)
    page = make_overview(rec, 0, "first")
    shown = text(page)
    assert "encoder, first: mass on key 0" in shown and "cross, first: mass on key 0" in shown
    assert set(page.as_dict()["grid"]) == {"encoder", "cross"}


def test_another_prompt():
    rec, _ = in_memory(prompts=2)
    page = make_overview(rec, 1, "first")
    assert "generated: text 1" in text(page) and page.as_dict()["prompt"] == 1
    np.testing.assert_array_equal(page.grids[""], rec.grid("first", prompt=1))


def test_json_says_what_the_file_is():
    rec, _ = in_memory()
    value = make_overview(rec, 0, "sink").as_dict()
    assert value["model"]["name"] == "tiny" and value["live"] is False and value["damage"] == []
    assert value["next"][0] == {"token": " mat", "probability": 0.5}
    assert value["stacks"][0]["exact_layers"] == [0]


def test_nothing_was_recorded_yet():
    store = Memory()
    store.note({"contents": "attention/1"})
    page = make_overview(Recording(store), 0, "sink")
    assert "nothing was recorded yet" in text(page)
    assert page.as_dict()["prompt"] is None


@pytest.mark.parametrize("paper", [PAPER, Paper(80, 40, "true"), Paper(36, is_ascii=True)])
def test_every_paper_holds_the_page(paper):
    rec, _ = in_memory(HOSTILE, heads=32, key_heads=8, dim=4)
    for line in text(make_overview(rec, 0, "first"), paper).splitlines():
        assert cells(line) <= paper.width and line.isprintable()
        assert line.isascii() or not paper.is_ascii


def test_sinks_that_bins_cannot_tell_are_explained(monkeypatch):
    chunk = Chunk((0, 80), (0, 80), Causal())
    page = make_overview(Recording(write_recording(chunks=[chunk], key_bin=64)[0]), 0, "previous")
    assert page.why_unknown == "" and page.as_dict()["why_unknown"] is None
    known = PlaceStatistics.sums

    def unknown(self, name):
        mass, count = known(self, name)
        return (mass * np.nan if name.endswith("sink") else mass), count

    monkeypatch.setattr(PlaceStatistics, "sums", unknown)
    for key_bin, said in ((64, True), (1, False)):
        rec = Recording(write_recording(chunks=[chunk], key_bin=key_bin)[0])
        page = make_overview(rec, 0, "non_sink")
        assert ("sinks cannot be told" in text(page)) == said
        assert bool(page.as_dict()["why_unknown"]) == said
        assert "not known: ·" in text(page)
    bare = Recording(write_recording(chunks=[chunk], key_bin=64, statistics=False)[0])
    assert make_overview(bare, 0, "sink").why_unknown == ""  # not kept: bins are not the reason
