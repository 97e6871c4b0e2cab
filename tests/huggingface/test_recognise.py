"""Each mask function of transformers and the regard mask made of it say the same of every cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import masking_utils as made

from huggingface.cells import cells, is_intervals
from installed import needs
from regard.huggingface.recognise import Stand, recognise
from regard.mask import Causal, Extent, Mask, Padding, Rule, Table, Window
from regard.mask.base import Both, Either

BATCH, POSITIONS = 2, 24
PACKED = torch.tensor([[0] * 5 + [1] * 9 + [2] * 10, [0] * 20 + [1] * 4])
BLOCKS = torch.full((BATCH, POSITIONS), -1)
BLOCKS[0, 3:7], BLOCKS[0, 10:14], BLOCKS[1, 0:5], BLOCKS[1, 8:12] = 0, 1, 7, -4
REAL = torch.ones(BATCH, POSITIONS, dtype=torch.bool)
REAL[0, :6], REAL[1, 20:] = False, False
LEFT = torch.tensor([6, 0])


def even(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """A user's function: keys at even distance, and in the second entry all."""
    return ((q - k) % 2 == 0) | (b == 1)


def first_head(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """Nobody but head 0, the only one transformers asks about."""
    return (h == 0) & (k <= q)


def blocks() -> Any:
    """Tokens of one picture see each other."""
    needs("transformers", "5.9", "masking_utils.blockwise_overlay is there")
    return made.blockwise_overlay(BLOCKS)


def both_ways() -> Any:
    """Three tokens before and behind."""
    needs("transformers", "5.1", "masking_utils.sliding_window_bidirectional_overlay is there")
    return made.sliding_window_bidirectional_mask_function(3)


KNOWN: dict[str, Callable[[], Any]] = {
    "causal": lambda: made.causal_mask_function,
    "bidirectional": lambda: made.bidirectional_mask_function,
    "window": lambda: made.sliding_window_causal_mask_function(4),
    "window of 1": lambda: made.sliding_window_causal_mask_function(1),
    "window both ways": both_ways,
    "chunks": lambda: made.chunked_causal_mask_function(5, LEFT),
    "packed": lambda: made.and_masks(
        made.causal_mask_function, made.packed_sequence_mask_function(PACKED)
    ),
    "blocks": lambda: made.or_masks(made.causal_mask_function, blocks()),
    "window or blocks": lambda: made.or_masks(
        made.sliding_window_causal_mask_function(4), blocks()
    ),
    "padding": lambda: made.and_masks(made.causal_mask_function, made.padding_mask_function(REAL)),
    "moved": lambda: made.add_offsets_to_mask_function(made.causal_mask_function, 3, 1),
    "everything or": lambda: made.or_masks(
        made.bidirectional_mask_function, made.causal_mask_function
    ),
}
STRANGE: dict[str, Callable[[], Any]] = {
    "even": lambda: even,
    "first head": lambda: first_head,
    "causal or even": lambda: made.or_masks(made.causal_mask_function, even),
    "causal and even": lambda: made.and_masks(made.causal_mask_function, even),
}


@st.composite
def stands(draw: st.DrawFn) -> Stand:
    """Queries and keys anywhere among the positions, also before and behind each other."""
    queries, keys = draw(st.integers(1, 9)), draw(st.integers(1, 12))
    q_offset = draw(st.integers(0, POSITIONS - 3 - queries))
    kv_offset = draw(st.integers(0, POSITIONS - 3 - keys))
    return Stand(BATCH, queries, keys, q_offset, kv_offset)


@pytest.mark.parametrize("name", KNOWN | STRANGE)
@settings(max_examples=40, deadline=None)
@given(at=stands())
def test_every_cell_is_transformers(name: str, at: Stand) -> None:
    function = (KNOWN | STRANGE)[name]()
    found = recognise(function, at)
    wanted = at.ask(function)[:, 0]
    assert torch.equal(cells(found.mask, BATCH, at.queries, at.keys), wanted)
    assert not wanted[..., found.reach :].any()


@pytest.mark.parametrize("name", KNOWN)
@settings(max_examples=15, deadline=None)
@given(at=stands())
def test_known_functions_become_intervals(name: str, at: Stand) -> None:
    found = recognise(KNOWN[name](), at).mask
    assert not any(isinstance(leaf, Rule | Table) for leaf in leaves(found))
    if "blocks" not in name:  # the keys given may begin in the middle of one, which leaves a gap
        assert is_intervals(found, BATCH, at.queries, at.keys)


@pytest.mark.parametrize("name", KNOWN)
def test_a_prefill_is_intervals(name: str) -> None:
    found = recognise(KNOWN[name](), Stand(BATCH, 20, 20)).mask
    assert is_intervals(found, BATCH, 20, 20)


def leaves(mask: Mask | None) -> list[Mask]:
    """The masks a mask is made of."""
    if isinstance(mask, Both | Either):
        return leaves(mask.left) + leaves(mask.right)
    return [] if mask is None else [mask]


def test_plain_cases_have_plain_names() -> None:
    causal, window = made.causal_mask_function, made.sliding_window_causal_mask_function(4)
    assert recognise(causal, Stand(1, 5, 5)).mask == Causal("end")
    assert recognise(causal, Stand(1, 3, 9, q_offset=6)).mask == Causal("end")
    assert recognise(causal, Stand(1, 3, 9)).mask == Causal("start")
    assert recognise(window, Stand(1, 5, 5)).mask == Both(Window(3, None), Causal())
    assert recognise(window, Stand(1, 4, 4)).mask == Causal()


def test_what_hides_nothing_is_no_mask() -> None:
    causal, window = made.causal_mask_function, made.sliding_window_causal_mask_function(4)
    assert recognise(causal, Stand(1, 1, 7, q_offset=6)).mask is None
    assert recognise(window, Stand(1, 1, 4, q_offset=9, kv_offset=6)).mask is None
    assert recognise(window, Stand(1, 1, 5, q_offset=9, kv_offset=5)).mask is not None


def test_reach_ends_where_a_static_cache_is_unwritten() -> None:
    causal = made.causal_mask_function
    assert recognise(causal, Stand(1, 5, 16)).reach == 5
    assert recognise(causal, Stand(1, 1, 16, q_offset=7)).reach == 8
    assert recognise(made.bidirectional_mask_function, Stand(1, 5, 16)).reach == 16
    assert recognise(made.or_masks(causal, even), Stand(1, 5, 16)).reach == 16
    assert recognise(made.and_masks(even, causal), Stand(1, 5, 16)).reach == 5


def test_only_causal_functions_count_on_one_axis() -> None:
    at = Stand(1, 5, 5)
    assert recognise(made.sliding_window_causal_mask_function(3), at).causal
    assert recognise(made.or_masks(made.causal_mask_function, even), at).causal
    assert not recognise(made.bidirectional_mask_function, at).causal
    assert not recognise(even, at).causal


def test_a_strange_function_stays_a_rule_and_one_row_of_it_is_asked_at_once() -> None:
    assert isinstance(recognise(even, Stand(2, 3, 5)).mask, Rule)
    assert isinstance(recognise(even, Stand(2, 1, 5, q_offset=2)).mask, Padding)


def test_a_function_that_cannot_broadcast_is_asked_cell_by_cell() -> None:
    table = torch.rand(POSITIONS, POSITIONS, generator=torch.Generator().manual_seed(0)) < 0.5

    def picky(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        assert q.ndim == k.ndim == 0
        return table[q, k]

    at = Stand(2, 4, 6, q_offset=2, vmap=True)
    wanted = table[2:6, :6].expand(2, 4, 6)
    assert torch.equal(cells(recognise(picky, at).mask, 2, 4, 6), wanted)


def test_a_rule_seen_from_one_entry_is_that_entrys() -> None:
    mask = recognise(even, Stand(2, 3, 5)).mask
    assert mask is not None
    whole = cells(mask, 2, 3, 5)
    for entry in range(2):
        i, j = torch.arange(3), torch.arange(5)
        alone = mask.select((entry,)).allows(i, j, Extent(3, 5, (2,)))
        assert torch.equal(alone[0], whole[entry])


def test_a_namesake_is_not_mistaken_for_transformers_own() -> None:
    def sliding_window_overlay(sliding_window: int) -> Any:
        def inner_mask(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            return k > q + sliding_window

        return inner_mask

    assert isinstance(recognise(sliding_window_overlay(1), Stand(1, 3, 5)).mask, Rule)
    changed = made.sliding_window_overlay(2)
    changed.__qualname__ = "chunked_overlay.<locals>.inner_mask"  # holds what that one does not
    assert isinstance(recognise(changed, Stand(1, 3, 5)).mask, Rule)
