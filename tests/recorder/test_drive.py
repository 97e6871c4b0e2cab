"""A prompt goes through the model in chunks and the model writes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import regard
from real_models import smollm2
from recorder.models import tiny, tokens
from regard.errors import InputError, ShapeError
from regard.recorder import drive as driving
from regard.recorder.drive import Estimate, _line, compare_with_eager, drive, estimate
from regard.recorder.plan import Choice, Size, make_plan
from regard.recorder.tokens import (
    Encoded,
    check_length,
    check_reads_text,
    encode,
    positions_of,
)


def encoded(count: int) -> Encoded:
    return Encoded(tokens(count), "", "some tokens")


def test_a_model_that_only_reads_is_not_asked_to_write() -> None:
    model = tiny("bert")
    with regard.record(model) as rec:
        with pytest.raises(InputError, match=r"--generate 2: .*\(Bert.*\) only reads"):
            drive(rec, encoded(5), generate=2)
        assert drive(rec, encoded(5)) == []


def test_chunks_and_generation_are_one_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "CHUNK", 64)
    model = tiny("llama", num_key_value_heads=2)
    prompt, heard = encoded(150), []
    plan = estimate(model, prompt.ids, Choice()).plan(158, 10**9)
    with regard.record(model) as rec:
        written = drive(rec, prompt, generate=8, plan=plan, advanced=heard.append)
    assert len(heard) == 3 * 2 + len(written)  # two layers a chunk, then token by token
    assert sum(heard) == pytest.approx(150 + len(written))
    with torch.no_grad():
        expected = model.generate(prompt.ids, max_new_tokens=8, do_sample=False)
    assert written == expected[0, 150:].tolist()
    (one,) = rec.prompts
    assert one.generated == len(written)
    assert len(one.ids) == 150 + len(written)
    assert rec["L1H2"].shape == (150 + len(written),) * 2
    assert abs(sum(p for _, p in one.next)) <= 1 and len(one.next) == 5
    found = compare_with_eager(model, rec.recording, prompt.ids)
    assert found is not None
    assert found.heads == 8 and found.rows == 150 and found.max_error < 1e-5
    assert "max error" in found.line()


def test_the_last_rows_are_those_of_the_whole_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "CHUNK", 64)
    with regard.record(tiny("llama"), queries=5) as rec:
        written = drive(rec, encoded(150), generate=2)
    assert rec["L0H0"].place.rows == (145, 150 + len(written))


def test_layers_of_a_translator_are_those_of_all_its_stacks() -> None:
    options = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 2}
    model = tiny("t5", decoder_start_token_id=0, **options)
    assert len(estimate(model, tokens(9), Choice()).every) == 6
    assert len(estimate(model, tokens(9), Choice.of("1", None, None)).chosen) == 3
    with regard.record(model, layers=[1]) as rec:
        drive(rec, encoded(9), generate=2)
    assert all(rec[f"{stack}.L1H0"].exact for stack in ("encoder", "decoder", "cross"))


def test_an_encoder_reads_at_once() -> None:
    model = tiny("bert")
    with regard.record(model) as rec:
        assert drive(rec, encoded(30)) == []
    found = compare_with_eager(model, rec.recording, tokens(30))
    assert found is not None and found.max_error < 1e-5
    assert compare_with_eager(model, rec.recording, tokens(300)) is None


def test_a_translator_writes_another_text() -> None:
    options = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 2}
    model = tiny("t5", decoder_start_token_id=0, eos_token_id=None, **options)
    with regard.record(model) as rec:
        written = drive(rec, encoded(9), generate=4)
    assert len(written) == 4
    assert rec["cross.L0H0"].shape == (4, 9)


def test_prompts_that_are_too_long_or_empty() -> None:
    model = tiny("llama", max_position_embeddings=64)
    assert positions_of(model) == 64
    check_length(model, 60, 4)
    with pytest.raises(ShapeError, match=r"60 tokens and 10 to generate.*64 positions.*by 6"):
        check_length(model, 60, 10)
    with pytest.raises(InputError, match="empty"):
        encode(None, "  \n")
    with pytest.raises(InputError, match="no tokenizer"):
        encode(None, "text")


def test_roberta_counts_from_behind_its_padding() -> None:
    assert positions_of(tiny("roberta", max_position_embeddings=514)) == 512


def test_a_model_of_sound_reads_no_text() -> None:
    from real_models import whisper

    with pytest.raises(InputError, match="input features, not text"):
        check_reads_text(whisper().model, "whisper-tiny.en")


def test_whisper_is_recorded_by_who_runs_it() -> None:
    from real_models import whisper

    model = whisper().model
    features = torch.zeros(1, 80, 3000)
    with torch.no_grad(), regard.record(model) as rec:
        model.generate(features, max_new_tokens=3, do_sample=False)
    assert rec.stacks == {"encoder": (4, 6), "decoder": (4, 6), "cross": (4, 6)}
    assert rec["encoder.L0H0"].shape == (1500, 1500)
    cross = rec["cross.L3H5"]
    assert cross.shape[1] == 1500
    np.testing.assert_allclose(cross.rows(0).sum(), 1, atol=1e-4)


# ── a real model ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def recorded() -> Any:
    loaded = smollm2()
    prompt = encode(loaded.tokenizer, "The capital of France is")
    with regard.record(loaded.model, tokenizer=loaded.tokenizer) as rec:
        drive(rec, prompt)
    return rec


def test_smollm2_says_paris(recorded: Any) -> None:
    assert recorded.prompts[0].next[0][0] == " Paris"
    assert recorded.tokens == ["The", " capital", " of", " France", " is"]
    assert recorded.prompts[0].bos == ""
    assert recorded.stacks == {"": (30, 9)}


def test_smollm2_replayed_is_smollm2_eager(recorded: Any) -> None:
    loaded = smollm2()
    ids = encode(loaded.tokenizer, "The capital of France is").ids
    found = compare_with_eager(loaded.model, recorded.recording, ids)
    assert found is not None and found.heads == 270
    assert found.max_error < 1e-4


def test_smollm2_has_strong_sinks() -> None:
    loaded = smollm2()
    prompt = encode(loaded.tokenizer, "The cat sat on the mat because it was tired.")
    with regard.record(loaded.model, tokenizer=loaded.tokenizer) as rec:
        drive(rec, prompt)
    assert np.mean(rec.grid("first")) > 0.5


def test_a_chat_is_put_into_the_template() -> None:
    tokenizer = smollm2().tokenizer
    found = encode(tokenizer, "Hello", chat=True)
    text = tokenizer.decode(found.ids[0])
    assert "<|im_start|>user\nHello<|im_end|>" in text
    assert text.endswith("<|im_start|>assistant\n")


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


def test_time_is_what_was_measured_times_how_much_there_is() -> None:
    """The quadratic part is attention's own: it is not taken from the rate of a short pass."""
    one = Estimate((Size(4, 2, 8, 1, 1),) * 3, (), per_token=1e-3, per_cell=1e-9, per_step=0.1)
    cells = 3 * 4 * 8 * 10_000**2 / 2
    assert one.seconds(10_000, generate=5) == pytest.approx(10 + 1e-9 * cells + 0.5)


def test_what_does_not_exist_is_told_before_anything_runs() -> None:
    model = tiny("llama")
    with pytest.raises(InputError, match="layer 7 does not exist"):
        estimate(model, tokens(20), Choice.of("7", None, None))
    with pytest.raises(InputError, match="head 9 does not exist"):
        estimate(model, tokens(20), Choice.of(None, "9", None))


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("fixed", [0.0, 0.02])
@pytest.mark.parametrize("each", [1e-7, 1e-5])
def test_a_fixed_cost_is_not_multiplied(fixed: float, each: float, power: int) -> None:
    """A GPU takes as long for 128 tokens as for 2,048; what a call costs is not a rate."""

    def took(count: int) -> float:
        return fixed + each * count**power

    call, rate = _line(took, (1, took(1)), 128, 2048, power)
    assert call == pytest.approx(fixed, abs=1e-6) and rate == pytest.approx(each * power)
