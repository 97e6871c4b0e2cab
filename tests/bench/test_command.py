"""`python -m bench SUITE`: rows on stdout and in a file, progress on stderr, errors in one line."""

from __future__ import annotations

import csv
import json

import pytest

from bench import gpu, monitor
from bench.__main__ import main
from host_stage import Host
from recorder.models import tiny
from regard.bench.results import WrongResultError


def test_rows_are_printed_and_appended(tmp_path, capsys, monkeypatch):
    tiny("llama", vocab_size=200).save_pretrained(tmp_path / "small")
    monkeypatch.chdir(tmp_path)
    words = ["decode", "--model", "small", "--tokens", "3,4", "--seconds", "0"]
    assert main([*words, "--csv", "rows.csv"]) == 0
    out, err = capsys.readouterr()
    assert "tokens/s" in out and "÷ transformers" in out and "[2/2] 4 tokens" in err
    with (tmp_path / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["suite"], r["what"], r["tokens"]) for r in rows[2:4]] == [
        ("decode small", "regard", "3"), ("decode small", "transformers", "4"),
    ]  # fmt: skip


@pytest.fixture
def small(monkeypatch):
    for name, size in (("_LAYERS", 1), ("_HEADS", 2), ("_WIDTH", 16), ("_WORDS", 50)):
        monkeypatch.setattr(monitor, name, size)


def test_rows_as_json(small, capsys):
    assert main(["monitor", "--tokens", "8", "--seconds", "0", "--json"]) == 0
    assert [row["what"] for row in json.loads(capsys.readouterr().out)] == ["plain", "monitored"]


def test_mistakes(tmp_path, capsys, monkeypatch):
    def fail(*_):
        raise WrongResultError("the loss is off by 2")

    monkeypatch.setattr(monitor, "measure", fail)
    assert main(["monitor"]) == 1
    assert capsys.readouterr().err.endswith("bench: the loss is off by 2\n")
    (tmp_path / "other.csv").write_text("a,b\n")
    assert main(["monitor", "--csv", str(tmp_path / "other.csv")]) == 3
    assert "has columns a, b" in capsys.readouterr().err
    for words in (["cpu"], ["monitor", "--tokens", "many"], ["monitor", "--tokens", "0"]):
        with pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == 2 and "usage: python -m bench" in capsys.readouterr().err


@pytest.fixture
def on_a_stage(monkeypatch):
    """The GPU suite with a CPU for a GPU."""
    host = Host(peak=2**20)
    monkeypatch.setattr("bench.gpu.stage.cuda", lambda: host)
    return host


def test_rows_of_the_gpu_are_written_as_they_come(on_a_stage, tmp_path, capsys):
    words = ["--only", "length", "--tokens", "32,64", "--seconds", "0"]
    assert main(["gpu", *words, "--csv", str(tmp_path / "out.csv")]) == 0
    out, err = capsys.readouterr()
    assert "[1/2] length: d128 1×8×32 causal" in err
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 1 + 2 * 4
    assert "gpu length: d128, 1×8×64, causal" in out and "everything" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_wrong_contender_ends_in_an_error_and_others_are_kept(on_a_stage, capsys, monkeypatch):
    def fail():
        raise WrongResultError("output of nobody is off by 2")

    fine = gpu.jobs(on_a_stage, ["length"], [32], 0.0)
    bad = gpu.Job("length", "a wrong one", fail)
    monkeypatch.setattr(gpu, "jobs", lambda *_: [bad, *fine])
    assert main(["gpu", "--json"]) == 1
    out, err = capsys.readouterr()
    assert "output of nobody is off by 2" in err and len(json.loads(out)) == 4


def test_the_gpu_suite_needs_a_gpu(capsys):
    """On a machine with a GPU the same words name a part that does not exist."""
    assert main(["gpu", "--only", "sideways"]) == 2
    err = capsys.readouterr().err
    assert "needs an NVIDIA GPU" in err or "there is no part 'sideways'" in err
