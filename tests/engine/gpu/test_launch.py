"""How kernels are launched: tiles, what the copy engine can read."""

from __future__ import annotations

import pytest
import torch

import regard
from regard.engine import plan
from regard.engine.call import Problem
from regard.engine.gpu import sweeps
from regard.engine.gpu.launch import (
    Shape,
    across,
    column_shape,
    interpreting,
    options,
    padded,
    replay_shape,
    room,
    row_shape,
    strides_of,
    value_chunk,
)
from regard.engine.gpu.sweeps import TRITON
from regard.shapes import AttentionShape

HALF, SINGLE, DOUBLE = torch.bfloat16, torch.float32, torch.float64


def problem(dim: int, dtype: torch.dtype = HALF) -> Problem:
    return Problem(
        shape=AttentionShape.of(*[(1, 2, 8, dim)] * 3), dtype=dtype, device="cuda",
        mask=regard.Window(4), bias=None, softcap=False, sink=False,
        dropout=False, gradients=True, bias_gradient=False, summaries=frozenset(),
    )  # fmt: skip


def test_the_interpreter_is_asked_for_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, said in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv("TRITON_INTERPRET", value)
        assert interpreting() is said


# ── room ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("there", "dim", "dtype", "serves"),
    [
        (99, 64, HALF, True), (99, 64, DOUBLE, True), (99, 128, HALF, False),
        (99, 80, HALF, False), (163, 128, HALF, True), (163, 256, SINGLE, True),
        (163, 256, DOUBLE, False), (227, 256, DOUBLE, True), (None, 256, DOUBLE, True),
    ],
)  # fmt: skip
def test_a_small_gpu_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, there: int | None, dim: int, dtype: torch.dtype, serves: bool
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(sweeps, "_shared_memory", lambda: there)
    said = TRITON.reasons(problem(dim, dtype))
    need = room(dim, dtype)
    reason = f"head dim {dim} takes {need} KiB of shared memory, this GPU has {there}"
    assert said == ([] if serves else [reason])


def test_where_there_is_no_room_another_one_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(sweeps.TritonSweeps, "unavailable", lambda self: [])
    monkeypatch.setattr(sweeps, "_shared_memory", lambda: 163)
    assert plan.choose(problem(128), None).name == "triton"
    monkeypatch.setattr(sweeps, "_shared_memory", lambda: 99)
    assert plan.choose(problem(128), None).name == "dense"


def test_room_is_what_the_gpu_says(monkeypatch: pytest.MonkeyPatch) -> None:
    class Properties:
        shared_memory_per_block_optin = 232448

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert sweeps._shared_memory() is None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties())
    assert sweeps._shared_memory() == 227
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: object())
    assert sweeps._shared_memory() is None


def test_wider_heads_never_need_less_room() -> None:
    for dtype in (HALF, SINGLE, DOUBLE):
        needs = [room(dim, dtype) for dim in (1, 64, 65, 128, 129, 256)]
        assert needs == sorted(needs)


# ── tiles ────────────────────────────────────────────────────────────────────────────────────


def test_wide_numbers_and_heads_get_smaller_tiles() -> None:
    for shape in (row_shape, column_shape):
        for dim in (64, 128, 256):
            cells = [
                made.rows * made.keys for made in (shape(dim, d) for d in (HALF, SINGLE, DOUBLE))
            ]
            assert cells == sorted(cells, reverse=True)
            assert shape(dim, torch.float16) == shape(dim, HALF)


@pytest.mark.parametrize("dtype", [HALF, torch.float16, SINGLE, DOUBLE], ids=str)
def test_the_replay_orders_its_sums_alike_under_any_mask(dtype: torch.dtype) -> None:
    """By rows; blocks of keys may differ. A tile is whole strips of 16 queries."""
    for dim in (5, 64, 80, 128, 256):
        plain, any_mask = (replay_shape(dim, dtype, so) for so in (True, False))
        assert plain.rows == any_mask.rows and plain.rows % 16 == 0
        assert plain.keys % plain.rows == 0 and any_mask.keys % any_mask.rows == 0
        assert plain == replay_shape(padded(dim), dtype, True)


def test_registers_are_limited_where_a_shape_says_so() -> None:
    class Plain:
        query, exact, fast, plain = torch.zeros(1, 1, 8, 64, dtype=HALF), SINGLE, True, True

    few, any_number = Shape(64, 128, 4, 3, registers=96), Shape(64, 128, 4, 3)
    assert options(Plain(), few)["maxnreg"] == 96  # type: ignore[arg-type]
    assert "maxnreg" not in options(Plain(), any_number)  # type: ignore[arg-type]


def test_a_chunk_of_values_is_no_wider_than_a_head_or_128() -> None:
    for dim in (5, 64, 128, 200, 256):
        for value_dim in (1, 40, 128, 300, 1000):
            chunk = value_chunk(value_dim, dim)
            assert chunk & (chunk - 1) == 0 and 16 <= chunk <= max(128, padded(dim))
            assert chunk >= min(value_dim, 128)


@pytest.mark.parametrize(
    ("tensor", "fetched"),
    [
        (torch.zeros(2, 3, 8, 64, dtype=HALF), True),
        (torch.zeros(2, 8, 3, 64, dtype=HALF).transpose(1, 2), True),
        (torch.zeros(2, 3, 8, 5, dtype=HALF), False),  # rows 10 bytes apart
        (torch.zeros(2, 3, 8, 4, dtype=SINGLE), True),
        (torch.zeros(2, 3, 8, 65, dtype=HALF)[..., 1:], False),  # not aligned
        (torch.zeros(2, 3, 64, 8, dtype=HALF).mT, False),  # turned
        (torch.zeros(2, 3, 1, 64, dtype=HALF).expand(2, 3, 8, 64), False),  # one row for all
        (torch.zeros(2, 3, 0, 64, dtype=HALF), False),
    ],
    ids=["plain", "heads last", "odd", "16 bytes", "shifted", "turned", "expanded", "empty"],
)
def test_what_the_copy_engine_can_fetch(tensor: torch.Tensor, fetched: bool) -> None:
    assert across(tensor) is fetched


def test_strides_are_those_of_batch_head_and_token() -> None:
    assert strides_of(torch.zeros(2, 3, 8, 64)) == (1536, 512, 64)
    assert strides_of(torch.zeros(2, 8, 3, 64).transpose(1, 2)) == (1536, 64, 192)
