"""`regard bench`: rows on stdout, progress on stderr, mistakes in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "regard", "bench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_table_csv_and_json(tmp_path: Path) -> None:
    small = ("--tokens", "32", "--dims", "16", "--seconds", "0")
    done = run("cpu", *small, "--csv", str(tmp_path / "out.csv"), "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {row["causal"] for row in rows} == {True, False}
    assert len((tmp_path / "out.csv").read_text().splitlines()) == len(rows) + 1
    assert "32 tokens" in done.stderr


def test_mistakes() -> None:
    for arguments, said in (
        (("gpu9",), "there is no suite 'gpu9'"),
        (("cpu", "--tokens", "many"), "give whole numbers"),
        (("cpu", "--dtype", "int8"), "give one of float32"),
    ):
        done = run(*arguments)
        assert done.returncode == 2 and said in done.stderr
        assert "Traceback" not in done.stderr
