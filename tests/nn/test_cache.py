"""Decoding step by step is the full pass, token by token."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import regard
from regard.errors import ShapeError
from regard.nn import KeyValueCache, MultiHeadAttention, Rotary

KINDS = {
    "plain": {},
    "rotary": {"rotary": Rotary(4)},
    "grouped": {"kv_heads": 2, "rotary": Rotary(4)},
    "normed": {"kv_heads": 1, "rotary": Rotary(4), "qk_norm": True, "value_dim": 3},
}


@settings(deadline=None)
@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.integers(1, 4), min_size=1, max_size=6),
    st.sampled_from([(), (2,), (2, 3)]),
)
def test_any_cut_into_steps_equals_the_full_pass(kind, steps, batch):
    torch.manual_seed(len(steps))
    layer = MultiHeadAttention(16, 4, **KINDS[kind]).double()
    x = torch.randn(*batch, sum(steps), 16, dtype=torch.float64)
    full = layer(x, mask=regard.Causal())
    cache = KeyValueCache()
    parts = [layer(part, mask=regard.Causal(), cache=cache) for part in x.split(steps, dim=-2)]
    torch.testing.assert_close(torch.cat(parts, dim=-2), full)
    assert cache.length == sum(steps)


def test_each_step_looks_as_the_full_pass_does():
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2, rotary=Rotary(4)).double()
    x, cache = torch.randn(6, 8, dtype=torch.float64), KeyValueCache()
    full = layer.look(x, mask=regard.Causal())
    for t in range(6):
        a = layer.look(x[t : t + 1], mask=regard.Causal(), cache=cache)
        assert a.shape == (2, 1, t + 1)
        torch.testing.assert_close(a.dense()[:, 0], full[:, t, : t + 1])
        torch.testing.assert_close(a.entropy()[:, 0], full.entropy()[:, t])


def test_a_window_counts_from_the_newest_token():
    torch.manual_seed(1)
    layer = MultiHeadAttention(8, 2).double()
    x, cache, mask = torch.randn(7, 8, dtype=torch.float64), KeyValueCache(), regard.Window(2)
    parts = [layer(x[t : t + 1], mask=mask, cache=cache) for t in range(7)]
    torch.testing.assert_close(torch.cat(parts), layer(x, mask=mask))


def test_torchs_order_of_axes_decodes_too():
    torch.manual_seed(2)
    layer = MultiHeadAttention.from_torch(nn.MultiheadAttention(8, 2, dtype=torch.float64))
    x, cache = torch.randn(5, 3, 8, dtype=torch.float64), KeyValueCache()  # (tokens, batch, dim)
    parts = [layer(x[t : t + 1], mask=regard.Causal(), cache=cache) for t in range(5)]
    torch.testing.assert_close(torch.cat(parts), layer(x, mask=regard.Causal()))


def test_it_starts_empty_and_appends_in_order():
    cache = KeyValueCache()
    assert (cache.length, cache.key, cache.value) == (0, None, None)
    first, second = torch.zeros(2, 3, 4), torch.ones(2, 1, 4)
    keys, values = cache.update(first, first[..., :2])
    assert torch.equal(keys, first)
    keys, values = cache.update(second, second[..., :2])
    assert torch.equal(keys, torch.cat([first, second], dim=-2))
    assert values.shape == (2, 4, 2)
    assert cache.length == 4


def test_extended_changes_nothing():
    cache, new = KeyValueCache(), torch.zeros(2, 3, 4)
    assert cache.extended(new, new)[0].shape == (2, 3, 4)
    assert cache.length == 0
    cache.update(new, new)
    assert cache.extended(new, new)[0].shape == (2, 6, 4)
    assert cache.length == 3


def test_what_was_asked_before_stays_answerable():
    """Appending makes new tensors, so an earlier attention still holds what it saw."""
    layer, cache = MultiHeadAttention(8, 2), KeyValueCache()
    a = layer.look(torch.randn(3, 8), cache=cache)
    before = a.dense()
    layer.look(torch.randn(1, 8), cache=cache)
    assert torch.equal(a.dense(), before)


@pytest.mark.parametrize("shape", [(3, 1, 4), (2, 1, 5), (1, 2, 1, 4)])
def test_another_sequences_keys_are_refused(shape):
    cache = KeyValueCache()
    cache.update(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4))
    with pytest.raises(ShapeError) as refused:
        cache.update(torch.zeros(shape), torch.zeros(shape))
    assert f"holds keys (2, 3, 4), given {shape}" in str(refused.value)
    assert "Make a new cache" in str(refused.value)
    assert cache.length == 3


def test_values_that_do_not_fit_leave_the_keys_alone():
    cache = KeyValueCache()
    cache.update(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4))
    with pytest.raises(ShapeError, match="holds values"):
        cache.update(torch.zeros(2, 1, 4), torch.zeros(2, 1, 5))
    assert cache.length == 3
