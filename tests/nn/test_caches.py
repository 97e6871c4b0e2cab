"""With a cache or without, whatever its kind and however the text is cut: the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import regard
from nn.small import ids, language_model
from regard import kv
from regard.errors import InputError, ShapeError, StaleError
from regard.nn import (
    ContextCache,
    EvictingCache,
    KeyValueCache,
    MultiHeadAttention,
    Rotary,
    SharedPrefix,
    StaticCache,
    WindowCache,
    share_prefix,
)

close = torch.testing.assert_close
CAUSAL = regard.Causal()
CUTS = st.lists(st.integers(1, 4), min_size=1, max_size=5)
POSITIONS = st.sampled_from(["rotary", "learned", "sinusoidal", "alibi", "none"])
LAYERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rotary": {"rotary": Rotary(4)},
    "grouped": {"kv_heads": 2, "rotary": Rotary(4)},
    "normed": {"kv_heads": 1, "rotary": Rotary(4), "qk_norm": True, "value_dim": 3},
}


def doubles(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


# ── cuts ─────────────────────────────────────────────────────────────────────────────────────


@settings(deadline=None, max_examples=30)
@given(POSITIONS, CUTS, st.integers(1, 6) | st.none(), st.lists(st.integers(0, 9), min_size=1,
       max_size=3), st.booleans())  # fmt: skip
def test_padding_windows_and_cuts_change_nothing(positions, steps, window, pads, static):
    """Each padded text, read in pieces, has the logits it has alone and whole."""
    model = language_model(positions=positions, window=window, kv_heads=2)
    total = sum(steps)
    pads = [min(pad, total - 1) for pad in pads]
    text, real = ids(len(pads), total), torch.ones(len(pads), total, dtype=torch.long)
    for row, pad in enumerate(pads):
        text[row, :pad], real[row, :pad] = 0, 0
    cache, parts, start = model.new_cache(total if static else None), [], 0
    with torch.no_grad():
        for count in steps:
            stop = start + count
            parts.append(model(text[:, start:stop], attention_mask=real[:, :stop], cache=cache))
            start = stop
        logits = torch.cat(parts, dim=1)
        assert bool(logits.isfinite().all())
        for row, pad in enumerate(pads):
            close(logits[row, pad:], model(text[row : row + 1, pad:])[0])
    assert cache.length == total
    assert window is None or cache.reach(1) <= window


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(sorted(LAYERS)), CUTS, st.sampled_from([(), (2,), (2, 3)]))
def test_a_layer_in_steps_is_the_full_pass_and_so_are_its_weights(kind, steps, batch):
    torch.manual_seed(len(steps))
    layer = MultiHeadAttention(16, 4, **LAYERS[kind]).double()
    x = doubles(*batch, sum(steps), 16)
    full, whole = layer(x, mask=CAUSAL), layer.look(x, mask=CAUSAL)
    cache, looked, seen = KeyValueCache(), KeyValueCache(), 0
    parts, answers = [], []
    for part in x.split(steps, dim=-2):
        parts.append(layer(part, mask=CAUSAL, cache=cache))
        a = layer.look(part, mask=CAUSAL, cache=looked)
        rows = slice(seen, seen + part.shape[-2])
        seen = rows.stop
        answers.append((a, rows))
        close(a.entropy(), whole.entropy()[..., rows])
    close(torch.cat(parts, dim=-2), full)
    for a, rows in answers:  # nothing is written over
        close(a.dense(), whole.dense()[..., rows, : rows.stop])
    assert cache.length == looked.length == seen


def test_a_window_and_torchs_order_of_axes_decode_too():
    layer, x, mask = MultiHeadAttention(8, 2).double(), doubles(7, 8), regard.Window(2)
    cache = KeyValueCache()
    parts = [layer(x[t : t + 1], mask=mask, cache=cache) for t in range(7)]
    close(torch.cat(parts), layer(x, mask=mask))
    layer = MultiHeadAttention.from_torch(nn.MultiheadAttention(8, 2, dtype=torch.float64))
    x, cache = doubles(5, 3, 8), KeyValueCache()  # (tokens, batch, dim)
    parts = [layer(x[t : t + 1], mask=CAUSAL, cache=cache) for t in range(5)]
    close(torch.cat(parts), layer(x, mask=CAUSAL))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_single_step_has_a_short_way_of_the_same_meaning(dtype):
    """Whether the step is observed makes no difference but rounding."""
    layer = MultiHeadAttention(32, 4, kv_heads=2, rotary=Rotary(8)).to(dtype)
    x, caches = torch.randn(2, 9, 32).to(dtype), (KeyValueCache(), KeyValueCache())
    with torch.no_grad():
        for cache in caches:
            layer(x[:, :8], mask=CAUSAL, cache=cache)
        short = layer(x[:, 8:], mask=CAUSAL, cache=caches[0])
        a = layer.look(x[:, 8:], mask=CAUSAL, cache=caches[1])
        long = layer.w_o(a.output.transpose(1, 2).flatten(-2))
        nan = KeyValueCache()
        layer(torch.full((1, 2, 32), torch.nan).to(dtype), cache=nan)
        assert bool(layer(x[:1, :1], cache=nan).isnan().all())
    eps = torch.finfo(dtype).eps
    close(short, long, rtol=8 * eps, atol=8 * eps)


@pytest.mark.parametrize(
    "mask", [regard.Window(2), regard.Padding([9, 4]), ~CAUSAL, regard.Rule(lambda i, j: j != 3)],
    ids=["window", "padding", "later", "rule"],
)  # fmt: skip
def test_no_short_way_under_a_mask_that_hides_keys(mask):
    layer, x, cache = MultiHeadAttention(8, 2).double(), doubles(2, 9, 8), KeyValueCache()
    with torch.no_grad():
        layer(x[:, :8], mask=CAUSAL, cache=cache)
        step = layer(x[:, 8:], mask=mask, cache=cache)
    looked = layer.look(x[:, 8:], (x, x), mask=mask)
    close(step, layer.w_o(looked.output.transpose(1, 2).flatten(-2)))


def test_gradients_flow_through_a_growing_cache_and_a_prefix():
    layer, x = MultiHeadAttention(8, 2).double(), doubles(1, 5, 8)
    whole = torch.autograd.grad(layer(x, mask=CAUSAL).square().sum(), layer.parameters())
    cache = KeyValueCache()
    parts = [layer(part, mask=CAUSAL, cache=cache) for part in x.split([2, 1, 2], dim=1)]
    stepwise = torch.autograd.grad(torch.cat(parts, 1).square().sum(), layer.parameters())
    for mine, right in zip(stepwise, whole, strict=True):
        close(mine, right)
    held, start = KeyValueCache(), doubles(1, 4, 8).requires_grad_()
    layer(start, cache=held)
    layer(doubles(3, 2, 8), mask=CAUSAL, cache=SharedPrefix(held)).sum().backward()
    assert float(start.grad.abs().sum()) > 0


# ── each kind ────────────────────────────────────────────────────────────────────────────────


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 8), CUTS)
def test_a_window_holds_no_more_than_it_must(window, steps):
    cache, seen = WindowCache(window), 0
    for count in steps:
        new = torch.arange(seen, seen + count, dtype=torch.float64).reshape(1, 1, count, 1)
        key, value = cache.update(new, -new)
        seen += count
        assert key.flatten().tolist() == list(range(max(seen - count - (window - 1), 0), seen))
        assert torch.equal(value, -key)
    assert cache.length == seen and cache.reach(1) == min(seen, window - 1) + 1


def test_a_static_cache_is_written_in_place_so_earlier_answers_grow_stale():
    layer, cache = MultiHeadAttention(8, 2), StaticCache(6)
    x = torch.randn(1, 3, 8)
    with pytest.raises(InputError, match=r"torch\.no_grad"):
        layer(x, cache=cache)
    with torch.no_grad():
        with pytest.raises(ShapeError):
            layer(x, mask=torch.ones(5, 5, dtype=torch.bool), cache=cache)
        assert cache.length == 0
        a = layer.look(x, cache=cache)
        close(a.output, layer.look(x).output)
        before = a.entropy().clone()
        layer(torch.randn(1, 2, 8), cache=cache)
        with pytest.raises(StaleError):
            a.dense()
        with pytest.raises(ShapeError, match=r"holds 5 tokens, 2 more do not fit.*at least 7"):
            layer(torch.randn(1, 2, 8), cache=cache)
        layer(torch.randn(1, 1, 8), cache=cache)
    assert cache.length == 6 and before.isfinite().all()


def test_a_context_is_projected_once():
    layer, cache = MultiHeadAttention(8, 2).double(), ContextCache()
    context, x = doubles(1, 3, 8), doubles(1, 2, 8)
    first = layer(x, context, cache=cache)
    held = cache.held
    close(layer(x, context, cache=cache), first)
    close(layer(x, context), first)
    assert cache.held[0] is held[0] and cache.length == 0


# ── a shared beginning ───────────────────────────────────────────────────────────────────────


@settings(deadline=None, max_examples=25)
@given(CUTS, st.integers(1, 4), st.integers(1, 3))
def test_a_beginning_is_shared_any_number_of_times(steps, beginning, batch):
    layer = MultiHeadAttention(16, 4, kv_heads=2, rotary=Rotary(4)).double()
    start, x = doubles(1, beginning, 16), doubles(batch, sum(steps), 16)
    whole = layer(torch.cat([start.expand(batch, -1, -1), x], 1), mask=CAUSAL)[:, beginning:]
    held = KeyValueCache()
    layer(start, mask=CAUSAL, cache=held)
    for _ in range(2):  # nothing of the first continuation is left in the beginning
        shared = SharedPrefix(held)
        parts = [layer(part, mask=CAUSAL, cache=shared) for part in x.split(steps, dim=1)]
        close(torch.cat(parts, dim=1), whole)
    assert shared.length == beginning + sum(steps) and held.length == beginning
    a = layer.look(x, mask=CAUSAL, cache=SharedPrefix(held))
    assert a.shape == (batch, 4, sum(steps), beginning + sum(steps))
    close(layer.w_o(a.output.transpose(1, 2).flatten(-2)), whole)


def test_a_model_goes_on_from_a_shared_beginning_recorded_and_edited_as_usual():
    model, start, own = language_model(kv_heads=2), ids(1, 5), ids(3, 4, seed=1)
    cache = model.new_cache()
    with torch.no_grad():
        model(start, cache=cache)
        whole = model(torch.cat([start.expand(3, -1), own], dim=1))[:, 5:]
        shared = share_prefix(cache)
        parts = [model(part, cache=shared) for part in own.split([2, 1, 1], dim=1)]
        close(torch.cat(parts, dim=1), whole)
        assert shared.length == 9 and cache.length == 5
        with regard.knock_out(model, heads=["L1H0"]):
            without = model(own, cache=share_prefix(cache))
        with regard.record(model) as rec:
            model(own, cache=share_prefix(cache))
        model.decoder.blocks[1].attention.w_o.weight[:, :4] = 0
        close(without, model(own, cache=share_prefix(cache)))
    assert len(rec.prompts) == 3


# ── keys dropped by the attention they received ──────────────────────────────────────────────

PROMPT = 40
SOME = kv.Eviction("observed", 12, sinks=2, recent=4)


def test_as_if_later_tokens_could_not_see_what_was_dropped():
    """A layer's later tokens, against one pass under a mask of the kept keys."""
    layer = MultiHeadAttention(16, 4, kv_heads=2, rotary=Rotary(4)).double()
    cache, x = EvictingCache(SOME), doubles(3, PROMPT + 5, 16)
    a = layer.look(x[:, :PROMPT], mask=CAUSAL, cache=cache)
    assert torch.equal(cache.kept, SOME.keep(a, PROMPT))
    assert cache.length == PROMPT and cache.reach(1) == 13
    step = [layer(x[:, n : n + 1], mask=CAUSAL, cache=cache) for n in range(PROMPT, PROMPT + 5)]
    kept = torch.zeros(3, 2, PROMPT, dtype=torch.bool).scatter(-1, cache.kept, True)
    seen = torch.ones(PROMPT + 5, PROMPT + 5, dtype=torch.bool).tril().repeat(3, 2, 1, 1)
    seen[:, :, PROMPT:, :PROMPT] &= kept[:, :, None]
    right = layer(x, mask=seen.repeat_interleave(2, 1))[:, PROMPT:]
    close(torch.cat(step, 1), right, rtol=1e-9, atol=1e-10)


def test_a_model_goes_on_with_several_tokens_at_once_and_later():
    model, text = language_model(), ids(2, PROMPT + 6, seed=PROMPT)
    with torch.no_grad():
        step, at_once = model.new_cache(evict=SOME), model.new_cache(evict=SOME)
        model(text[:, :PROMPT], cache=step), model(text[:, :PROMPT], cache=at_once)
        single = [model(text[:, n : n + 1], cache=step) for n in range(PROMPT, PROMPT + 6)]
        together = model(text[:, PROMPT:], cache=at_once)
    close(together, torch.cat(single, 1), rtol=1e-9, atol=1e-10)
    assert step.length == at_once.length == PROMPT + 6


def test_text_goes_on_after_every_eviction():
    model, text = language_model(), ids(2, 90)
    for method in kv.METHODS:
        evict = kv.Eviction(method, 70, sinks=2, recent=4)
        assert model.generate(text, tokens=2, evict=evict).shape == (2, 92)
    short = text[:, :PROMPT]
    plain = model.generate(short, tokens=8)
    for budget in (PROMPT, 1.0):  # a budget for all changes nothing
        evict = kv.Eviction("observed", budget, 2, 4)
        assert torch.equal(model.generate(short, tokens=8, evict=evict), plain)
    assert torch.equal(model.generate(short[0], tokens=8, evict=kv.Eviction()), plain[0])


# ── refused ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("window", [None, 3])
def test_a_call_that_fails_leaves_the_text_where_it_was(window):
    """Whatever was refused, the next right call goes on as if nothing had happened."""
    model, text = language_model(window=window), ids(2, 8)
    cache = model.new_cache(None if window else 8)
    with torch.no_grad():
        model(text[:, :5], cache=cache)
        for given, options in (
            (torch.full((2, 1), 99), {}),
            (text[:, 5:6], {"attention_mask": torch.ones(2, 1)}),
            (text[:1, 5:6], {}),
            *(((ids(2, 4), {}),) if window is None else ()),
        ):
            with pytest.raises((InputError, ShapeError)):
                model(given, cache=cache, **options)
            assert cache.length == 5
        close(model(text[:, 5:], cache=cache), model(text)[:, 5:])


def held(kind: Any, *shape: int) -> Any:
    with torch.no_grad():
        kind.update(torch.zeros(shape), torch.zeros(shape))
    return kind


def of_window() -> Any:
    model = language_model(window=4)
    cache = model.new_cache()
    with torch.no_grad():
        model(ids(1, 6), cache=cache)
    return cache


def evicted(options: dict[str, Any], **given: Any) -> Any:
    return language_model(**options).generate(ids(2, PROMPT), evict=SOME, **given)


THREE = (2, 3, 4)
NEW_CACHE = r"holds keys \(2, 3, 4\), given .*Make a new cache"


@pytest.mark.parametrize(
    ("attempt", "error", "words"),
    [
        *((lambda shape=shape: held(held(KeyValueCache(), *THREE), *shape), ShapeError, NEW_CACHE)
          for shape in ((3, 1, 4), (2, 1, 5), (1, 2, 1, 4))),
        (lambda: held(KeyValueCache(), *THREE).update(torch.zeros(2, 1, 4), torch.zeros(2, 1, 5)),
         ShapeError, "holds values"),
        (lambda: held(held(StaticCache(4), 2, 1, 3, 4), 3, 1, 1, 4), ShapeError, "holds keys"),
        (lambda: StaticCache(0), InputError, "tokens=0"),
        (lambda: WindowCache(0), InputError, "window=0"),
        (lambda: SharedPrefix(KeyValueCache()), ShapeError, "empty; run the model"),
        (lambda: SharedPrefix(StaticCache(3)), InputError, "a StaticCache cannot be shared"),
        (lambda: SharedPrefix(held(KeyValueCache(), 2, 1, 3, 4)), ShapeError,
         r"give \(1, heads, tokens, dim\)"),
        (lambda: share_prefix(of_window()), InputError,
         "a WindowCache cannot be shared; give a KeyValueCache"),
        (lambda: MultiHeadAttention(8, 2, rotary=Rotary(4))(
            torch.randn(1, 2, 8), torch.randn(1, 3, 8), cache=ContextCache()),
         InputError, "without rotary"),
        (lambda: evicted({}, cache=language_model().new_cache()), InputError, "give one of them"),
        (lambda: evicted({}, attention_mask=torch.ones(2, PROMPT, dtype=torch.long)), InputError,
         "attention_mask beside an evicting cache"),
        (lambda: evicted({"window": 8}), InputError, "window of 8"),
        (lambda: evicted({"positions": "alibi"}), InputError, "ALiBi"),
    ],
)  # fmt: skip
def test_what_a_cache_cannot_do_is_refused(attempt, error, words):
    with pytest.raises(error, match=words):
        attempt()
