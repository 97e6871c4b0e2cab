"""`python -m bench SUITE`: rows on stdout and in a file, progress on stderr, errors in one line."""

from __future__ import annotations

import csv
import json

import pytest

from bench import monitor
from bench.__main__ import main
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
