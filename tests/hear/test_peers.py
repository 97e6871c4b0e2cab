"""timm and SentenceTransformer themselves, where they are installed: `make test-peers`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import regard
from regard.axes import Axis, Grid
from regard.errors import InputError, RegardWarning


def package(name: str) -> Any:
    """The package, or a skip."""
    return pytest.importorskip(name)


def by_hand(model: nn.Module) -> nn.Module:
    """timm's modules as TIMM_FUSED_ATTN=0 makes them."""
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False
    return model.eval()


@torch.no_grad()
def recorded(model: nn.Module, pictures: torch.Tensor) -> Any:
    plain = model(pictures)
    with regard.record(model) as rec:
        torch.testing.assert_close(model(pictures), plain)
    return rec.recording


@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("vit_tiny_patch16_224", 64),
        ("beit_base_patch16_224", 64),
        ("eva02_tiny_patch14_224", 56),
        ("swin_tiny_patch4_window7_224", 56),
        ("vit_base_patch16_siglip_224", 64),
    ],
)
def test_timm_without_fused_attention_gives_the_weights_of_timm_with_it(
    name: str, side: int
) -> None:
    torch.manual_seed(0)
    model = package("timm").create_model(name, img_size=side).eval()
    pictures = torch.randn(2, 3, side, side)
    fused = recorded(model, pictures)
    recording = recorded(by_hand(model), pictures)
    assert not any(module.fused_attn for module in model.modules() if hasattr(module, "fused_attn"))
    assert (
        recording.stacks == fused.stacks and len(recording.prompts) == 2 and recording.unheard == ()
    )
    for head in fused.prompts[1]:
        right = np.asarray(head[:, :])
        place = recording.prompts[1][head.label]
        np.testing.assert_allclose(place[:, :], right, atol=2e-6)


def test_timms_talking_heads_are_named() -> None:
    model = by_hand(package("timm").create_model("cait_xxs24_224", img_size=64))
    with pytest.warns(RegardWarning, match="TalkingHeadAttn"):
        recording = recorded(model, torch.randn(1, 3, 64, 64))
    assert recording.unheard == ("blocks.*.attn (TalkingHeadAttn), 24 of them",)


def test_a_family_of_timm_that_has_no_other_way_is_refused() -> None:
    model = by_hand(package("timm").create_model("swinv2_tiny_window8_256", img_size=64))
    with pytest.raises(InputError, match=r"layers\.\*\.blocks\.\*\.attn \(WindowAttention\), 12"):
        recorded(model, torch.randn(1, 3, 64, 64))


def test_the_sentences_of_a_sentence_transformer() -> None:
    package("sentence_transformers")
    from sentence_transformers import SentenceTransformer, models

    loaded = regard.models.load("minilm")
    parts = [
        models.Transformer(str(loaded.source)),
        models.Pooling(loaded.model.config.hidden_size),
    ]
    model = SentenceTransformer(modules=parts, device="cpu")
    sentences = ["The tide rises.", "A longer sentence, about the sea and the moon."]
    with regard.record(model, tokenizer=loaded.tokenizer) as rec:
        model.encode(sentences)
    texts = [" ".join(prompt.tokens) for prompt in rec.recording.prompts]
    assert texts == [
        "[CLS] a longer sentence , about the sea and the moon . [SEP]",  # the longest first
        "[CLS] the tide rises . [SEP]",
    ]
    assert rec.stacks == {"": (6, 12)} and rec.unheard == ()


def test_timm_tells_its_grids() -> None:
    create = package("timm").create_model
    plain = create("vit_tiny_patch16_224", img_size=64).eval()
    dino = create("vit_small_patch14_reg4_dinov2", img_size=56).eval()
    siglip = create("vit_base_patch16_siglip_224", img_size=64).eval()
    names = ("class", *(f"register {n}" for n in (1, 2, 3, 4)))
    wanted = (Grid(4, 4, prefix=1, names=("class",)), Grid(4, 4, prefix=5, names=names), Grid(4, 4))
    for model, side, grid in zip((plain, dino, siglip), (64, 56, 64), wanted, strict=True):
        recording = recorded(model, torch.randn(1, 3, side, side))
        assert recording["L0H0"].key_axis == Axis((grid,))
