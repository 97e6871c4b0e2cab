"""`regard report -o page.html` as a shell sees it."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

from regard.recording import Writer
from regard.recording.schema import CONTENTS
from support.recordings import on_disk
from viewer.shell import Elements


@pytest.fixture
def report(shell):
    return partial(shell, "report")


@pytest.fixture
def file(tmp_path):
    return on_disk(tmp_path / "run.regard")


def test_a_page_is_written_and_says_what_it_carries(report, file, tmp_path):
    page = tmp_path / "page.html"
    status, out, err = report(file, "-o", page, "--heads", "L0")
    assert (status, out) == (0, "")
    assert f"written: {page}" in err and "4 of 8 heads of run.regard" in err
    data = Elements(page.read_text(encoding="utf-8")).text("script", id="regard-data")
    assert '"heads":["L0H0","L0H1","L0H2","L0H3"]' in data
    assert sorted(one.name for one in tmp_path.iterdir()) == ["page.html", "run.regard"]


def test_a_training_run_alone_is_told_and_carried(report, tmp_path):
    run = _run(tmp_path / "run.regard")
    status, out, _ = report(run)
    assert status == 0 and "training: 3 sampled steps, 0–2, 1 layer" in out
    status, out, _ = report(run, "--json")
    assert status == 0 and json.loads(out)["training"]["samples"] == 3
    status, out, _ = report(run, "--markdown")
    assert status == 0 and out.startswith("```text\n") and out.endswith("```\n")
    for name, words in {"run.md": "3 sampled steps", "run.txt": "3 sampled steps"}.items():
        assert report(run, "-o", tmp_path / name)[0] == 0
        assert words in (tmp_path / name).read_text(encoding="utf-8")
    page = tmp_path / "page.html"
    status, out, err = report(run, "-o", page)
    assert (status, out) == (0, "")
    assert "carries the training run of run.regard: 3 sampled steps of 2 heads." in err
    assert "<title>run.regard · training</title>" in page.read_text(encoding="utf-8")


def test_what_a_training_run_has_not_is_an_error(report, tmp_path):
    run = _run(tmp_path / "run.regard")
    for words in (["--causal"], ["--needle", "1:2"], ["--prompt", "1"]):
        status, _, err = report(run, *words)
        assert status == 2 and "nothing was recorded yet" in err, words
    status, _, err = report(run, "-o", tmp_path / "page.html", "--heads", "L0")
    assert status == 2 and "nothing was recorded yet" in err


def _run(path):
    said = {"places": ["L0"], "statistics": {"peak": "heaviest key"}}
    with Writer(path) as writer:
        writer.note({"contents": CONTENTS, "training": json.dumps(said)})
        writer.add("training/steps/0", np.arange(3))
        writer.add("training/peak/0", np.full((3, 1, 2), 0.5, np.float32))
    return path


def test_a_head_that_is_not_there_leaves_no_file(report, file, tmp_path):
    status, _, err = report(file, "-o", tmp_path / "page.html", "--heads", "L0H9")
    assert status == 2 and "L0" in err
    assert not (tmp_path / "page.html").exists()


def test_heads_are_of_a_page_only(report, file):
    status, _, err = report(file, "--heads", "L0")
    assert status == 2 and "-o page.html" in err
