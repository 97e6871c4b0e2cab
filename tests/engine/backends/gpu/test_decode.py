"""A few queries over many keys: the keys are split, and what is asked is read from kept scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import regard
from each import test_definition
from each.conftest import DEVICE, call_of
from engine.backends.gpu.interpreter import disordered, within_bounds
from engine.backends.gpu.paths import PATHS, named
from engine.backends.gpu.test_top import pruning
from regard.engine import api, plan
from regard.engine.backends.gpu import decode, few
from regard.engine.backends.gpu.bind import Bound, bind
from regard.engine.backends.gpu.few import ScoreReader
from regard.engine.call import parts_of
from regard.mask import Causal
from regard.summary import Entropy, Pooled, Received, Summary, Top
from regard.testing import Inputs, Yardstick, poisoned_memory

KINDS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


@contextmanager
def splitting() -> Iterator[None]:
    """However few keys there are: 64 at a time, two splits combined at a time."""
    with patch.multiple(decode, _FEWEST_KEYS=1, _SPLIT=64, _SPLITS=2):
        yield


@pytest.mark.kernels
@pytest.mark.parametrize(
    "path", ["score rule", "two spans", "ids and flags", "table", "squares", "packed"]
)
def test_over_split_keys_as_defined(path: str) -> None:
    case, dtype = PATHS[path]
    inside = replace(case, queries=3, keys=260 if path == "squares" else 200)
    with splitting(), within_bounds():
        test_definition.test_output_and_statistics(inside, dtype, "triton")


# ── kept scores ──────────────────────────────────────────────────────────────────────────────

MAPS = (Pooled(), Pooled(1, "max"), Pooled(7), Pooled(1500), Pooled(2501, "max"))
SIZES = (
    ((1, 1024), (3, 1025), (16, 1100)) if DEVICE == "cpu" else ((1, 8192), (3, 2501), (16, 5000))
)
CASES = (
    "cap, alibi, sink, causal", "documents", "window both sides", "plain", "lengths",
    "scattered padding", "not a window", "rule", "boolean table", "bias table", "relative bias",
    "wide values", "saturated",
)  # fmt: skip


@pytest.mark.kernels
@pytest.mark.parametrize(
    "number",
    [n if n < 3 else pytest.param(n, marks=pytest.mark.rest) for n in range(len(CASES))],
    ids=CASES,
)
def test_what_kept_scores_tell(number: int) -> None:
    """As defined; of the same bits asked soon or later, some heads at a time, alone or in a batch;
    of equal scores the lower key is first."""
    (queries, keys), dtype = SIZES[number % 3], KINDS[(0, 2, 3)[number % 3]]
    heads = {"heads": 2, "key_heads": 1} if queries == 16 else {"heads": 4, "key_heads": 2}
    case = replace(named(CASES[number]), queries=queries, keys=keys, **heads)
    inputs = case.inputs(dtype, device=DEVICE)
    inputs.key[..., 600:900, :] = inputs.key[..., 100:400, :].clone()  # equal scores
    right = Yardstick(call_of(inputs))
    best, chosen = Top((16, 5, 1)[number % 3]), Received((queries - 1, 0), "visible")
    asked = (Entropy(), Received(), *MAPS[number % 2 :: 2], best, chosen)

    def ask(*soon: Summary, given: Inputs = inputs) -> regard.Attention:
        with poisoned_memory(), disordered():
            return regard.attend(given.query, given.key, given.value, summaries=soon,
                                 implementation="triton", **given.options)  # fmt: skip

    first = ask(*asked).summarize(*asked)
    for summary in asked:
        numbers = first[summary]
        if summary == best:
            exact = best.define(right.exact, right.call.shape)
            same = (numbers.keys == exact.keys).double().mean()
            assert same == 1 if DEVICE == "cpu" else same > 0.999  # near ones may swap places
        budget = right.budget(lambda steps, s=summary: _numbers(s.define(steps, right.call.shape)))
        budget.check(_numbers(numbers), repr(summary))
    with patch.object(few, "_BUFFER", 1):
        later = ask()
        apart = {summary: later.summarize(summary)[summary] for summary in asked[1:3]}
    for summary, numbers in apart.items():
        expect_bits(numbers, first[summary], f"{summary!r} later, a head at a time")
    if CASES[number] in ("cap, alibi, sink, causal", "window both sides", "plain"):
        one = replace(inputs, query=inputs.query[1:], key=inputs.key[1:], value=inputs.value[1:])
        alone = ask(*asked, given=one).summarize(*asked)
        for summary in asked:
            batch = [part[1:] for part in parts_of(first[summary])]
            for mine, other in zip(parts_of(alone[summary]), batch, strict=True):
                assert torch.equal(mine, other), f"{summary!r} alone: other bits"


def _numbers(answer: Any) -> Tensor:
    return answer.weights if hasattr(answer, "weights") else answer


def expect_bits(answer: Any, right: Any, what: str) -> None:
    for mine, other in zip(parts_of(answer), parts_of(right), strict=True):
        assert torch.equal(mine, other), f"{what}: other bits"


@pytest.mark.kernels
def test_more_best_keys_than_a_tile_hands_on() -> None:
    """Three rounds; and beside them a larger cell than a tile."""
    case = replace(named("causal at the end"), queries=2, keys=1100, heads=2, key_heads=1)
    inputs = case.inputs(torch.float32, device=DEVICE)
    right = Yardstick(call_of(inputs))
    asked = (Top(16), Pooled(200), Top(33))
    with patch.multiple(few, _TILE=128, _LARGE=256):
        a = regard.attend(inputs.query, inputs.key, inputs.value, summaries=asked,
                          implementation="triton", **inputs.options)  # fmt: skip
        answers = a.summarize(*asked)
    for summary in asked:
        budget = right.budget(lambda steps, s=summary: _numbers(s.define(steps, right.call.shape)))
        budget.check(_numbers(answers[summary]), repr(summary))
    assert torch.equal(answers[Top(33)].keys, Top(33).define(right.exact, right.call.shape).keys)
    assert torch.equal(answers[Top(16)].keys, answers[Top(33)].keys[..., :16])


# ── keys in a paged cache ────────────────────────────────────────────────────────────────────

LENGTHS, HEADS, KEY_HEADS, DIM, SIZE = (17, 0, 70), 4, 2, 24, 16


def paged(dtype: torch.dtype, heads_first: bool) -> tuple[Tensor, Tensor]:
    """(3, 5) pages in no order; (blocks, size, Hkv, D), NaN wherever no sequence owns it."""
    pages = torch.full((3, 5), -7, dtype=torch.int32)
    held = torch.full((9, SIZE, KEY_HEADS, DIM), torch.nan, dtype=dtype)
    order = iter((7, 2, 8, 0, 5, 3, 1))
    for n, count in enumerate(LENGTHS):
        for j in range(count):
            pages[n, j // SIZE] = next(order) if j % SIZE == 0 else pages[n, j // SIZE]
            held[pages[n, j // SIZE], j % SIZE] = torch.randn(KEY_HEADS, DIM).to(dtype)
    if heads_first:
        held = held.permute(0, 2, 1, 3).contiguous().permute(0, 2, 1, 3)
    return pages.to(DEVICE), held.to(DEVICE)


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("dtype", "packed", "splits"),
    [("float32", True, False), ("bfloat16", False, False), ("float32", False, True)],
)
def test_keys_in_a_paged_cache(dtype: str, packed: bool, splits: bool) -> None:
    """What each sequence says alone, over keys taken one by one."""
    torch.manual_seed(1)
    pages, held = paged(getattr(torch, dtype), packed)
    starts = [0, 2, 4, 38] if packed else [0, 3, 6, 9]
    flat = torch.randn(starts[-1], HEADS, DIM).to(DEVICE, held.dtype)
    given: dict[str, Any] = {
        "pages": pages, "lengths": torch.tensor(LENGTHS, dtype=torch.int32, device=DEVICE),
        "mask": Causal() & regard.Window(50), "softcap": 4.0,
        "sink": torch.linspace(-1, 1, HEADS, device=DEVICE),
    }  # fmt: skip
    if packed:
        given["cu_seqlens_q"] = torch.tensor(starts, dtype=torch.int32, device=DEVICE)
    query = flat if packed else flat.unflatten(0, (3, 3))
    rule = {name: given[name] for name in ("mask", "softcap", "sink")}
    near = {"rtol": 2e-4, "atol": 2e-5}
    way = splitting() if splits else patch.object(decode, "_FEWEST_KEYS", 10**9)
    with patch.object(plan, "_order", lambda problem: ("triton",)), pruning(), way:
        a, first = regard.replay(query, held, **given), 0
        asked = (a.lse, a.entropy(), a.distance(), a.top(2).weights, a.received(), a[...])
        ones = [a.sequence(n).pooled(5) for n in range(len(LENGTHS))]
    for n, count in enumerate(LENGTHS):
        rows, cols = slice(starts[n], starts[n + 1]), slice(first, first + count)
        places = [(int(pages[n, j // SIZE]), j % SIZE) for j in range(count)]
        k = torch.stack([held[place] for place in places or [(0, 0)]])[:count].transpose(0, 1)
        right = regard.attend(flat[rows].transpose(0, 1), k, k, implementation="dense", **rule)
        exact = (right.lse, right.entropy(), right.distance(), right.top(2).weights)
        for mine, whole in zip(asked[:4], exact, strict=True):
            assert_close(mine[:, rows], whole, **near)
        assert_close(asked[4][:, cols], right.received(), **near)
        assert_close(asked[5][:, rows, cols], right.dense(), **near)
        assert_close(ones[n], right.pooled(5), **near)
        first += count


# ── when, and in how much memory ─────────────────────────────────────────────────────────────


def bound(
    queries: int, keys: int, batch: int = 1, dtype: torch.dtype = torch.bfloat16, *,
    heads: int = 8, key_heads: int = 2,
) -> Bound:  # fmt: skip
    """A call without memory."""
    query = torch.empty(batch, heads, queries, 128, dtype=dtype, device="meta")
    key = torch.empty(batch, key_heads, keys, 128, dtype=dtype, device="meta")
    return bind(api._call(query, key, key, None, None, None, None, None, 0.0))


@pytest.mark.parametrize(
    ("queries", "keys", "splits"),
    [(16, 1024, True), (0, 8192, True), (17, 8192, False), (1, 1023, False)],
)
def test_a_few_queries_over_many_keys_are_split(queries: int, keys: int, splits: bool) -> None:
    assert decode.decodes(bound(queries, keys)) is splits


@pytest.mark.parametrize("queries", [1, 16])
@pytest.mark.parametrize("keys", [1024, 131072, 10**6])
@pytest.mark.parametrize(("heads", "key_heads"), [(32, 8), (32, 32), (32, 1), (7, 7)])
def test_scores_take_256_mib_at_a_time_or_are_those_of_one_head(
    heads: int, key_heads: int, keys: int, queries: int
) -> None:
    for batch in (1, 3, 8):
        given = bound(queries, keys, batch, heads=heads, key_heads=key_heads)
        shared = batch * key_heads
        many = ScoreReader(given, True).heads
        head = heads // key_heads * queries * keys * 4
        assert 1 <= many <= shared
        assert many == 1 or many * head <= 2**28
        # and no more often than need be, each time about as many
        times = -(-shared // many)
        assert times == 1 or -(-shared // (times - 1)) * head > 2**28
