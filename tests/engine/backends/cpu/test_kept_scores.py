"""Sums over queries from the scores that a block of rows keeps: the bits of the column sweep."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.engine import api
from regard.engine.backend import ColumnAnswers, RowAnswers
from regard.engine.backends.cpu import structures
from regard.engine.backends.cpu.compile import _SOURCES, find_compiler
from regard.engine.backends.cpu.load import Kernels, _find
from regard.engine.backends.cpu.sweeps import CPU, CpuSweeps
from regard.engine.call import Call, RowState
from regard.summary import (
    ColumnSums,
    Entropy,
    Matching,
    MaxScore,
    Pooled,
    Received,
    Summary,
    Top,
    Visible,
)
from regard.testing import poisoned_memory

TYPES = (torch.float32, torch.float64)
each_type = pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: str(dtype)[6:])
MEASURES = (
    Entropy(), MaxScore(), Visible(), Top(5), Pooled(7), Pooled(32, "max"),
    Matching(torch.arange(200) % 3, torch.arange(530) % 3),
)  # fmt: skip


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    dice = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=dice, dtype=torch.float64).to(dtype)


def tensors(
    dtype: torch.dtype = torch.float32,
    queries: int = 200,
    keys: int = 530,
    batch: int = 2,
    heads: tuple[int, int] = (4, 2),
) -> list[Tensor]:
    """Several blocks of queries and tiles of keys, ragged; heads that share keys."""
    sizes = [(heads[0], queries, 20), (heads[1], keys, 20), (heads[1], keys, 9)]
    return [random(batch, *size, dtype=dtype, seed=n) for n, size in enumerate(sizes)]


EVERY = ColumnSums(seen=True, offsets=True, largest=True)


def call_of(given: list[Tensor], **options: Any) -> Call:
    names = ("mask", "scale", "bias", "softcap", "sink")
    return api._call(*given, *(options.get(name) for name in names), 0.0)


def apart(
    call: Call, measures: tuple[Summary, ...] = (), given: RowState | None = None
) -> tuple[RowAnswers, ColumnAnswers]:
    """Two sweeps."""
    found = CPU.rows(call, True, measures, given)
    return found, CPU.columns(call, given or found.state, None, None, EVERY)


def together(
    call: Call, measures: tuple[Summary, ...] = (), given: RowState | None = None
) -> tuple[RowAnswers, ColumnAnswers]:
    """One."""
    with pytest.MonkeyPatch.context() as patch, poisoned_memory():
        patch.delattr(CpuSweeps, "columns")  # nobody falls back on it
        return CPU.rows_with_columns(call, True, measures, EVERY, given)


def expect_same_bits(
    mine: tuple[RowAnswers, ColumnAnswers], theirs: tuple[RowAnswers, ColumnAnswers]
) -> None:
    for one, other in zip(_flat(mine), _flat(theirs), strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one.isnan(), other.isnan())
        assert torch.equal(one.nan_to_num(), other.nan_to_num())


def _flat(found: tuple[RowAnswers, ColumnAnswers]) -> list[Tensor]:
    rows, columns = found
    given = rows.output, *rows.state, *columns._replace(product=columns.mass)
    flat = [part for part in given if part is not None]
    assert len(flat) == 8
    for value in rows.measured.values():
        flat += [value] if isinstance(value, Tensor) else list(value)
    return flat


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
    "everything": lambda dtype: {
        "mask": regard.Window(100) & regard.Rule(lambda i, j: (i + j) % 7 != 0),
        "softcap": 3.0,
        "bias": regard.ALiBi(torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=dtype)),
        "sink": torch.tensor([0.0, 1.0, -1.0, 2.0], dtype=dtype),
    },
}


@pytest.fixture(params=_find().instruction_sets() if isinstance(_find(), Kernels) else ["none"])
def isa(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels of one instruction set."""
    found = _find()
    assert isinstance(found, Kernels), found
    chosen = Kernels(found.path, request.param)
    monkeypatch.setattr("regard.engine.backends.cpu.sweeps.load", lambda: chosen)


@each_type
@pytest.mark.parametrize("problem", PROBLEMS)
def test_as_by_two_sweeps_and_as_defined(isa: None, dtype: torch.dtype, problem: str) -> None:
    given, options = tensors(dtype), PROBLEMS[problem](dtype)
    call = call_of(given, **options)
    found = together(call, MEASURES)
    expect_same_bits(found, apart(call, MEASURES))
    exact = regard.attend(*given, implementation="dense", **options)
    grain = 100 * torch.finfo(dtype).eps
    mass, seen, _, offsets, largest = found[1]
    assert seen is not None
    torch.testing.assert_close(mass, exact.received(), rtol=grain, atol=grain)
    torch.testing.assert_close(
        mass / seen.clamp(min=1), exact.received(per="visible"), rtol=grain, atol=grain
    )
    torch.testing.assert_close(largest, exact.received(how="max"), rtol=grain, atol=grain)
    torch.testing.assert_close(
        offsets, exact.summarize(regard.Offsets())[regard.Offsets()], rtol=grain, atol=grain
    )


@each_type
@pytest.mark.parametrize("queries", [1, 63, 64, 65])
@pytest.mark.parametrize("keys", [1, 31, 255, 256, 257, 513])
def test_ragged_sizes(dtype: torch.dtype, queries: int, keys: int) -> None:
    given = tensors(dtype, queries, keys)
    for mask in (None, regard.Causal()):
        call = call_of(given, mask=mask)
        found = together(call)
        expect_same_bits(found, apart(call))
        exact = regard.attend(*given, mask=mask, implementation="dense")
        torch.testing.assert_close(found[1].mass, exact.received())


@pytest.mark.parametrize(("queries", "keys"), [(0, 5), (5, 0), (0, 0)])
def test_nothing(queries: int, keys: int) -> None:
    call = call_of(tensors(torch.float32, queries, keys))
    expect_same_bits(together(call), apart(call))


@each_type
@pytest.mark.parametrize("problem", PROBLEMS)
def test_relative_to_an_lse_that_was_given(dtype: torch.dtype, problem: str) -> None:
    """Of a larger set of keys; some of its rows are empty, and some below their own maximum."""
    call = call_of(tensors(dtype), **PROBLEMS[problem](dtype))
    peak, log = CPU.rows(call, False, ()).state
    peak = peak + random(*peak.shape, dtype=dtype, seed=7)
    given = RowState(peak.index_fill(-1, torch.tensor([3, 70]), -torch.inf), log + 0.5)
    measures = tuple(m for m in MEASURES if m != Entropy())
    expect_same_bits(together(call, measures, given), apart(call, measures, given))


@each_type
@pytest.mark.parametrize("heads", [(1, 1), (3, 3), (6, 2)], ids=str)
@pytest.mark.parametrize("problem", ["plain", "causal", "everything"])
def test_any_number_of_threads(dtype: torch.dtype, heads: tuple[int, int], problem: str) -> None:
    """One head is shared by threads, which add in turn; blocks of a causal one take longer and
    longer, and a mask in strips begins where the last strip ended."""
    options = PROBLEMS[problem](dtype)
    for name in ("bias", "sink"):
        options.pop(name, None)
    call = call_of(tensors(dtype, 700, 700, 1, heads), **options)
    before = torch.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3, 7):
            torch.set_num_threads(count)
            with pytest.MonkeyPatch.context() as patch:
                if count == 3:
                    patch.setattr("regard.engine.backends.cpu.bind._STRIP_BYTES", 1)
                found.append(together(call))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        expect_same_bits(other, found[0])
    expect_same_bits(found[0], apart(call))


def test_alone_or_in_a_batch() -> None:
    given = tensors(batch=3)
    many = together(call_of(given, mask=regard.Causal()))
    alone = together(call_of([t[1:2] for t in given], mask=regard.Causal()))
    for one, other in zip(_flat(alone), _flat(many), strict=True):
        assert torch.equal(one, other[1:2])


@each_type
def test_a_nan_shows_where_its_row_looks(dtype: torch.dtype) -> None:
    given = tensors(dtype, 200, 200, 1)
    given[0][0, 1, 70, 3] = torch.nan
    call = call_of(given, mask=regard.Causal())
    found = together(call)
    expect_same_bits(found, apart(call))
    shows = found[1].mass.isnan()
    assert shows[0, 1, :71].all() and not shows[0, 1, 128:].any()  # its block ends there
    assert not shows[0, [0, 2, 3]].any()


@each_type
def test_the_backward_adds_in_the_same_order(dtype: torch.dtype) -> None:
    given = [t.requires_grad_() for t in tensors(dtype)]
    known = regard.attend(*given, mask=regard.Causal(), summaries=(Received(),))
    later = regard.attend(*given, mask=regard.Causal(), in_backward=(Received(),))
    later.output.sum().backward()
    assert torch.equal(known.detach().received(), later.detach().received())


def test_more_maps_than_a_sweep_takes() -> None:
    call = call_of(tensors())
    measures = tuple(Pooled(cell) for cell in range(3, 9))
    found = together(call, measures)
    expect_same_bits(found, apart(call, measures))
    assert set(found[0].measured) == set(measures), "and the mass is added once"


# ── how much is kept ─────────────────────────────────────────────────────────────────────────


@each_type
def test_up_to_a_limit(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    most = structures.MOST_KEPT_BYTES // structures.BLOCK_ROWS // dtype.itemsize
    swept: list[int] = []
    original = CpuSweeps.columns

    def columns(self: CpuSweeps, call: Call, *rest: Any) -> ColumnAnswers:
        swept.append(call.shape.keys)
        return original(self, call, *rest)

    monkeypatch.setattr(CpuSweeps, "columns", columns)
    for keys in (most, most + 1):
        q, k, v = tensors(dtype, 3, keys, 1, (2, 2))
        a = regard.attend(q, k, v, summaries=(Received(), Entropy()), implementation="cpu")
        exact = regard.attend(q, k, v, implementation="dense")
        torch.testing.assert_close(a.received(), exact.received())
    assert swept == [most + 1]


def test_questions_are_asked_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the forward, and afterwards in company of rows: no column sweep."""
    monkeypatch.delattr(CpuSweeps, "columns")
    given, asked = tensors(), (Received(), Entropy(), regard.Offsets(), Received(per="visible"))
    exact = regard.attend(*given, implementation="dense").summarize(*asked)
    known = regard.attend(*given, summaries=asked, implementation="cpu")
    later = regard.attend(*given, implementation="cpu")
    for a in (known, later):
        for summary, found in a.summarize(*asked).items():
            torch.testing.assert_close(found, exact[summary], msg=repr(summary))


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
    flags = ["-std=gnu11", "-O1", "-w", "-shared", "-fPIC", "-pthread", f"-I{_SOURCES}"]
    command = [*compiler.split(), *flags, str(source), "-o", str(made), "-lm"]
    subprocess.run(command, check=True, timeout=300)
    scarce = Kernels(made)
    monkeypatch.setattr("regard.engine.backends.cpu.sweeps.load", lambda: scarce)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with pytest.raises(MemoryError, match="working memory"):
            together(call_of(tensors(torch.float32, 700, 700, 1, (1, 1))))
    finally:
        torch.set_num_threads(before)
