"""`regard bench`: rows on stdout, progress on stderr, mistakes in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.gpu.stages import Host


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


def test_the_gpu_suite_needs_a_gpu() -> None:
    """One line; on a machine with a GPU the same words name a part that does not exist."""
    done = run("gpu", "--only", "sideways")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert "needs an NVIDIA GPU" in done.stderr or "there is no part 'sideways'" in done.stderr


def test_parts_are_the_gpus() -> None:
    done = run("cpu", "--only", "forward")
    assert done.returncode == 2 and "--only names parts of the suite gpu" in done.stderr


@pytest.fixture
def on_a_stage(monkeypatch: pytest.MonkeyPatch) -> Host:
    """The GPU suite with a CPU for a GPU, and few sizes."""
    stage = Host(peak=2**20)
    monkeypatch.setattr("regard.bench.gpu.stage.cuda", lambda: stage)
    return stage


def test_rows_of_the_gpu_are_written_as_they_come(on_a_stage: Host, shell, tmp_path: Path) -> None:
    words = ("--only", "length", "--tokens", "32,64", "--seconds", "0")
    code, out, err = shell("bench", "gpu", *words, "--csv", tmp_path / "out.csv")
    assert code == 0
    assert "[1/2] length: d128 1×8×32 causal" in err
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 4
    assert "gpu length: d128, 1×8×64, causal" in out and "everything" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_wrong_contender_ends_in_an_error_and_others_are_kept(
    on_a_stage: Host, shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.bench import gpu
    from regard.bench.results import WrongResultError

    def fail() -> list[object]:
        raise WrongResultError("output of nobody is off by 2")

    fine = gpu.jobs(on_a_stage, ["length"], [32], 0.0)
    bad = gpu.Job("length", "a wrong one", fail)
    monkeypatch.setattr(gpu, "jobs", lambda *_: [bad, *fine])
    code, out, err = shell("bench", "gpu", "--json")
    assert code == 1 and "output of nobody is off by 2" in err
    assert len(json.loads(out)) == 4
