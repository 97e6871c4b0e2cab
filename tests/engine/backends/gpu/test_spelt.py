"""Masks spelt out in squares, against the masks themselves."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import regard
from regard.engine.backends.gpu import backward, spelt, top
from regard.engine.backends.gpu.launch import column_shape, padded, replay_shape, row_shape
from regard.engine.backends.gpu.spelt import (
    EVERYBODY,
    NOBODY,
    SIDE,
    Spelt,
    spelt_out,
    too_many_bytes,
)
from regard.mask import Extent, Mask
from regard.mask.kinds import TileRule

CPU = torch.device("cpu")


def read(made: Spelt, queries: int, keys: int) -> Tensor:
    """(*lead, queries, keys), cell by cell as a kernel reads it."""
    i, j = torch.arange(queries)[:, None], torch.arange(keys)
    place = made.squares[..., i // SIDE, j // SIDE].long()
    byte = made.bits.view(-1, SIDE, SIDE // 8)[place.clamp(min=0), i % SIDE, j % SIDE // 8]
    return (place == EVERYBODY) | ((place >= 0) & ((byte >> (j % 8).to(torch.uint8)) & 1 != 0))


def some(size: tuple[int, ...], seed: int) -> Tensor:
    """Booleans of which about a third of the squares are all false, and a third all true."""
    dice = torch.Generator().manual_seed(seed)
    *lead, queries, keys = size
    kind = torch.randint(3, (*lead, -(-queries // SIDE), -(-keys // SIDE)), generator=dice)
    kind = kind.repeat_interleave(SIDE, -2).repeat_interleave(SIDE, -1)[..., :queries, :keys]
    return (kind == 2) | ((kind == 1) & (torch.rand(size, generator=dice) > 0.5))


def rule(table: Tensor) -> regard.Rule:
    """The same as a function."""
    if table.ndim == 2:
        return TileRule(lambda i, j: table[i, j])
    heads = table.shape[1]
    return TileRule(lambda b, h, i, j: table[b, h[:heads], i, j])


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spelt, "_KEPT", OrderedDict())


def made(mask: Mask, extent: Extent) -> Spelt:
    squares = spelt_out(mask, extent, CPU)
    assert isinstance(squares, Spelt)
    return squares


SIZES = st.sampled_from([0, 1, 7, 63, 127, 128, 129, 130, 256, 257, 300])


@given(SIZES, SIZES, st.sampled_from([(), (2, 1), (2, 3)]), st.booleans(), st.integers(0, 99))
def test_what_is_spelt_out_is_what_the_mask_allows(
    queries: int, keys: int, lead: tuple[int, ...], counted: bool, seed: int
) -> None:
    table = some((*lead, queries, keys), seed)
    extent = Extent(queries, keys, (2,), 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spelt, "_LITTLE", 0 if counted else spelt.MOST)
        patch.setattr(spelt, "_CELLS", 40_000)  # several strips
        squares_of = made(rule(table), extent)
    assert torch.equal(read(squares_of, queries, keys), table)
    heads = table.reshape(math.prod(lead), queries, keys)
    squares, by_query, by_key = (
        part.reshape(math.prod(lead), *part.shape[-2:])
        for part in (squares_of.squares, squares_of.by_query, squares_of.by_key)
    )
    for head, kinds, down, across in zip(heads, squares, by_query, by_key, strict=True):
        for r, row in enumerate(kinds.tolist()):
            for c, kind in enumerate(row):
                part = head[r * SIDE : (r + 1) * SIDE, c * SIDE : (c + 1) * SIDE]
                assert (kind == NOBODY, kind == EVERYBODY) == (not part.any(), bool(part.all()))
        check_walks(head, kinds, down)
        check_walks(head.T, kinds.T, across)


def check_walks(seen: Tensor, kinds: Tensor, lines: Tensor) -> None:
    """Each leads over the tokens of all squares of its row that somebody sees, in order."""
    tokens = range(seen.shape[1])
    for row, (length, *squares) in zip(kinds.tolist(), lines.tolist(), strict=True):
        path = [squares[n // SIDE] * SIDE + n % SIDE for n in range(length)]
        assert path == [n for n in tokens if row[n // SIDE] != NOBODY]


# ── how large ────────────────────────────────────────────────────────────────────────────────

FEW = regard.Rule(lambda i, j: (i // 128 == 2) & (j < 70))  # 64 squares, one of them in part
MANY = regard.Rule(lambda i, j: (i + j) % 2 == 0)  # all of them
LONG = Extent(1024, 1024, (2,), 3)
INDEX = 4 * (3 * 64 + 16)  # bytes beside the bits


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched from the device."""
    monkeypatch.setattr(Tensor, "__int__", lambda _: pytest.fail("the host waits"))


def limited(monkeypatch: pytest.MonkeyPatch, most: int = spelt.MOST, little: int = 0) -> None:
    """To so many bytes, of which `little` are not counted; nothing is kept from before."""
    for name, value in (("MOST", most), ("_LITTLE", little), ("_KEPT", OrderedDict())):
        monkeypatch.setattr(spelt, name, value)


def test_only_what_is_there_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Squares of which nobody or everybody sees something take no bits; one more is for them."""
    limited(monkeypatch, INDEX + 2 * 2048)
    assert made(FEW, LONG).size == spelt.MOST
    assert too_many_bytes(FEW, LONG, "cpu") is None
    assert spelt_out(MANY, LONG, CPU) == too_many_bytes(MANY, LONG, "cpu") == INDEX + 65 * 2048
    limited(monkeypatch, INDEX + 65 * 2048)
    assert made(MANY, LONG).size == spelt.MOST


def test_what_is_not_counted_has_a_place_for_every_square(
    monkeypatch: pytest.MonkeyPatch, no_waiting: None
) -> None:
    """Little masks; those that hold arrays; what a graph captures, so that a mask that was chosen
    before and forgotten is not refused, and that is not kept."""
    assert made(FEW, LONG).size == INDEX + 64 * 2048
    held = FEW & regard.Padding(torch.tensor([3, 900])) | regard.Prefix(torch.tensor([1, 2]))
    limited(monkeypatch)
    most = 2 * (INDEX + 64 * 2048)  # for two batch entries
    assert made(held, LONG).size == most and not spelt._KEPT
    limited(monkeypatch, most - 1)
    assert spelt_out(held, LONG, CPU) == too_many_bytes(held, LONG, "cpu") == most
    limited(monkeypatch, INDEX)
    monkeypatch.setattr(spelt, "capturing", lambda _: True)
    captured = made(FEW, LONG)
    assert captured.size == INDEX + 64 * 2048 and not spelt._KEPT
    right = FEW.allows(torch.arange(1024), torch.arange(1024), LONG)
    assert torch.equal(read(captured, 1024, 1024), right)


# ── what is kept ─────────────────────────────────────────────────────────────────────────────


def changed_number() -> tuple[Mask, Callable[[int], None]]:
    n = 1

    def become(given: int) -> None:
        nonlocal n
        n = given

    return regard.Rule(lambda i, j: (i + j) % 5 >= n), become


def changed_global() -> tuple[Mask, Callable[[int], None]]:
    return regard.Rule(lambda i, j: (i + j) % 5 >= NUMBER), lambda n: globals().update(NUMBER=n)


def changed_tensor() -> tuple[Mask, Callable[[int], None]]:
    n = torch.ones((), dtype=torch.int64)
    return regard.Rule(lambda i, j: (i + j) % 5 >= n), n.fill_


def another_tensor() -> tuple[Mask, Callable[[int], None]]:
    n = torch.ones((), dtype=torch.int64)

    def become(given: int) -> None:
        nonlocal n
        n = torch.tensor(given)

    return regard.Rule(lambda i, j: (i + j) % 5 >= n), become


def changed_list() -> tuple[Mask, Callable[[int], None]]:
    n = [1]
    return regard.Rule(lambda i, j: (i + j) % 5 >= n[0]), lambda given: n.__setitem__(0, given)


def called_by_another() -> tuple[Mask, Callable[[int], None]]:
    mask, become = changed_number()
    assert isinstance(mask, regard.Rule)
    fn = mask.fn
    return regard.Causal() & regard.Rule(lambda i, j: fn(i, j)), become


def changed_object() -> tuple[Mask, Callable[[int], None]]:
    least = SimpleNamespace(n=1)
    at_least = type("Least", (), {"__call__": lambda self, i, j: (i + j) % 5 >= least.n})()
    return regard.Rule(at_least), lambda given: setattr(least, "n", given)


NUMBER = 1


@pytest.mark.parametrize(
    "make", [changed_number, changed_global, changed_tensor, another_tensor, changed_list,
             called_by_another, changed_object],
)  # fmt: skip
def test_what_a_function_closes_over_counts_as_it_is(make: Any) -> None:
    """On the CPU a function is asked anew for every tile."""
    mask, become = make()
    extent, place = Extent(20, 30), torch.arange(30)
    for number in (1, 3, 1, 4, 4):
        become(number)
        right = mask.allows(place[:20], place, extent)
        assert torch.equal(read(made(mask, extent), 20, 30), right)


def test_what_is_kept_is_bounded_and_serves_calls_of_any_mode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Functions of numbers and tensors are kept."""
    ids = torch.arange(1024) // 100
    for mask in (regard.Rule(lambda i, j: ids[i] == ids[j]), changed_number()[0]):
        with torch.inference_mode():
            first = made(mask, LONG)
        assert first is made(mask, LONG) and not any(part.is_inference() for part in first)
    limited(monkeypatch, 3 * (INDEX + 64 * 2048), 2**24)
    for n in range(6):
        made(regard.Rule(lambda i, j, n=n: i >= j + n), LONG)
        assert sum(kept.size for kept in spelt._KEPT.values()) <= spelt.MOST
    assert len(spelt._KEPT) == 3


# ── tiles ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_every_tile_that_is_walked_over_lies_in_one_square(dtype: torch.dtype) -> None:
    shapes: list[Any] = [top._SHAPE, top._NARROW]
    for dim in (16, 64, 128, 256):
        shapes += [row_shape(dim, dtype), column_shape(dim, dtype), replay_shape(dim, dtype, False)]
        shapes += backward._shapes(padded(dim), dtype)
    for shape in shapes:
        assert SIDE % shape.rows == 0 and SIDE % shape.keys == 0
    assert NOBODY < 0 and EVERYBODY < 0 and NOBODY != EVERYBODY  # they are no places
