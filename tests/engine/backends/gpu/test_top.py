"""The heaviest keys by block maxima are those of the sweep that looks at every score, in whatever
order programs come; among equals the lower key is first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

import regard
from each.conftest import DEVICE
from engine.backends.gpu.interpreter import disordered
from regard.engine import api
from regard.engine.backends.gpu import prune
from regard.engine.backends.gpu.bind import Bound, bind
from regard.engine.backends.gpu.launch import blocks, row_shape
from regard.engine.backends.gpu.prune import Pruner
from regard.engine.backends.gpu.wanted import BLOCK, RUN
from regard.mask import Causal, Mask, Padding, Window
from regard.summary import Top
from regard.testing import poisoned_memory

ON = ("triton",) if DEVICE == "cpu" else ("triton", "hopper")
DIMS = (16,) if DEVICE == "cpu" else (64, 128)
TOKENS = (140, 200) if DEVICE == "cpu" else (2100, 4096)
BUFFERS = (1, 2**28) if DEVICE == "cpu" else (2**22, 2**28)  # some rows at a time; all at once
MASKS: dict[str, Mask | None] = {"all": None, "causal": Causal(), "window": Window(700)}


@contextmanager
def looking_at_every_score() -> Iterator[None]:
    with patch.object(prune, "_FEWEST_KEYS", 10**9):
        yield


@contextmanager
def pruning(buffer: int = 2**28) -> Iterator[None]:
    """However few keys there are."""
    with (
        patch.multiple(prune, _FEWEST_KEYS=1, _FEWEST_BLOCKS=0, _BUFFER=buffer),
        poisoned_memory(), disordered(),
    ):  # fmt: skip
        yield


def tensors(queries: int, keys: int, dim: int = 16) -> list[Tensor]:
    dice = torch.Generator().manual_seed(queries)
    sizes = (2, queries), (1, keys), (1, keys)
    return [
        torch.randn(1, heads, n, dim, generator=dice).to(DEVICE, torch.bfloat16)
        for heads, n in sizes
    ]


def expect_same(given: list[Tensor], k: int, buffer: int, name: str, mask: Mask | None) -> None:
    with pruning(buffer):
        mine = regard.attend(*given, mask=mask, implementation=name, summaries=(Top(k),)).top(k)
    with looking_at_every_score():
        swept = regard.attend(*given, mask=mask, implementation=name).top(k)
    assert torch.equal(mine.keys, swept.keys)
    torch.testing.assert_close(mine.weights, swept.weights)
    if DEVICE == "cpu":  # a GPU adds products in an order of its own, and near ones swap places
        exact = regard.attend(*given, mask=mask, implementation="dense").top(k)
        assert torch.equal(mine.keys, exact.keys)


@pytest.mark.sampled(4)
@pytest.mark.kernels
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("implementation", ON)
@pytest.mark.parametrize("buffer", BUFFERS)
@pytest.mark.parametrize("k", [1, 6, 16])
@pytest.mark.parametrize("mask", MASKS)
def test_pruning_loses_nothing(
    mask: str, k: int, buffer: int, implementation: str, dim: int
) -> None:
    query, key, value = tensors(*TOKENS, dim)
    # equal keys in every block, so that equal maxima push each other out
    key[..., 64:144, :] = key[..., :80, :].clone()
    key[..., 150:190, :] = key[..., 10:50, :].clone()
    expect_same([query, key, value], k, buffer, implementation, MASKS[mask])


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("queries", "keys", "k"),
    [(70, 300, 5), (129, 64, 16), (20, 193, 1), pytest.param(64, 128, 8, marks=pytest.mark.rest),
     pytest.param(70, 300, 16, marks=pytest.mark.rest)],
)  # fmt: skip
def test_the_lower_of_equal_keys_comes_first(queries: int, keys: int, k: int) -> None:
    """Scores that are equal by the dozen: within a block, across blocks, in all of a row."""
    masks = {300: None, 64: Causal(), 193: Window(40, 70), 128: Causal() & Padding([100])}
    query, key, value = tensors(queries, keys)
    query[..., 3:9, :] = 0.0  # every score 0
    key[..., 5:60, :] = key[..., 5:6, :].clone()  # more of a block than there are places
    key[..., 100:150, :] = key[..., 5:6, :].clone()
    key[..., 150:, :] = key[..., : max(keys - 150, 0), :].clone()
    expect_same([query, key, value], k, 2**28, "triton", masks[keys])


# ── when, and in how much memory ─────────────────────────────────────────────────────────────

HALF, SINGLE = torch.bfloat16, torch.float32


def bound(heads: int, queries: int, keys: int, dtype: torch.dtype = HALF) -> Bound:
    """A call without memory."""
    query = torch.empty(1, heads, queries, 128, dtype=dtype, device="meta")
    key = torch.empty(1, heads, keys, 128, dtype=dtype, device="meta")
    return bind(api._call(query, key, key, Causal(), None, None, None, None, 0.0))


@pytest.mark.parametrize(
    ("queries", "keys", "count", "pays"),
    [(17, 8192, 8, True), (16, 8192, 8, False), (64, 2048, 16, True), (64, 4096, 17, False),
     (64, 1024, 9, False)],
)  # fmt: skip
def test_pruning_is_for_few_of_many_keys_of_many_queries(
    queries: int, keys: int, count: int, pays: bool
) -> None:
    assert prune.prunes(bound(2, queries, keys), count) is pays


def bytes_of(pruner: Pruner) -> int:
    """At a time: maxima, survivors (score and key), lists."""
    units, many = pruner.bound.units, blocks(pruner.bound.rule.keys, BLOCK)
    maxima = units * many * pruner.tall * 4
    survivors = units * pruner.tall * pruner.count**2 * 8
    lists = units * pruner.tall * (pruner.count * 16 + 4)
    work = units * (blocks(pruner.tall * pruner.count, RUN) + many) * 12 + units * many * 8
    return maxima + survivors + lists + work


@pytest.mark.parametrize("count", [1, 8, 16])
@pytest.mark.parametrize(
    ("heads", "tokens"),
    [(8, 131072), (16, 16384), (64, 4096), (4, 32768), (1, 2048), (3, 17), (100, 127), (3, 5000)],
)
def test_memory_stays_small_and_rows_come_in_whole_blocks(
    heads: int, tokens: int, count: int
) -> None:
    pruner = Pruner(bound(heads, tokens, max(tokens, 2048)), count)
    assert bytes_of(pruner) <= 2**29
    # and no less is done at a time than half of it would allow
    assert pruner.tall >= tokens or bytes_of(pruner) > 2**26
    block = row_shape(128, HALF).rows  # of any forward
    assert pruner.tall % block == 0
    assert pruner.tall & (pruner.tall - 1) == 0 or pruner.tall == blocks(tokens, block) * block
