"""Writing on: greedy is the argmax, sampling follows the distribution, stops stop."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from nn.small import ids, language_model
from regard.errors import InputError, ShapeError
from regard.nn.generation import choose_token

LOGITS = st.lists(st.floats(-8, 8, width=32, allow_subnormal=False), min_size=2, max_size=8)


@pytest.mark.parametrize("options", [{}, {"window": 3}, {"positions": "learned", "kv_heads": 1}])
def test_greedy_writing_is_the_argmax_of_the_whole(options):
    model, text = language_model(**options), ids(3, 4)
    written = model.generate(text, tokens=9)
    assert torch.equal(written[:, :4], text) and written.shape == (3, 13)
    with torch.no_grad():
        assert torch.equal(model(written).argmax(-1)[:, 3:-1], written[:, 4:])


def test_left_padded_prompts_write_what_they_write_alone():
    model = language_model()
    batch = torch.tensor([[0, 0, 4, 5], [6, 7, 8, 9]])
    written = model.generate(batch, tokens=6, attention_mask=(batch > 0).long())
    assert torch.equal(written[0, 2:], model.generate(torch.tensor([4, 5]), tokens=6))
    assert torch.equal(written[1], model.generate(batch[1], tokens=6))


@pytest.mark.parametrize("tokens", [-1, -3, 1.5, True, "4", None])
def test_how_many_tokens_is_a_whole_number(tokens):
    model = language_model()
    for cache in (None, model.new_cache()):
        with pytest.raises(InputError, match=r"tokens=.*; give how many to write, a whole number"):
            model.generate(ids(1, 4), tokens=tokens, cache=cache)


def test_no_tokens_and_numpys_numbers_are_fine():
    model, text = language_model(), ids(1, 4)
    assert torch.equal(model.generate(text, tokens=0), text)
    assert torch.equal(model.generate(text, tokens=np.int64(2)), model.generate(text, tokens=2))


def test_a_stop_ends_its_own_sequence():
    model, text = language_model(), ids(4, 3)
    free = model.generate(text, tokens=8)
    stop = int(free[0, 5])
    written = model.generate(text, tokens=8, stop=stop)
    for mine, whole in zip(written.tolist(), free.tolist(), strict=True):
        new, wanted = mine[3:], whole[3:]
        end = wanted.index(stop) + 1 if stop in wanted else len(wanted)
        assert new[:end] == wanted[: min(end, len(new))] and set(new[end:]) <= {stop}
    assert model.generate(text[:1], tokens=8, stop=[stop, 22]).shape[1] <= 6


def test_a_cache_goes_on():
    model, text = language_model(), ids(1, 4)
    cache = model.new_cache()
    first = model.generate(text, tokens=3, cache=cache)
    assert cache.length == 6  # the last token is written, and not yet read
    second = model.generate(first[:, -1:], tokens=3, cache=cache)
    assert torch.equal(torch.cat([first[:, :-1], second], 1), model.generate(text, tokens=6))


@settings(deadline=None)
@given(LOGITS, st.floats(0.2, 3), st.integers(1, 9))
def test_only_the_k_likeliest_are_drawn(logits, temperature, k):
    numbers = torch.tensor([logits] * 50)
    drawn = choose_token(temperature, top_k=k)(numbers)
    least = numbers[0].sort(descending=True).values[min(k, len(logits)) - 1]
    assert bool((numbers[0][drawn] >= least).all())


@settings(deadline=None)
@given(LOGITS, st.floats(0.01, 1))
def test_only_the_likeliest_that_hold_a_share_are_drawn(logits, share):
    numbers = torch.tensor([logits] * 50)
    drawn = choose_token(1.0, top_p=share)(numbers)
    ranked = numbers[0].sort(descending=True)
    held = ranked.values.softmax(-1).cumsum(-1)
    enough = int((held < share - 1e-6).sum()) + 1
    allowed = set(ranked.indices[:enough].tolist())
    least = ranked.values[min(enough, len(logits)) - 1]
    ties = {n for n in range(len(logits)) if numbers[0, n] == least}
    assert set(drawn.tolist()) <= allowed | ties


def test_draws_follow_the_model():
    dice = torch.Generator().manual_seed(0)
    logits = torch.tensor([0.1, 0.6, 0.3]).log().expand(20_000, 3)
    drawn = choose_token(1.0, generator=dice)(logits).bincount(minlength=3) / 20_000
    torch.testing.assert_close(drawn, torch.tensor([0.1, 0.6, 0.3]), rtol=0, atol=0.02)


def test_the_same_dice_draw_the_same():
    model, text = language_model(), ids(2, 4)
    made = [
        model.generate(
            text, tokens=8, temperature=1.5, generator=torch.Generator().manual_seed(3)
        )
        for _ in range(2)
    ]  # fmt: skip
    assert torch.equal(*made)


def test_a_recorded_prompt_writes_the_same():
    model, text = language_model(), ids(1, 5)
    free = model.generate(text, tokens=1)
    with regard.record(model) as rec:
        heard = model.generate(text, tokens=1)
    assert torch.equal(free, heard)
    assert rec["L1H0"] is not None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"temperature": -1}, "temperature=-1"),
        ({"temperature": 1, "top_k": 0}, "top_k=0"),
        ({"temperature": 1, "top_p": 1.5}, "top_p=1.5"),
        ({"attention_mask": torch.tensor([[1, 1, 0]])}, "pad prompts on the left"),
    ],
)
def test_mistakes(options, said):
    with pytest.raises(InputError, match=said):
        language_model().generate(ids(1, 3), **options)


def test_something_to_go_on_from():
    with pytest.raises(ShapeError, match=r"give \(batch, tokens\)"):
        language_model().generate(torch.zeros(2, 0, dtype=torch.long))
