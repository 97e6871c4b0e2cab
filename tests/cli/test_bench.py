"""`regard bench` and `regard prepare`: rows on stdout, progress on stderr."""

from __future__ import annotations

import json

import pytest

from regard.engine import ahead
from regard.engine.ahead import Kind, compile_kind, kinds
from regard.engine.backends.gpu.sweeps import TritonSweeps


def test_a_table_csv_and_json(shell, tmp_path):
    small = ("bench", "cpu", "--tokens", "32", "--dims", "16", "--seconds", "0")
    status, out, err = shell(*small, "--csv", tmp_path / "out.csv", "--json")
    assert status == 0, err
    rows = json.loads(out)
    assert {row["causal"] for row in rows} == {True, False} and "32 tokens" in err
    assert len((tmp_path / "out.csv").read_text().splitlines()) == len(rows) + 1
    lines = shell(*small)[1].splitlines()
    assert {tuple(line.split()[:3]) for line in lines[2:4]} == {
        ("32", "16", "causal"), ("32", "16", "full"),
    }  # fmt: skip


@pytest.fixture
def compiled(monkeypatch) -> list[tuple[Kind, bool]]:
    """What is asked for as on a GPU, where nothing is compiled."""
    asked: list[tuple[Kind, bool]] = []
    monkeypatch.setattr(TritonSweeps, "unavailable", lambda self: [])
    monkeypatch.setattr(
        ahead, "compile_kind", lambda kind, training: asked.append((kind, training))
    )
    return asked


def test_every_combination_is_prepared(shell, compiled):
    words = ("--dims", "64,96", "--dtypes", "float16", "--masks", "causal,lengths")
    status, out, err = shell("prepare", *words)
    assert (status, out) == (0, "ready: 4 kinds of calls, 0 s\n")
    assert compiled == [
        (kind, False) for kind in kinds([64, 96], ["float16"], ["causal", "lengths"])
    ]
    assert "[2/4] d64 float16, lengths" in err and "[4/4]" in err


def test_gradients_are_prepared_only_where_asked_for(shell, compiled):
    for words in ((), ("--training",)):
        assert shell("prepare", "--dims", "64", "--masks", "none", *words)[0] == 0
    assert compiled == [(Kind(64, "bfloat16", "none"), False), (Kind(64, "bfloat16", "none"), True)]


@pytest.mark.parametrize("mask", ahead.MASKS)
def test_a_kind_asks_everything_once(mask, monkeypatch):
    """On the CPU, where nothing is compiled, but all of it has to run."""
    monkeypatch.setattr(ahead, "_LENGTHS", (96, 75))
    asked: list[int] = []
    attend = ahead.attend
    monkeypatch.setattr(ahead, "attend", lambda *a, **how: asked.append(1) or attend(*a, **how))
    compile_kind(Kind(16, "float32", mask), training=True, device="cpu")
    assert len(asked) == 3 * 5  # a prompt, a ragged one, one query
