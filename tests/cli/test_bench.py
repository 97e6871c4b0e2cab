"""`regard bench`: rows on stdout, progress on stderr, mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from host_stage import Host


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
        (("gpu9",), "there is no suite 'gpu9'; there are: cpu, gpu"),
        (("cpu", "--tokens", "many"), "give whole numbers"),
        (("cpu", "--dtype", "int8"), "give one of float32"),
        (("cpu", "--only", "forward"), "--only names parts of the suite gpu"),
    ],
)
def test_mistakes(shell, words: tuple[str, ...], said: str) -> None:
    status, out, err = shell("bench", *words)
    assert (status, out) == (2, "") and said in err
    assert "Traceback" not in err


def test_the_gpu_suite_needs_a_gpu(shell) -> None:
    """One line; on a machine with a GPU the same words name a part that does not exist."""
    status, _, err = shell("bench", "gpu", "--only", "sideways")
    assert status == 2 and "Traceback" not in err
    assert err.count("\n") == 1
    assert "needs an NVIDIA GPU" in err or "there is no part 'sideways'" in err


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


def test_no_sizes_are_refused_and_not_the_suites_own(shell):
    status, _, err = shell("bench", "cpu", "--seconds", "0.01", "--tokens", "")
    assert status == 2 and "--tokens ''" in err
