"""`regard bench`: rows on stdout, progress on stderr, mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def test_table_csv_and_json(shell, tmp_path: Path) -> None:
    small = ("--tokens", "32", "--dims", "16", "--seconds", "0")
    status, out, err = shell("bench", "cpu", *small, "--csv", tmp_path / "out.csv", "--json")
    assert status == 0, err
    rows = json.loads(out)
    assert {row["causal"] for row in rows} == {True, False}
    assert len((tmp_path / "out.csv").read_text().splitlines()) == len(rows) + 1
    assert "32 tokens" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gpu9",), "there is no suite 'gpu9'; there is: cpu"),
        (("cpu", "--tokens", "many"), "give whole numbers"),
        (("cpu", "--tokens", ""), "give whole numbers"),
        (("cpu", "--dtype", "int8"), "give one of float32"),
    ],
)
def test_mistakes(shell, words: tuple[str, ...], said: str) -> None:
    status, out, err = shell("bench", *words)
    assert (status, out) == (2, "") and said in err
    assert "Traceback" not in err


@pytest.mark.parametrize("suite", ["gpu", "record"])
def test_other_suites_are_in_the_clone(shell, suite: str) -> None:
    status, out, err = shell("bench", suite)
    assert (status, out) == (2, "") and f"python -m bench {suite}" in err
