"""What a row of results says: percentiles between the rounds' own, ratios, all of it read back."""

from __future__ import annotations

import csv
from dataclasses import asdict, fields
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import page
from regard.bench import cpu
from regard.bench.results import Result, append_csv, machine, today
from regard.bench.timing import Samples, take_turns
from regard.errors import FileError

SECONDS = st.floats(1e-6, 1e3)
ROUNDS = st.lists(SECONDS, min_size=1, max_size=40)


def row(**changes: object) -> Result:
    plain = Result(
        "2026-01-02", "cpu", "bare", "cpu", 512, 64, 4, True, "float32", 1.25, 1.0, 2.0, "sdpa",
        0.8, 5, 2, "a machine, of 2 cores", "2.0", "0.1",
    )  # fmt: skip
    return Result(**asdict(plain) | changes)


# ── rounds in numbers ────────────────────────────────────────────────────────────────────────


@given(ROUNDS)
def test_percentiles_lie_between_rounds_that_were(seconds: list[float]) -> None:
    taken = Samples(seconds)
    low, high = taken.percentiles()
    slack = 1e-9 * max(seconds)
    assert min(seconds) - slack <= low <= taken.median + slack
    assert taken.median - slack <= high <= max(seconds) + slack


@given(ROUNDS, st.floats(0.1, 10))
def test_a_machine_that_is_slower_for_all_changes_no_ratio(
    seconds: list[float], slower: float
) -> None:
    mine, peer = Samples(seconds), Samples(list(reversed(seconds)))
    later = [Samples([slower * s for s in one.seconds]) for one in (mine, peer)]
    assert later[0].ratio_to(later[1]) == pytest.approx(mine.ratio_to(peer))
    assert mine.ratio_to(mine) == 1
    assert later[0].ratio_to(mine) == pytest.approx(slower)


def test_rounds_of_different_number_are_not_compared() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Samples([1.0, 2.0]).ratio_to(Samples([1.0]))


def test_a_contender_that_fails_ends_the_race() -> None:
    def wrong() -> None:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        take_turns({"right": lambda: None, "wrong": wrong}, seconds=0, rounds=1)


def test_the_page_reports_times_that_were() -> None:
    """Two rounds are few, and still nothing is told that lies outside them."""
    for times in ([100.0], [100.0, 900.0], [400.0, 100.0, 300.0, 200.0, 500.0]):
        found = page._result("head", 2048, times, budget=1000.0)
        assert min(times) <= found.p20_ms <= found.median_ms <= found.p80_ms <= max(times)
        assert found.median_ms == median(times) and found.rounds == len(times)
        assert found.ratio == found.median_ms / 1000
    assert page._result("file", 128, [1.0], 500.0).causal is False


# ── rows in a file ───────────────────────────────────────────────────────────────────────────

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)


@given(st.lists(TEXTS, min_size=1, max_size=4), st.integers(1, 10**9), SECONDS)
def test_any_text_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], tokens: int, ratio: float
) -> None:
    """Commas, quotes, letters of any script."""
    path = tmp_path_factory.mktemp("rows") / "results.csv"
    rows = [row(what=name, machine=name, tokens=tokens, ratio=ratio) for name in names]
    for one in rows:
        append_csv(path, [one])
    with path.open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    for one, read in zip(rows, found, strict=True):
        assert read == {n: "" if v is None else str(v) for n, v in asdict(one).items()}
        assert float(read["ratio"]) == ratio


def test_an_empty_file_gets_its_header(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.touch()
    append_csv(path, [row()])
    with path.open() as file:
        (read,) = csv.DictReader(file)
    assert read["machine"] == "a machine, of 2 cores" and read["causal"] == "True"


def test_columns_in_another_order_are_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    names = [field.name for field in fields(Result)]
    path.write_text(",".join(reversed(names)) + "\n")
    with pytest.raises(FileError, match="move it away"):
        append_csv(path, [row()])


def test_no_rows_make_a_header_alone(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    append_csv(path, [])
    append_csv(path, [])
    assert path.read_text().splitlines() == [",".join(field.name for field in fields(Result))]


def test_the_machine_is_named_with_its_cores() -> None:
    name, _, cores = machine().rpartition(" × ")
    assert name and int(cores) >= 1
    assert len(today()) == 10 and today()[4] == "-"


# ── sizes ────────────────────────────────────────────────────────────────────────────────────


def test_every_size_with_and_without_a_mask() -> None:
    found = list(cpu.configurations([8, 16], [4, 32]))
    assert len(found) == len(set(found)) == 8
    assert {(at.tokens, at.dim) for at in found if at.causal} == {
        (at.tokens, at.dim) for at in found if not at.causal
    }
    assert all((at.mask is not None) == at.causal for at in found)


def test_the_same_size_draws_the_same_problem() -> None:
    one = cpu.Configuration(tokens=8, dim=4, causal=True)
    q, k, v = one.inputs()
    again = one.inputs()
    assert q.shape == (1, 4, 8, 4) and all(
        (a == b).all() for a, b in zip([q, k, v], again, strict=True)
    )
    assert not (q == k).all()


def test_eager_is_left_out_where_its_weights_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    at = cpu.Configuration(tokens=32, dim=8, causal=False, heads=2)
    assert "eager with weights" in cpu._contenders(at, *at.inputs())
    monkeypatch.setattr(cpu, "_LARGEST_EAGER", 2 * 32 * 32 * 4 - 1)
    assert "eager with weights" not in cpu._contenders(at, *at.inputs())
