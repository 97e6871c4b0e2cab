"""Models of regard.nn under the recorder: caches, windows, padding, positions of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from nn.small import encoder, ids, language_model, seq2seq
from regard.errors import InputError

KINDS = ["rotary", "learned", "sinusoidal", "alibi", "none"]
_TOKENS = 21


def whole(model: Any, given: torch.Tensor, **options: Any) -> Any:
    """Recorded in one pass."""
    with torch.no_grad(), regard.record(model) as rec:
        model(given, **options)
    return rec.recording


def same_numbers(mine: Any, theirs: Any) -> None:
    """Two recordings of one head agree in every cell and every stored number."""
    assert mine.shape == theirs.shape and mine.exact and theirs.exact
    np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), atol=2e-6)
    assert set(mine.stored) == set(theirs.stored)
    for name in set(mine.stored) - {"offsets", "top_keys", "top_weights"}:
        np.testing.assert_allclose(
            mine.stored[name].values, theirs.stored[name].values, atol=3e-5, err_msg=name
        )
    np.testing.assert_allclose(mine.offsets(), theirs.offsets(), atol=3e-5)


@settings(max_examples=12, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    cuts=st.lists(st.integers(1, _TOKENS - 1), max_size=4),
    static=st.booleans(),
    window=st.sampled_from([None, 1, 5]),
)
def test_chunks_through_a_cache_are_one_prompt(
    kind: str, cuts: list[int], static: bool, window: int | None
) -> None:
    model = language_model(positions=kind, window=window)
    text = ids(2, _TOKENS)
    cache = model.new_cache(_TOKENS if static else None)
    ends = [*sorted(set(cuts)), _TOKENS]
    with torch.no_grad(), regard.record(model) as rec:
        for start, stop in zip([0, *ends[:-1]], ends, strict=True):
            model(text[:, start:stop], cache=cache)
    once = whole(model, text)
    assert len(rec.recording.prompts) == len(once.prompts) == 2
    for number in (0, 1):
        mine, theirs = rec.recording.prompts[number], once.prompts[number]
        assert mine.ids.tolist() == text[number].tolist() == theirs.ids.tolist()
        for label in ("L0H1", "L1H3"):
            same_numbers(mine[label], theirs[label])


@pytest.mark.parametrize("kind", KINDS)
def test_one_pass_is_what_the_first_layer_looks_at(kind: str) -> None:
    """The first layer's weights by its own projections, bias and turn."""
    model, text = language_model(positions=kind, kv_heads=2), ids(1, _TOKENS)
    block, embed = model.decoder.blocks[0], model.decoder.embed
    with torch.no_grad():
        x = embed(text, 0, None)
        looked = block.attention.look(
            block.norm_attention(x), mask=regard.Causal(),
            bias=embed.positions.bias(x), turn=embed.positions.turn(x, 0, None),
        )  # fmt: skip
    rec = whole(model, text)
    for head in range(4):
        np.testing.assert_allclose(
            np.asarray(rec["L0H" + str(head)]), looked[0, head].numpy(), atol=2e-6
        )
    assert rec.model["class"] == "LanguageModel" and rec.stacks == {"": (2, 4)}


@pytest.mark.parametrize("window", [None, 6])
@pytest.mark.parametrize("kind", ["rotary", "learned", "alibi"])
def test_padded_prompts_write_what_they_write_alone(kind: str, window: int | None) -> None:
    model = language_model(positions=kind, window=window)
    text = ids(2, 12)
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, :5], text[1, :5] = 0, 0
    with regard.record(model) as rec:
        out = model.generate(text, tokens=4, attention_mask=mask)
    for number, first in enumerate((0, 5)):
        alone = out[number : number + 1, first:-1]
        prompt = rec.recording.prompts[number]
        assert prompt.ids.tolist() == alone[0].tolist()
        for label in ("L0H0", "L1H2"):
            same_numbers(prompt[label], whole(model, alone)[label])


def test_a_windows_cache_never_shows_what_it_forgot() -> None:
    model, text = language_model(window=4), ids(1, 15)
    cache = model.new_cache()
    with torch.no_grad(), regard.record(model) as rec:
        for start in range(15):
            model(text[:, start : start + 1], cache=cache)
    weights = np.asarray(rec["L1H0"])
    i, j = np.indices(weights.shape)
    assert ((weights > 0) == ((j <= i) & (j > i - 4))).all()
    np.testing.assert_allclose(rec["L1H0"].stored["first"].values[4:], 0)


def test_an_encoder_without_its_padding() -> None:
    model, text = encoder(), ids(2, 14)
    mask = torch.ones(2, 14, dtype=torch.long)
    mask[0, 9:] = 0
    rec = whole(model, text, attention_mask=mask)
    assert [len(one.ids) for one in rec.prompts] == [9, 14]
    same_numbers(rec.prompts[0]["L1H1"], whole(model, text[:1, :9])["L1H1"])


def test_a_translators_source_and_target_have_their_own_tokens() -> None:
    model, source = seq2seq(), ids(2, 11)
    with regard.record(model) as rec:
        out = model.generate(source, start=1, tokens=5)
    assert rec.stacks == {"encoder": (2, 4), "decoder": (2, 4), "cross": (2, 4)}
    for number in (0, 1):
        prompt = rec.recording.prompts[number]
        across = prompt["cross.L1H0"]
        assert across.shape == (5, 11)
        np.testing.assert_allclose(np.asarray(across).sum(-1), 1, atol=1e-5)
        assert prompt.streams["encoder"].ids.tolist() == source[number].tolist()
        assert prompt.streams["tokens"].ids.tolist() == out[number, :-1].tolist()
        assert len(across.query_tokens) == 5 and len(across.key_tokens) == 11


def test_new_ids_without_a_cache_are_a_new_prompt() -> None:
    model = language_model()
    with torch.no_grad(), regard.record(model) as rec:
        model(ids(1, 5))
        cache = model.new_cache()
        model(ids(1, 6, seed=1), cache=cache)
        model(ids(1, 3, seed=2), cache=cache)
        model(ids(1, 4, seed=3), cache=model.new_cache())
    assert [len(one.ids) for one in rec.recording.prompts] == [5, 9, 4]
    assert [one["L0H0"].shape[0] for one in rec.recording.prompts] == [5, 9, 4]


def test_another_batch_cannot_go_on_in_a_prompt() -> None:
    model = language_model()
    cache = model.new_cache()
    said = "2 sequences go on where 1 were begun"
    with pytest.raises(InputError, match=said), torch.no_grad(), regard.record(model):
        model(ids(1, 5), cache=cache)
        for held in cache.layers:  # somebody doubles what was read
            held.keep(*(t.repeat(2, 1, 1, 1) for t in (held.key, held.value)))
        model(ids(2, 1), cache=cache)


def test_a_cache_that_was_changed_is_told() -> None:
    model = language_model()
    cache = model.new_cache()
    with pytest.raises(InputError, match="holds other keys"), torch.no_grad(), regard.record(model):
        model(ids(1, 5), cache=cache)
        held = cache.layers[0]
        held.keep(held.key.flip(-2), held.value.flip(-2))
        model(ids(1, 1), cache=cache)


def test_recording_changes_no_logit() -> None:
    for kind in KINDS:
        model, text = language_model(positions=kind), ids(2, 9)
        plain = model(text)
        with regard.record(model):
            assert torch.equal(model(text), plain)
