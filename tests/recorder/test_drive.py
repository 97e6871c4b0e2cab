"""A prompt is encoded, goes through the model in chunks, and the model writes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from real_models import minilm, smollm2, whisper
from recorder.models import tiny, tokens
from recorder.test_weights import translator
from regard.declare import decode
from regard.errors import InputError, ShapeError
from regard.mask import Extent, Mask
from regard.mask.base import Part
from regard.recorder import drive as driving
from regard.recorder.drive import _line, compare_with_eager, drive, estimate
from regard.recorder.layer_writer import as_heads, follows, rules_for
from regard.recorder.measure import matchings
from regard.recorder.plan import Choice, make_plan
from regard.recorder.tokens import (
    Encoded,
    check_length,
    check_reads_text,
    encode,
    flags_of,
    positions_of,
    reader_of,
    texts_of,
)
from regard.recording.schema import DELIMITER, SPECIAL
from regard.score import ALiBi, ScoreRule
from regard.shapes import AttentionShape


def encoded(count: int) -> Encoded:
    return Encoded(tokens(count), "", "some tokens")


@pytest.mark.parametrize("queries", [None, 5])
def test_chunks_and_generation_are_one_prompt(
    monkeypatch: pytest.MonkeyPatch, queries: int | None
) -> None:
    monkeypatch.setattr(driving, "CHUNK", 64)
    model = tiny("llama", num_key_value_heads=2)
    prompt, steps = encoded(150), []
    plan = estimate(model, prompt.ids, Choice()).plan(158, 10**9)
    with regard.record(model, queries=queries) as rec:
        written = drive(rec, prompt, generate=8, plan=plan, advanced=steps.append)
    assert len(steps) == 3 * 2 + len(written)  # two layers a chunk, then token by token
    assert sum(steps) == pytest.approx(150 + len(written))
    with torch.no_grad():
        expected = model.generate(prompt.ids, max_new_tokens=8, do_sample=False)
    assert written == expected[0, 150:].tolist()
    (one,) = rec.prompts
    whole = 150 + len(written)
    assert (one.generated, len(one.ids), len(one.next)) == (len(written), whole, 5)
    assert abs(sum(p for _, p in one.next)) <= 1
    assert rec["L1H2"].shape == (whole, whole)
    assert rec["L1H2"].place.rows == ((0, whole) if queries is None else (145, whole))
    if queries is None:
        found = compare_with_eager(model, rec.recording, prompt.ids)
        assert found is not None
        assert found.heads == 8 and found.rows == 150 and found.max_error < 1e-5
        assert "max error" in found.line()


def test_encoders_and_translators() -> None:
    model = tiny("bert")
    with regard.record(model) as rec:
        with pytest.raises(InputError, match=r"--generate 2: .*\(Bert.*\) only reads"):
            drive(rec, encoded(5), generate=2)
        assert drive(rec, encoded(30)) == []
    found = compare_with_eager(model, rec.recording, tokens(30))
    assert found is not None and found.max_error < 1e-5
    assert compare_with_eager(model, rec.recording, tokens(300)) is None
    model = translator("t5")
    assert len(estimate(model, tokens(9), Choice()).every) == 6
    assert len(estimate(model, tokens(9), Choice.of("1", None, None)).chosen) == 3
    with regard.record(model, layers=[1]) as rec:
        written = drive(rec, encoded(9), generate=4)
    assert rec["cross.L1H0"].shape == (len(written), 9)
    assert all(rec[f"{stack}.L1H0"].exact for stack in ("encoder", "decoder", "cross"))


def test_prompts_that_cannot_be_read() -> None:
    model = tiny("llama", max_position_embeddings=64)
    assert positions_of(model) == 64
    assert positions_of(tiny("roberta", max_position_embeddings=514)) == 512  # behind its padding
    check_length(model, 60, 4)
    for generate, says in (
        (10, r"60 tokens and 10 to generate.*64 positions.*by 6"),
        (0, r"70 tokens; llama has 64 positions: shorten it by 6, or .* --truncate 64$"),
    ):
        with pytest.raises(ShapeError, match=says):
            check_length(model, 60 if generate else 70, generate)
    for text, said in (("  \n", "empty"), ("text", "no tokenizer")):
        with pytest.raises(InputError, match=said):
            encode(None, text)
    with pytest.raises(InputError, match="input features, not text"):
        check_reads_text(whisper().model, "whisper-tiny.en")


def test_smollm2() -> None:
    loaded = smollm2()
    prompt = encode(loaded.tokenizer, "The capital of France is")
    with regard.record(loaded.model, tokenizer=loaded.tokenizer) as rec:
        drive(rec, prompt)
    (one,) = rec.prompts
    assert one.next[0][0] == " Paris" and one.bos == "" and rec.stacks == {"": (30, 9)}
    assert rec.tokens == ["The", " capital", " of", " France", " is"]
    found = compare_with_eager(loaded.model, rec.recording, prompt.ids)
    assert found is not None and found.heads == 270 and found.max_error < 1e-4
    assert np.mean(rec.grid("first")) > 0.5  # strong sinks
    chat = loaded.tokenizer.decode(encode(loaded.tokenizer, "Hello", chat=True).ids[0])
    assert "<|im_start|>user\nHello<|im_end|>" in chat
    assert chat.endswith("<|im_start|>assistant\n")


# ── plans for prompts of any length, from one short run ────────────────────────────────────────


def test_a_plan_counts_the_chosen_layers_and_heads() -> None:
    model = tiny("llama", num_key_value_heads=2, num_hidden_layers=3)
    every = estimate(model, tokens(20), Choice())
    some = estimate(model, tokens(20), Choice.of("0,2", "1", None))
    assert every.plan(100, 10**9).places == 3
    long = [replace(size, queries=100, keys=100) for size in every.every]
    assert every.plan(100, 10**9) == make_plan(10**9, long)
    assert [(s.heads, s.key_heads, s.dim) for s in every.chosen] == [(4, 2, 8)] * 3
    assert [size.heads for size in some.chosen] == [1, 1]
    assert some.plan(100, 10**9).total_bytes < every.plan(100, 10**9).total_bytes
    assert 0 < every.seconds(100) < every.seconds(1000) < every.seconds(1000, generate=50)
    assert model.config._attn_implementation == "sdpa"
    for choice, said in ((("7", None), "layer 7"), ((None, "9"), "head 9")):
        with pytest.raises(InputError, match=f"{said} does not exist"):
            estimate(model, tokens(20), Choice.of(*choice, None))


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize(("fixed", "each"), [(0.0, 1e-7), (0.02, 1e-5)])
def test_a_fixed_cost_is_not_multiplied(fixed: float, each: float, power: int) -> None:
    """A GPU takes as long for 128 tokens as for 2,048; what a call costs is not a rate."""

    def took(count: int) -> Any:
        return fixed + each * count**power

    call, rate = _line(took, (1, took(1)), 128, 2048, power)
    assert call == pytest.approx(fixed, abs=1e-6) and rate == pytest.approx(each * power)


# ── what is written of a prompt before it runs ───────────────────────────────────────────────


def test_a_prompt_has_a_title_of_one_short_line_and_what_a_tokenizer_puts_in_front() -> None:
    prompt = encode(minilm().tokenizer, "the cat sat")
    assert prompt.bos == "[CLS]" and prompt.tokens == 5 and prompt.title == "the cat sat"
    long = encode(smollm2().tokenizer, "  a\n\n b\tc " + "x" * 200)
    assert long.bos == "" and long.title.startswith("a b c x") and len(long.title) == 80
    with pytest.raises(InputError, match="no chat template; leave out --chat"):
        encode(minilm().tokenizer, "Hello", chat=True)


def test_a_model_without_positions_reads_any_length() -> None:
    endless = tiny("t5", d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=2)
    del endless.config.max_position_embeddings
    check_length(endless, 10**6, 10**6)
    check_reads_text(endless, "t5")


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
