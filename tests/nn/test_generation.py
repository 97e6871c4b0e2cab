"""Writing on: greedy is the argmax, sampling follows the distribution, stops stop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import regard
from nn.small import ids, language_model, seq2seq
from regard.errors import InputError, ShapeError
from regard.nn import generate

LOGITS = st.lists(st.floats(-8, 8, width=32, allow_subnormal=False), min_size=2, max_size=8)


class Fixed:
    """A model with the same logits after every text."""

    def __init__(self, logits: Any) -> None:
        self.logits = torch.as_tensor(logits)
        self.read: list[tuple[int, ...]] = []

    def __call__(self, text: Tensor, **options: Any) -> Tensor:
        self.read.append(tuple(text.shape))
        return self.logits.expand(text.shape[0], 1, -1)

    def new_cache(self, tokens: int | None = None, evict: Any = None) -> Any:
        return None


def drawn(logits: Any, count: int = 50, **options: Any) -> Tensor:
    """(count,): tokens drawn after a text."""
    return generate(Fixed(logits), torch.zeros(count, 1).long(), tokens=1, **options)[:, 1]


@pytest.mark.parametrize("options", [{}, {"window": 3}, {"positions": "learned", "kv_heads": 1}])
def test_greedy_writing_is_the_argmax_of_the_whole(options):
    model, text = language_model(**options), ids(3, 4)
    written = model.generate(text, tokens=9)
    assert torch.equal(written[:, :4], text) and written.shape == (3, 13)
    with torch.no_grad():
        assert torch.equal(model(written).argmax(-1)[:, 3:-1], written[:, 4:])
    assert torch.equal(model.generate(text[0], tokens=9), written[0])


def test_a_translation_is_the_argmax_of_the_whole():
    model, source = seq2seq(), ids(3, 5)
    written = model.generate(source, start=2, tokens=7)
    assert written.shape == (3, 8) and bool((written[:, 0] == 2).all())
    with torch.no_grad():
        assert torch.equal(model(source, written).argmax(-1)[:, :-1], written[:, 1:])
    assert model.generate(source, start=1, tokens=0).tolist() == [[1]] * 3


def test_left_padded_prompts_write_what_they_write_alone():
    model = language_model()
    batch = torch.tensor([[0, 0, 4, 5], [6, 7, 8, 9]])
    written = model.generate(batch, tokens=6, attention_mask=(batch > 0).long())
    assert torch.equal(written[0, 2:], model.generate(torch.tensor([4, 5]), tokens=6))
    assert torch.equal(written[1], model.generate(batch[1], tokens=6))
    alone = model.generate(batch[0], tokens=6, attention_mask=(batch[0] > 0).long())
    assert torch.equal(alone, written[0])


def test_no_tokens_and_numpys_numbers_are_fine():
    model, text = language_model(), ids(1, 4)
    assert torch.equal(model.generate(text, tokens=0), text)
    assert torch.equal(model.generate(text, tokens=np.int64(2)), model.generate(text, tokens=2))


def test_each_step_reads_only_what_is_new():
    model = Fixed([0.0, 3.0, 1.0])
    assert generate(model, ids(2, 4), tokens=3)[:, 4:].tolist() == [[1] * 3] * 2
    assert model.read == [(2, 4), (2, 1), (2, 1)]


def test_sequences_of_a_batch_end_by_themselves():
    """A batch with stops writes for each sequence what it writes alone, then the first stop."""
    model, text = language_model(), ids(4, 5)
    free = model.generate(text, tokens=8)[:, 5:]
    stops = [int(free[0, 2]), int(free[1, 4])]
    written = model.generate(text, tokens=8, stop=stops)[:, 5:]
    for row in range(4):
        alone = model.generate(text[row : row + 1], tokens=8, stop=stops)[0, 5:].tolist()
        wanted = free[row].tolist()
        end = next((n + 1 for n, token in enumerate(wanted) if token in stops), 8)
        assert alone == wanted[:end] and written[row, :end].tolist() == alone[: written.shape[1]]
        assert set(written[row, end:].tolist()) <= {stops[0]}
    assert model.generate(text[:1], tokens=8, stop=stops[0]).shape[1] <= 8


def test_a_cache_goes_on():
    model, text = language_model(), ids(1, 4)
    cache = model.new_cache()
    first = model.generate(text, tokens=3, cache=cache)
    assert cache.length == 6  # the last token is written, and not yet read
    second = model.generate(first[:, -1:], tokens=3, cache=cache)
    assert torch.equal(torch.cat([first[:, :-1], second], 1), model.generate(text, tokens=6))


@settings(deadline=None, max_examples=40)
@given(LOGITS, st.floats(0.2, 3), st.integers(1, 9))
def test_only_the_k_likeliest_are_drawn(logits, temperature, k):
    numbers = torch.tensor(logits)
    least = numbers.sort(descending=True).values[min(k, len(logits)) - 1]
    assert bool((numbers[drawn(logits, temperature=temperature, top_k=k)] >= least).all())


@settings(deadline=None, max_examples=40)
@given(LOGITS, st.floats(1e-9, 1))
def test_only_the_likeliest_that_hold_a_share_are_drawn(logits, share):
    numbers = torch.tensor(logits)
    ranked = numbers.sort(descending=True).values
    enough = int((ranked.softmax(-1).cumsum(-1) < share - 1e-6).sum()) + 1
    least = ranked[min(enough, len(logits)) - 1]
    assert bool((numbers[drawn(logits, temperature=1.0, top_p=share)] >= least).all())


def test_draws_follow_the_model_and_the_same_dice_draw_the_same():
    logits, made = torch.tensor([0.1, 0.6, 0.3]).log(), []
    for _ in range(2):
        dice = torch.Generator().manual_seed(0)
        made.append(drawn(logits, 20_000, temperature=1.0, generator=dice))
    assert torch.equal(*made)
    shares = made[0].bincount(minlength=3) / 20_000
    torch.testing.assert_close(shares, torch.tensor([0.1, 0.6, 0.3]), rtol=0, atol=0.02)
    hot = drawn(logits, 20_000, temperature=2.0).bincount(minlength=3) / 20_000
    torch.testing.assert_close(hot, (logits / 2).softmax(-1), rtol=0, atol=0.02)


def test_what_is_written_while_recorded_is_one_prompt_as_if_read_whole():
    model, text = language_model(), ids(1, 5)
    with torch.no_grad(), regard.record(model) as rec:
        written = generate(model, text, tokens=6)
    assert torch.equal(written, model.generate(text, tokens=6)) and len(rec.prompts) == 1
    with torch.no_grad(), regard.record(model) as whole:
        model(written[:, :-1])
    rows = whole["L1H1"].shape[0]
    mine, right = (np.asarray(r["L1H1"].dense())[:rows, :rows] for r in (rec, whole))
    np.testing.assert_allclose(mine, right, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *(({"temperature": wrong}, "temperature=.*; give") for wrong in (-1, -0.1, float("nan"))),
        *(({"temperature": 1, "top_k": wrong}, "top_k=.*; give") for wrong in (0, -3)),
        *(({"temperature": 1, "top_p": wrong}, "top_p=.*; give") for wrong in (1.5, 0.0)),
        ({"temperature": 1, "top_p": float("nan")}, "top_p=nan"),
        ({"attention_mask": torch.tensor([[1, 1, 0]])}, "pad prompts on the left"),
        *(({"tokens": wrong}, "tokens=.*; give how many to write, a whole number")
          for wrong in (-1, -3, 1.5, True, "4", None)),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_refused(options, words):
    model = language_model()
    for cache in (None, model.new_cache()):
        with pytest.raises(InputError, match=words):
            model.generate(ids(1, 3), cache=cache, **options)
    with pytest.raises(ShapeError, match=r"give \(batch, tokens\)"):
        model.generate(torch.zeros(2, 0, dtype=torch.long))
