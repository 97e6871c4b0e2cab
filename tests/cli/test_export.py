"""`regard export` as a shell sees it: every format read back, and what goes wrong."""

from __future__ import annotations

import csv
import io
import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from regard.recording import STATISTICS, Writer, open
from regard.recording.format.write import extend
from regard.views.table import TABLES
from support.recordings import (
    HOSTILE,
    WORDS,
    Chunk,
    causal,
    on_disk,
    write_prompt,
    write_recording,
)
from support.recordings.planted import mixed, record_planted, targets, text


@pytest.fixture
def file(tmp_path):
    """A recording of two layers; of the second only summaries were kept."""
    return on_disk(tmp_path / "run.regard")


@pytest.fixture
def export(shell):
    """The verb: status, stdout, stderr."""
    return partial(shell, "export")


@pytest.fixture
def fails(export, tmp_path):
    """The one line a wrong command ends with; nothing is left behind."""

    def run(*words: object, status: int = 2) -> str:
        before = sorted(tmp_path.rglob("*"))
        found, out, err = export(*words)
        assert (found, out) == (status, "")
        assert err.startswith("regard: ") and err.count("\n") == 1
        assert sorted(tmp_path.rglob("*")) == before
        return err.strip()

    return run


def table(path: Path) -> list[dict[str, str]]:
    """A CSV file as dicts."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_numbers_left_empty_are_explained_once(export, tmp_path, monkeypatch):
    file = on_disk(tmp_path / "run.regard", prompts=2)
    why = "for want of keys"
    monkeypatch.setattr("regard.views.text.why_unknown", lambda *_: why)
    assert export(file, "--to", "csv")[2] == f"{why}\n"
    assert export(file, "--to", "csv", "--what", "rows")[2] == ""


def test_statistics_as_csv(export, file, tmp_path):
    status, out, err = export(file, "--to", "csv")
    path = tmp_path / "run.statistics.csv"
    assert (status, err) == (0, "")
    assert out == f"written: {path} (8 rows, {path.stat().st_size:,} bytes)\n"
    with open(file) as rec:
        for line in table(path):
            for name in STATISTICS:
                wanted = rec.grid(name)[int(line["layer"]), int(line["head"])]
                assert float(line[name] or "nan") == wanted or np.isnan(wanted)


@pytest.fixture(scope="module")
def rich(tmp_path_factory):
    """Heads that have labels, and a training run."""
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
def test_what_is_written_is_what_python_gives(export, rich, tmp_path, what):
    from pyarrow import parquet

    for to in ("csv", "parquet"):
        assert export(rich, "--to", to, "--what", what, "-o", tmp_path / f"a.{to}")[0] == 0
    lines, stored = table(tmp_path / "a.csv"), parquet.read_table(tmp_path / "a.parquet")
    with open(rich) as rec:
        wanted = rec.table(what)
        assert stored.equals(wanted.to_arrow()) and len(lines) == len(wanted) > 0
        assert stored.schema.equals(wanted.arrow_schema(), check_metadata=True)
        assert list(lines[0]) == [one.name for one in wanted.schema] == stored.column_names
        for name, column in wanted.columns.items():
            cells = [line[name] for line in lines]
            if column.dtype == object:
                assert [cell.removeprefix("'") for cell in cells] == column.tolist()
            else:  # to the bit, in the precision it has
                read = np.array([cell or "nan" for cell in cells], column.dtype)
                np.testing.assert_array_equal(read, column)


def test_parquet_holds_the_same(export, file, tmp_path):
    from pyarrow import parquet

    assert export(file, "--to", "parquet", "--what", "rows")[0] == 0
    assert export(file, "--to", "csv", "--what", "rows")[0] == 0
    found = parquet.read_table(tmp_path / "run.rows.parquet").to_pylist()
    for line, plain in zip(found, table(tmp_path / "run.rows.csv"), strict=True):
        assert line["token"] == plain["token"] and line["row"] == int(plain["row"])
        assert line["entropy"] == pytest.approx(float(plain["entropy"]), rel=1e-6, abs=1e-12)


def test_top_keys_of_some_heads(export, file, tmp_path):
    out = tmp_path / "best.csv"
    words = ("--what", "top", "--heads", "L0H1,L1H*", "--top", 2, "--rows", "-3:")
    assert export(file, "--to", "csv", "-o", out, *words)[0] == 0
    found = table(out)
    assert {(line["layer"], line["head"]) for line in found} == {
        ("0", "1"), ("1", "0"), ("1", "1"), ("1", "2"), ("1", "3"),
    }  # fmt: skip
    with open(file) as rec:
        best = rec["L0H1"].top(2)
        for line in found[:6]:
            at = int(line["row"]), int(line["rank"]) - 1
            assert int(line["key"]) == best.keys[at]
            assert np.float32(line["weight"]) == np.float32(best.weights[at])
            assert line["token"] == WORDS[best.keys[at]]


@pytest.mark.parametrize("to", ["npz", "safetensors"])
def test_arrays(export, file, tmp_path, to):
    status, out, _ = export(file, "--to", to)
    assert status == 0 and out.startswith(f"written: {tmp_path / f'run.{to}'} (")
    found = read_arrays(tmp_path / f"run.{to}")
    with open(file) as rec:
        for label in rec.labels():
            for name in ("lse", "entropy", "received", "pooled"):
                wanted = rec[label].stored[name].values
                np.testing.assert_array_equal(found[f"P0/{label}/{name}"], wanted)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """As others read them."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as found:
            return dict(found)
    from safetensors.numpy import load_file

    return load_file(path)


def test_dense_weights_for_other_tools(export, file, tmp_path):
    assert export(file, "--to", "npz", "--what", "weights,lse", "--heads", "L0")[0] == 0
    with open(file) as rec, np.load(tmp_path / "run.npz") as found:
        dense = np.asarray(rec["L0H3"])
        np.testing.assert_array_equal(found["P0/L0H3/weights"], dense)
        assert found["P0/L0H3/lse"].shape == (12,)


def test_json_says_what_was_written(export, file, tmp_path):
    value = json.loads(export(file, "--to", "csv", "--what", "received", "--json")[1])
    path = tmp_path / "run.received.csv"
    assert value == {
        "file": str(path), "format": "csv", "rows": 96, "bytes": path.stat().st_size,
        "what": ["received"],
    }  # fmt: skip
    value = json.loads(export(file, "--to", "npz", "--json")[1])
    assert value["arrays"] > 50 and value["what"] is None


def test_one_prompt_or_all(export, tmp_path):
    path = on_disk(tmp_path / "two.regard", prompts=2)
    export(path, "--to", "csv")
    assert {line["prompt"] for line in table(tmp_path / "two.statistics.csv")} == {"0", "1"}
    export(path, "--to", "csv", "--prompt", 1, "--overwrite")
    assert {line["prompt"] for line in table(tmp_path / "two.statistics.csv")} == {"1"}


def test_a_folder_of_ranks(export, tmp_path):
    folder = tmp_path / "ranks"
    folder.mkdir()
    on_disk(folder / "rank-0000.regard")
    assert export(folder, "--to", "csv")[0] == 0
    assert len(table(tmp_path / "ranks.statistics.csv")) == 8


def test_stacks_by_name(export, tmp_path):
    path = tmp_path / "stacks.regard"
    with Writer(path) as writer:
        write_recording(writer, chunks=causal(12), stack="encoder")
        write_prompt(
            writer, [Chunk((0, 7), (0, 12))], stack="cross", kind="cross", tokens=False, note=False
        )
    export(path, "--to", "csv")
    assert {line["stack"] for line in table(tmp_path / "stacks.statistics.csv")} == {
        "encoder", "cross",
    }  # fmt: skip
    export(path, "--to", "npz", "--what", "statistics,weights", "--heads", "cross.L0H1")
    with open(path) as rec, np.load(tmp_path / "stacks.npz") as found:
        np.testing.assert_array_equal(found["P0/cross.L0H1/weights"], np.asarray(rec["cross.L0H1"]))
        grid = rec.grid("peak", "cross")
        np.testing.assert_array_equal(found["P0/cross/statistics/peak"], grid)


def test_tokens_of_any_kind_come_back(export, tmp_path):
    hostile = [token for token in HOSTILE if token != "\ud800"]
    path = on_disk(tmp_path / "a.regard", hostile)
    export(path, "--to", "csv", "--what", "received", "--heads", "L0H0")
    found = [line["token"].removeprefix("'") for line in table(tmp_path / "a.received.csv")]
    assert found == hostile


def test_what_is_no_text_does_not_stop_a_table(export, tmp_path):
    path = on_disk(tmp_path / "a.regard", HOSTILE)
    for to in ("csv", "parquet", "npz", "safetensors"):
        assert export(path, "--to", to, "--what", "received")[0] == 0


def test_files_are_not_overwritten_by_accident(export, fails, file, tmp_path):
    path = tmp_path / "run.statistics.csv"
    path.write_text("mine")
    assert "exists already; give another name, or --overwrite" in fails(file, "--to", "csv")
    assert path.read_text() == "mine"
    assert export(file, "--to", "csv", "--overwrite")[0] == 0
    assert path.read_text() != "mine"


def test_the_recording_itself_is_never_overwritten(fails, file):
    said = fails(file, "--to", "npz", "-o", file, "--overwrite")
    assert "the recording itself; give another name" in said


def test_a_mistake_on_the_way_leaves_nothing(fails, file, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("regard.export.write_npz", full)
    said = fails(file, "--to", "npz", status=3)
    assert "cannot be written (No space left on device)" in said


@pytest.mark.parametrize("to", ["csv", "npz"])
def test_progress_where_somebody_looks(export, file, monkeypatch, to):
    screen = Console(file=io.StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr("regard.cli.export.status", lambda: screen)
    status, out, _ = export(file, "--to", to)
    assert status == 0 and out.startswith("written: ")
    assert "100%" in screen.file.getvalue()


def test_without_pyarrow(fails, file, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'regard[parquet]'" in fails(file, "--to", "parquet")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "xlsx"], "--to 'xlsx': give one of csv, parquet, npz, safetensors"),
        (["--to", "csv", "--what", "qk"], "--to csv takes statistics, rows, top, received"),
        (["--to", "csv", "--what", "rows,top"], "--what rows,top: a table holds one of them"),
        (["--to", "npz", "--what", "magic"], "--to npz takes statistics, rows, lse"),
        (["--to", "csv", "--heads", "L7"], "heads 'L7': means no recorded head"),
        (["--to", "csv", "--prompt", "3"], "prompt 3 does not exist; this recording has 0"),
        (["--to", "csv", "--rows", "1:2"], "--rows: statistics are of whole heads"),
        (["--to", "csv", "--what", "rows", "--rows", "9:99"], "rows 9:99: not a part of"),
        (["--to", "csv", "--what", "rows", "--rows", "x"], "--rows 'x': give a range such as"),
        (["--to", "csv", "--what", "rows", "--keys", "1"], "keys: rows cannot be restricted to"),
        (["--to", "csv", "--what", "training"], "no training was monitored here"),
        (["--to", "csv", "--what", "top", "--top", "0"], "--top 0: give a number of keys ≥ 1"),
        (["--to", "csv", "--what", "weights"], "name heads of other layers"),
        (["--to", "npz", "--what", "qk"], "name heads of other layers"),
    ],
)
def test_mistakes_name_the_fix(fails, file, words, message):
    assert message in fails(file, *words)


def test_places_that_cannot_be_written(fails, file, tmp_path):
    said = fails(file, "--to", "csv", "-o", tmp_path / "none" / "a.csv", status=3)
    assert "give a folder that exists and may be written to" in said
    assert "a folder, not a file; give" in fails(file, "--to", "csv", "-o", tmp_path)


def test_files_that_are_no_recordings(fails, tmp_path):
    (tmp_path / "text.regard").write_text("text")
    fails(tmp_path / "text.regard", "--to", "csv", status=3)
    fails(tmp_path / "none.regard", "--to", "csv", status=3)


def test_nothing_recorded_yet(fails, tmp_path):
    with Writer(tmp_path / "empty.regard") as writer:
        writer.note({"contents": "attention/1"})
    assert "nothing was recorded yet" in fails(tmp_path / "empty.regard", "--to", "csv")
