"""Tidy tables, line by line against the answers of the recording."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from draw.recorded import WORDS, in_memory
from regard.errors import InputError, UnavailableError
from regard.views import table as as_table
from regard.views.table import TABLES, make_table
from regard.export.chosen import Chosen
from regard.export.tables import write_csv
from regard.recording import STATISTICS


def everything(**options):
    """A recording and all its heads."""
    rec, _ = in_memory(**options)
    chosen = [
        Chosen(prompt, head, head.recorded, range(head.shape[1]))
        for prompt in rec.prompts
        for head in prompt
    ]
    return rec, chosen


def lines(what, chosen, top=3):
    """The table's rows as dicts."""
    table = make_table(what, chosen, top)
    found = []
    for chunk in table.chunks():
        assert list(chunk) == list(table.columns) or set(chunk) == set(table.columns)
        columns = [np.asarray(chunk[name]).tolist() for name in table.columns]
        found += [dict(zip(table.columns, row, strict=True)) for row in zip(*columns, strict=True)]
    assert len(found) <= table.rows
    return found


def test_statistics_are_the_grids():
    rec, chosen = everything(prompts=2)
    found = lines("statistics", chosen)
    assert len(found) == 16
    for line in found:
        for name in STATISTICS:
            wanted = rec.grid(name, prompt=line["prompt"])[line["layer"], line["head"]]
            np.testing.assert_array_equal(line[name], wanted)


def test_statistics_of_some_heads():
    rec, chosen = everything()
    some = [one for one in chosen if one.head.label in ("L0H1", "L0H3")]
    found = lines("statistics", some)
    assert [(line["layer"], line["head"]) for line in found] == [(0, 1), (0, 3)]
    assert found[1]["peak"] == rec.grid("peak")[0, 3]


def test_rows():
    rec, chosen = everything()
    found = lines("rows", chosen)
    assert len(found) == 8 * len(WORDS)
    line = found[len(WORDS) + 5]
    assert (line["layer"], line["head"], line["row"], line["rows"]) == (0, 1, 5, 1)
    assert line["token"] == WORDS[5]
    assert line["entropy"] == rec["L0H1"].entropy()[5] and line["lse"] == rec["L0H1"].lse[5]


def test_rows_of_which_little_is_known():
    _, chosen = everything(statistics=False)
    kept = [line for line in lines("rows", chosen) if line["layer"] == 1]
    assert np.isfinite(kept[0]["lse"]) and np.isnan(kept[0]["entropy"])


def test_top():
    rec, chosen = everything()
    found = lines("top", chosen)
    best = rec["L0H2"].top(3)
    own = [line for line in found if (line["layer"], line["head"]) == (0, 2)]
    assert {line["row"] for line in own} == set(range(len(WORDS)))
    for line in own:
        at = line["row"], line["rank"] - 1
        assert line["key"] == best.keys[at] and line["weight"] == best.weights[at]
        assert line["token"] == WORDS[line["key"]]
    assert sum(line["row"] == 0 for line in own) == 1  # it sees one key


def test_received():
    rec, chosen = everything()
    found = lines("received", chosen)
    own = [line for line in found if (line["layer"], line["head"]) == (1, 0)]
    mass = rec["L1H0"].received()
    assert [line["received"] for line in own] == mass.tolist()
    assert [line["token"] for line in own] == WORDS and own[3]["keys"] == 1


def test_weights(monkeypatch):
    monkeypatch.setattr(as_table, "_AT_ONCE", 30)  # several pieces a head
    _, chosen = everything(exact=(0, 1))
    found = lines("weights", chosen)
    dense = np.zeros((2, 4, 12, 12), np.float32)
    for line in found:
        dense[line["layer"], line["head"], line["query"], line["key"]] = line["weight"]
    for one in chosen:
        np.testing.assert_array_equal(dense[one.head.layer, one.head.head], np.asarray(one.head))


def test_weights_of_a_region():
    rec, _ = in_memory()
    one = Chosen(rec.prompts[0], rec["L0H1"], range(6, 9), range(2, 5))
    found = lines("weights", [one])
    assert len(found) == 9 and {line["query"] for line in found} == {6, 7, 8}
    assert found[0]["weight"] == rec["L0H1"][6, 2]


def test_a_long_table_is_never_held_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(as_table, "_AT_ONCE", 2_000)
    rec, _ = in_memory(["x"] * 500, layers=1, statistics=False)
    one = Chosen(rec.prompts[0], rec["L0H1"], range(500), range(500))
    table = make_table("weights", [one], 3)
    sizes: list[int] = []
    write_csv(table, tmp_path / "warm.csv")  # q and k are read, caches are filled
    tracemalloc.start()
    write_csv(table, tmp_path / "a.csv", sizes.append)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(sizes) == 500 * 501 // 2 and len(sizes) == 125
    assert peak < (tmp_path / "a.csv").stat().st_size  # its columns alone are ten times as much


def test_too_many_weights_are_refused(monkeypatch):
    _, chosen = everything(exact=(0, 1))
    monkeypatch.setattr(as_table, "MOST_WEIGHTS", 100)
    with pytest.raises(InputError, match=r"up to 1,152 lines, more than 100; name fewer with"):
        make_table("weights", chosen, 3)


def test_weights_need_single_cells():
    with pytest.raises(UnavailableError, match="L1H0: it did not fit"):
        make_table("weights", everything()[1], 3)


def test_a_recording_without_tokens():
    rec, _ = in_memory()
    rec.prompts[0].streams.clear()
    one = Chosen(rec.prompts[0], rec["L0H0"], range(12), range(12))
    assert lines("rows", [one])[0]["token"] == ""


def test_every_table_is_offered():
    assert list(TABLES) == ["statistics", "rows", "top", "received", "weights"]
