"""Sums over queries from the scores that a block of rows keeps: the bits of the column sweep."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import regard
from each.conftest import call_of
from engine.backends.cpu.conftest import TYPES, attend, each_type, everything, random, threads
from regard.engine.backends.cpu import structures
from regard.engine.backends.cpu.compile import _SOURCES, find_compiler
from regard.engine.backends.cpu.load import Kernels
from regard.engine.backends.cpu.sweeps import CPU, CpuSweeps
from regard.engine.call import Call, RowState, parts_of
from regard.summary import (
    ColumnSums,
    Entropy,
    Matching,
    MaxScore,
    Offsets,
    Pooled,
    Received,
    Summary,
    Top,
    Visible,
)
from regard.testing import Inputs, poisoned_memory

COLUMNS = (Received(), Received(per="visible"), Received(how="max"), Offsets())
ROWS = (
    Entropy(), MaxScore(), Visible(), Top(5), Pooled(7), Pooled(32, "max"),
    Matching(torch.arange(200) % 3, torch.arange(530) % 3),
)  # fmt: skip


def tensors(
    dtype: torch.dtype = torch.float32, queries: int = 200, keys: int = 530, batch: int = 2,
    heads: tuple[int, int] = (4, 2),
) -> list[Tensor]:  # fmt: skip
    """Several blocks of queries and tiles of keys, ragged; heads that share keys."""
    sizes = [(heads[0], queries, 20), (heads[1], keys, 20), (heads[1], keys, 9)]
    return [random(batch, *size, dtype=dtype, seed=n) for n, size in enumerate(sizes)]


@contextmanager
def no_column_sweep() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(CpuSweeps, "columns")
        yield


def together(given: list[Tensor], asked: tuple[Summary, ...], **options: Any) -> list[Tensor]:
    """Sums over queries in company of rows: one sweep, over memory full of rubbish."""
    with no_column_sweep(), poisoned_memory():
        a = attend(*given, summaries=(Entropy(), *asked), **options)
        return [part for one in asked for part in parts_of(a.summarize(one)[one])]


def apart(given: list[Tensor], asked: tuple[Summary, ...], **options: Any) -> list[Tensor]:
    """Each asked for by itself, later."""
    a = attend(*given, **options)
    return [part for one in asked for part in parts_of(a.summarize(one)[one])]


def expect_same_bits(mine: list[Tensor], theirs: list[Tensor]) -> None:
    for one, other in zip(mine, theirs, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one.isnan(), other.isnan())
        assert torch.equal(one.nan_to_num(), other.nan_to_num())


# ── the same bits ────────────────────────────────────────────────────────────────────────────

PROBLEMS: dict[str, Callable[[torch.dtype], dict[str, Any]]] = {
    "plain": lambda dtype: {},
    "causal": lambda dtype: {"mask": regard.Causal()},
    "from the start": lambda dtype: {"mask": regard.Causal(align="start")},
    "window": lambda dtype: {"mask": regard.Window(70, 3)},
    "rows and entries that see nothing": lambda dtype: {
        "mask": regard.Padding([0, 301], [200, 90])
    },
    "a table": lambda dtype: {"mask": random(1, 1, 200, 530) > 0.5},
    "a bias": lambda dtype: {"bias": random(4, 200, 530, dtype=dtype, seed=5)},
    "a bias that hides": lambda dtype: {
        "bias": random(200, 530, dtype=dtype, seed=5).masked_fill(random(200, 530) > 1, -torch.inf)
    },
    "everything": everything,
}


@pytest.mark.sampled(20)
@each_type
@pytest.mark.parametrize("problem", PROBLEMS)
def test_as_by_two_sweeps_and_as_defined(isa: str, dtype: torch.dtype, problem: str) -> None:
    given, options = tensors(dtype), PROBLEMS[problem](dtype)
    asked = (*COLUMNS, *ROWS)
    mine = together(given, asked, **options)
    expect_same_bits(mine, apart(given, asked, **options))
    exact = regard.attend(*given, implementation="dense", **options)
    grain = 100 * torch.finfo(dtype).eps
    for summary, numbers in zip(COLUMNS, mine, strict=False):
        right = exact.summarize(summary)[summary]
        torch.testing.assert_close(numbers, right, rtol=grain, atol=grain, msg=repr(summary))


SIZES = st.sampled_from([0, 1, 31, 63, 64, 65, 200, 255, 256, 257, 513, 700])
HEADS = st.sampled_from([(1, 1), (3, 3), (6, 2), (4, 1)])


@given(
    SIZES, SIZES, HEADS, st.sampled_from([1, 2]), st.sampled_from(TYPES),
    st.sampled_from(["plain", "causal", "window", "everything"]),
    st.sampled_from([2, 3, 7]), st.booleans(),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_whatever_the_sizes_and_however_many_threads(
    queries: int, keys: int, heads: tuple[int, int], batch: int, dtype: torch.dtype, problem: str,
    count: int, strips: bool,
) -> None:  # fmt: skip
    """One head is shared by threads, which add in turn; blocks of a causal one take longer and
    longer, and a mask in strips begins where the last strip ended. Alone or in a batch."""
    options, tensors_of = PROBLEMS[problem](dtype), tensors(dtype, queries, keys, batch, heads)
    rule = {name: it for name, it in options.items() if name not in ("bias", "sink")}
    right = apart(tensors_of, COLUMNS, **rule)
    with threads(count), pytest.MonkeyPatch.context() as patch:
        if strips:
            patch.setattr("regard.engine.backends.cpu.bind._STRIP_BYTES", 1)
        expect_same_bits(together(tensors_of, COLUMNS, **rule), right)
    alone = together([t[:1] for t in tensors_of], COLUMNS, **rule)
    expect_same_bits(alone, [t[:1] for t in right])
    exact = regard.attend(*tensors_of, implementation="dense", **rule)
    torch.testing.assert_close(right[0], exact.received())


EVERY = ColumnSums(seen=True, offsets=True, largest=True)


def call(given: list[Tensor], **options: Any) -> Call:
    return call_of(Inputs(given[0], given[1], given[2], options))


@each_type
@pytest.mark.parametrize("problem", PROBLEMS)
def test_relative_to_an_lse_that_was_given(dtype: torch.dtype, problem: str) -> None:
    """Of a larger set of keys; some of its rows are empty, and some below their own maximum."""
    asked = call(tensors(dtype), **PROBLEMS[problem](dtype))
    peak, log = CPU.rows(asked, False, ()).state
    peak = peak + random(*peak.shape, dtype=dtype, seed=7)
    given = RowState(peak.index_fill(-1, torch.tensor([3, 70]), -torch.inf), log + 0.5)
    measures = tuple(m for m in ROWS if m != Entropy())
    rows = CPU.rows(asked, True, measures, given)
    columns = CPU.columns(asked, given, None, None, EVERY)
    with no_column_sweep(), poisoned_memory():
        both = CPU.rows_with_columns(asked, True, measures, EVERY, given)
    for one, other in zip(both, (rows, columns), strict=True):
        expect_same_bits(_tensors(one), _tensors(other))


def _tensors(answers: Any) -> list[Tensor]:
    """All of them, however deep."""
    if isinstance(answers, Tensor):
        return [answers]
    parts = answers.values() if isinstance(answers, dict) else answers
    return [] if answers is None else [t for part in parts for t in _tensors(part)]


def test_more_maps_than_a_sweep_takes() -> None:
    maps = tuple(Pooled(cell) for cell in range(3, 9))
    expect_same_bits(together(tensors(), (*COLUMNS, *maps)), apart(tensors(), (*COLUMNS, *maps)))


@each_type
def test_scores_are_kept_up_to_a_limit(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    most = structures.MOST_KEPT_BYTES // structures.BLOCK_ROWS // dtype.itemsize
    swept, original = list[int](), CpuSweeps.columns

    def columns(self: CpuSweeps, asked: Call, *rest: Any) -> Any:
        swept.append(asked.shape.keys)
        return original(self, asked, *rest)

    monkeypatch.setattr(CpuSweeps, "columns", columns)
    for keys in (most, most + 1):
        given = tensors(dtype, 3, keys, 1, (2, 2))
        a = attend(*given, summaries=(Received(), Entropy()))
        exact = regard.attend(*given, implementation="dense")
        torch.testing.assert_close(a.received(), exact.received())
    assert swept == [most + 1]


# ── without memory ───────────────────────────────────────────────────────────────────────────

SCARCE = """
#include <stdatomic.h>
#include <stdlib.h>
static atomic_int taken;
static void *scarce(size_t unit, size_t bytes) {
    return atomic_fetch_add(&taken, 1) < 4 ? NULL : aligned_alloc(unit, bytes);
}
#define aligned_alloc scarce
#include "regard_cpu.c"
"""


def test_a_thread_without_memory_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first block finds none and passes its turn on: the sweep fails instead of standing
    still."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    source, made = tmp_path / "scarce.c", tmp_path / "scarce.so"
    source.write_text(SCARCE)
    flags = ["-std=gnu11", "-O0", "-w", "-shared", "-fPIC", "-pthread", f"-I{_SOURCES}"]
    command = [*compiler.split(), *flags, str(source), "-o", str(made), "-lm"]
    subprocess.run(command, check=True, timeout=300)
    scarce = Kernels(made)
    monkeypatch.setattr("regard.engine.backends.cpu.sweeps.load", lambda: scarce)
    with threads(3), pytest.raises(MemoryError, match="working memory"):
        together(tensors(torch.float32, 700, 700, 1, (1, 1)), COLUMNS)
