"""Without these patches the answer becomes …"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import regard
from regard.axes import Box
from regard.errors import InputError
from regard.intervene import without_region
from support.families.build import build
from support.families.inputs import accepted


def classifier() -> Any:
    import transformers

    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        image_size=32, patch_size=8, id2label={0: "cat", 1: "dog", 2: "cow"}, initializer_range=0.5,
    )  # fmt: skip
    return transformers.ViTForImageClassification(config).eval()


def test_classes_before_and_after() -> None:
    model, pixels = classifier(), torch.randn(1, 3, 32, 32)
    box = Box(0, 0, 2, 4, of=(4, 4))
    found = without_region(model, {"pixel_values": pixels}, box)
    with torch.no_grad():
        before = model(pixels).logits[0].softmax(-1)
        with regard.knock_out(model, region=box):
            after = model(pixels).logits[0].softmax(-1)
    likeliest = sorted(before.tolist(), reverse=True)
    assert [one.before for one in found.before] == pytest.approx(likeliest, abs=1e-5)
    for one in found.after:
        assert one.after == pytest.approx(float(after[one.number]), abs=1e-5)
        assert one.name == {0: "cat", 1: "dog", 2: "cow"}[one.number]
    kl = float((before * (before / after).log()).sum())
    assert found.kl == pytest.approx(kl, abs=1e-4) and kl > 0.01
    assert found.hidden == {"L0": 8, "L1": 8} and not found.unknown
    assert found.changed == (int(before.argmax()) != int(after.argmax()))
    verb = "becomes" if found.changed else "stays"
    assert str(found).startswith(f"without rows 0–2, columns 0–4 of 4 × 4 the answer {verb} ")


def test_the_next_token_of_a_model_that_reads_pictures() -> None:
    class Letters:
        def decode(self, ids: list[int]) -> str:
            return f"<{ids[0]}>"

    model = build("llava")
    inputs = {name: one[:1] for name, one in accepted(model).items() if hasattr(one, "ndim")}
    box = Box(0.5, 0, 1, 1)
    found = without_region(model, inputs, box, tokenizer=Letters(), top=3)
    with torch.no_grad(), regard.knock_out(model, region=box):
        after = model(**inputs).logits[0, -1].softmax(-1)
    assert [one.number for one in found.after] == after.topk(3).indices.tolist()
    assert found.after[0].name == f"<{found.after[0].number}>"
    assert found.after[0].after == pytest.approx(float(after.max()), abs=1e-6)


def test_texts_that_fit_a_picture() -> None:
    model = build("clip")
    inputs = {name: one[:1] for name, one in accepted(model).items() if hasattr(one, "ndim")}
    ids = inputs.pop("input_ids").repeat(3, 1)
    ids[1:, 1] += torch.tensor([1, 2])
    inputs.pop("attention_mask", None)
    found = without_region(model, {"input_ids": ids, **inputs}, Box(0, 0, 0.5, 1))
    assert len(found.before) == 3 and found.hidden == {"vision.L0": 8, "vision.L1": 8}
    assert sum(one.after for one in found.after) == pytest.approx(1)


def test_what_cannot_be_asked() -> None:
    model = build("vit")
    pixels = accepted(model)["pixel_values"]
    with pytest.raises(InputError, match="gives no logits"):
        without_region(model, {"pixel_values": pixels[:1]}, Box(0, 0, 0.5, 0.5))
    with pytest.raises(InputError, match="2 pictures or texts at once"):
        without_region(classifier(), {"pixel_values": torch.randn(2, 3, 32, 32)}, Box(0, 0, 1, 0.5))
    with pytest.raises(InputError, match="training mode"):
        without_region(classifier().train(), {}, Box(0, 0, 1, 0.5))
