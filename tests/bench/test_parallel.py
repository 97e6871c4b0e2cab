"""Two ranks against one: only right answers are timed, and what travels is what was foreseen."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bench import parallel
from bench.__main__ import ranks_table
from bench.parallel import Size, measure
from regard.bench.results import Result, WrongResultError
from regard.errors import InputError
from regard.parallel import Shards

SIZE = Size(60, heads=2, dim=8)


@pytest.fixture(scope="module")
def rows() -> list[Result]:
    threads = torch.get_num_threads()
    found = measure(SIZE, seconds=0, rounds=3)
    assert torch.get_num_threads() == threads  # the caller's own is left alone
    return found


def test_a_row_for_each_way(rows: list[Result]) -> None:
    assert [row.what for row in rows] == ["one rank", "ring", "ulysses"]
    assert {(row.suite, row.peer, row.threads, row.rounds) for row in rows} == {
        ("parallel", "one rank", 1, 3)
    }
    assert {(row.tokens, row.heads, row.dim, row.causal) for row in rows} == {(60, 2, 8, True)}
    assert rows[0].ratio == 1 and all(0 < r.p20_ms <= r.median_ms <= r.p80_ms for r in rows)


def test_notes_say_how_efficient_and_how_many_bytes(rows: list[Result]) -> None:
    assert rows[0].note == "1 rank of one thread"
    for row in rows[1:]:
        share = re.search(r"2 ranks of one thread, efficiency ([\d.]+)", row.note)
        assert share and float(share[1]) == pytest.approx(1 / (2 * row.ratio), abs=0.01)
    keys_and_values = 2 * (2 * 30 * 8 * 4)
    assert rows[1].note.endswith(f"each sends {keys_and_values} bytes a step")
    # half of q, k and v there; half of output and lse back
    traded = (3 * 2 * 30 * 8 * 4 + 2 * 30 * (8 * 4 + 4)) // 2
    assert rows[2].note.endswith(f"each sends {traded} bytes in all")


def test_the_table_is_narrow_and_has_the_notes(rows: list[Result]) -> None:
    lines = ranks_table(rows).splitlines()
    assert len(lines) == 1 + 2 * len(rows) and max(map(len, lines)) <= 110
    assert all(row.note in lines[2 * n + 2] for n, row in enumerate(rows))


def test_sizes_that_cannot_be_shared_out() -> None:
    for wrong in ({"tokens": 3}, {"tokens": 64, "heads": 3}):
        with pytest.raises(InputError, match="heads that divide by the ranks"):
            Size(**wrong)


def test_rows_of_every_rank_are_compared() -> None:
    for size in (SIZE, Size(4), Size(2048, heads=4, ranks=4), Size(7, heads=3, ranks=3)):
        shards = Shards.zigzag(size.tokens, size.ranks)
        wanted = {row for span in size.spans for row in span}
        assert all(wanted & set(shards.positions(r).tolist()) for r in range(size.ranks))
        assert size.tokens - 1 in wanted and len(wanted) == sum(map(len, size.spans))


# ── wrong answers ────────────────────────────────────────────────────────────────────────────


class Told:
    """Ranks that say what they are told to."""

    count = 2

    def __init__(self, *answers: Any) -> None:
        self.answers = answers

    def run(self, tasks: Any) -> Iterator[tuple[Any, Any]]:
        return zip(tasks, self.answers, strict=True)


def said(**changes: float) -> Told:
    """Right rows, the odd ones by rank 1; `name=error` is added to what row 59 says."""
    right = parallel._right(SIZE)
    names = ["output", "lse", *(type(summary).__name__ for summary in parallel._SUMMARIES)]
    for name, error in changes.items():
        right[59][names.index(name)] = right[59][names.index(name)] + error
    parts = [{row: a for row, a in right.items() if row % 2 == rank} for rank in range(2)]
    return Told(*parts)


def test_right_rows_pass() -> None:
    parallel._check(said(), SIZE)


@pytest.mark.parametrize("name", ["output", "lse", "Entropy", "MaxLogit", "Visible", "Top"])
@pytest.mark.parametrize("error", [0.5, float("nan")])
def test_a_wrong_answer_is_named(name: str, error: float) -> None:
    with pytest.raises(WrongResultError, match=f"one rank: {name} of row 59 .*no time is reported"):
        parallel._check(said(**{name: error}), SIZE)


def test_a_rank_that_says_nothing_is_noticed() -> None:
    with pytest.raises(WrongResultError, match="has rows"):
        parallel._check(Told({}, said().answers[1]), SIZE)


def test_bytes_that_were_not_foreseen_are_an_error() -> None:
    all_of_them = 2 * (2 * 60 * 8 * 4)
    assert parallel._counted(Told(all_of_them // 2, all_of_them // 2), SIZE, "ring") == 3840
    with pytest.raises(WrongResultError, match=r"ring of .* sent 7681 bytes, .* says 7680"):
        parallel._counted(Told(all_of_them, 1), SIZE, "ring")


# ── Ctrl-C ───────────────────────────────────────────────────────────────────────────────────


def _children(pid: int) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return []


def test_ctrl_c_ends_the_ranks() -> None:
    command = [sys.executable, "-m", "bench", "parallel", "--tokens", "4096"]
    with subprocess.Popen(
        [*command, "--seconds", "600"], cwd=Path(__file__).parents[2], stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    ) as process:  # fmt: skip
        until = time.monotonic() + 60
        while len(_children(process.pid)) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        assert len(_children(process.pid)) >= 2
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < until:  # whoever was started is gone soon
            os.killpg(process.pid, 0)
            time.sleep(0.05)
