"""Keys in a paged cache, read where they lie: what each sequence says alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import regard
from engine.conftest import draw, expect_alone, expect_sequence
from regard.errors import DTypeError, InputError, ShapeError, StaleError

BLOCKS, SIZE, KEY_HEADS, HEADS, DIM = 40, 16, 2, 4, 24
LENGTHS = [0, 1, 63, 129, 100]
STARTS = [0, 2, 2, 65, 66, 130]  # 2, 0, 63, 1 and 64 queries
EACH = [3 * n for n in range(6)]  # three queries each
SOME = {"near": 2e-4, "numbers": ("entropy", "distance", "max_score")}


def table() -> Tensor:
    """(5, 9): blocks in no order; -7 where a sequence has no more."""
    order = torch.randperm(BLOCKS, generator=torch.Generator().manual_seed(0))
    pages = torch.full((5, 9), -7)
    for row, count in zip(pages, LENGTHS, strict=True):
        used = -(-count // SIZE)
        row[:used], order = order[:used], order[used:]
    return pages.int()


def cache(dtype: torch.dtype, layout: str = "tokens") -> Tensor:
    """(blocks, size, Hkv, D); NaN wherever no sequence owns it, the rest of last blocks too."""
    made = torch.full((BLOCKS, SIZE, KEY_HEADS, DIM), torch.nan, dtype=dtype)
    for n, (row, count) in enumerate(zip(table(), LENGTHS, strict=True)):
        for j, key in enumerate(draw(count, KEY_HEADS, DIM, seed=n, dtype=dtype)):
            made[row[j // SIZE], j % SIZE] = key
    if layout == "heads first":
        return made.permute(0, 2, 1, 3).contiguous().permute(0, 2, 1, 3)
    if layout == "dims first":  # a block of a head as D × size, as vLLM's CPU kernels keep keys
        return made.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    if layout == "beside values":
        return torch.stack([made * torch.nan, made], 1)[:, 1]
    return made


def keys_of(held: Tensor, n: int) -> Tensor:
    """(Hkv, length, D): one sequence's keys, taken one by one."""
    row = table()[n]
    taken = [held[row[j // SIZE], j % SIZE] for j in range(LENGTHS[n])]
    return (torch.stack(taken) if taken else held[0, :0]).transpose(0, 1)


def check_every_question(dtype: torch.dtype, layout: str, packed: bool) -> None:
    """Against the definition over keys that were taken one by one; with and without an lse."""
    held, starts = cache(dtype, layout), STARTS if packed else EACH
    flat = draw(starts[-1], HEADS, DIM, seed=9, dtype=dtype)
    query = flat if packed else flat.unflatten(0, (5, 3))
    given: dict[str, Any] = {"pages": table(), "lengths": torch.tensor(LENGTHS, dtype=torch.int32)}
    given |= {"cu_seqlens_q": torch.tensor(starts, dtype=torch.int32)} if packed else {}
    wide = torch.promote_types(dtype, torch.float32)
    options = {"mask": regard.Causal() & regard.Window(50), "softcap": 4.0}
    options["sink"] = torch.linspace(-1, 1, HEADS, dtype=wide)
    a = regard.replay(query, held, **given, **options)
    assert a.shape == (HEADS, starts[-1], sum(LENGTHS))
    lse = a.lse if packed else a.lse.unflatten(1, (5, 3)).transpose(0, 1)  # (B, Hq, Lq)
    again, first = regard.replay(query, held, lse, **given, **options), 0
    for n, count in enumerate(LENGTHS):
        rows, cols = slice(starts[n], starts[n + 1]), slice(first, first + count)
        q, k = flat[rows].transpose(0, 1), keys_of(held, n)
        right = regard.attend(q, k, k, implementation="dense", **options)
        one = a.sequence(n)
        expect_sequence(a, rows, cols, right, **SOME)
        expect_sequence(again, rows, cols, right, **SOME)
        expect_sequence(one, slice(None), slice(None), right, **SOME)
        expect_alone(one, right, SOME["near"])
        first += count


LAYOUTS = ("tokens", "heads first", "dims first", "beside values")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("layout", "packed"), list(zip(LAYOUTS, [True, False] * 2, strict=True)))
def test_every_question(dtype: torch.dtype, layout: str, packed: bool) -> None:
    check_every_question(dtype, layout, packed)


@pytest.mark.parametrize("name", ["tiled", "dense"])
def test_other_implementations(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.engine.plan._order", lambda problem: (name,))
    check_every_question(torch.float32, "dims first", True)


def small() -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    lengths = torch.tensor(LENGTHS, dtype=torch.int32)
    query = draw(5, 3, HEADS, DIM, seed=9, dtype=torch.float32)
    return query, cache(torch.float32), {"pages": table(), "lengths": lengths}


def test_a_cache_that_was_written_to_is_stale_and_a_clone_is_not() -> None:
    query, held, given = small()
    a = regard.replay(query, held, mask=regard.Causal(), **given)
    kept, entropy = a.clone(), a.entropy()
    held[0] = 1.0
    with pytest.raises(StaleError):
        a.received()
    assert_close(kept.entropy(), entropy)


def test_no_sequences_and_inference_mode() -> None:
    query, held, given = small()
    with torch.inference_mode():
        nothing = regard.replay(
            query[:0], held, pages=table()[:0], lengths=torch.zeros(0, dtype=torch.int32)
        )
        assert nothing.shape == (HEADS, 0, 0) and nothing.received().shape == (HEADS, 0)
        one = regard.replay(query[:, :1], held, pages=table(), lengths=given["lengths"].long())
        assert one.entropy().isfinite().all()


# ── what is refused ──────────────────────────────────────────────────────────────────────────


def changed(place: tuple[int, int], number: int) -> Tensor:
    pages = table()
    pages[place] = number
    return pages


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"lengths": None}, InputError, "lengths is missing; a paged cache takes pages= and"),
    ({"pages": None}, InputError, "pages is missing"),
    ({"cu_seqlens_k": [0, 5]}, InputError, "cu_seqlens_k beside pages"),
    ({"lengths": torch.tensor([1, 2])}, ShapeError, "pages has 5 rows, lengths 2 numbers"),
    ({"lengths": torch.tensor([0, 1, 63, 900, 0])}, InputError, r"lengths\[3\] is 900; 9"),
    ({"lengths": torch.tensor([0, -1, 63, 0, 0])}, InputError, r"lengths\[1\] is -1"),
    ({"lengths": torch.rand(5)}, DTypeError, "lengths has dtype float32; give int32"),
    ({"pages": table().float()}, DTypeError, "pages is float32; give a tensor of int32"),
    ({"pages": table()[0]}, ShapeError, r"pages has shape \(9,\); give \(sequences, blocks\)"),
    ({"pages": changed((2, 1), 40)}, InputError, r"pages\[2, 1\] is 40; .* blocks 0 to 39"),
    ({"pages": changed((3, 0), -1)}, InputError, r"pages\[3, 0\] is -1"),
    ({"query": torch.randn(4, 3, HEADS, DIM)}, ShapeError, "beside pages of 5 sequences"),
    ({"query": torch.randn(15, HEADS, DIM)}, ShapeError, "with cu_seqlens_q"),
    ({"key": torch.randn(40, 2, DIM)}, ShapeError, r"give the cache: \(blocks, size, Hkv, D\)"),
    ({"key": torch.randn(40, 16, 2, DIM).half()}, DTypeError, "all three need one dtype"),
    ({"key": torch.randn(40, 16, 3, DIM)}, ShapeError, "beside 3 key heads of 24; give query"),
    ({"key": torch.randn(40, 2, 16, DIM)}, ShapeError, r"the cache \(40, 2, 16, 24\): "),
    ({"query": torch.randn(5, HEADS, 3, DIM)}, ShapeError, r"query has shape \(5, 4, 3, 24\)"),
    ({"query": torch.randn(5, 3, HEADS, DIM + 1)}, ShapeError, "heads of 25 numbers beside"),
    ({"lse": torch.randn(3, 3)}, ShapeError, "lse has shape"),
]


@pytest.mark.parametrize(("more", "error", "said"), REFUSED)
def test_what_is_refused(more: dict[str, Any], error: type[Exception], said: str) -> None:
    query, held, given = small()
    with pytest.raises(error, match=said):
        regard.replay(**({"query": query, "key": held} | given | more))
