"""`regard.bench`: fair turns, right answers, rows in a file; and every figure of the documents is
one of those rows."""

from __future__ import annotations

import csv
import re
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.bench import Result, Samples, append_csv, cpu, take_turns
from regard.bench.results import WrongResultError, machine, timed, today
from regard.errors import FileError

ROOT = Path(__file__).parents[1]
ROW = Result(
    "2026-01-02", "cpu", "bare", "cpu", 512, 64, 4, True, "float32", 1.25, 1.0, 2.0, "sdpa", 0.8,
    5, 2, "a machine, of 2 cores", "2.0", "0.1",
)  # fmt: skip
COLUMNS = [field.name for field in fields(Result)]


# ── turns ────────────────────────────────────────────────────────────────────────────────────


def test_contenders_take_turns() -> None:
    order: list[str] = []
    names = ("a", "b", "c")
    taken = take_turns({name: partial(order.append, name) for name in names}, seconds=0, rounds=12)
    rounds = [tuple(order[at : at + 3]) for at in range(0, len(order), 3)]
    assert len(rounds) == 13, "one round of warming up"
    assert all(sorted(each) == sorted(names) for each in rounds)
    assert {each[0] for each in rounds[1:]} == set(names), "each is first at times"
    assert list(taken) == list(names) and {len(s.seconds) for s in taken.values()} == {12}


def test_a_contender_that_fails_ends_the_race() -> None:
    with pytest.raises(ZeroDivisionError):
        take_turns({"right": lambda: None, "wrong": lambda: 1 / 0}, seconds=0, rounds=1)


def test_percentiles_and_ratios_of_the_rounds() -> None:
    samples = Samples([float(n) for n in range(11)])
    assert (samples.median, samples.percentiles()) == (5, (2.0, 8.0))
    assert Samples([3.0]).percentiles() == (3.0, 3.0)
    # a busy spell in the second round hits both
    assert Samples([2.0, 20.0, 2.2]).ratio_to(Samples([1.0, 10.0, 1.0])) == 2.0
    with pytest.raises(ValueError, match="shorter"):
        Samples([1.0, 2.0]).ratio_to(Samples([1.0]))


# ── rows ─────────────────────────────────────────────────────────────────────────────────────


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_row_is_filled_in_from_the_rounds() -> None:
    names = "suite what implementation tokens dim heads causal dtype peer".split()
    given = {name: getattr(ROW, name) for name in names}
    row = timed(Samples([0.001, 0.002, 0.0034567]), 2, 0.81249, **given, threads=7)
    assert (row.median_ms, row.p80_ms, row.ratio, row.rounds) == (2.0, 2.87, 0.812, 3)
    assert (row.threads, row.machine, row.date) == (7, machine(), today())
    assert row.torch == torch.__version__ and row.regard == regard.__version__
    assert re.fullmatch(r".+ × [1-9]\d* \d{4}-\d\d-\d\d", f"{row.machine} {row.date}")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])), min_size=1, max_size=4))
def test_rows_of_any_text_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    path = tmp_path_factory.mktemp("rows") / "new" / "results.csv"
    append_csv(path, [])
    assert path.read_text() == ",".join(COLUMNS) + "\n"
    rows = [Result(**asdict(ROW) | {"what": name, "machine": name}) for name in names]
    for row in rows:
        append_csv(path, [row])
    expected = [{n: "" if v is None else str(v) for n, v in asdict(row).items()} for row in rows]
    assert _read(path) == expected


def test_an_empty_file_gets_its_header_and_another_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.touch()
    append_csv(path, [ROW])
    assert [row["causal"] for row in _read(path)] == ["True"]
    for header in ("a,b", ",".join(reversed(COLUMNS))):
        path.write_text(f"{header}\n1,2\n")
        with pytest.raises(FileError, match=r"has columns .*; move it away"):
            append_csv(path, [ROW])
        assert path.read_text() == f"{header}\n1,2\n"


# ── the suite of the CPU ─────────────────────────────────────────────────────────────────────

AT = cpu.Configuration(tokens=24, dim=8, causal=True, heads=2)


def test_every_size_with_and_without_a_mask() -> None:
    sizes = list(cpu.configurations([8, 16], [4, 32]))
    assert {(at.tokens, at.dim, at.causal) for at in sizes} == {
        (tokens, dim, causal) for tokens in (8, 16) for dim in (4, 32) for causal in (False, True)
    }
    assert len(sizes) == 8 and all((at.mask is not None) == at.causal for at in sizes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_configuration_gives_a_row_per_contender(dtype: torch.dtype) -> None:
    at = cpu.Configuration(tokens=24, dim=8, causal=True, heads=2, dtype=dtype)
    rows = {row.what: row for row in cpu.measure(at, seconds=0)}
    forward = ["sdpa", "bare", "bare (cpu)", "row stats", "everything", "afterwards"]
    assert [*rows] == [*forward, "eager with weights", "sdpa backward", "backward"]
    for row in rows.values():
        assert row.ratio > 0 and row.p20_ms <= row.median_ms <= row.p80_ms
        assert row.peer == ("sdpa backward" if "backward" in row.what else "sdpa")
        assert row.dtype == str(dtype).removeprefix("torch.")
    assert rows["sdpa"].ratio == rows["sdpa backward"].ratio == 1


def _off_by(amount: float) -> Any:
    """A wrong way to answer: the right one, and what it is off by."""
    return lambda right: lambda *given, **options: right(*given, **options) + amount


def _doubled_gradients(right: Any) -> Any:
    """Right outputs."""
    return lambda q, k, v, **options: right(
        q, k, 2 * v - v.detach() if v.requires_grad else v, **options
    )


def _halved(right: Any) -> Any:
    def top(*given: Any) -> Any:
        heaviest = right(*given)
        return heaviest._replace(weights=heaviest.weights / 2)

    return top


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "what"),
    [
        (regard.Attention, "entropy", _off_by(0.01), "entropy"),
        (regard.Attention, "max_score", _off_by(torch.nan), "max score"),
        (regard.Attention, "received", _off_by(0.01), "mass"),
        (regard.Attention, "top", _halved, "top weight"),
        (regard, "attend", lambda right: lambda q, k, v, **o: right(q, k, v + 1e-3, **o), "output"),
        (regard, "attend", _doubled_gradients, "backward"),
    ],
    ids=["entropy", "NaN", "mass", "top", "output", "gradients"],
)
def test_no_time_for_a_wrong_answer(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, wrong: Any, what: str
) -> None:
    monkeypatch.setattr(owner, name, wrong(getattr(owner, name)))
    with pytest.raises(WrongResultError, match=rf"^{what} of Configuration.* no time is reported"):
        cpu.measure(AT, seconds=0)


# ── figures of the documents ─────────────────────────────────────────────────────────────────

RESULTS = _read(ROOT / "bench" / "results.csv")
SPEED = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
ON_CPU = ("bare", "row stats", "everything", "afterwards", "eager with weights", "backward")
ON_GPU = ("bare", "statistics", "everything", "eager with weights", "backward")
MASKS = {"True": "causal", "False": "full"}


def _lines(text: str, pattern: str, least: int) -> list[tuple[str, ...]]:
    lines = re.findall(rf"^\| {pattern} \|$", text, re.MULTILINE)
    assert len(lines) >= least
    return lines


def test_the_results_have_the_columns_that_are_written() -> None:
    assert [*RESULTS[0]] == COLUMNS


def test_tables_of_the_cpu_quote_the_results() -> None:
    measured = {
        (row["tokens"], row["dim"], MASKS[row["causal"]], row["what"]): row["ratio"]
        for row in RESULTS if row["dtype"] == "float32"
    }  # fmt: skip
    for tokens, dim, mask, figures in _lines(SPEED, r"(\d+) \| (\d+) \| (\w+) \| (.+)", 8):
        expected = [measured[tokens, dim, mask, what] for what in ON_CPU]
        assert figures.split(" | ") == expected
    quoted = ("bare", "everything", "eager with weights")
    for tokens, *figures in _lines(README, r"(\d+) \| (\S+) \| (\S+) \| (\S+)", 3):
        assert figures == [measured[tokens, "64", "causal", what] for what in quoted]


def test_the_table_of_the_gpu_quotes_the_results() -> None:
    measured = {
        (row["batch"], row["heads"], row["tokens"], row["dim"], MASKS[row["causal"]], row["what"]):
            (row["ratio"], row["peer"])
        for row in RESULTS if row["suite"] in ("gpu forward", "gpu backward")
        and not (row["suite"] == "gpu backward" and row["what"] != "backward")
    }  # fmt: skip
    size = r"(\d+) × (\d+) × (\d+) \| (\d+) \| (\w+)"
    for *at, figures in _lines(SPEED, rf"{size} \| (.+)", 8):
        for what, figure in zip(ON_GPU, figures.split(" | "), strict=True):
            assert measured[*at, what] == (figure, "cudnn")


def test_sentences_quote_the_results() -> None:
    long, short = (
        {row["what"]: row for row in RESULTS if row["suite"] == "gpu length"
         and row["tokens"] == tokens}
        for tokens in ("131072", "1024")
    )  # fmt: skip
    whole = long["everything"]
    time, memory = round(float(whole["median_ms"])), round(float(whole["extra_mib"]))
    speed, readme = (" ".join(text.split()) for text in (SPEED, README))
    assert f"131,072 tokens × {whole['heads']} heads take {time} ms and {memory} MiB" in speed
    assert f"{whole['heads']} heads takes {time} ms and {memory} MiB" in readme
    bare, peer, everything = (short[what]["median_ms"] for what in ("bare", "cudnn", "everything"))
    assert f"a bare call takes {bare} ms (cuDNN {peer}), everything {everything} ms" in speed


def test_the_table_of_models_quotes_the_newest_results() -> None:
    newest = {(row["suite"], row["what"], row["tokens"]): row for row in RESULTS}  # rows are dated
    models = [
        ("record smollm2", "recorded", "2048"), ("record minilm documents", "recorded", "48"),
        ("gpu llama", "statistics", "8192"), ("gpu llama", "statistics", "32768"),
        ("gpu llama", "recorded", "8192"), ("gpu llama", "recorded", "32768"),
        ("decode smollm2", "regard", "64"), ("monitor", "monitored", "1024"),
    ]  # fmt: skip
    figures = re.findall(r"^\| .+ \| ([\d.]+) ×", SPEED, re.MULTILINE)
    assert figures == [newest[which]["ratio"] for which in models]
    assert f"| {newest['page', 'overview', '131072']['median_ms']} ms |" in SPEED
