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
from bench.parallel import Size
from regard.bench.results import WrongResultError
from regard.parallel import Shards

SIZE = Size(60, heads=2, dim=8)


def test_a_row_for_each_way_with_its_efficiency_and_bytes() -> None:
    threads = torch.get_num_threads()
    rows = parallel.measure(SIZE, seconds=0, rounds=3)
    assert torch.get_num_threads() == threads  # the caller's own is left alone
    assert [row.what for row in rows] == ["one rank", "ring", "ulysses"]
    assert {(row.peer, row.threads, row.rounds, row.causal) for row in rows} == {
        ("one rank", 1, 3, True)
    }
    assert rows[0].ratio == 1 and rows[0].note == "1 rank of one thread"
    keys_and_values = 2 * (2 * 30 * 8 * 4)
    # half of q, k and v there; half of output and lse back
    traded = (3 * 2 * 30 * 8 * 4 + 2 * 30 * (8 * 4 + 4)) // 2
    sent = f"{keys_and_values} bytes a step", f"{traded} bytes in all"
    for row, travels in zip(rows[1:], sent, strict=True):
        share = re.fullmatch(
            rf"2 ranks of one thread, efficiency ([\d.]+), each sends {travels}", row.note
        )
        assert share and float(share[1]) == pytest.approx(1 / (2 * row.ratio), abs=0.01)
    table = ranks_table(rows).splitlines()
    assert len(table) == 1 + 2 * len(rows) and max(map(len, table)) <= 110
    assert all(row.note in table[2 * n + 2] for n, row in enumerate(rows))


def test_rows_of_every_rank_are_compared() -> None:
    for size in (SIZE, Size(4), Size(2048, heads=4, ranks=4), Size(7, heads=3, ranks=3)):
        shards = Shards.zigzag(size.tokens, size.ranks)
        wanted = {row for span in size.spans for row in span}
        assert all(wanted & set(shards.positions(r).tolist()) for r in range(size.ranks))
        assert size.tokens - 1 in wanted and len(wanted) == sum(map(len, size.spans))


# ── wrong answers ────────────────────────────────────────────────────────────────────────────


class Answered:
    """Ranks with given answers."""

    count = 2

    def __init__(self, *answers: Any) -> None:
        self.answers = answers

    def run(self, tasks: Any) -> Iterator[tuple[Any, Any]]:
        return zip(tasks, self.answers, strict=True)


def answers(**errors: float) -> Answered:
    """Right rows, the odd ones by rank 1; `name=error` is added to what row 59 has."""
    right = parallel._right(SIZE)
    names = ["output", "lse", *(type(summary).__name__ for summary in parallel._SUMMARIES)]
    for name, error in errors.items():
        right[59][names.index(name)] = right[59][names.index(name)] + error
    return Answered(*({n: a for n, a in right.items() if n % 2 == rank} for rank in range(2)))


@pytest.mark.parametrize("name", ["output", "lse", "Entropy", "MaxLogit", "Visible", "Top"])
def test_a_wrong_answer_is_named(name: str) -> None:
    parallel._check(answers(), SIZE)
    for error in (0.5, float("nan")):
        with pytest.raises(WrongResultError, match=f"one rank: {name} of row 59 .*no time is"):
            parallel._check(answers(**{name: error}), SIZE)


def test_a_rank_without_an_answer_and_bytes_that_were_not_foreseen_are_errors() -> None:
    with pytest.raises(WrongResultError, match="has rows"):
        parallel._check(Answered({}, answers().answers[1]), SIZE)
    assert parallel._counted(Answered(3840, 3840), SIZE, "ring") == 3840
    with pytest.raises(WrongResultError, match=r"ring of .* sent 7681 bytes, .* says 7680"):
        parallel._counted(Answered(7680, 1), SIZE, "ring")


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
        while time.monotonic() < until:  # what was started is gone soon
            os.killpg(process.pid, 0)
            time.sleep(0.05)
