"""A prompt goes through the model in chunks and the model writes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import regard
from real_models import smollm2, whisper
from recorder.models import tiny, tokens
from recorder.test_weights import translator
from regard.errors import InputError, ShapeError
from regard.recorder import drive as driving
from regard.recorder.drive import Estimate, _line, compare_with_eager, drive, estimate
from regard.recorder.plan import Choice, Size, make_plan
from regard.recorder.tokens import Encoded, check_length, check_reads_text, encode, positions_of


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
    with pytest.raises(ShapeError, match=r"60 tokens and 10 to generate.*64 positions.*by 6"):
        check_length(model, 60, 10)
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


def test_time_is_what_was_measured_times_how_much_there_is() -> None:
    """The quadratic part is attention's own: it is not taken from the rate of a short pass."""
    one = Estimate((Size(4, 2, 8, 1, 1),) * 3, (), per_token=1e-3, per_cell=1e-9, per_step=0.1)
    cells = 3 * 4 * 8 * 10_000**2 / 2
    assert one.seconds(10_000, generate=5) == pytest.approx(10 + 1e-9 * cells + 0.5)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize(("fixed", "each"), [(0.0, 1e-7), (0.02, 1e-5)])
def test_a_fixed_cost_is_not_multiplied(fixed: float, each: float, power: int) -> None:
    """A GPU takes as long for 128 tokens as for 2,048; what a call costs is not a rate."""

    def took(count: int) -> Any:
        return fixed + each * count**power

    call, rate = _line(took, (1, took(1)), 128, 2048, power)
    assert call == pytest.approx(fixed, abs=1e-6) and rate == pytest.approx(each * power)
