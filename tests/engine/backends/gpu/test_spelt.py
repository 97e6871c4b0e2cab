"""Masks spelt out in squares, against the masks themselves."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import regard
from regard.engine.backends.gpu import spelt
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
    found = spelt_out(mask, extent, CPU)
    assert isinstance(found, Spelt)
    return found


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
        found = made(rule(table), extent)
    assert torch.equal(read(found, queries, keys), table)
    heads = table.reshape(math.prod(lead), queries, keys)
    squares, by_query, by_key = (
        part.reshape(math.prod(lead), *part.shape[-2:])
        for part in (found.squares, found.by_query, found.by_key)
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


def test_only_what_is_there_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Squares of which nobody or everybody sees something take no bits; one more is for them."""
    monkeypatch.setattr(spelt, "_LITTLE", 0)
    monkeypatch.setattr(spelt, "MOST", INDEX + 2 * 2048)
    assert made(FEW, LONG).size == spelt.MOST
    assert too_many_bytes(FEW, LONG, "cpu") is None
    assert spelt_out(MANY, LONG, CPU) == too_many_bytes(MANY, LONG, "cpu") == INDEX + 65 * 2048
    monkeypatch.setattr(spelt, "MOST", INDEX + 65 * 2048)
    spelt._KEPT.clear()
    assert made(MANY, LONG).size == spelt.MOST


def test_what_cannot_be_counted_has_a_place_for_every_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Masks that hold arrays; nothing is fetched for them."""
    lengths = torch.tensor([3, 900])
    held = FEW & regard.Padding(lengths) | regard.Prefix(torch.tensor([1, 2]))
    monkeypatch.setattr(spelt, "_LITTLE", 0)
    monkeypatch.setattr(Tensor, "__int__", lambda _: pytest.fail("the host waits"))
    most = 2 * (INDEX + 64 * 2048)  # for two batch entries
    found = made(held, LONG)
    assert found.size == most and not spelt._KEPT
    monkeypatch.setattr(spelt, "MOST", most - 1)
    assert spelt_out(held, LONG, CPU) == too_many_bytes(held, LONG, "cpu") == most


def test_little_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "__int__", lambda _: pytest.fail("the host waits"))
    assert made(FEW, LONG).size == INDEX + 64 * 2048


def test_a_trace_or_a_capture_judges_by_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spelt, "MOST", INDEX + 2 * 2048)
    most = INDEX + 64 * 2048
    with FakeTensorMode():
        assert too_many_bytes(FEW, LONG, "cpu") == most
    assert too_many_bytes(FEW, LONG, "meta") == most
    with monkeypatch.context() as patch:
        patch.setattr(spelt, "capturing", lambda _: True)
        assert too_many_bytes(FEW, LONG, "cpu") == most
    assert too_many_bytes(FEW, LONG, "cpu") == most  # little is not counted
    monkeypatch.setattr(spelt, "_LITTLE", 0)
    spelt._KEPT.clear()
    assert too_many_bytes(FEW, LONG, "cpu") is None


# ── what is kept ─────────────────────────────────────────────────────────────────────────────


def counting(asked: list[int]) -> Mask:
    """Notes how many rows it is asked about."""

    class Counted(Mask):
        def allows(self, i: Any, j: Any, extent: Extent) -> Any:
            asked.append(len(i))
            return i[:, None] >= j

    return Counted()


def test_a_mask_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    mask = counting(asked)
    for little, times in ((2**24, 1), (0, 2)):  # twice where squares are counted first
        monkeypatch.setattr(spelt, "_LITTLE", little)
        spelt._KEPT.clear()
        asked.clear()
        assert made(mask, LONG) is made(mask, LONG)
        assert asked.count(1024) == times
        assert made(mask, Extent(1024, 1000)) is not made(mask, LONG)


NUMBER = 1


def changed_number() -> tuple[Mask, Callable[[int], None]]:
    n = 1

    def become(given: int) -> None:
        nonlocal n
        n = given

    return regard.Rule(lambda i, j: (i + j) % 5 >= n), become


def changed_global() -> tuple[Mask, Callable[[int], None]]:
    def become(given: int) -> None:
        globals()["NUMBER"] = given

    return regard.Rule(lambda i, j: (i + j) % 5 >= NUMBER), become


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
    class Least:
        n = 1

        def __call__(self, i: Tensor, j: Tensor) -> Tensor:
            return (i + j) % 5 >= self.n

    least = Least()
    return regard.Rule(least), lambda given: setattr(least, "n", given)


@pytest.mark.parametrize(
    "make", [changed_number, changed_global, changed_tensor, another_tensor, changed_list,
             called_by_another, changed_object],
)  # fmt: skip
def test_what_a_function_closes_over_counts_as_it_is(make: Any) -> None:
    """On the CPU a function is asked anew for every tile."""
    spelt._KEPT.clear()
    mask, become = make()
    extent, place = Extent(20, 30), torch.arange(30)
    for number in (1, 3, 1, 4, 4):
        become(number)
        right = mask.allows(place[:20], place, extent)
        assert torch.equal(read(made(mask, extent), 20, 30), right)


def test_functions_of_numbers_and_tensors_are_kept() -> None:
    spelt._KEPT.clear()
    ids = torch.arange(1024) // 100
    for mask in (regard.Rule(lambda i, j: ids[i] == ids[j]), changed_number()[0]):
        assert made(mask, LONG) is made(mask, LONG)


def test_that_a_mask_is_too_large_is_kept_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spelt, "_LITTLE", 0)
    monkeypatch.setattr(spelt, "MOST", INDEX)
    asked: list[int] = []
    mask = counting(asked)
    sizes = {spelt_out(mask, LONG, CPU) for _ in range(3)}
    assert len(sizes) == 1 and asked.count(1024) == 1


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spelt, "MOST", 3 * (INDEX + 64 * 2048))
    for n in range(6):
        made(regard.Rule(lambda i, j, n=n: i >= j + n), LONG)
        assert sum(one.size for one in spelt._KEPT.values()) <= spelt.MOST
    assert len(spelt._KEPT) == 3


def test_what_a_graph_captures_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is anything counted: a mask that was chosen before and forgotten is not refused."""
    monkeypatch.setattr(spelt, "capturing", lambda _: True)
    monkeypatch.setattr(Tensor, "__int__", lambda _: pytest.fail("the host waits"))
    monkeypatch.setattr(spelt, "MOST", INDEX)
    found = made(FEW, LONG)
    assert found.size == INDEX + 64 * 2048 and not spelt._KEPT
    right = FEW.allows(torch.arange(1024), torch.arange(1024), LONG)
    assert torch.equal(read(found, 1024, 1024), right)


def test_what_is_kept_serves_calls_of_any_mode() -> None:
    with torch.inference_mode():
        found = made(FEW, LONG)
    assert not any(part.is_inference() for part in found)


# ── tiles ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_every_tile_that_is_walked_over_lies_in_one_square(dtype: torch.dtype) -> None:
    from regard.engine.backends.gpu import backward, top

    shapes: list[Any] = [top._SHAPE, top._NARROW]
    for dim in (16, 64, 128, 256):
        shapes += [row_shape(dim, dtype), column_shape(dim, dtype), replay_shape(dim, dtype, False)]
        shapes += backward._shapes(padded(dim), dtype)
    for shape in shapes:
        assert SIDE % shape.rows == 0 and SIDE % shape.keys == 0


def test_nobody_is_no_place() -> None:
    assert NOBODY < 0 and EVERYBODY < 0 and NOBODY != EVERYBODY
