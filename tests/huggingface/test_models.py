"""Every family: the same answer as the implementation it had, and eager's weights in every layer.

Rows that see no key are left out of the weights, where eager makes them uniform.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import masking_utils

import regard
from huggingface.zoo import FAMILIES, TOKENS, answer_of, attentions, inputs_of, model_of
from installed import is_at_least, needs
from regard.errors import RegardWarning
from regard.huggingface import using

PADDINGS = {
    "decoder": ("none", "left", "right"),
    "encoder": ("none", "left", "right"),
    "seq2seq": ("none", "left", "right"),
    "dual": ("none", "left"),
    "vision": ("none",),
    "audio": ("none",),
}
PADDED = ("decoder", "encoder", "seq2seq", "dual")
PREFILLS = [
    pytest.param(name, padding, id=f"{name}-{padding}")
    for name, family in FAMILIES.items()
    for padding in PADDINGS[family.kind]
]
GENERATORS = [
    name for name, family in FAMILIES.items() if family.kind in ("decoder", "seq2seq", "audio")
]
# the others' static caches are the same classes of transformers
STATIC = ["llama", "mistral", "gemma3", "gpt_oss", "deepseek_v3", "t5", "bart"]


# the first transformers in which these hand out their attention, on eager too
HANDS_OUT = {"clip": "5.2", "siglip": "5.6"}


@contextmanager
def seen(model: Any) -> Iterator[None]:
    """regard for a while; that parts of a model are not seen is tested with using()."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RegardWarning)
        with using(model):
            yield


def close(found: Tensor, wanted: Tensor) -> None:
    """Equal up to rounding."""
    assert found.shape == wanted.shape
    scale = max(1.0, float(wanted.abs().max()))
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-5 * scale)


@pytest.mark.parametrize(("name", "padding"), PREFILLS)
@torch.no_grad()
def test_a_forward_pass_is_eagers(name: str, padding: str) -> None:
    """Every row of the answer, those of padding too."""
    if (name, padding) == ("gpt2", "left"):
        needs("transformers", "5.2", "GPT-2's eager attention gives padding the mean of all values")
    model, inputs = model_of(name), inputs_of(FAMILIES[name].kind, padding)
    wanted = model(**inputs, output_attentions=True)
    with seen(model):
        found = model(**inputs, output_attentions=True)
    same_numbers(found, wanted)
    layers, eager = dict(attentions(found)), dict(attentions(wanted))
    assert list(layers) == list(eager)
    assert layers or not is_at_least("transformers", HANDS_OUT.get(name, "5.0"))
    for place, layer in layers.items():
        assert isinstance(layer, regard.Attention)
        compare(layer, eager[place])


def same_numbers(found: Any, wanted: Any) -> None:
    """Everything a model computed, but its attention."""
    for name, value in wanted.items():
        if isinstance(value, Tensor):
            close(found[name], value)
        elif hasattr(value, "items"):
            same_numbers(found[name], value)


def compare(layer: regard.Attention, wanted: Tensor) -> None:
    """One layer's weights, in the rows that see a key."""
    assert layer.shape == tuple(wanted.shape)
    found = torch.from_numpy(np.asarray(layer, np.float32))
    sees = found.any(-1)
    close(found[sees], wanted[sees])
    assert wanted.amax(-1).mean() > 1.5 / wanted.shape[-1], (
        "rows so even that mistakes hide in them"
    )


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", [n for n in FAMILIES if FAMILIES[n].kind in PADDED])
@torch.no_grad()
def test_a_forward_pass_is_sdpas_where_the_model_ran_on_sdpa(name: str, side: str) -> None:
    model, inputs = model_of(name), inputs_of(FAMILIES[name].kind, side)
    try:
        model.set_attn_implementation("sdpa")
    except ValueError:  # gpt_oss: no such implementation
        assert not model._supports_sdpa
        return
    if model.config._attn_implementation == "eager":  # ModernBERT until 5.6: cannot be switched
        return
    try:
        if reads_softcap(model):
            return
        wanted = model(**inputs)
        with seen(model):
            same_numbers(model(**inputs), wanted)
            assert model.config._attn_implementation == "regard"
        assert model.config._attn_implementation == "sdpa"
    finally:
        model.set_attn_implementation("eager")


def reads_softcap(model: Any) -> bool:
    """Gemma 2: transformers' sdpa raises."""
    return getattr(model.config, "attn_logit_softcapping", None) is not None


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["bert", "llama", "t5", "siglip"])
@torch.no_grad()
def test_statistics_count_real_rows_alone(name: str, side: str) -> None:
    """Received mass, entropy, top keys and maps are those of the sequence without its padding."""
    model, inputs = model_of(name), inputs_of(FAMILIES[name].kind, side)
    real = inputs["attention_mask"][0].bool()
    with seen(model):
        found = dict(attentions(model(**inputs, output_attentions=True)))
    own = [place for place in found if not place.startswith(("decoder", "cross", "vision"))]
    for layer in (found[place] for place in own):
        weights = layer.dense()[0][:, real]  # (heads, real rows, keys)
        close(layer.received()[0], weights.sum(-2))
        close(layer.entropy()[0][:, real], -torch.xlogy(weights, weights).sum(-1))
        assert not layer.entropy()[0][:, ~real].any()
        assert (layer.top(2).keys[0][:, ~real] == -1).all()
        close(layer.pooled(TOKENS)[0].flatten(), weights.sum((-1, -2)) / TOKENS**2)
        copy = layer.clone()
        assert torch.equal(copy.received(), layer.received())


@pytest.mark.parametrize("name", GENERATORS)
def test_generation_is_eagers(name: str) -> None:
    same_generation(name)


@pytest.mark.parametrize("name", STATIC)
def test_generation_with_a_static_cache_is_eagers(name: str) -> None:
    same_generation(name, cache_implementation="static", disable_compile=True)


def same_generation(name: str, **options: Any) -> None:
    """The tokens, every step's logits and every step's weights; prompts padded on the left."""
    model, kind = model_of(name), FAMILIES[name].kind
    inputs = {k: v for k, v in inputs_of(kind, "left").items() if k != "decoder_input_ids"}
    options |= {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    options |= {"output_logits": True, "output_attentions": True, "return_dict_in_generate": True}
    wanted = model.generate(**inputs, **options)
    with seen(model):
        found = model.generate(**inputs, **options)
    assert found.sequences.tolist() == wanted.sequences.tolist()
    assert len(found.logits) == 6
    for one, other in zip(found.logits, wanted.logits, strict=True):
        close(one, other)
    own = "attentions" if kind == "decoder" else "decoder_attentions"
    for one, other in zip(found[own], wanted[own], strict=True):
        for layer, eager in zip(one, other, strict=True):
            same_step(layer, eager)


def same_step(layer: regard.Attention | Tensor, eager: Tensor) -> None:
    """A step's weights. Eager also lists the slots of a static cache that nobody wrote to."""
    # Whisper's own generate takes attentions apart by indexing, which gives tensors
    found = layer if isinstance(layer, Tensor) else layer.dense()
    sees = found.any(-1)
    close(found[sees], eager[..., : layer.shape[-1]][sees])
    assert not eager[..., layer.shape[-1] :][sees].any()


@pytest.mark.parametrize("name", [n for n in FAMILIES if n != "glm_moe_dsa"])
def test_no_square_mask_is_built(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the one that computes with its mask, to choose keys."""
    model, kind = model_of(name), FAMILIES[name].kind
    for padding in PADDINGS[kind]:
        with seen(model), torch.no_grad(), monkeypatch.context() as patch:
            patch.setattr(masking_utils, "sdpa_mask", None)
            assert answer_of(model(**inputs_of(kind, padding))).isfinite().all()


def test_a_mask_of_the_encoder_is_not_taken_for_one_of_decoder_queries() -> None:
    """Both sides are equally long; a padded source token must not silence a target token."""
    model, inputs = model_of("bart"), inputs_of("seq2seq", "right")
    assert inputs["decoder_input_ids"].shape[1] == TOKENS
    with torch.no_grad(), seen(model):
        found = model(**inputs, output_attentions=True)
    for layer in found.cross_attentions:
        assert (layer.dense().sum(-1) - 1).abs().max() < 1e-5
        assert not layer.dense()[0, :, :, -3:].any()
    for layer in found.encoder_attentions:
        assert not layer.entropy()[0, :, -3:].any() and layer.entropy()[0, :, :-3].any()
    for layer in found.cross_attentions:
        assert (layer.entropy() > 0).all()
