"""`regard show`: every view of a recording, in words and as JSON."""

from __future__ import annotations

import json
import os
import re
from functools import partial

import numpy as np
import pytest

import regard
from regard.recording import Writer
from regard.recording.schema import Prompt
from support.recordings import (
    WORDS,
    Chunk,
    growing,
    on_disk,
    write,
    write_recording,
)

VIEWS = ["", "L0H1", "L1H1", "L0H1 --row -1", "L0H1 --token cat", "L0H1 --rows 2:9 --keys :5"]


@pytest.fixture
def show(shell):
    """The verb: status, stdout, stderr."""
    return partial(shell, "show")


@pytest.fixture
def told(show):
    """What the verb answers as JSON."""

    def run(*words: object):
        status, out, err = show(*words, "--json")
        assert (status, err) == (0, "")
        return json.loads(out)

    return run


@pytest.mark.parametrize("columns", [24, 50, 80, 200])
@pytest.mark.parametrize("words", VIEWS)
def test_every_view_fits_the_terminal(show, recorded, monkeypatch, columns, words):
    monkeypatch.setenv("COLUMNS", str(columns))
    status, out, err = show(recorded, *words.split())
    assert (status, err) == (0, "") and "\x1b" not in out
    assert max(map(len, out.splitlines())) <= columns


def test_the_overview(show, recorded):
    out = show(recorded)[1]
    assert out.startswith("tiny · 2 × 4 heads") and "off sinks (non_sink): " in out
    assert "prompt 1, 12 tokens, 2 of them generated: text 1" in out
    assert "on the token before (previous): " in show(recorded, "--stat", "previous")[1]


def test_a_head_has_its_map_and_the_caveat(show, recorded):
    out = show(recorded, "L0H1")[1]
    assert "scale: × even share (at most 12 keys), log, 0.1–12" in out
    assert out.endswith("weights show where a head looks, not why the model answers\n")
    assert "scale: weight, linear" in show(recorded, "L0H1", "--raw")[1]
    assert "max of 4×4 tokens a cell" in show(recorded, "L0H1", "--cell", 4, "--max")[1]


def test_no_cell_is_lost_at_the_end_of_a_line(show, recorded, monkeypatch):
    for name, text in {"TERM": "xterm", "COLORTERM": "truecolor", "COLUMNS": "90"}.items():
        monkeypatch.setenv(name, text)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", show(recorded, "L0H1", terminal=True)[1]).splitlines()
    last = next(n for n, line in enumerate(lines) if line.startswith("scale: ")) - 1
    assert lines[last].endswith("██" * len(WORDS)) and lines[last + 1].endswith("█" * 16)


def test_rows_by_number_and_by_token(show, recorded):
    out = show(recorded, "L0H1", "--row", -1)[1]
    assert "row 11 ␣the" in out and WORDS[2].strip() in out
    assert show(recorded, "L0H1", "--token", "the")[1] == out
    few = show(recorded, "L0H1", "--row", 11, "--top", 2)[1]
    assert len(few.splitlines()) < len(out.splitlines())


@pytest.mark.parametrize(
    ("text", "rows"),
    [("3:7", range(3, 7)), (":7", range(7)), ("9:", range(9, 12)), (":", range(12)),
     ("-5:", range(7, 12)), ("-5:-2", range(7, 10)), ("7", range(7, 8)), ("-1", range(11, 12)),
     (" 3 : 7 ", range(3, 7))],
)  # fmt: skip
def test_ranges_as_python_would_slice(told, recorded, text, rows):
    assert told(recorded, "L0H1", f"--rows={text}")["rows"] == [rows.start, rows.stop]


def test_rows_of_a_part_count_as_the_model_does(told, refused, tmp_path):
    with Writer(tmp_path / "part.regard") as writer:
        write_recording(writer, chunks=[Chunk((4, 12), (0, 12), regard.Causal())])
    part = ("show", tmp_path / "part.regard", "L0H1")
    assert told(*part[1:], "--rows", "-3:")["rows"] == [9, 12]
    assert "that is 4:12" in refused(*part, "--rows", "0:2")


def test_another_prompt(show, told, recorded):
    assert told(recorded, "L0H1", "--prompt", 1)["prompt"] == 1
    assert "prompt 1" in show(recorded, "L0H1", "--prompt", -1)[1]


def test_stacks_by_name(show, refused, stacks):
    out = show(stacks)[1]
    assert "\nencoder, " in out and "\ncross, " in out
    assert show(stacks, "cross.L0H1")[1].startswith("cross.L0H1 · 7 × 12 tokens")
    assert "row 6" in show(stacks, "cross.L0H1", "--row", -1)[1]
    assert "there is no stack 'middle'" in refused("show", stacks, "middle.L0H0")


def test_while_it_is_written(show, told, tmp_path):
    with growing(tmp_path / "live.regard") as writer:
        assert NOTHING in show(tmp_path / "live.regard")[1]
        write(writer)
        status, out, _ = show(tmp_path / "live.regard")
        assert status == 0 and "still being written" in out
        assert told(tmp_path / "live.regard")["live"] is True


NOTHING = "nothing was recorded yet"


def test_a_prompt_that_was_stopped_before_its_heads(show, told, refused, tmp_path):
    path = tmp_path / "stopped.regard"
    with Writer(path) as writer:
        write(writer)
        writer.note({"prompt/1": Prompt(7).to_json()})
    why = (
        "no head of prompt 1 was recorded: the recording was stopped before the first; those of "
        "prompt 0 were"
    )
    assert why in refused("show", path, "L1H2", "--prompt", 1)
    status, out, _ = show(path, "--prompt", 1)
    assert status == 0 and why in " ".join(out.split())
    assert told(path, "--prompt", 1)["stacks"] == [] and "no head" not in show(path)[1]


def test_damage_is_shown_and_the_rest_too(show, file):
    os.truncate(file, file.stat().st_size - 1)
    status, out, _ = show(file)
    assert status == 0 and "damaged at byte" in out and "scale: off sinks" in out


def test_a_long_text_names_a_cell_that_fits_and_announces_what_takes_long(
    show, refused, tmp_path, monkeypatch
):
    path = on_disk(tmp_path / "a.regard", [f" t{n}" for n in range(300)], layers=1, exact=())
    assert "give --cell 5 or more, or a region" in refused("show", path, "L0H1", "--cell", 1)
    path = on_disk(tmp_path / "b.regard")
    monkeypatch.setattr("regard.cli.terminal._SLOW", 0)
    status, out, err = show(path, "L0H1", "--max", "--cell", 4)
    assert (status, err) == (0, "computing the map of L0H1; a while for so long a text\n")
    assert "max of 4×4" in out and show(path, "L0H1", "--cell", 16)[2] == ""  # it was kept


def test_json_equals_python(told, recorded):
    assert told(recorded)["stacks"] and "map" not in told(recorded, "L1H1")
    assert "map" not in told(recorded, "L0H1"), "no matrix unless asked"
    with regard.open(recorded) as rec:
        head = rec["L0H1"]
        best = head.top(3)
        row = told(recorded, "L0H1", "--row", 7, "--top", 3)["top"]
        assert [one["key"] for one in row] == best.keys[7].tolist()
        np.testing.assert_allclose([one["weight"] for one in row], best.weights[7], 1e-6)
        region = np.array(told(recorded, "L0H1", "--rows", "2:9")["weights"], float)
        np.testing.assert_array_equal(np.nan_to_num(region), head[2:9].astype(float))
        grids = told(recorded, "--stat", "entropy")["stacks"][0]["grids"]
        np.testing.assert_array_equal(grids["entropy"], rec.grid("entropy"))
        cells = told(recorded, "L0H1", "--cell", 6)["map"]["weights"]
        np.testing.assert_allclose(np.array(cells, float)[1], head.pooled(6)[1])


def test_a_patch_is_shown_by_its_row_and_column(show, seen):
    status, out, _ = show(seen, "L0H0", "--patch", "1,2")
    assert status == 0 and "row 8 (1, 2)" in out and "picture 0" in out
    assert show(seen, "L0H0", "--row", "8")[1] == show(seen, "L0H0", "--token", "(1, 2)")[1] == out


def test_who_looks_at_a_key(show, told, seen):
    _, out, _ = show(seen, "L0H0", "--key", "8")
    assert "key 8 (1, 2)" in out and show(seen, "L0H0", "--key", "1,2")[1] == out
    last = told(seen, "L0H0", "--key", "-1")
    assert (last["key"], last["token"], last["seen_by"]) == (20, "(3, 4)", 21)
    assert last["top"][0]["weight"] >= last["top"][1]["weight"]
