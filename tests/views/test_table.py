"""Tidy tables, line by line against the answers of the recording."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pyarrow
import pytest
import torch

import regard
from regard.errors import FileError, InputError, UnavailableError
from regard.export import write_csv
from regard.recording import STATISTICS, Memory, Recording
from regard.study import make_report
from regard.views import table as tables
from support.recordings import WORDS, causal, in_memory, write_recording
from support.recordings.planted import Planted, Words, mixed, targets, text


def lines(rec, what, **options):
    """The table's rows as dicts."""
    table = rec.table(what, **options)
    names, found = [one.name for one in table.schema], []
    assert len(set(names)) == len(names)
    for chunk in table.chunks():
        assert set(chunk) == set(names)
        columns = [np.asarray(chunk[name]).tolist() for name in names]
        found += [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    assert len(found) == len(table)
    assert table.at_most is None or len(found) <= table.at_most
    return found


@pytest.mark.parametrize(("heads", "count"), [(None, 16), ("L0H1,L0H3", 4)])
def test_statistics_are_the_grids(heads, count):
    rec, _ = in_memory(prompts=2)
    table = lines(rec, "statistics", heads=heads)
    assert len(table) == count
    for line in table:
        for name in STATISTICS:
            wanted = rec.grid(name, prompt=line["prompt"])[line["layer"], line["head"]]
            np.testing.assert_array_equal(line[name], wanted)


def test_rows():
    rec, _ = in_memory()
    found = lines(rec, "rows")
    assert len(found) == 8 * len(WORDS)
    line = found[len(WORDS) + 5]
    assert (line["layer"], line["head"], line["row"], line["rows"]) == (0, 1, 5, 1)
    assert line["token"] == WORDS[5]
    assert line["entropy"] == rec["L0H1"].entropy()[5] and line["lse"] == rec["L0H1"].lse[5]
    rec.prompts[0].streams.clear()
    assert lines(rec, "rows", heads="L0H0")[0]["token"] == ""
    rec, _ = in_memory(statistics=False)  # of which little is known
    kept = lines(rec, "rows", heads="L1")
    assert np.isfinite(kept[0]["lse"]) and np.isnan(kept[0]["entropy"])


def test_top():
    rec, _ = in_memory()
    found = lines(rec, "top", top=3)
    best = rec["L0H2"].top(3)
    own = [line for line in found if (line["layer"], line["head"]) == (0, 2)]
    assert {line["row"] for line in own} == set(range(len(WORDS)))
    for line in own:
        at = line["row"], line["rank"] - 1
        assert line["key"] == best.keys[at] and line["weight"] == best.weights[at]
        assert line["token"] == WORDS[line["key"]]
    assert sum(line["row"] == 0 for line in own) == 1  # it sees one key


def test_received():
    rec, _ = in_memory()
    found = lines(rec, "received")
    own = [line for line in found if (line["layer"], line["head"]) == (1, 0)]
    mass = rec["L1H0"].received()
    assert [line["received"] for line in own] == mass.tolist()
    assert [line["token"] for line in own] == WORDS and own[3]["keys"] == 1


def test_weights(monkeypatch):
    monkeypatch.setattr(tables, "_AT_ONCE", 30)  # several chunks a head
    rec, _ = in_memory(exact=(0, 1))
    dense = np.zeros((2, 4, 12, 12), np.float32)
    for line in lines(rec, "weights"):
        dense[line["layer"], line["head"], line["query"], line["key"]] = line["weight"]
    for head in rec:
        np.testing.assert_array_equal(dense[head.layer, head.head], np.asarray(head))
    region = lines(rec, "weights", heads="L0H1", rows=range(6, 9), keys=slice(2, 5))
    assert len(region) == 9 and {line["query"] for line in region} == {6, 7, 8}
    assert region[0]["weight"] == rec["L0H1"][6, 2]


def test_a_long_table_is_never_held_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_AT_ONCE", 2_000)
    rec, _ = in_memory(["x"] * 400, layers=1, statistics=False)
    table = rec.table("weights", heads="L0H1")
    sizes: list[int] = []
    write_csv(table, tmp_path / "warm.csv")  # q and k are read, caches are filled
    tracemalloc.start()
    write_csv(table, tmp_path / "a.csv", sizes.append)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(sizes) == 400 * 401 // 2 and max(sizes) <= 2_000
    assert peak < (tmp_path / "a.csv").stat().st_size  # its columns alone are ten times as much


def test_findings_are_those_of_the_report():
    ids = text(90, seed=4)
    aims = targets(ids, seed=4)
    model = Planted(np.array([[mixed(aims[kind], 0.0, 0.9, 0.2) for kind in ("previous", "self")]]))
    with torch.no_grad(), regard.record(model, tokenizer=Words()) as rec:
        for _ in range(2):
            model(torch.tensor(ids)[None])
    found = lines(rec, "findings")
    for prompt in (0, 1):
        wanted = make_report(rec, prompt).found
        own = [line for line in found if line["prompt"] == prompt]
        assert wanted and [(line["label"], line["pattern"]) for line in own] == [
            (one.head.label, one.finding.name) for one in wanted
        ]
        for line, one in zip(own, wanted, strict=True):
            assert line["sentence"] == one.sentence and line["surprise"] == one.surprise
            np.testing.assert_array_equal(
                [line["score"], line["chance"], line["p_value"]],
                [one.finding.score, one.finding.chance, one.finding.p_value],
            )
    one = found[0]
    some = lines(rec, "findings", heads=one["label"], prompt=one["prompt"])
    assert some[0] == one and {line["label"] for line in some} == {one["label"]}


def test_statistics_over_all_texts():
    rec, _ = in_memory(prompts=2)
    merged = rec.merged()
    found = lines(rec, "merged", heads="L1")
    assert [line["head"] for line in found] == [0, 1, 2, 3]
    for line in found:
        for name in STATISTICS:
            wanted = merged.grid(name)[line["layer"], line["head"]]
            np.testing.assert_array_equal(line[name], wanted)
    again = merged.table(heads="L1").columns
    for name, column in rec.table("merged", heads="L1").columns.items():
        np.testing.assert_array_equal(again[name], column)


# ── a training run ───────────────────────────────────────────────────────────────────────────


def trained(alarms=(), steps=(0, 10, 20)) -> Recording:
    """Two statistics of L0 (two heads) and cross.L1 (one)."""
    store, words = Memory(), {"max_score": "largest score", "peak": "heaviest weight"}
    note = {"places": ("L0", "cross.L1"), "statistics": words}
    store.note({"contents": "attention/1", "training": json.dumps(note)})
    store.note({"training/alarms": json.dumps(alarms)})
    store.add("training/steps/0", np.array(steps, np.int64))
    for number, name in enumerate(words):
        values = np.array(steps, np.float32)[:, None, None] + number + np.zeros((2, 2), np.float32)
        values[:, 1, 1] = np.nan
        store.add(f"training/{name}/0", values.astype(np.float32))
    return Recording(store)


def test_a_training_run(monkeypatch):
    monkeypatch.setattr(tables, "_AT_ONCE", 6)  # two steps a chunk
    rec = trained()
    found = lines(rec, "training")
    assert len(found) == 3 * 3 * 2
    wanted = [("", 0, 0, "L0H0"), ("", 0, 1, "L0H1"), ("cross", 1, 0, "cross.L1H0")]
    assert [tuple(line[n] for n in ("stack", "layer", "head", "label")) for line in found] == [
        *wanted * 6
    ]
    for line in found:
        assert line["value"] == line["step"] + (line["statistic"] == "peak")
    some = lines(rec, "training", heads="cross.L1")
    assert [line["step"] for line in some] == [0, 10, 20] * 2
    about = json.loads(rec.table("training").about["statistics"])
    assert about == {"max_score": "largest score", "peak": "heaviest weight"}


def test_the_loss_of_a_run():
    rec = trained()
    rec.store.add("training/loss/0", np.array([2.5, np.nan, 1.5], np.float32))
    found = lines(rec, "training")
    assert len(found) == 3 * 3 * 2 + 3 == len(rec.table("training"))
    own = [line for line in found if line["statistic"] == "loss"]
    assert [line["step"] for line in own] == [0, 10, 20]
    np.testing.assert_array_equal([line["value"] for line in own], [2.5, np.nan, 1.5])
    assert {(line["label"], line["layer"], line["head"]) for line in own} == {("", -1, -1)}
    assert len(lines(rec, "training", heads="cross.L1")) == 3 * 2  # the loss is of no head


ALARM = {
    "kind": "score growth", "head": "cross.L1H0", "step": 20, "statistic": "max_score",
    "value": 120.5, "threshold": 100.0,
}  # fmt: skip


def test_alarms():
    rec = trained([ALARM])
    (line,) = lines(rec, "alarms")
    assert line == {
        "step": 20, "stack": "cross", "layer": 1, "head": 0, "label": "cross.L1H0",
        "kind": "score growth", "statistic": "max_score", "value": 120.5, "threshold": 100.0,
    }  # fmt: skip
    assert lines(rec, "alarms", heads="L0") == [] == lines(trained(), "alarms")
    (odd,) = lines(trained([ALARM | {"head": "nonsense"}]), "alarms")
    assert (odd["stack"], odd["layer"], odd["head"]) == ("nonsense", -1, -1)
    with pytest.raises(FileError, match="an alarm at a step"):
        trained([ALARM | {"step": 10**30}]).table("alarms")


# ── what it says of itself ───────────────────────────────────────────────────────────────────


def test_what_columns_mean_comes_from_the_statistics():
    rec, _ = in_memory()
    schema = {one.name: one for one in rec.table().schema}
    assert schema["sink"].words == STATISTICS["sink"].words and schema["entropy"].unit == "nats"
    rows = {one.name: one for one in rec.table("rows").schema}
    assert rows["entropy"].words == regard.Entropy.words and rows["entropy"].unit == "nats"
    assert rows["output_norm"].words == "‖o‖"
    found = rec.table("rows", prompt=0).arrow_schema()
    assert found.field("entropy").metadata == {
        b"words": b"how spread out a row is",
        b"unit": b"nats",
    }
    assert found.metadata[b"regard.model"] == b"tiny" and found.metadata[b"regard.table"] == b"rows"
    assert json.loads(found.metadata[b"regard.prompts"]) == {"0": "text 0"}


def test_a_statistic_of_a_recording_is_a_column_and_hides_none():
    store, made = write_recording(chunks=causal(9))
    note = {name: {"words": f"what {name} means"} for name in ("layer", "own")}
    store.note({"statistics": json.dumps(note)})
    for name in note:
        store.add(f"P0/L0/{name}/0", np.full((4, made.place.queries), 0.5, np.float32))
    rec = Recording(store)
    for what in ("statistics", "rows"):
        line = lines(rec, what)[0]
        assert line["layer"] == 0 and {"layer_", "own"} <= set(line)
    assert line["layer_"] == line["own"] == 0.5
    words = {one.name: one.words for one in rec.table().schema}
    assert words["layer_"] == "what layer means"


def test_single_rows_of_a_kept_statistic_are_computed_where_it_was_binned():
    layer = regard.nn.SelfAttention(8)
    with torch.no_grad(), regard.record(layer, statistics=regard.Distance()) as rec:
        layer(torch.randn(1, 40, 8))
    found = rec.table("rows", heads="L0H0").columns  # `regard.record` answers as a recording
    np.testing.assert_allclose(found["distance"], rec["L0H0"].distance(), rtol=1e-5)


def test_arrow_reads_it_chunk_by_chunk():
    rec, _ = in_memory(exact=(0, 1))
    for what in ("statistics", "rows", "top", "received", "weights", "findings", "merged"):
        table = rec.table(what)
        found = pyarrow.table(table)
        assert found.schema.equals(table.arrow_schema(), check_metadata=True)
        assert found.equals(table.to_arrow())
        for name, column in table.columns.items():
            read = found[name].to_numpy(zero_copy_only=False)
            np.testing.assert_array_equal(read, column)
    reader = pyarrow.RecordBatchReader.from_stream(rec.table("rows"))
    assert [batch.num_rows for batch in reader] == [len(WORDS)] * 8


# ── refusals ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        ("training", {}, "no training was monitored here"),
        ("alarms", {}, "no training was monitored here"),
        ("weights", {"heads": "L0"}, "up to 576 lines, more than 200; name fewer heads"),
        ("weights", {"heads": "L1H0"}, "L1H0: it did not fit"),
        ("magic", {}, "no table 'magic'; there are statistics, rows"),
        ("rows", {"heads": "L7"}, "heads 'L7': means no recorded head"),
        ("findings", {"heads": ["L7"]}, "heads 'L7': means no recorded head"),
        ("rows", {"rows": slice(9, 99)}, "rows 9:99: not a part of what there is; that is 0:12"),
        ("rows", {"prompt": 3}, "prompt 3 does not exist"),
        ("rows", {"keys": 3}, "keys: rows cannot be restricted to keys; leave it out"),
        ("statistics", {"rows": 3}, "rows: statistics cannot be restricted to rows"),
        ("merged", {"prompt": 0}, "prompt: merged cannot be restricted to prompt"),
        ("top", {"top": 0}, "top 0: give a number of keys ≥ 1"),
    ],
)
def test_mistakes_are_found_before_anything_is_read(what, options, message, monkeypatch):
    monkeypatch.setattr(tables, "MOST_WEIGHTS", 200)
    with pytest.raises((InputError, UnavailableError), match=message):
        in_memory()[0].table(what, **options)
