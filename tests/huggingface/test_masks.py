"""The mask function: what transformers asks for, as a descriptor that says the same."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import BigBirdPegasusConfig, BloomConfig, LlamaConfig, masking_utils
from transformers.models.bigbird_pegasus import modeling_bigbird_pegasus  # noqa: F401
from transformers.models.bloom import modeling_bloom  # noqa: F401

from huggingface.cells import causal_mask, descriptor_cells, is_intervals, theirs
from regard.errors import UnavailableError
from regard.huggingface import MaskDescriptor, regard_mask
from regard.mask import Causal, Padding, Rule

WINDOW = masking_utils.sliding_window_causal_mask_function(3)
BOTH_WAYS = masking_utils.bidirectional_mask_function


def asked(batch: int, queries: int, keys: int, **more: Any) -> dict[str, Any]:
    """transformers' arguments."""
    return {"batch_size": batch, "q_length": queries, "kv_length": keys} | more


@st.composite
def decodings(draw: st.DrawFn) -> dict[str, Any]:
    """Some tokens after a cache, which may be static, with padding anywhere."""
    past, queries, spare = (draw(st.integers(*span)) for span in ((0, 6), (1, 5), (0, 4)))
    real = draw(st.lists(st.booleans(), min_size=past + queries, max_size=past + queries))
    function = draw(st.sampled_from([masking_utils.causal_mask_function, WINDOW]))
    more: dict[str, Any] = {"q_offset": past, "mask_function": function}
    if draw(st.booleans()):
        more["attention_mask"] = torch.tensor([real, [True] * len(real)])
    return asked(2, queries, past + queries + spare, **more)


@settings(max_examples=120, deadline=None)
@given(decodings())
def test_a_descriptor_says_what_transformers_mask_says(these: dict[str, Any]) -> None:
    size = (2, these["q_length"], these["kv_length"])
    found, wanted = regard_mask(**these), theirs(**these)
    assert found is not None
    assert torch.equal(found.dense[:, 0], wanted)
    assert torch.equal(descriptor_cells(found, *size), wanted)
    past, last = these["q_offset"], these["q_offset"] + these["q_length"]
    rows = these.get("attention_mask", torch.ones(2, last, dtype=torch.bool))[:, past:last]
    assert rows.all() if found.counted is None else torch.equal(found.counted, rows)


def test_left_and_right_padding_are_intervals() -> None:
    for real in ([0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]):
        padding = torch.tensor([real, [1] * 6]).bool()
        for function in (masking_utils.causal_mask_function, WINDOW, BOTH_WAYS):
            found = regard_mask(**asked(2, 6, 6, mask_function=function, attention_mask=padding))
            assert found is not None and is_intervals(found.mask, 2, 6, 6)


def test_padding_that_hides_nothing_is_dropped() -> None:
    found = regard_mask(**asked(2, 6, 6, attention_mask=torch.ones(2, 6, dtype=torch.bool)))
    assert found is not None and found.mask == Causal()


def test_nothing_to_hide_is_none_only_where_none_may_say_so() -> None:
    full = asked(2, 6, 6, mask_function=BOTH_WAYS)
    assert regard_mask(**full, allow_is_bidirectional_skip=True) is None
    found = regard_mask(**full)
    assert found is not None and found.mask is None
    # for a causal layer None would mean: be causal
    assert regard_mask(**asked(2, 1, 6, q_offset=5, allow_is_causal_skip=True)) is not None


def test_an_offset_that_is_changed_later_was_read_before() -> None:
    """Static caches count in a tensor, and count on before the attention is computed."""
    count = torch.tensor(4)
    found = regard_mask(**asked(1, 3, 16, q_offset=count))
    count.add_(3)
    assert found is not None and found.reach == 7
    assert torch.equal(descriptor_cells(found, 1, 3, 16), theirs(**asked(1, 3, 16, q_offset=4)))
    assert torch.equal(found.dense[:, 0], theirs(**asked(1, 3, 16, q_offset=4)))


def test_a_descriptor_is_handed_back() -> None:
    found = regard_mask(**asked(1, 3, 3))
    assert regard_mask(**asked(1, 3, 3, attention_mask=found)) is found


def test_short_padding_says_nothing_of_later_keys() -> None:
    """As with a static cache, whose slots are more than the tokens so far."""
    padding = torch.tensor([[False, True, True, True]])
    these = asked(1, 4, 9, mask_function=BOTH_WAYS, attention_mask=padding)
    assert torch.equal(descriptor_cells(regard_mask(**these), 1, 4, 9), theirs(**these))


def test_queries_of_cross_attention_are_not_padding() -> None:
    """The word by which transformers tells the two apart is still there."""
    config = LlamaConfig(attn_implementation="regard")
    states, padding = torch.zeros(1, 3, 4), torch.tensor([[1, 1, 0]])
    make = masking_utils.create_bidirectional_mask
    own = make(config, states, padding)
    cross = make(config, states, padding, encoder_hidden_states=states)
    assert isinstance(own, MaskDescriptor) and isinstance(cross, MaskDescriptor)
    for found in (own, cross):  # of keys alone, in either case
        assert isinstance(found.mask, Padding) and found.mask.queries is None
    assert own.counted is not None and own.counted.tolist() == [[True, True, False]]
    assert cross.counted is None
    by_hand = asked(1, 3, 3, mask_function=BOTH_WAYS, attention_mask=padding.bool())
    assert regard_mask(**by_hand).counted is None  # nothing says which it is


def test_queries_elsewhere_than_at_the_end_of_the_keys_are_not_padding() -> None:
    """A learned prefix stands before the tokens, and positions do not count it."""
    config = LlamaConfig(attn_implementation="regard")
    found = masking_utils.create_bidirectional_mask(
        config, torch.zeros(1, 3, 4), torch.tensor([[1, 0, 1, 1, 1]])
    )
    assert found.counted is None


def test_the_first_forward_of_a_process_is_like_the_later_ones() -> None:
    """The name is registered before our adapter is loaded: the first call comes another way."""
    code = """
import regard, torch, transformers.modeling_utils
from transformers import LlamaConfig, masking_utils
config = LlamaConfig(attn_implementation="regard")
make = masking_utils.create_bidirectional_mask
for _ in range(2):
    print(make(config, torch.zeros(1, 3, 4), torch.tensor([[1, 1, 0]])).counted)
"""
    first, later = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert first == later == "tensor([[ True,  True, False]])"


def test_a_window_of_none_shows_nothing() -> None:
    none = masking_utils.sliding_window_causal_mask_function(0)
    these = asked(1, 4, 4, mask_function=none)
    assert not descriptor_cells(regard_mask(**these), 1, 4, 4).any()


def test_a_mask_that_is_added_to_scores_is_eagers() -> None:
    """BigBird-Pegasus has eager attention alone, and adds its mask in an encoder of its own."""
    config = BigBirdPegasusConfig(attn_implementation="regard")
    states, padding = torch.zeros(1, 3, 4, dtype=torch.float64), torch.tensor([[1, 1, 0]])
    found = causal_mask(config, states, padding)
    low = torch.finfo(torch.float64).min
    assert found.dtype == torch.float64 and found.is_floating_point()
    assert (torch.ones(1, 1, 3, 3) + found)[0, 0].tolist() == [
        [1, low, low], [1, 1, low], [1, 1, low],
    ]  # fmt: skip


def test_a_users_function_is_combined_with_the_causal_one() -> None:
    config = LlamaConfig(attn_implementation="regard")
    tokens = torch.tensor([[0, 0, 1, 1, 0]])

    def same_kind(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (tokens[b, q] == 1) & (tokens[b, k] == 1)

    found = causal_mask(config, torch.zeros(1, 5, 4), or_mask_function=same_kind)
    wanted = torch.ones(5, 5).tril().bool()
    wanted[2, 3] = True
    assert torch.equal(descriptor_cells(found, 1, 5, 5)[0], wanted)
    assert isinstance(found.mask.right, Rule)


@pytest.mark.parametrize("kind", ["causal", "sliding_window_causal", "chunked_causal"])
def test_packed_sequences_are_found_by_their_positions(kind: str) -> None:
    places = torch.tensor([[*range(3), *range(7), *range(2)]])
    made = []
    for implementation in ("regard", "sdpa"):
        config = LlamaConfig(attn_implementation=implementation)
        config.sliding_window = config.attention_chunk_size = 3
        make = getattr(masking_utils, f"create_{kind}_mask")
        made.append(causal_mask(config, torch.zeros(1, 12, 4), make=make, position_ids=places))
    found, wanted = made
    assert torch.equal(descriptor_cells(found, 1, 12, 12)[0], wanted[0, 0])
    assert "Rule" not in str(found.mask)
    assert kind == "chunked_causal" or is_intervals(found.mask, 1, 12, 12)


def test_a_family_that_would_not_call_the_attention_function_is_told_so() -> None:
    with pytest.raises(UnavailableError, match="bloom does not dispatch"):
        regard_mask(**asked(1, 3, 3, config=BloomConfig()))
