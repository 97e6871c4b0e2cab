"""The version matrix: which rows there are, when environments are made, what becomes of answers.
No network."""

from __future__ import annotations

import pytest

import matrix
import resolve

LAST = "2 failed, 1 error, 40 passed, 3 skipped, 2 warnings, 7 refused in 12.50s"


def page(*rows: str) -> str:
    return "\n".join(["before", matrix.MARKS[0], *rows, matrix.MARKS[1], "after", ""])


@pytest.fixture
def made(monkeypatch, tmp_path) -> list[tuple[str, ...]]:
    """What was installed, with every outside call replaced."""
    calls: list[tuple[str, ...]] = []

    def overlay(folder):
        (folder / "bin").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(matrix, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr(matrix, "overlay", overlay)
    monkeypatch.setattr(matrix, "newest", lambda _: "9.1")
    monkeypatch.setattr(matrix, "_install", lambda _, *what: calls.append(what))
    return calls


def test_every_row_names_tests_that_exist():
    for subject in matrix.SUBJECTS.values():
        for test in subject.tests:
            name = test.rpartition("=")[2]
            assert name == "--fast" or (resolve.ROOT / name).exists(), test


def test_an_environment_is_made_once(made):
    old, new = matrix.Combination("torch", "2.7"), matrix.Combination("ray", "newest")
    assert matrix.set_up(old) == matrix.set_up(old)
    matrix.set_up(new)
    assert made == [("torch==2.7.*",), ("ray[data]==9.1",)]


def test_a_new_release_is_installed(made, monkeypatch):
    newest = matrix.Combination("torch", "newest")
    matrix.set_up(newest)
    monkeypatch.setattr(matrix, "newest", lambda _: "9.2")
    matrix.set_up(newest)
    assert made == [("torch==9.1",), ("torch==9.2",)]


def test_what_a_version_needs_is_installed_beside_it(made):
    matrix.set_up(matrix.Combination("transformers", "5.4"))
    assert made == [("transformers==5.4.*", "huggingface_hub<1.9")]


def test_a_python_that_is_missing_is_a_row_that_says_so(made):
    row = matrix.row(matrix.Combination("python", "3.99"), "2026-01-01")
    assert row.startswith("| python 3.99 | not run: no python3.99 on the PATH | – |")
    assert row.endswith("| 2026-01-01 |") and row.count(" | ") == len(matrix.HEAD) - 1
    assert made == []


def test_outcomes_are_counted_and_errors_are_failures():
    counts = matrix.counts(LAST)
    assert counts == {"passed": 40, "failed": 3, "skipped": 3, "refused": 7}
    assert not any(matrix.counts("no tests ran in 0.01s").values())


def test_failures_stand_out(made, monkeypatch):
    monkeypatch.setattr(matrix, "installed", lambda _: "torch 2.7.1")
    monkeypatch.setattr(matrix, "test", lambda *_: matrix.counts(LAST))
    row = matrix.row(matrix.Combination("torch", "2.7"), "2026-01-01")
    assert row == "| torch 2.7 | torch 2.7.1 | 40 | **3** | 3 | 7 | 0 | 2026-01-01 |"


def test_rows_that_were_not_run_stay_or_are_open():
    old = page("| torch 2.7 | old | 1 | 0 | 0 | 0 | 1 | then |", "| torch 2.11 | kept |")
    table = matrix.table(old, {"torch 2.7": "| torch 2.7 | new |"})
    lines = table.splitlines()
    assert "| torch 2.7 | new |" in lines and "| torch 2.11 | kept |" in lines
    assert "| ray newest | not run | – | – | – | – | – | – |" in lines
    assert len(lines) == 2 + len(matrix.every())
    written = resolve.written(old, matrix.MARKS, table)
    assert matrix.table(written, {}) == table


def test_rows_are_chosen_by_name():
    assert matrix.chosen([]) == matrix.every()
    assert matrix.chosen(["torch==2.7", "ray"]) == [
        matrix.Combination("torch", "2.7"), matrix.Combination("ray", "newest"),
    ]  # fmt: skip
    with pytest.raises(SystemExit, match=r"'torch==1\.0' is no row; there are transformers==5\.0"):
        matrix.chosen(["torch==1.0"])


def test_the_page_has_every_row():
    text = matrix.PAGE.read_text(encoding="utf-8")
    assert resolve.written(text, matrix.MARKS, matrix.table(text, {})) == text
