"""The mask function: what transformers asks for, as a descriptor that says the same of every cell;
masks of intervals wherever transformers made the function; a tensor where one computes with it."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
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
from installed import needs
from regard.errors import UnavailableError
from regard.huggingface import MaskDescriptor, regard_mask
from regard.mask import Causal, Mask, Padding, Rule, Table
from regard.mask.base import Both, Either

BATCH, POSITIONS = 2, 24
PACKED = torch.tensor([[0] * 5 + [1] * 9 + [2] * 10, [0] * 20 + [1] * 4])
BLOCKS = torch.full((BATCH, POSITIONS), -1)
BLOCKS[0, 3:7], BLOCKS[0, 10:14], BLOCKS[1, 0:5], BLOCKS[1, 8:12] = 0, 1, 7, -4
REAL = torch.ones(BATCH, POSITIONS, dtype=torch.bool)
REAL[0, :6], REAL[1, 20:] = False, False
CAUSAL, BOTH_WAYS = masking_utils.causal_mask_function, masking_utils.bidirectional_mask_function
both, either = masking_utils.and_masks, masking_utils.or_masks
window = masking_utils.sliding_window_causal_mask_function
LLAMA = LlamaConfig(attn_implementation="regard")


def even(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """A user's function: keys at even distance, and in the second entry all."""
    return ((q - k) % 2 == 0) | (b == 1)


def first_head(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """Nobody but head 0, the only one transformers asks about."""
    return (h == 0) & (k <= q)


def blocks() -> Any:
    """Tokens of one picture see each other."""
    needs("transformers", "5.9", "masking_utils.blockwise_overlay is there")
    return masking_utils.blockwise_overlay(BLOCKS)


def around() -> Any:
    """Three tokens before and behind."""
    needs("transformers", "5.1", "masking_utils.sliding_window_bidirectional_overlay is there")
    return masking_utils.sliding_window_bidirectional_mask_function(3)


KNOWN: dict[str, Callable[[], Any]] = {
    "causal": lambda: CAUSAL,
    "bidirectional": lambda: BOTH_WAYS,
    "window": lambda: window(4),
    "window of 1": lambda: window(1),
    "window both ways": around,
    "chunks": lambda: masking_utils.chunked_causal_mask_function(5, torch.tensor([6, 0])),
    "packed": lambda: both(CAUSAL, masking_utils.packed_sequence_mask_function(PACKED)),
    "blocks": lambda: either(CAUSAL, blocks()),
    "window or blocks": lambda: either(window(4), blocks()),
    "padding": lambda: both(CAUSAL, masking_utils.padding_mask_function(REAL)),
    "moved": lambda: masking_utils.add_offsets_to_mask_function(CAUSAL, 3, 1),
    "everything or": lambda: either(BOTH_WAYS, CAUSAL),
}
STRANGE: dict[str, Callable[[], Any]] = {
    "even": lambda: even,
    "first head": lambda: first_head,
    "causal or even": lambda: either(CAUSAL, even),
    "causal and even": lambda: both(CAUSAL, even),
    "window of none": lambda: window(0),
}


def asked(batch: int, queries: int, keys: int, **more: Any) -> dict[str, Any]:
    """transformers' arguments."""
    return {"batch_size": batch, "q_length": queries, "kv_length": keys} | more


def made(function: Any, batch: int, queries: int, keys: int, **more: Any) -> MaskDescriptor:
    descriptor = regard_mask(**asked(batch, queries, keys, mask_function=function, **more))
    assert descriptor is not None
    return descriptor


def leaves(mask: Mask | None) -> list[Mask]:
    """The masks a mask is made of."""
    if isinstance(mask, Both | Either):
        return leaves(mask.left) + leaves(mask.right)
    return [] if mask is None else [mask]


@st.composite
def stands(draw: st.DrawFn) -> dict[str, Any]:
    """Queries and keys anywhere among the positions, also before and behind each other; slots of a
    cache that are not written yet; padding anywhere."""
    queries, keys = draw(st.integers(1, 9)), draw(st.integers(1, 12))
    offsets = {
        "q_offset": draw(st.integers(0, POSITIONS - 3 - queries)),
        "kv_offset": draw(st.integers(0, POSITIONS - 3 - keys)),
    }
    if draw(st.booleans()):
        offsets["kv_offset"] = 0
    if draw(st.booleans()):
        real = draw(st.lists(st.booleans(), min_size=POSITIONS, max_size=POSITIONS))
        offsets["attention_mask"] = torch.tensor([real, [True] * POSITIONS])
    return asked(BATCH, queries, keys, **offsets)


@pytest.mark.parametrize("name", KNOWN | STRANGE)
@settings(max_examples=25)
@given(at=stands())
def test_a_descriptor_says_what_transformers_mask_says(name: str, at: dict[str, Any]) -> None:
    at = at | {"mask_function": (KNOWN | STRANGE)[name]()}
    size = at["q_length"], at["kv_length"]
    descriptor, wanted = regard_mask(**at), theirs(**at)
    assert descriptor is not None
    assert torch.equal(descriptor.dense[:, 0], wanted)
    assert torch.equal(descriptor_cells(descriptor, BATCH, *size), wanted)
    if name in KNOWN:
        assert not any(isinstance(leaf, Rule | Table) for leaf in leaves(descriptor.mask))
    if name in KNOWN and "blocks" not in name and "attention_mask" not in at:
        assert is_intervals(descriptor.mask, BATCH, size[0], descriptor.reach)


@pytest.mark.parametrize("name", KNOWN)
def test_a_prefill_is_intervals(name: str) -> None:
    """With padding on the left or on the right, too."""
    assert is_intervals(made(KNOWN[name](), BATCH, 20, 20).mask, BATCH, 20, 20)
    if name in ("causal", "window", "bidirectional"):
        for first, last in ((3, 20), (0, 17)):
            real = torch.ones(BATCH, 20, dtype=torch.bool)
            real[0] = (torch.arange(20) >= first) & (torch.arange(20) < last)
            mask = made(KNOWN[name](), BATCH, 20, 20, attention_mask=real).mask
            assert is_intervals(mask, BATCH, 20, 20)


def test_a_function_that_cannot_broadcast_is_asked_cell_by_cell() -> None:
    table = torch.rand(POSITIONS, POSITIONS, generator=torch.Generator().manual_seed(0)) < 0.5

    def picky(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        assert q.ndim == k.ndim == 0
        return table[q, k]

    descriptor = made(picky, 2, 4, 6, q_offset=2, use_vmap=True)
    assert torch.equal(descriptor_cells(descriptor, 2, 4, 6), table[2:6, :6].expand(2, 4, 6))


def test_a_namesake_is_not_mistaken_for_transformers_own() -> None:
    def sliding_window_overlay(sliding_window: int) -> Any:
        def inner_mask(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            return k > q + sliding_window

        return inner_mask

    assert isinstance(made(sliding_window_overlay(1), 1, 3, 5).mask, Rule)
    changed = masking_utils.sliding_window_overlay(2)
    changed.__qualname__ = "chunked_overlay.<locals>.inner_mask"  # holds what that one does not
    assert isinstance(made(changed, 1, 3, 5).mask, Rule)


def test_queries_that_are_padding_are_noted_where_queries_and_keys_are_the_same() -> None:
    """The word by which transformers tells self- from cross-attention is still there."""
    padding = torch.tensor([[0, 0, 1, 1, 1], [1] * 5]).bool()
    for function in (CAUSAL, window(3), either(CAUSAL, even)):
        counted = made(function, 2, 2, 5, q_offset=1, attention_mask=padding).counted
        assert counted is not None and torch.equal(counted, padding[:, 1:3])
    for function in (BOTH_WAYS, even):  # by hand nothing says which it is
        assert made(function, 2, 5, 5, attention_mask=padding).counted is None
    states, padding = torch.zeros(1, 3, 4), torch.tensor([[1, 1, 0]])
    make = masking_utils.create_bidirectional_mask
    own, cross = make(LLAMA, states, padding), make(
        LLAMA, states, padding, encoder_hidden_states=states
    )  # fmt: skip
    for descriptor in (own, cross):  # of keys alone, in either case
        assert isinstance(descriptor.mask, Padding) and descriptor.mask.queries is None
    assert own.counted.tolist() == [[True, True, False]] and cross.counted is None
    # a learned prefix stands before the tokens, and positions do not count it
    assert make(LLAMA, states, torch.tensor([[1, 0, 1, 1, 1]])).counted is None


def test_nothing_to_hide_is_none_only_where_none_may_say_so() -> None:
    full = asked(2, 6, 6, mask_function=BOTH_WAYS)
    assert regard_mask(**full, allow_is_bidirectional_skip=True) is None
    descriptor = regard_mask(**full)
    assert descriptor is not None and descriptor.mask is None
    # for a causal layer None would mean: be causal
    assert regard_mask(**asked(2, 1, 6, q_offset=5, allow_is_causal_skip=True)) is not None
    assert regard_mask(**asked(2, 6, 6, attention_mask=descriptor)) is descriptor


def test_an_offset_that_is_changed_later_was_read_before() -> None:
    """Static caches count in a tensor, and count on before the attention is computed."""
    count = torch.tensor(4)
    descriptor, wanted = made(CAUSAL, 1, 3, 16, q_offset=count), theirs(
        **asked(1, 3, 16, q_offset=4, mask_function=CAUSAL)
    )  # fmt: skip
    count.add_(3)
    assert descriptor.reach == 7
    assert torch.equal(descriptor_cells(descriptor, 1, 3, 16), wanted)
    assert torch.equal(descriptor.dense[:, 0], wanted)


def test_short_padding_says_nothing_of_later_keys() -> None:
    """As with a static cache, whose slots are more than the tokens so far."""
    padding = torch.tensor([[False, True, True, True]])
    these = asked(1, 4, 9, mask_function=BOTH_WAYS, attention_mask=padding)
    assert torch.equal(descriptor_cells(regard_mask(**these), 1, 4, 9), theirs(**these))


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


def test_a_mask_that_is_added_to_scores_is_eagers() -> None:
    """BigBird-Pegasus has eager attention alone, and adds its mask in an encoder of its own."""
    config = BigBirdPegasusConfig(attn_implementation="regard")
    states, padding = torch.zeros(1, 3, 4, dtype=torch.float64), torch.tensor([[1, 1, 0]])
    mask = causal_mask(config, states, padding)
    low = torch.finfo(torch.float64).min
    assert mask.dtype == torch.float64 and mask.is_floating_point()
    assert (torch.ones(1, 1, 3, 3) + mask)[0, 0].tolist() == [
        [1, low, low], [1, 1, low], [1, 1, low],
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["causal", "sliding_window_causal", "chunked_causal"])
def test_packed_sequences_are_found_by_their_positions(kind: str) -> None:
    places, make = torch.tensor([[*range(3), *range(7), *range(2)]]), f"create_{kind}_mask"
    masks = []
    for name in ("regard", "sdpa"):
        config = LlamaConfig(attn_implementation=name)
        config.sliding_window = config.attention_chunk_size = 3
        masks.append(causal_mask(config, torch.zeros(1, 12, 4), make=getattr(
            masking_utils, make), position_ids=places))  # fmt: skip
    assert torch.equal(descriptor_cells(masks[0], 1, 12, 12)[0], masks[1][0, 0])
    assert "Rule" not in str(masks[0].mask)
    assert kind == "chunked_causal" or is_intervals(masks[0].mask, 1, 12, 12)


def test_a_family_that_would_not_call_the_attention_function_is_told_so() -> None:
    with pytest.raises(UnavailableError, match="bloom does not dispatch"):
        regard_mask(**asked(1, 3, 3, config=BloomConfig()))


DENSE = torch.ones(3, 3).tril().bool().expand(2, 1, 3, 3)


def test_who_computes_with_it_gets_the_tensor_built_once() -> None:
    built: list[int] = []
    cpu = torch.device("cpu")
    mask = MaskDescriptor(Causal(), (2, 1, 3, 3), cpu, lambda: built.append(1) or DENSE)
    # what models do with a mask
    assert mask.contiguous() is mask.clone() is mask.to(torch.float32) is mask.to("cpu") is mask
    assert mask.to(device=cpu, dtype=torch.bool) is mask and "Causal" in repr(mask)
    assert mask.ndim == mask.dim() == 4 and mask.reach == mask.size(-1) == 3
    assert mask.shape == mask.size() == (2, 1, 3, 3) == copy.copy(mask).shape
    assert mask.dtype == torch.bool and not mask.is_floating_point() and mask.device == cpu
    with pytest.raises(AttributeError, match="has no 'colour'"):
        mask.colour  # noqa: B018
    assert not hasattr(mask, "_private") and not hasattr(mask, "__len__")
    assert not built
    other = torch.eye(3).bool()
    for use in (
        lambda m: m[:, 0, 1], lambda m: m & other, lambda m: other & m, lambda m: m | other,
        lambda m: ~m, lambda m: m == 0, lambda m: m != other, lambda m: m + 1.0, lambda m: 2 * m,
        lambda m: m > 0, lambda m: m.masked_fill(other, False), lambda m: torch.where(m, 1.0, 0.0),
        lambda m: torch.cat([m, m], dim=-1), lambda m: torch.stack(tensors=[m])[0],
    ):  # fmt: skip
        assert torch.equal(use(mask), use(DENSE))
    assert built == [1] and len({mask, mask}) == 1


def test_it_moves_with_its_arrays() -> None:
    keys = torch.ones(2, 3, dtype=torch.bool)
    mask = MaskDescriptor(Padding(keys), (2, 1, 3, 3), torch.device("cpu"), lambda: DENSE, 2)
    moved = mask.to("meta")
    assert moved is not mask and moved.device.type == moved.dense.device.type == "meta"
    assert [array.device.type for array in moved.mask.arrays()] == ["meta"]
    assert moved.shape == mask.shape and moved.reach == 2
    plain = MaskDescriptor(None, (2, 1, 3, 3), torch.device("cpu"), lambda: DENSE)
    assert plain.to(device="meta").mask is None
