"""`layer.steps(x)`: equal to what the layer computes, whatever the layer; printed, its lesson."""

from __future__ import annotations

import random
import re

import pytest
import torch
from torch import nn

from regard.errors import InputError, ShapeError, TooLargeError
from regard.mask import Causal, Padding
from regard.nn import (
    BlockConfig,
    DecoderBlock,
    EncoderBlock,
    MultiHeadAttention,
    Rotary,
    SelfAttention,
)
from regard.score import ALiBi

X = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
WORDS = ["The", "cat", "sat"]


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_the_notes_layer_prints_the_notes():
    eye = torch.eye(4)
    steps = SelfAttention.from_weights(eye, eye, eye).steps(X, tokens=WORDS)
    assert steps.scores.tolist() == [[2, 0, 2], [0, 2, 2], [2, 2, 4]]
    assert steps.scaled[0].tolist() == [1, 0, 1]
    assert steps.weights[0].tolist() == pytest.approx([0.4223, 0.1554, 0.4223], abs=5e-5)
    assert steps.output[0].tolist() == pytest.approx([0.8446, 0.5777, 0.8446, 0.5777], abs=5e-5)
    text = str(steps)
    for line in (
        "q(The)·k(sat) = 1×1 + 0×1 + 1×1 + 0×1 = 2",
        "The: 2 / 2 = 1    cat: 0 / 2 = 0    sat: 2 / 2 = 1",
        "sum, the output for The = [0.8446 0.5777 0.8446 0.5777]",
        "The  0.4223  0.1554  0.4223",
    ):
        assert line in text
    assert "<script" not in steps._repr_html_() and "0.8446" in steps._repr_html_()


def layer_of(dice: random.Random) -> MultiHeadAttention:
    kv, group = dice.choice((1, 2)), dice.choice((1, 3))
    dim = dice.choice((2, 4))
    layer = MultiHeadAttention(
        6, kv * group, kv_heads=kv, head_dim=dim, value_dim=dice.choice((None, 3)),
        bias=dice.random() < 0.5, rotary=Rotary(dim) if dice.random() < 0.5 else None,
        qk_norm=dice.random() < 0.5, dropout=0.1,
    ).eval()  # fmt: skip
    if dice.random() < 0.3:
        layer.register_buffer("sink", torch.randn(1))
    return layer


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(24))
def test_equal_to_the_layer_forward_and_gradients(seed):
    dice = random.Random(seed)
    torch.manual_seed(seed)
    layer, tokens = layer_of(dice), dice.choice((1, 3, 7))
    x = torch.randn(*dice.choice(((), (2,), (2, 2))), tokens, 6, requires_grad=True)
    mask = dice.choice((None, Causal(), Padding(torch.arange(tokens) < 1), ~Causal()))
    bias = dice.choice((None, ALiBi(torch.rand(layer.w_q.out_features // layer.head_dim))))
    steps = layer.steps(x, mask=mask, bias=bias)
    expected = layer(x, mask=mask, bias=bias)
    close(steps.output, expected)
    look = layer.look(x, mask=mask, bias=bias)
    close(steps.weights, look[...])
    close(steps.lse, look.lse)
    direction = torch.randn_like(expected)
    ours, theirs = (
        torch.autograd.grad((o * direction).sum(), x)[0] for o in (steps.output, expected)
    )
    close(ours, theirs)
    text = str(steps)
    assert "nan" not in text.lower() and "inf" not in text.lower()
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(12))
def test_the_printed_lesson_is_arithmetic_that_holds(seed):
    """Every line `a×b + c×d + e = f` of the text is true to the digits that are printed."""
    dice = random.Random(seed)
    torch.manual_seed(seed)
    text = str(layer_of(dice).steps(torch.randn(3, 6), tokens=WORDS, mask=Causal()))
    sums = re.findall(r"(?<=[a-z]\d = )((?:[-+×(). \d\n])+) = (-?[\d.]+)", text)
    assert sums
    for left, right in sums:
        value = eval(left.replace("×", "*").replace("\n", " "))
        assert value == pytest.approx(float(right), abs=3e-3)


def test_cross_attention_has_two_texts():
    layer = MultiHeadAttention(6, 2, context_dim=5).eval()
    x, context = torch.randn(2, 6), torch.randn(4, 5)
    steps = layer.steps(x, context, tokens=(["der", "Hund"], ["the", "dog", "ran", "off"]))
    close(steps.output, layer(x, context))
    text = str(steps)
    assert "Keys and values are made of another sequence: the, dog, ran, off." in text
    assert "q(der)·k(off)" in text and "k(the) = x @ w_k of head 1 + b_k" in text


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("feed_forward", ["mlp", "swiglu"])
def test_blocks(norm_first, feed_forward):
    config = BlockConfig(
        dim=8, heads=2, hidden=12, feed_forward=feed_forward, norm_first=norm_first, dropout=0.1
    )
    x, context = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    encoder = EncoderBlock(config).eval()
    steps = encoder.steps(x, tokens=WORDS, mask=Causal())
    close(steps.output, encoder(x, mask=Causal()))
    assert "The whole block, for sat" in str(steps)
    decoder = DecoderBlock(config, cross=True).eval()
    steps = decoder.steps(x, context, tokens=(WORDS, list("abcde")), mask=Causal())
    close(steps.output, decoder(x, context, mask=Causal()))
    assert steps.cross is not None and "q(The)·k(e)" in str(steps.cross)
    with pytest.raises(InputError, match="cross=True"):
        DecoderBlock(config).steps(x, context)


def test_tokens_first():
    layer = MultiHeadAttention.from_torch(nn.MultiheadAttention(6, 2)).eval()
    x = torch.randn(4, 2, 6)
    steps = layer.steps(x)
    close(steps.output, layer(x))
    assert "4 tokens" in str(steps) and "The first of 2 sequences." in str(steps)


def test_half_precision_and_double():
    for dtype in (torch.bfloat16, torch.float64):
        layer = SelfAttention(4).to(dtype)
        steps = layer.steps(X.to(dtype), tokens=WORDS)
        assert steps.output.dtype == dtype and "cat" in str(steps)


def test_rows_that_see_nothing():
    steps = SelfAttention(4).steps(X, tokens=WORDS, mask=torch.zeros(3, 3, dtype=torch.bool))
    assert steps.output.abs().sum() == 0
    assert "No key is left to The: its weights are 0, and so is its output." in str(steps)


def test_long_inputs_are_folded_and_longer_ones_refused():
    layer = MultiHeadAttention(64, 8)
    text = str(layer.steps(torch.randn(300, 64), mask=Causal(), row=7))
    assert len(text.splitlines()) < 400
    assert "shown: 9 of 300 rows, 9 of 300 columns; LayerSteps has all" in text
    assert 'First one row, "t7"' in text
    with pytest.raises(TooLargeError, match=r"look\(x\)"):
        layer.steps(torch.randn(3000, 64))


def test_the_row_is_chosen_by_word_or_place():
    layer = SelfAttention(4)
    assert 'First one row, "cat"' in str(layer.steps(X, tokens=WORDS, row="cat"))
    assert 'First one row, "sat"' in str(layer.steps(X, tokens=WORDS, row=-1))
    with pytest.raises(InputError, match="row='dog' is not in the sentence"):
        str(layer.steps(X, tokens=WORDS, row="dog"))
    with pytest.raises(InputError, match="row=3: give a word, or a place from 0 to 2"):
        str(layer.steps(X, tokens=WORDS, row=3))


def test_as_many_words_as_tokens():
    with pytest.raises(ShapeError, match="give a list of 3 words"):
        SelfAttention(4).steps(X, tokens=["The", "cat"])
    with pytest.raises(ShapeError, match="give a list of 3 words"):
        SelfAttention(4).look(X, tokens="The")
