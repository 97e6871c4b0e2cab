"""`regard export`: every format read back."""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import regard
from cli.conftest import PATCHES
from regard.axes import Axis
from regard.recording.format.write import extend
from regard.views.table import TABLES
from support.recordings import (
    WORDS,
    on_disk,
)
from support.recordings.planted import mixed, record_planted, targets, text


@pytest.fixture
def export(shell, file):
    """The verb with run.regard: status, stdout, stderr."""
    return partial(shell, "export", file)


def table(path: Path) -> list[dict[str, str]]:
    """A CSV file as dicts."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def arrays(path: Path) -> dict[str, np.ndarray]:
    """As others read them."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as found:
            return dict(found)
    from safetensors.numpy import load_file

    return load_file(path)


def test_statistics_as_csv(export, file, tmp_path):
    path = tmp_path / "run.statistics.csv"
    status, out, err = export("--to", "csv")
    assert (status, err) == (0, "")
    assert out == f"written: {path} (16 rows, {path.stat().st_size:,} bytes)\n"
    assert {line["prompt"] for line in table(path)} == {"0", "1"}
    assert export("--to", "CSV", "--prompt", 1, "--overwrite")[0] == 0
    assert {line["prompt"] for line in table(path)} == {"1"}


def test_numbers_left_empty_are_explained_once(export, monkeypatch):
    why = "for want of keys"
    monkeypatch.setattr("regard.views.text.why_unknown", lambda *_: why)
    assert export("--to", "csv")[2] == f"{why}\n"
    assert export("--to", "csv", "--what", "rows")[2] == ""


@pytest.fixture(scope="module")
def rich(tmp_path_factory):
    """Heads that have labels, a picture's positions and a training run."""
    path, ids = tmp_path_factory.mktemp("rich") / "run.regard", text(40)
    aims = targets(ids)
    weights = [[mixed(aims[kind], 0.0, 0.9, 0.2) for kind in ("previous", "self")]]
    record_planted(np.array(weights), ids, path)
    note = {"places": ["L0"], "statistics": {"peak": "heaviest weight"}}
    alarm = {
        "kind": "score growth", "head": "L0H1", "step": 9, "statistic": "peak", "value": 0.1,
        "threshold": 0.5,
    }  # fmt: skip
    with extend(path) as writer:
        writer.note({"training": json.dumps(note), "training/alarms": json.dumps([alarm])})
        writer.add("training/steps/0", np.array([3, 9]))
        writer.add("training/peak/0", np.array([[[0.25, 0.1]], [[0.3, np.nan]]], np.float32))
    return path


@pytest.mark.parametrize("what", TABLES)
def test_what_is_written_is_what_python_gives(shell, rich, tmp_path, what):
    from pyarrow import parquet

    for to in ("csv", "parquet"):
        words = ("--to", to, "--what", what, "-o", tmp_path / f"a.{to}")
        assert shell("export", rich, *words)[0] == 0
    lines, stored = table(tmp_path / "a.csv"), parquet.read_table(tmp_path / "a.parquet")
    with regard.open(rich) as rec:
        wanted = rec.table(what)
        assert stored.equals(wanted.to_arrow()) and len(lines) == len(wanted) > 0
        assert stored.schema.equals(wanted.arrow_schema(), check_metadata=True)
        assert list(lines[0]) == [column.name for column in wanted.schema] == stored.column_names
        for name, column in wanted.columns.items():
            cells = [line[name] for line in lines]
            if column.dtype == object:
                assert [cell.removeprefix("'") for cell in cells] == column.tolist()
            else:  # to the bit, in the precision it has
                read = np.array([cell or "nan" for cell in cells], column.dtype)
                np.testing.assert_array_equal(read, column)


def test_top_keys_of_some_heads_and_rows(export, file, tmp_path):
    words = ("--heads", "L0H1,L1H*", "--top", 2, "--rows", "-3:", "--prompt", 0)
    status, out, _ = export("--to", "csv", "-o", "best.csv", "--what", "top", *words)
    assert status == 0 and out.startswith("written: best.csv (")
    lines = table(tmp_path / "best.csv")
    assert {line["layer"] + line["head"] for line in lines} == {"01", "10", "11", "12", "13"}
    with regard.open(file) as rec:
        best = rec["L0H1"].top(2)
        for line in lines[:6]:
            at = int(line["row"]), int(line["rank"]) - 1
            assert int(line["key"]) == best.keys[at] and line["token"] == WORDS[best.keys[at]]
            assert np.float32(line["weight"]) == np.float32(best.weights[at])


@pytest.mark.parametrize("to", ["npz", "safetensors"])
def test_arrays_are_those_of_the_recording(export, file, tmp_path, to):
    path = tmp_path / f"run.{to}"
    status, out, _ = export("--to", to)
    assert status == 0 and out.startswith(f"written: {path} (")
    with regard.open(file) as rec:
        for label in rec.labels():
            for name in ("lse", "entropy", "received", "pooled"):
                wanted = rec[label].stored[name].values
                np.testing.assert_array_equal(arrays(path)[f"P0/{label}/{name}"], wanted)
        words = ("--what", "weights, lse", "--heads", "L0", "--overwrite")
        assert export("--to", to, *words)[0] == 0
        np.testing.assert_array_equal(arrays(path)["P0/L0H3/weights"], np.asarray(rec["L0H3"]))
        assert arrays(path)["P0/L0H3/lse"].shape == (12,)


def test_json_says_what_was_written(export, tmp_path):
    path = tmp_path / "run.received.csv"
    assert json.loads(export("--to", "csv", "--what", "received", "--json")[1]) == {
        "file": str(path), "format": "csv", "rows": 192, "bytes": path.stat().st_size,
        "what": ["received"],
    }  # fmt: skip
    facts = json.loads(export("--to", "npz", "--json")[1])
    assert facts["arrays"] > 50 and facts["what"] is None


def test_a_folder_of_ranks(shell, tmp_path):
    (tmp_path / "ranks").mkdir()
    on_disk(tmp_path / "ranks" / "rank-0000.regard")
    assert shell("export", tmp_path / "ranks", "--to", "csv")[0] == 0
    assert len(table(tmp_path / "ranks.statistics.csv")) == 8


def test_stacks_by_name(shell, stacks, tmp_path):
    shell("export", stacks, "--to", "csv")
    lines = table(tmp_path / "stacks.statistics.csv")
    assert {line["stack"] for line in lines} == {"encoder", "cross"}
    words = ("--what", "statistics,weights", "--heads", "cross.L0H1")
    shell("export", stacks, "--to", "npz", *words)
    given = arrays(tmp_path / "stacks.npz")
    with regard.open(stacks) as rec:
        np.testing.assert_array_equal(given["P0/cross.L0H1/weights"], np.asarray(rec["cross.L0H1"]))
        np.testing.assert_array_equal(given["P0/cross/statistics/peak"], rec.grid("peak", "cross"))


def test_arrays_come_with_their_axes(shell, seen, tmp_path):
    shell("export", seen, "--to", "npz", "--what", "weights")
    given = arrays(tmp_path / "seen.npz")
    stored = Axis.from_json(json.loads(str(given["about/P0/L0/axes"]))["key"])
    assert stored == PATCHES
    assert stored.grids()[0][1].lay(given["P0/L0H0/weights"][8]).shape == (1, 4, 5)
    shell("export", seen, "--to", "csv", "--what", "positions")
    assert len(table(tmp_path / "seen.positions.csv")) == 2 * 2 * 21


def test_a_mistake_on_the_way_leaves_nothing(refused, file, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("regard.export.write_npz", full)
    line = refused("export", file, "--to", "npz", status=3)
    assert "cannot be written (No space left on device)" in line


@pytest.mark.parametrize("to", ["csv", "npz"])
def test_progress_where_stderr_is_a_terminal(shell, file, monkeypatch, to):
    monkeypatch.setenv("TERM", "xterm")
    status, out, err = shell("export", file, "--to", to, terminal=True)
    assert status == 0 and out.startswith("written: ") and "100%" in err
