"""Summaries by meaning and by attention, of the same sentences."""

from __future__ import annotations

import numpy as np
import pytest

import regard
from examples.scripts import EXAMPLES, call, load
from real_models import minilm

summarise = load("summarise")


@pytest.fixture(scope="module")
def text():
    """The essay."""
    return (EXAMPLES / "tides.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def read(text):
    """Its first paragraphs, read."""
    parts = summarise.split(text)[:3]
    return [one for part in parts for one in summarise.read_paragraph(minilm(), part)]


def test_the_text_is_taken_apart_and_nothing_is_lost(text):
    parts = summarise.split(text)
    assert len(parts) > 5
    joined = " ".join(one for part in parts for one in part)
    assert joined == " ".join(text.partition("\n\n")[2].split())  # all but the title
    assert all(one[-1] in ".!?" for part in parts for one in part)


def test_what_words_receive(read):
    paragraph = summarise.split(summarise.ESSAY.read_text(encoding="utf-8"))[0]
    tokenizer, model = minilm().tokenizer, minilm().model
    ids = tokenizer(" ".join(paragraph), return_tensors="pt")["input_ids"]
    with regard.huggingface.using(model):
        attentions = model(ids, output_attentions=True).attentions
    mass = np.mean([a.received().detach().numpy() for a in attentions], axis=(0, 1, 2))
    tokens = tokenizer.convert_ids_to_tokens(ids[0])
    end = tokens.index(".")
    assert all(token.isalnum() or token == "," for token in tokens[1:end])
    words = [n for n in range(1, end) if tokens[n].isalnum()]
    assert read[0].received == pytest.approx(mass[words].mean(), rel=1e-3)


def test_by_meaning_takes_the_typical_first(read):
    unit = np.stack([one.vector / np.linalg.norm(one.vector) for one in read])
    (first,) = summarise.by_meaning(read, 1, 0.3)
    assert first == int((unit @ unit.mean(0)).argmax())
    some = summarise.by_meaning(read, 4, 0.3)
    assert len(set(some)) == 4
    assert some == sorted(some)
    assert summarise.by_meaning(read, 1000, 0.3) == list(range(len(read)))


def test_variety_avoids_what_was_said():
    same, other = np.array([1.0, 0.1]), np.array([0.2, 1.0])
    made = [summarise.Sentence(str(n), v, 1.0) for n, v in enumerate([same, same, other])]
    assert summarise.by_meaning(made, 2, 0.0) == [0, 1]
    assert summarise.by_meaning(made, 2, 0.9) == [0, 2]


def test_by_attention_takes_the_most_looked_at(read):
    chosen = summarise.by_attention(read, 3)
    left = [one.received for n, one in enumerate(read) if n not in chosen]
    assert min(read[n].received for n in chosen) >= max(left)


def test_a_long_paragraph_is_cut_at_what_the_model_takes():
    long = ["The sea rises and the sea falls, and nobody carries the water away."] * 60
    found = summarise.read_paragraph(minilm(), long)
    assert 30 < len(found) < 60


def test_main(capsys):
    summarise.main(sentences=3, paragraphs=2)
    out = capsys.readouterr().out
    assert "By meaning" in out
    assert "By attention" in out
    assert "Overlap: " in out
    both = sum(line.startswith("*") for line in out.splitlines())
    assert f"Overlap: {both // 2} of 3" in out


def test_options(tmp_path):
    status, out = call(summarise, "--paragraphs", "1", "--sentences", "2")
    assert status == 0
    assert "\x1b" not in out
    empty = tmp_path / "empty.txt"
    empty.write_text("a title", encoding="utf-8")
    status, out = call(summarise, str(empty))
    assert status == 2
    assert "no sentence in it" in " ".join(out.replace("│", "").split())
    assert call(summarise, str(tmp_path / "nowhere.txt"))[0] == 2
    assert call(summarise, "--help")[0] == 0
