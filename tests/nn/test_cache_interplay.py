"""Caches with windows, padding, batches and errors at once: what is written is what is right."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from nn.small import ids, language_model, seq2seq
from regard.errors import InputError, ShapeError, StaleError
from regard.nn import KeyValueCache, MultiHeadAttention, StaticCache, WindowCache, share_prefix
from regard.nn.generation import choose_token, write_on

CUTS = st.lists(st.integers(1, 4), min_size=1, max_size=5)
POSITIONS = st.sampled_from(["rotary", "learned", "sinusoidal", "alibi", "none"])


@settings(deadline=None, max_examples=40)
@given(POSITIONS, CUTS, st.integers(1, 6) | st.none(), st.lists(st.integers(0, 9), min_size=1,
       max_size=3), st.booleans())  # fmt: skip
def test_padding_windows_and_cuts_change_nothing(
    positions: str, steps: list[int], window: int | None, pads: list[int], static: bool
) -> None:
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
        found = torch.cat(parts, dim=1)
        assert bool(found.isfinite().all())
        for row, pad in enumerate(pads):
            torch.testing.assert_close(found[row, pad:], model(text[row : row + 1, pad:])[0])
    assert cache.length == total


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 8), CUTS)
def test_a_window_holds_no_more_than_it_must(window: int, steps: list[int]) -> None:
    cache = WindowCache(window)
    seen = 0
    for count in steps:
        new = torch.arange(seen, seen + count, dtype=torch.float64).reshape(1, 1, count, 1)
        key, value = cache.update(new, -new)
        seen += count
        first = max(seen - count - (window - 1), 0)
        assert key.flatten().tolist() == list(range(first, seen))
        assert torch.equal(value, -key)
    assert cache.length == seen
    assert cache.reach(1) == min(seen, window - 1) + 1


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 3))
def test_a_beginning_is_shared_any_number_of_times(beginning: int, batch: int, more: int) -> None:
    model = language_model(kv_heads=2)
    start, text = ids(1, beginning, seed=1), ids(batch, 1 + more, seed=2)
    cache = model.new_cache()
    with torch.no_grad():
        model(start, cache=cache)
        whole = model(torch.cat([start.expand(batch, -1), text], 1))[:, beginning:]
        for _ in range(2):  # the prefix is not used up
            shared = share_prefix(cache)
            torch.testing.assert_close(model(text, cache=shared), whole)
            assert shared.length == beginning + 1 + more and cache.length == beginning


def test_a_window_cannot_be_shared() -> None:
    model = language_model(window=4)
    cache = model.new_cache()
    with torch.no_grad():
        model(ids(1, 6), cache=cache)
    with pytest.raises(InputError, match="a WindowCache cannot be shared; give a KeyValueCache"):
        share_prefix(cache)


@pytest.mark.parametrize("window", [None, 3])
def test_a_call_that_fails_leaves_the_text_where_it_was(window: int | None) -> None:
    """Whatever was refused, the next right call goes on as if nothing had happened."""
    model, text = language_model(window=window), ids(2, 8)
    cache = model.new_cache(None if window else 8)
    with torch.no_grad():
        model(text[:, :5], cache=cache)
        for wrong in (
            lambda: model(torch.full((2, 1), 99), cache=cache),
            lambda: model(text[:, 5:6], attention_mask=torch.ones(2, 1), cache=cache),
            lambda: model(text[:1, 5:6], cache=cache),
        ):
            with pytest.raises((InputError, ShapeError)):
                wrong()
            assert cache.length == 5
        found = model(text[:, 5:], cache=cache)
        torch.testing.assert_close(found, model(text)[:, 5:])


def test_too_long_a_text_says_how_much_room_there_is() -> None:
    model = language_model()
    held = model.new_cache(4)
    with torch.no_grad():
        model(ids(1, 3), cache=held)
        with pytest.raises(ShapeError, match=r"holds 3 tokens, 2 more do not fit.*at least 5"):
            model(ids(1, 2), cache=held)
    assert held.length == 3


def test_an_answer_over_a_static_cache_grows_stale() -> None:
    layer = MultiHeadAttention(8, 2).eval()
    cache, x = StaticCache(4), torch.randn(1, 2, 8)
    with torch.no_grad():
        looked = layer.look(x, cache=cache)
        before = looked.entropy().clone()
        layer(torch.randn(1, 1, 8), cache=cache)
        with pytest.raises(StaleError):
            _ = looked[0, 0, 0]
    assert before.isfinite().all()


def test_gradients_flow_through_a_growing_cache() -> None:
    layer = MultiHeadAttention(8, 2).double()
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    whole = torch.autograd.grad(layer(x, mask=regard.Causal()).square().sum(), layer.parameters())
    cache = KeyValueCache()
    parts = [layer(part, mask=regard.Causal(), cache=cache) for part in x.split([2, 1, 2], dim=1)]
    found = torch.autograd.grad(torch.cat(parts, 1).square().sum(), layer.parameters())
    for mine, right in zip(found, whole, strict=True):
        torch.testing.assert_close(mine, right)


# ── writing ──────────────────────────────────────────────────────────────────────────────────


def test_sequences_of_a_batch_end_by_themselves() -> None:
    """A batch with a stop writes for each sequence what it writes alone, then the stop."""
    model, text = language_model(), ids(4, 5)
    free = model.generate(text, tokens=8)[:, 5:]
    stops = [int(free[0, 2]), int(free[1, 4])]
    found = model.generate(text, tokens=8, stop=stops)[:, 5:]
    for row in range(4):
        alone = model.generate(text[row : row + 1], tokens=8, stop=stops)[0, 5:]
        ends = [n for n, token in enumerate(alone.tolist()) if token in stops]
        assert found[row, : len(alone)].tolist() == alone.tolist()
        assert not ends or ends == [len(alone) - 1]
        assert set(found[row, len(alone) :].tolist()) <= {stops[0]}
    assert found.shape[1] <= 8


@pytest.mark.parametrize("kind", ["model", "translator"])
def test_no_tokens_write_nothing(kind: str) -> None:
    if kind == "model":
        text = ids(2, 3)
        assert torch.equal(language_model().generate(text, tokens=0), text)
    else:
        found = seq2seq().generate(ids(2, 3), start=1, tokens=0)
        assert found.tolist() == [[1], [1]]


def test_one_text_without_a_batch_is_written_without_one() -> None:
    model, text = language_model(), ids(1, 6)
    assert torch.equal(model.generate(text[0], tokens=4), model.generate(text, tokens=4)[0])
    real = torch.tensor([0, 0, 1, 1, 1, 1])
    padded = model.generate(text[0], tokens=4, attention_mask=real)
    assert torch.equal(padded[2:], model.generate(text[0, 2:], tokens=4))


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=9), st.floats(0.05, 5))
def test_one_choice_is_no_choice(logits: list[float], temperature: float) -> None:
    """The likeliest alone, however it is asked for."""
    given = torch.tensor([logits])
    best = choose_token()(given)
    drawn = choose_token(temperature, top_k=1)(given)
    assert given[0, drawn] == given[0, best]
    most = choose_token(temperature, top_p=1e-9)(given)
    assert given[0, most] == given[0, best]
    assert 0 <= int(choose_token(temperature, top_k=99)(given)) < len(logits)


@pytest.mark.parametrize(
    "options",
    [{"temperature": float("nan")}, {"temperature": -0.1}, {"top_p": 0.0}, {"top_p": float("nan")},
     {"top_k": -3}],
)  # fmt: skip
def test_dice_that_cannot_be_thrown(options: dict[str, Any]) -> None:
    name = next(iter(options))
    with pytest.raises(InputError, match=rf"{name}=.*; give"):
        choose_token(**{"temperature": 1.0} | options)


def test_each_step_reads_only_what_is_new() -> None:
    shapes = []

    def step(new: torch.Tensor) -> torch.Tensor:
        shapes.append(tuple(new.shape))
        return torch.eye(7)[new[:, -1] % 6 + 1]  # the next number

    written = write_on(step, torch.tensor([[1, 2], [3, 4]]), 5, 6, choose_token())
    assert shapes[0] == (2, 2) and set(shapes[1:]) == {(2, 1)}
    assert written.tolist() == [[3, 4, 5, 6], [5, 6, 6, 6]]
