"""Everything transformers may pass about who sees whom, cell by cell."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import masking_utils

from huggingface.cells import cells
from regard.errors import DTypeError, InputError, ShapeError, UnavailableError
from regard.huggingface import regard_mask
from regard.huggingface.restrict import CallSize, restriction
from regard.mask import Causal, Table, Window

SQUARE = CallSize(2, 5, 5)


def seen(given: Any, size: CallSize = SQUARE, causal: bool = False, **more: Any) -> Tensor:
    """(batch, queries, keys): who sees whom, by the mask alone."""
    told = restriction(given, size, causal, **more)
    whole = torch.zeros(*size, dtype=torch.bool)
    whole[..., : told.reach] = cells(told.mask, size.batch, size.queries, told.reach)
    return whole


def lower(queries: int, keys: int, last: int = 0) -> Tensor:
    """True on and below a diagonal."""
    return torch.ones(queries, keys).tril(last).bool()


def test_without_a_mask_causality_is_the_layers_own_and_starts_at_key_0() -> None:
    assert seen(None, causal=False).all()
    assert torch.equal(seen(None, causal=True)[0], lower(5, 5))
    told = restriction(None, CallSize(2, 5, 9), causal=True)
    assert told.reach == 5 and told.mask == Causal("start")  # an empty static cache
    assert torch.equal(seen(None, CallSize(2, 5, 9), causal=True)[0], lower(5, 9))
    assert seen(None, CallSize(2, 1, 9), causal=True).all()  # one query decodes


def test_without_a_mask_the_window_is_the_layers_own() -> None:
    wide = CallSize(1, 5, 5)
    assert torch.equal(seen(None, wide, True, window=2)[0], lower(5, 5) & ~lower(5, 5, -2))
    assert torch.equal(seen(None, wide, False, window=2)[0], lower(5, 5, 1) & ~lower(5, 5, -2))
    assert seen(None, CallSize(1, 1, 5), True, window=2)[0, 0].tolist() == [False] * 3 + [True] * 2
    for causal in (True, False):  # one that reaches every key is none
        mask = restriction(None, wide, causal, window=5).mask
        assert mask == (Causal("start") if causal else None)
    assert restriction(None, CallSize(1, 1, 5), True, window=5).mask is None
    assert restriction(None, CallSize(1, 1, 5), True, window=4).mask == Window(3, None)


def test_a_mask_has_the_last_word_on_causality_and_windows() -> None:
    every = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    assert seen(every, causal=True, window=2).all()
    found = regard_mask(2, 5, 5)
    assert torch.equal(seen(found, causal=False, window=1)[0], lower(5, 5))


def test_booleans_are_taken_as_they_are() -> None:
    given = torch.rand(2, 1, 5, 5, generator=torch.Generator().manual_seed(0)) < 0.5
    told = restriction(given, SQUARE, causal=True)
    assert isinstance(told.mask, Table) and told.bias is None and told.reach == 5
    assert torch.equal(seen(given), given[:, 0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_numbers_are_added_and_the_most_negative_forbid(dtype: torch.dtype) -> None:
    low = torch.finfo(dtype).min
    given = torch.tensor([0.0, -2.5, low, -torch.inf, low * 0.75, -1e4], dtype=dtype)
    told = restriction(given.view(1, 1, 1, 6), CallSize(1, 1, 6), causal=True)
    assert told.mask is None and told.bias is not None
    wanted = given.masked_fill(torch.tensor([0, 0, 1, 1, 1, 0]).bool(), -torch.inf)
    assert torch.equal(told.bias[0, 0, 0], wanted)


def test_a_position_bias_joins_additive_numbers_and_ends_with_the_keys_that_count() -> None:
    bias = torch.randn(1, 3, 5, 9, generator=torch.Generator().manual_seed(0))
    told = restriction(None, CallSize(2, 5, 9), causal=True, position_bias=bias)
    assert told.bias is not None and torch.equal(told.bias, bias[..., :5])
    given = torch.zeros(2, 1, 5, 9)
    given[..., 7:] = torch.finfo(torch.float32).min
    told = restriction(given, CallSize(2, 5, 9), causal=True, position_bias=bias)
    assert told.bias is not None
    assert torch.equal(told.bias[..., :7], bias[..., :7].expand(2, 3, 5, 7))
    assert (told.bias[..., 7:] == -torch.inf).all()


def test_packed_sequences_see_themselves_only() -> None:
    starts = torch.tensor([0, 2, 5], dtype=torch.int32)
    alone = torch.block_diag(torch.ones(2, 2), torch.ones(3, 3)).bool()
    one = CallSize(1, 5, 5)
    assert torch.equal(seen(None, one, cu_seq_lens_q=starts, cu_seq_lens_k=starts)[0], alone)
    causal = seen(None, one, True, cu_seq_lens_q=starts)[0]
    assert torch.equal(causal, alone & lower(5, 5))
    flat = torch.tensor([0, 3, 7, 10])  # over a batch of two rows of five, as flattened
    rows = seen(None, CallSize(2, 5, 5), cu_seq_lens_q=flat)
    assert rows[0, 0].tolist() == [True] * 3 + [False] * 2
    assert rows[1, 0].tolist() == [True] * 2 + [False] * 3
    keys = torch.tensor([0, 1, 4])
    cross = seen(None, CallSize(1, 5, 4), cu_seq_lens_q=starts, cu_seq_lens_k=keys)[0]
    assert cross.sum(-1).tolist() == [1, 1, 3, 3, 3]


def test_packing_is_added_to_a_mask() -> None:
    starts = torch.tensor([0, 2, 5])
    found = seen(regard_mask(1, 5, 5), CallSize(1, 5, 5), True, cu_seq_lens_q=starts)[0]
    assert found.sum(-1).tolist() == [1, 2, 1, 2, 3]


def test_packed_causal_attention_behind_a_cache_is_refused() -> None:
    with pytest.raises(InputError, match=r"2 queries and 5 keys.*leave out the cache"):
        restriction(None, CallSize(1, 2, 5), True, cu_seq_lens_q=torch.tensor([0, 2]))


def test_chosen_keys_are_the_only_ones() -> None:
    chosen = torch.tensor([[[0, 3], [1, 1]]])
    found = seen(None, CallSize(1, 2, 4), indices=chosen)[0]
    assert found.tolist() == [[True, False, False, True], [False, True, False, False]]
    # slots of a static cache may be chosen when there are too few keys: nobody sees them
    static = regard_mask(1, 2, 4)
    assert seen(static, CallSize(1, 2, 4), indices=chosen)[0].sum(-1).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        (torch.ones(2, 5), ShapeError, r"\(2, 5\); the layer has 5 queries and 5 keys"),
        (torch.ones(2, 1, 5, 5, dtype=torch.long), DTypeError, "int64; give booleans"),
        ([[True]], DTypeError, "is a list"),
        (regard_mask(2, 5, 6), UnavailableError, "5 queries and 6 keys, the layer has 5 and 5"),
    ],
    ids=["two axes", "integers", "a list", "another size"],
)
def test_what_cannot_be_meant_is_an_error(given: Any, kind: type, says: str) -> None:
    with pytest.raises(kind, match=says):
        restriction(given, SQUARE, causal=True)


def test_one_row_of_a_mask_is_for_every_query() -> None:
    """BridgeTower asks for the mask of one query, and lets torch repeat it."""
    padding = torch.tensor([[1, 1, 0, 1, 1], [1] * 5]).bool()
    both_ways = masking_utils.bidirectional_mask_function
    row = regard_mask(2, 1, 5, mask_function=both_ways, attention_mask=padding)
    assert seen(row)[0].tolist() == [[True, True, False, True, True]] * 5


def test_eager_adds_booleans_to_its_scores() -> None:
    mask = torch.ones(2, 1, 5, 5).tril().bool()
    told = restriction(mask, SQUARE, causal=False, adds=True)
    assert told.mask is None and told.bias is not None and torch.equal(told.bias, mask.float())


def test_a_window_of_0_is_none() -> None:
    assert restriction(None, SQUARE, causal=True, window=0).mask == Causal("start")
    assert restriction(None, SQUARE, causal=False, window=0).mask is None


def test_one_token_after_a_compressed_cache_sees_what_is_left() -> None:
    """Masks are made for the first layer; a press may leave other layers more keys, or fewer."""
    made = regard_mask(2, 1, 9, q_offset=8)
    for keys in (5, 12):
        assert seen(made, CallSize(2, 1, keys)).all()
    padded = regard_mask(2, 1, 9, q_offset=8, attention_mask=torch.arange(9)[None] > 1)
    for mask in (padded, regard_mask(2, 2, 9, q_offset=7)):
        with pytest.raises(UnavailableError, match="the mask speaks of"):
            restriction(mask, CallSize(2, mask.shape[2], 5), causal=True)
