"""What a recording calls things: what stands before a prompt, stacks and layers, tokens, rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from real_models import minilm, smollm2
from recorder.models import tiny, tokens
from regard.declare import decode
from regard.errors import InputError, ShapeError
from regard.hear.hooks import Caller
from regard.hear.names import LayerNames, Spot, part_of
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
    positions_of,
    reader_of,
    texts_of,
)
from regard.score import ALiBi, ScoreRule
from regard.shapes import AttentionShape

# ── prompts ──────────────────────────────────────────────────────────────────────────────────


def test_what_a_tokenizer_puts_in_front_is_told() -> None:
    found = encode(minilm().tokenizer, "the cat sat")
    assert found.bos == "[CLS]" and found.tokens == 5 and found.title == "the cat sat"
    assert encode(smollm2().tokenizer, "the cat sat").bos == ""


def test_a_title_is_one_short_line() -> None:
    found = encode(smollm2().tokenizer, "  a\n\n b\tc " + "x" * 200)
    assert found.title.startswith("a b c x") and len(found.title) == 80


def test_chats_need_a_template() -> None:
    with pytest.raises(InputError, match="no chat template; leave out --chat"):
        encode(minilm().tokenizer, "Hello", chat=True)


def test_models_without_a_number_of_positions_take_any_length() -> None:
    model = tiny("t5", d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=2)
    del model.config.max_position_embeddings
    assert positions_of(model) is None
    check_length(model, 10**6, 10**6)
    check_reads_text(model, "t5")


def test_how_much_too_long_is_told() -> None:
    model = tiny("llama", max_position_embeddings=64)
    with pytest.raises(
        ShapeError,
        match=r"70 tokens; llama has 64 positions: shorten it by 6, or .* --truncate 64$",
    ):
        check_length(model, 70, 0)


def test_rows_that_were_not_recorded_are_not_compared() -> None:
    model, ids = tiny("llama"), tokens(30)
    with torch.no_grad(), regard.record(model, queries="10:20", layers=[1]) as rec:
        model(ids)
    found = compare_with_eager(model, rec.recording, ids)
    assert found is not None and found.heads == 4 and found.max_error < 1e-5
    assert compare_with_eager(model, rec.recording, ids[:, :5]) is None


# ── stacks and layers ────────────────────────────────────────────────────────────────────────


def test_stacks_of_one_part_keep_their_paths_apart() -> None:
    atlas = LayerNames(named=True)
    first = atlas.spot(Caller("encoder.near.0.attn"))
    second = atlas.spot(Caller("encoder.far.0.attn"))
    assert first == Spot("encoder", 0) and second == Spot("encoder.far.*.attn", 0)


@given(st.permutations([f"model.layers.{n}.attn" for n in range(6)]))
def test_numbers_in_paths_count_whoever_is_heard_first(paths: list[str]) -> None:
    atlas = LayerNames(named=False)
    found = {path: atlas.spot(Caller(path)) for path in paths}
    assert all(found[f"model.layers.{n}.attn"] == Spot("", n) for n in range(6))
    assert all(atlas.spot(Caller(path)) == spot for path, spot in found.items())


@given(st.lists(st.tuples(st.sampled_from(["a", "b.0", "c.0.d.1", "e.0.f.0"]), st.integers(0, 3))))
def test_no_two_callers_share_a_place(callers: list[tuple[str, int]]) -> None:
    atlas = LayerNames(named=False)
    spots = {caller: atlas.spot(Caller(*caller)) for caller in callers}
    assert len(set(spots.values())) == len(spots)


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("vision_model.encoder.layers.0.self_attn", "vision"),
        ("model.decoder.layers.0.encoder_attn", "cross"),
        ("decoder.layers.1.multihead_attn", "cross"),
        ("model.layers.0.self_attn", ""),
        ("audio_tower.layers.3.attn", "audio"),
    ],
)
def test_parts(path: str, part: str) -> None:
    assert part_of(path) == part


# ── tokens ───────────────────────────────────────────────────────────────────────────────────


@given(st.text(max_size=40))
def test_texts_of_tokens_are_of_their_number_and_kind(text: str) -> None:
    tokenizer = smollm2().tokenizer
    ids = tokenizer(text).input_ids
    texts = texts_of(tokenizer, ids)
    assert len(texts) == len(ids) and all(texts)
    assert flags_of(tokenizer, ids, texts).shape == (len(ids),)
    if all(ord(letter) < 128 and letter.isprintable() for letter in text):
        assert "".join(texts) == text


def test_blanks_are_no_punctuation_and_line_breaks_are() -> None:
    flags = flags_of(object(), [1, 2, 3, 4, 5, 6], [" ", "\n", " ...", "a.", "", "—"])
    assert flags.tolist() == [0, 1, 1, 0, 0, 1]
    assert reader_of(smollm2().tokenizer) is smollm2().tokenizer


def test_earlier_copies_need_as_many_tokens_as_keys() -> None:
    shape = AttentionShape.of((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4))
    ids, here = [np.array([7, 8, 7, 9], np.int64)], torch.device("cpu")
    assert matchings(ids, [range(3)], [range(5)], shape, here) == (None, None)
    copies, after = matchings([np.arange(5)], [range(3)], [range(5)], shape, here)
    assert copies is not None and after is not None


# ── rules ────────────────────────────────────────────────────────────────────────────────────


def test_rules_of_windows_stand_beside_each_other_as_heads() -> None:
    """Two entries with masks, biases and sinks of their own become twice as many heads."""
    extent = Extent(4, 4, (2,), 3)
    flags = torch.tensor([[True, True, True, False], [True, False, True, True]])
    mask = regard.Causal() & regard.Padding(flags)
    score = ScoreRule(0.5, None, ALiBi(torch.tensor([0.1, 0.2, 0.3])), torch.arange(3.0))
    joined, rule = as_heads(mask, score, extent, [(0,), (1,)])
    i = torch.arange(4)
    wide = Extent(4, 4, (), 6)
    seen = joined.allows(i, i, wide)
    truth = mask.allows(i, i, extent)
    for entry in (0, 1):
        for head in range(3):
            assert torch.equal(seen[3 * entry + head], truth[entry].expand(3, 4, 4)[head])
    bias = rule.bias.tile(i, i, wide)
    assert torch.equal(bias[:3], bias[3:]) and bias[2, 3, 0] == pytest.approx(-0.9)
    assert rule.sink.tolist() == [0, 1, 2, 0, 1, 2]
    plain, same = as_heads(regard.Causal(), ScoreRule(1.0), extent, [(0,), (1,)])
    assert repr(plain) == repr(regard.Causal()) and same.bias is None


def test_half_precision_arrays_are_written_as_numbers_numpy_knows() -> None:
    found = rules_for(None, ScoreRule(1.0, None, None, torch.ones(3, dtype=torch.bfloat16)),
                      Extent(2, 2, (), 3))  # fmt: skip
    assert found.arrays[0].dtype == np.float32 and found.arrays[0].tolist() == [1, 1, 1]


def test_a_rule_inside_a_part_is_spelt_out_as_the_part_sees_it() -> None:
    whole: Any = regard.Rule(lambda i, j: (i + 2 * j) % 3 == 0)
    found = rules_for(Part(whole, 2, 1, 9, 9), ScoreRule(1.0), Extent(3, 4))
    again = decode(found.mask, iter(found.arrays), Mask)
    seen = np.squeeze(again.allows(np.arange(3), np.arange(4), Extent(3, 4)))
    i, j = np.arange(2, 5)[:, None], np.arange(1, 5)
    np.testing.assert_array_equal(seen, (i + 2 * j) % 3 == 0)
    assert not follows(Part(regard.Causal(), 2, 1, 9, 9), 3)
