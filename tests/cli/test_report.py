"""`regard report`: labels with their numbers, evictions, knock-outs, training runs, the page."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from real_models import smollm2
from regard.recorder.drive import drive
from regard.recorder.tokens import Encoded
from regard.recording import Writer
from regard.recording.schema import CONTENTS
from support.recordings.planted import KINDS, mixed, record_planted, targets, text
from viewer.shell import Elements


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A recording of one head of each kind, and of the same with half of their mass on a sink."""
    ids = text(160, seed=4)
    aims = targets(ids, seed=4)
    layers = [[mixed(aims[kind], sink, 0.9, 0.2, n) for n, kind in enumerate(KINDS)]
              for sink in (0.0, 0.5)]  # fmt: skip
    path = tmp_path_factory.mktemp("report") / "run.regard"
    record_planted(np.array(layers), ids, path)
    return path


@pytest.fixture
def report(shell, planted):
    """The verb with the planted recording: status, stdout, stderr."""
    return partial(shell, "report", planted)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_labels_with_numbers_and_rows(report, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    status, out, err = report("--top", 40)
    assert (status, err) == (0, "") and max(map(len, out.splitlines())) <= columns
    flat = " ".join(out.split())
    assert "160 tokens, 18 heads" in flat
    assert (
        "L0H0 looks at the token before (0.90 of its mass; chance 0.029); best seen at row" in flat
    )
    assert "of what is not on sinks" in flat and "deviations from its layer" in flat
    assert flat.index("not why the model answers") < flat.index("best seen at")
    assert "knock the head out" in flat and "not looked for: retrieval" in flat


def test_json_is_whole_and_plain(report):
    status, out, _ = report("--json", "--top", 2, "--needle", "10:20")
    document = json.loads(out)
    assert status == 0 and out.isascii()
    assert len(document["findings"]) == 2 and len(document["heads"]) == 18
    assert document["heads"][0]["labels"] == ["previous"]
    assert document["caveat"] and document["findings"][0]["rows"]
    assert document["unknown"]["retrieval"] == "the recording has no generated tokens"


@pytest.mark.parametrize(
    ("name", "words", "start"),
    [
        ("a.md", "", "# What the heads do"),
        ("a.json", "", "{"),
        ("a.txt", "", "Planted"),
        ("a", "", "Planted"),
        ("a.md", "--json", "{"),  # a form that was asked for wins over the name
    ],
)
def test_printed_or_written_to_a_file(report, tmp_path, name, words, start):
    path = tmp_path / name
    assert report("-o", path, *words.split()) == (0, "", f"written: {path}\n")
    written = path.read_text()
    assert written.startswith(start) and written.endswith("\n")
    forms = {"#": "--markdown", "{": "--json"}
    if start[0] in forms:
        assert report(forms[start[0]])[1].strip() == written.strip()
    else:
        assert max(map(len, written.splitlines())) <= 100


def test_an_eviction_says_which_keys_go_and_what_is_lost(report, refused, planted):
    status, out, err = report("--top", 0, "--evict", "observed", "--budget", 0.5)
    assert (status, err) == (0, "")
    assert "eviction by observed, budget 0.5" in out and "80 of 160" in out
    assert "L0" in out and "dropped by every head" in out
    words = ("--evict", "snapkv", "--budget", 90, "--recent", 20, "--sinks", 2)
    told = json.loads(report("--json", *words)[1])["eviction"]
    options = {name: told[name] for name in ("by", "budget", "recent", "sinks")}
    assert options == {"by": "snapkv", "budget": 90, "recent": 20, "sinks": 2}
    for layer in told["layers"]:
        assert (layer["keys"], layer["kept"], len(layer["lost"])) == (160, 90, len(KINDS))
        assert all(sum(b - a for a, b in ranges) == 70 for ranges in layer["gone"])
        assert all(0 <= share <= 1 for share in layer["lost"] + layer["lost_last"])
    assert "```text\neviction by tova" in report("--markdown", "--evict", "tova")[1]
    line = refused("report", planted, "--evict", "h2o", "--budget", 0.1)
    assert "which always stay" in line


def test_a_page_is_written_and_says_what_it_carries(shell, file, tmp_path):
    page = tmp_path / "page.html"
    status, out, err = shell("report", file, "-o", page, "--heads", "L0")
    assert (status, out) == (0, "")
    assert f"written: {page}" in err and "4 of 8 heads of run.regard" in err
    data = Elements(page.read_text(encoding="utf-8")).text("script", id="regard-data")
    assert '"heads":["L0H0","L0H1","L0H2","L0H3"]' in data
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "run.regard"]


def test_a_training_run_alone_is_told_and_carried(shell, refused, tmp_path):
    run = tmp_path / "run.regard"
    with Writer(run) as writer:
        note = {"places": ["L0"], "statistics": {"peak": "heaviest key"}}
        writer.note({"contents": CONTENTS, "training": json.dumps(note)})
        writer.add("training/steps/0", np.arange(3))
        writer.add("training/peak/0", np.full((3, 1, 2), 0.5, np.float32))
    report = partial(shell, "report", run)
    status, out, _ = report()
    assert status == 0 and "training: 3 sampled steps, 0–2, 1 layer" in out
    assert json.loads(report("--json")[1])["training"]["samples"] == 3
    out = report("--markdown")[1]
    assert out.startswith("```text\n") and out.endswith("```\n")
    for name in ("run.md", "run.txt"):
        assert report("-o", tmp_path / name)[0] == 0
        assert "3 sampled steps" in (tmp_path / name).read_text(encoding="utf-8")
    status, out, err = report("-o", tmp_path / "page.html")
    assert (status, out) == (0, "")
    assert "carries the training run of run.regard: 3 sampled steps of 2 heads." in err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>run.regard · training</title>" in page
    for words in ("--causal", "--needle 1:2", "--prompt 1", "-o a.html --heads L0"):
        assert "nothing was recorded yet" in refused("report", run, *words.split())


@pytest.fixture(scope="module")
def twice(tmp_path_factory) -> Path:
    """Four heads of SmolLM2 reading random tokens a second time."""
    dice = torch.Generator().manual_seed(0)
    told = torch.randperm(4000, generator=dice)[:20] + 300
    ids = torch.cat([torch.zeros(1, dtype=torch.long), told, told])[None]
    path = tmp_path_factory.mktemp("causal") / "twice.regard"
    loaded = smollm2()
    some = {"layers": [17, 18], "heads": [4, 6]}
    recorder = regard.record(loaded.model, path, tokenizer=loaded.tokenizer, **some)
    recorder.name = "smollm2"
    with recorder:
        drive(recorder, Encoded(ids, "", "told twice"))
    return path


def test_knock_outs_stand_beside_the_labels_and_are_kept(shell, twice, tmp_path):
    path = tmp_path / "kept.regard"
    path.write_bytes(twice.read_bytes())
    status, out, err = shell("report", path, "--top", 1, "--causal", "--keep", "--json")
    assert status == 0 and "kept in" in err
    document = json.loads(out)
    names = {"prefix-matching", "induction"}
    looking_back = {h["label"] for h in document["heads"] if names & set(h["labels"])}
    told, knocked = {one["label"] for one in document["findings"]}, document["knocked"]
    assert looking_back and set(knocked) == looking_back | told
    loss = {label: knocked[label]["copying"]["delta_logprob"] for label in looking_back}
    strongest = min(loss, key=loss.__getitem__)
    assert loss[strongest] < -0.5 and knocked[strongest]["copies"]

    # from the file, without the model
    assert path.read_bytes()[: twice.stat().st_size] == twice.read_bytes()
    status, out, _ = shell("report", path, "--top", 1, "--json", "--model", "no-such-model")
    again = json.loads(out)
    assert status == 0 and again["knocked"] == knocked and "induction" in again["counts"]
    out = shell("report", path, "--top", 1)[1]
    assert "knocked out: next token's logit" in " ".join(out.split())


def test_a_model_that_is_not_there(shell, twice):
    status, out, err = shell("report", twice, "--top", 1, "--causal", "--model", "no-such-model")
    assert status in (1, 2, 3) and out == ""
    assert "no-such-model" in err and "Traceback" not in err
