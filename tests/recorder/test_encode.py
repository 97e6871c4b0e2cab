"""What is written of a prompt before it runs, and the rules of layers that are cut or joined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from real_models import minilm, smollm2
from recorder.models import tiny, tokens
from regard.declare import decode
from regard.errors import InputError, ShapeError
from regard.mask import Extent, Mask
from regard.mask.base import Part
from regard.recorder.drive import compare_with_eager
from regard.recorder.layer_writer import as_heads, follows, rules_for
from regard.recorder.measure import matchings
from regard.recorder.tokens import (
    check_length,
    check_reads_text,
    encode,
    flags_of,
    reader_of,
    texts_of,
)
from regard.recording.schema import DELIMITER, SPECIAL
from regard.score import ALiBi, ScoreRule
from regard.shapes import AttentionShape


def test_a_prompt_has_a_title_of_one_short_line_and_what_a_tokenizer_puts_in_front() -> None:
    prompt = encode(minilm().tokenizer, "the cat sat")
    assert prompt.bos == "[CLS]" and prompt.tokens == 5 and prompt.title == "the cat sat"
    long = encode(smollm2().tokenizer, "  a\n\n b\tc " + "x" * 200)
    assert long.bos == "" and long.title.startswith("a b c x") and len(long.title) == 80
    with pytest.raises(InputError, match="no chat template; leave out --chat"):
        encode(minilm().tokenizer, "Hello", chat=True)


def test_a_prompt_that_is_too_long_is_refused_with_what_would_fit() -> None:
    says = r"70 tokens; llama has 64 positions: shorten it by 6, or .* --truncate 64$"
    with pytest.raises(ShapeError, match=says):
        check_length(tiny("llama", max_position_embeddings=64), 70, 0)
    endless = tiny("t5", d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=2)
    del endless.config.max_position_embeddings
    check_length(endless, 10**6, 10**6)
    check_reads_text(endless, "t5")


def test_rows_that_were_not_recorded_are_not_compared() -> None:
    model, ids = tiny("llama"), tokens(30)
    with torch.no_grad(), regard.record(model, queries="10:20", layers=[1]) as rec:
        model(ids)
    compared = compare_with_eager(model, rec.recording, ids)
    assert compared is not None and compared.heads == 4 and compared.max_error < 1e-5
    assert compare_with_eager(model, rec.recording, ids[:, :5]) is None


@settings(max_examples=25)
@given(st.text(max_size=40))
def test_texts_of_tokens_are_of_their_number_and_kind(text: str) -> None:
    tokenizer = smollm2().tokenizer
    ids = tokenizer(text).input_ids
    texts = texts_of(tokenizer, ids)
    assert len(texts) == len(ids) and all(texts)
    assert flags_of(tokenizer, ids, texts).shape == (len(ids),)
    if all(ord(letter) < 128 and letter.isprintable() for letter in text):
        assert "".join(texts) == text


def test_kinds() -> None:
    tokenizer = smollm2().tokenizer
    ids = tokenizer("<|im_start|>Yes, no.\n").input_ids
    flags = flags_of(tokenizer, ids, texts_of(tokenizer, ids))
    by_text = dict(zip(texts_of(tokenizer, ids), flags.tolist(), strict=True))
    assert by_text["<|im_start|>"] == SPECIAL
    assert by_text[","] == by_text["."] == by_text["\n"] == DELIMITER
    assert by_text["Yes"] == by_text[" no"] == 0


def test_word_pieces_keep_their_marks() -> None:
    tokenizer = minilm().tokenizer
    ids = tokenizer("tokenization rocks").input_ids
    texts = texts_of(tokenizer, ids)
    assert texts[0] == "[CLS]" and texts[-1] == "[SEP]"
    assert any(text.startswith("##") for text in texts)


def test_without_a_tokenizer() -> None:
    assert texts_of(None, [3, 17]) == ["#3", "#17"]
    assert flags_of(None, [3, 17], ["#3", "#17"]).tolist() == np.zeros(2).tolist()


class _Decoder:
    """Decodes and knows nothing else."""

    def decode(self, ids: list[int]) -> str:
        return f"w{ids[0]}" if ids[0] < 50 else ""


class _Processor:
    """Reads pictures, and text by what is inside it."""

    def __init__(self) -> None:
        self.tokenizer = _Decoder()


def test_what_decodes_is_found() -> None:
    assert texts_of(reader_of(_Processor()), [3, 99, -200]) == ["w3", "#99", "#-200"]
    assert reader_of(None) is None
    with pytest.raises(InputError, match="decodes nothing"):
        reader_of(object())


def test_blanks_are_no_punctuation_and_line_breaks_are() -> None:
    flags = flags_of(object(), [1, 2, 3, 4, 5, 6], [" ", "\n", " ...", "a.", "", "—"])
    assert flags.tolist() == [0, 1, 1, 0, 0, 1]


def test_earlier_copies_need_as_many_tokens_as_keys() -> None:
    shape = AttentionShape.of((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4))
    ids, here = [np.array([7, 8, 7, 9], np.int64)], torch.device("cpu")
    assert matchings(ids, [range(3)], [range(5)], shape, here) == (None, None)
    assert None not in matchings([np.arange(5)], [range(3)], [range(5)], shape, here)


# ── rules ────────────────────────────────────────────────────────────────────────────────────


def test_rules_of_windows_stand_beside_each_other_as_heads() -> None:
    """Two entries with masks, biases and sinks of their own become twice as many heads."""
    extent = Extent(4, 4, (2,), 3)
    flags = torch.tensor([[True, True, True, False], [True, False, True, True]])
    mask = regard.Causal() & regard.Padding(flags)
    score = ScoreRule(0.5, None, ALiBi(torch.tensor([0.1, 0.2, 0.3])), torch.arange(3.0))
    joined, rule = as_heads(mask, score, extent, [(0,), (1,)])
    i, wide = torch.arange(4), Extent(4, 4, (), 6)
    seen, truth = joined.allows(i, i, wide), mask.allows(i, i, extent)
    for entry in (0, 1):
        for head in range(3):
            assert torch.equal(seen[3 * entry + head], truth[entry].expand(3, 4, 4)[head])
    bias = rule.bias.tile(i, i, wide)
    assert torch.equal(bias[:3], bias[3:]) and bias[2, 3, 0] == pytest.approx(-0.9)
    assert rule.sink.tolist() == [0, 1, 2, 0, 1, 2]
    plain, same = as_heads(regard.Causal(), ScoreRule(1.0), extent, [(0,), (1,)])
    assert repr(plain) == repr(regard.Causal()) and same.bias is None


def test_half_precision_arrays_are_written_as_numbers_numpy_knows() -> None:
    score = ScoreRule(1.0, None, None, torch.ones(3, dtype=torch.bfloat16))
    (sink,) = rules_for(None, score, Extent(2, 2, (), 3)).arrays
    assert sink.dtype == np.float32 and sink.tolist() == [1, 1, 1]


def test_a_rule_inside_a_part_is_spelt_out_as_the_part_sees_it() -> None:
    whole: Any = regard.Rule(lambda i, j: (i + 2 * j) % 3 == 0)
    rules = rules_for(Part(whole, 2, 1, 9, 9), ScoreRule(1.0), Extent(3, 4))
    again = decode(rules.mask, iter(rules.arrays), Mask)
    seen = np.squeeze(again.allows(np.arange(3), np.arange(4), Extent(3, 4)))
    i, j = np.arange(2, 5)[:, None], np.arange(1, 5)
    np.testing.assert_array_equal(seen, (i + 2 * j) % 3 == 0)
    assert not follows(Part(regard.Causal(), 2, 1, 9, 9), 3)
