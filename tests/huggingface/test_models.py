"""Every family: the same answer as eager, and the same weights in every layer.

Rows of padding are left out: eager makes them uniform, here they see nothing.
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


@contextmanager
def seen(model: Any) -> Iterator[None]:
    """regard for a while; that parts of a model are not seen is tested with using()."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RegardWarning)
        with using(model):
            yield


def close(found: Tensor, wanted: Tensor, real: Tensor | None = None) -> None:
    """Equal up to rounding, in the rows that are real (batch, tokens)."""
    assert found.shape == wanted.shape
    if real is not None:
        found, wanted = found[real], wanted[real]
    scale = max(1.0, float(wanted.abs().max()))
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-5 * scale)


def rows_of(inputs: dict[str, Tensor], name: str) -> Tensor | None:
    """(batch, tokens): the real rows of the layers that outputs call `name`."""
    if name.startswith(("decoder", "cross", "vision")) or "attention_mask" not in inputs:
        return None
    return inputs["attention_mask"].bool()


@pytest.mark.parametrize(("name", "padding"), PREFILLS)
@torch.no_grad()
def test_a_forward_pass_is_eagers(name: str, padding: str) -> None:
    model, inputs = model_of(name), inputs_of(FAMILIES[name].kind, padding)
    wanted = model(**inputs, output_attentions=True)
    with seen(model):
        found = model(**inputs, output_attentions=True)
    rows = rows_of(inputs, "") if FAMILIES[name].kind in ("decoder", "encoder") else None
    close(answer_of(found), answer_of(wanted), rows)
    assert answer_of(found).isfinite().all()
    layers, eager = dict(attentions(found)), dict(attentions(wanted))
    assert list(layers) == list(eager) and layers
    for place, layer in layers.items():
        assert isinstance(layer, regard.Attention)
        compare(layer, eager[place], rows_of(inputs, place))


def compare(layer: regard.Attention, wanted: Tensor, rows: Tensor | None) -> None:
    """One layer's weights; padded rows see nothing."""
    assert layer.shape == tuple(wanted.shape)
    found = torch.from_numpy(np.asarray(layer, np.float32))
    found = found.transpose(1, 2)  # (batch, queries, heads, keys)
    close(found, wanted.transpose(1, 2), rows)
    if rows is not None:
        assert not found[~rows].any()
    assert wanted.amax(-1).mean() > 1.5 / wanted.shape[-1], (
        "rows so even that mistakes hide in them"
    )


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
    for step, (one, other) in enumerate(zip(found[own], wanted[own], strict=True)):
        rows = inputs["attention_mask"].bool() if kind == "decoder" and step == 0 else None
        for layer, eager in zip(one, other, strict=True):
            same_step(layer, eager, rows)


def same_step(layer: regard.Attention | Tensor, eager: Tensor, rows: Tensor | None) -> None:
    """A step's weights. Eager also lists the slots of a static cache that nobody wrote to."""
    # Whisper's own generate takes attentions apart by indexing, which gives tensors
    found = layer if isinstance(layer, Tensor) else layer.dense()
    unwritten = eager[..., layer.shape[-1] :]
    close(found.transpose(1, 2), eager[..., : layer.shape[-1]].transpose(1, 2), rows)
    assert not (unwritten if rows is None else unwritten.transpose(1, 2)[rows]).any()


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
        assert not layer.dense()[0, :, -3:].any()
