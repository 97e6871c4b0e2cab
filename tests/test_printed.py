"""What `print` and a notebook show of a layer's steps and of an attention."""

from __future__ import annotations

import torch

import regard
from regard.mask import Causal
from regard.nn import MultiHeadAttention, SelfAttention

X = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
WORDS = ["The", "cat", "sat"]


def test_words_cannot_steer_a_terminal_or_a_page():
    steps = SelfAttention(4).steps(X, tokens=["\x1b[31m", "<b>", "[red]"])
    assert "\x1b" not in str(steps) and "[red]" in str(steps)
    assert "<b>" not in steps._repr_html_().replace('<b class="', "")


def test_an_attention_prints_weights_with_words():
    eye = torch.eye(4)
    look = SelfAttention.from_weights(eye, eye, eye).look
    assert "The  0.4223  0.1554  0.4223" in str(look(X, tokens=WORDS))
    assert "0  0.4223  0.1554  0.4223" in str(look(X))
    a = regard.attend(*(torch.randn(2, 20, 5, 4) for _ in range(3)))
    assert "head 0" in str(a) and "… and 14 more heads" in str(a) and "batch of 2" in str(a)


def test_a_longer_attention_prints_a_line_a_head():
    a = MultiHeadAttention(8, 4).look(torch.randn(40, 8), mask=Causal())
    lines = str(a).splitlines()
    assert len(lines) == 5 and all("mean entropy" in line for line in lines[1:])
    assert repr(a).startswith("Attention(shape=(4, 40, 40)")
    a.release()
    assert str(a) == "Attention(released)"
