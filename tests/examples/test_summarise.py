"""Summaries by meaning and by attention, of the same sentences."""

from __future__ import annotations

import numpy as np
import pytest

import regard
from examples.scripts import call, load
from real_models import minilm

summarise = load("summarise")
TEXT = summarise.ESSAY.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def read():
    """The essay's first paragraphs, read."""
    parts = summarise.split(TEXT)[:3]
    return [one for part in parts for one in summarise.read_paragraph(minilm(), part)]


def test_what_words_receive(read):
    tokenizer, model = minilm().tokenizer, minilm().model
    ids = tokenizer(" ".join(summarise.split(TEXT)[0]), return_tensors="pt")["input_ids"]
    with regard.huggingface.using(model):
        attentions = model(ids, output_attentions=True).attentions
    mass = np.mean([a.received().detach().numpy() for a in attentions], axis=(0, 1, 2))
    tokens = tokenizer.convert_ids_to_tokens(ids[0])
    words = [n for n in range(1, tokens.index(".")) if tokens[n].isalnum()]
    assert read[0].received == pytest.approx(mass[words].mean(), rel=1e-3)


def test_what_is_chosen(read):
    unit = np.stack([one.vector / np.linalg.norm(one.vector) for one in read])
    assert summarise.by_meaning(read, 1, 0.3) == [int((unit @ unit.mean(0)).argmax())]
    some = summarise.by_meaning(read, 4, 0.3)
    assert len(set(some)) == 4 and some == sorted(some)
    assert summarise.by_meaning(read, 1000, 0.3) == list(range(len(read)))
    same, other = np.array([1.0, 0.1]), np.array([0.2, 1.0])
    made = [summarise.Sentence(str(n), v, 1.0) for n, v in enumerate([same, same, other])]
    assert summarise.by_meaning(made, 2, 0.0) == [0, 1]
    assert summarise.by_meaning(made, 2, 0.9) == [0, 2]  # not what is there already
    most = sorted(range(len(read)), key=lambda n: -read[n].received)
    assert summarise.by_attention(read, 3) == sorted(most[:3])


def test_it_runs():
    status, out = call(summarise, "--sentences", "3", "--paragraphs", "2")
    assert status == 0 and "By meaning" in out and "By attention" in out and "\x1b" not in out
    both = sum(line.startswith("*") for line in out.splitlines())
    assert f"Overlap: {both // 2} of 3" in out
