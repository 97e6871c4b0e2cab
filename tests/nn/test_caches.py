"""With a cache or without, whatever its kind and however the text is cut: the same."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from nn.small import ids, language_model
from regard.errors import InputError, ShapeError, StaleError
from regard.nn import (
    ContextCache,
    KeyValueCache,
    MultiHeadAttention,
    Rotary,
    SharedPrefix,
    StaticCache,
    WindowCache,
    share_prefix,
)
from regard.nn.prefix import attend_after

CUTS = st.lists(st.integers(1, 4), min_size=1, max_size=6)
POSITIONS = ["rotary", "learned", "sinusoidal", "alibi"]


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(POSITIONS), CUTS, st.booleans(), st.integers(1, 3))
def test_any_cut_gives_the_logits_of_the_whole(positions, steps, static, batch):
    model = language_model(positions=positions, kv_heads=2)
    text = ids(batch, sum(steps))
    cache = model.new_cache(sum(steps) if static else None)
    with torch.no_grad():
        parts = [model(part, cache=cache) for part in text.split(steps, dim=-1)]
        torch.testing.assert_close(torch.cat(parts, dim=1), model(text))
    assert cache.length == sum(steps)


@settings(deadline=None, max_examples=40)
@given(CUTS, st.integers(1, 6))
def test_a_window_forgets_only_what_nobody_sees(steps, window):
    model = language_model(window=window)
    text, cache = ids(2, sum(steps)), model.new_cache()
    assert isinstance(cache.layers[0], WindowCache)
    with torch.no_grad():
        parts = [model(part, cache=cache) for part in text.split(steps, dim=-1)]
        torch.testing.assert_close(torch.cat(parts, dim=1), model(text))
    assert cache.length == sum(steps)
    assert cache.reach(1) <= window


@settings(deadline=None, max_examples=30)
@given(CUTS, st.integers(1, 4), st.integers(1, 3))
def test_a_shared_prefix_is_another_partial(steps, beginning, batch):
    layer = MultiHeadAttention(16, 4, kv_heads=2, rotary=Rotary(4)).double()
    start = torch.randn(1, beginning, 16, dtype=torch.float64)
    x = torch.randn(batch, sum(steps), 16, dtype=torch.float64)
    whole = layer(torch.cat([start.expand(batch, -1, -1), x], 1), mask=regard.Causal())
    held = KeyValueCache()
    layer(start, mask=regard.Causal(), cache=held)
    shared = SharedPrefix(held)
    parts = [layer(part, mask=regard.Causal(), cache=shared) for part in x.split(steps, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole[:, beginning:])
    assert shared.length == beginning + sum(steps) and held.length == beginning


def test_what_follows_a_prefix_is_one_merge():
    torch.manual_seed(0)
    q, k, v = (torch.randn(3, 4, 5, 8, dtype=torch.float64) for _ in range(3))
    beginning = [torch.randn(1, 4, 6, 8, dtype=torch.float64) for _ in range(2)]
    part = attend_after(tuple(beginning), q, k, v, regard.Causal())
    keys, values = (
        torch.cat([b.expand(3, -1, -1, -1), own], -2)
        for b, own in zip(beginning, (k, v), strict=True)
    )
    whole = regard.attend(q, keys, values, mask=regard.Causal())
    torch.testing.assert_close(part.finish().output, whole.output)
    torch.testing.assert_close(part.lse, whole.lse)


def test_a_prefix_can_be_asked_like_anything_else():
    layer = MultiHeadAttention(8, 2).double()
    held, x = KeyValueCache(), torch.randn(3, 2, 8, dtype=torch.float64)
    layer(torch.randn(1, 4, 8, dtype=torch.float64), cache=held)
    a = layer.look(x, mask=regard.Causal(), cache=SharedPrefix(held))
    assert a.shape == (3, 2, 2, 6)
    mixed = layer.w_o(a.output.transpose(1, 2).flatten(-2))
    torch.testing.assert_close(layer(x, mask=regard.Causal(), cache=SharedPrefix(held)), mixed)


def test_a_whole_model_goes_on_from_a_shared_beginning():
    model, start, own = language_model(kv_heads=2), ids(1, 5), ids(3, 4, seed=1)
    cache = model.new_cache()
    with torch.no_grad():
        model(start, cache=cache)
        whole = model(torch.cat([start.expand(3, -1), own], dim=1))[:, 5:]
        for _ in range(2):  # nothing of the first continuation is left in the beginning
            shared = share_prefix(cache)
            parts = [model(part, cache=shared) for part in own.split([2, 1, 1], dim=1)]
            torch.testing.assert_close(torch.cat(parts, dim=1), whole)
    assert shared.length == 9 and cache.length == 5


def test_a_shared_beginning_is_recorded_and_edited_as_usual():
    model, start, own = language_model(), ids(1, 5), ids(2, 3, seed=1)
    cache = model.new_cache()
    with torch.no_grad():
        model(start, cache=cache)
        with regard.knock_out(model, heads=["L1H0"]):
            found = model(own, cache=share_prefix(cache))
        with regard.record(model) as rec:
            model(own, cache=share_prefix(cache))
        model.decoder.blocks[1].attention.w_o.weight[:, :4] = 0
        torch.testing.assert_close(found, model(own, cache=share_prefix(cache)))
    assert len(rec.prompts) == 2


def test_gradients_flow_through_a_prefix():
    layer = MultiHeadAttention(8, 2).double()
    held = KeyValueCache()
    start = torch.randn(1, 4, 8, dtype=torch.float64, requires_grad=True)
    layer(start, cache=held)
    x = torch.randn(3, 2, 8, dtype=torch.float64)
    layer(x, mask=regard.Causal(), cache=SharedPrefix(held)).sum().backward()
    assert start.grad is not None and float(start.grad.abs().sum()) > 0


def test_a_static_cache_is_written_in_place():
    layer, cache = MultiHeadAttention(8, 2), StaticCache(6)
    with torch.no_grad():
        a = layer.look(torch.randn(1, 3, 8), cache=cache)
        assert a.shape[-1] == 3 and a.entropy().shape == (1, 2, 3)
        room = cache._key.data_ptr()
        layer(torch.randn(1, 2, 8), cache=cache)
        assert cache._key.data_ptr() == room and cache.length == 5
        with pytest.raises(StaleError):
            a.dense()
        with pytest.raises(ShapeError, match=r"holds 5 tokens, 2 more do not fit.*at least 7"):
            layer(torch.randn(1, 2, 8), cache=cache)
        layer(torch.randn(1, 1, 8), cache=cache)
    assert cache.length == 6


def test_static_caches_are_not_for_learning():
    with pytest.raises(InputError, match=r"torch\.no_grad"):
        MultiHeadAttention(8, 2)(torch.randn(1, 3, 8), cache=StaticCache(6))


def test_a_refused_call_counts_for_nothing():
    layer, cache = MultiHeadAttention(8, 2), StaticCache(6)
    x, wrong = torch.randn(1, 2, 8), torch.ones(5, 5, dtype=torch.bool)
    with torch.no_grad():
        with pytest.raises(ShapeError):
            layer(x, mask=wrong, cache=cache)
        assert cache.length == 0
        torch.testing.assert_close(layer(x, cache=cache), layer(x))


def test_a_context_is_projected_once():
    layer = MultiHeadAttention(8, 2).double()
    context, cache = torch.randn(1, 3, 8, dtype=torch.float64), ContextCache()
    x = torch.randn(1, 2, 8, dtype=torch.float64)
    first = layer(x, context, cache=cache)
    held = cache.held
    torch.testing.assert_close(layer(x, context, cache=cache), first)
    torch.testing.assert_close(layer(x, context), first)
    assert cache.held[0] is held[0] and cache.length == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_single_step_has_a_short_way_of_the_same_meaning(dtype):
    """Whether anybody listens makes no difference but rounding."""
    layer = MultiHeadAttention(32, 4, kv_heads=2, rotary=Rotary(8)).to(dtype)
    x, caches = torch.randn(2, 9, 32).to(dtype), (KeyValueCache(), KeyValueCache())
    with torch.no_grad():
        for cache in caches:
            layer(x[:, :8], mask=regard.Causal(), cache=cache)
        short = layer(x[:, 8:], mask=regard.Causal(), cache=caches[0])
        a = layer.look(x[:, 8:], mask=regard.Causal(), cache=caches[1])
        long = layer.w_o(a.output.transpose(1, 2).flatten(-2))
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(short, long, rtol=8 * eps, atol=8 * eps)


def test_nan_shows_on_the_short_way():
    layer, cache = MultiHeadAttention(8, 2), KeyValueCache()
    with torch.no_grad():
        layer(torch.full((1, 2, 8), torch.nan), cache=cache)
        assert bool(layer(torch.randn(1, 1, 8), cache=cache).isnan().all())


def test_mistakes():
    with pytest.raises(InputError, match=r"tokens=0"):
        StaticCache(0)
    with pytest.raises(InputError, match=r"window=0"):
        WindowCache(0)
    with pytest.raises(ShapeError, match="empty; run the model"):
        SharedPrefix(KeyValueCache())
    with pytest.raises(InputError, match="a StaticCache cannot be shared"):
        SharedPrefix(StaticCache(3))
    with pytest.raises(InputError, match="without rotary"):
        turning = MultiHeadAttention(8, 2, rotary=Rotary(4))
        turning(torch.randn(1, 2, 8), torch.randn(1, 3, 8), cache=ContextCache())
    several = KeyValueCache()
    several.update(torch.zeros(2, 1, 3, 4), torch.zeros(2, 1, 3, 4))
    with pytest.raises(ShapeError, match=r"give \(1, heads, tokens, dim\)"):
        SharedPrefix(several)
    cache = StaticCache(4)
    with torch.no_grad():
        cache.update(torch.zeros(2, 1, 3, 4), torch.zeros(2, 1, 3, 4))
        with pytest.raises(ShapeError, match=r"holds keys"):
            cache.update(torch.zeros(3, 1, 1, 4), torch.zeros(3, 1, 1, 4))
