"""A region of a picture that nobody may look at, against eager attention with −∞ there, and what
becomes of the answer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.testing import assert_close

import regard
from regard.axes import Box, Grid, Patches
from regard.errors import InputError
from regard.intervene import without_region
from support.families.build import build
from support.families.inputs import accepted

RIGHT = Box(0.25, 0.5, 0.75, 1)  # of 4 × 4 patches: rows 1 and 2, columns 2 and 3
PATCHES = np.array([6, 7, 10, 11])


def given(model: nn.Module) -> dict[str, Any]:
    """What the model reads, of one sequence."""
    rows = {"pixel_values": 16}  # of patches in one row
    return {
        name: one[: rows.get(name, 1) if one.ndim == 2 else 1]
        for name, one in accepted(model).items()
        if isinstance(one, Tensor)
    }


def run(model: nn.Module, **inputs: Any) -> Tensor:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = model(**inputs)
    named = ("logits", "last_hidden_state")
    return next(getattr(out, name) for name in named if hasattr(out, name))


@contextmanager
def eager(model: Any, hidden: Callable[[int], Any], *modules: str) -> Iterator[None]:
    """transformers' eager attention with −∞ at the hidden keys; `hidden` by the number of keys."""
    patch = pytest.MonkeyPatch()
    model.set_attn_implementation("eager")
    for name in modules:
        module = import_module(f"transformers.models.{name}.modeling_{name}")
        plain = module.eager_attention_forward

        def blind(
            module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any,
            *args: Any, plain: Any = plain, **more: Any,
        ) -> Any:  # fmt: skip
            keys = key.shape[-2]
            mask = torch.zeros(1, 1, query.shape[-2], keys)
            mask[..., hidden(keys)] = -torch.inf
            mask = mask if attention_mask is None else mask + attention_mask
            return plain(module, query, key, value, mask, *args, **more)

        patch.setattr(module, "eager_attention_forward", blind)
    try:
        yield
    finally:
        patch.undo()


def recoloured(pixels: Tensor) -> Tensor:
    """Other colours in the region."""
    other, size = pixels.clone(), pixels.shape[-1]
    other[..., size // 4 : 3 * size // 4, size // 2 :] += 1
    return other


def test_a_vit_without_a_region_is_eager_with_minus_infinity() -> None:
    """A batch of pictures loses the same part each; other colours there change nothing that the
    class token says."""
    model = build("vit")
    pixels = torch.randn(3, *given(model)["pixel_values"].shape[1:])
    whole = run(model, pixel_values=pixels)
    with eager(model, lambda _: 1 + PATCHES, "vit"):
        expected = run(model, pixel_values=pixels)
    with regard.knock_out(model, region=RIGHT) as blind:
        together = run(model, pixel_values=pixels)
        assert blind.region is not None and blind.region.hidden == {"L0": 3 * 4, "L1": 3 * 4}
        alone = torch.cat([run(model, pixel_values=one[None]) for one in pixels])
        other = run(model, pixel_values=recoloured(pixels))
    assert_close(together, expected, atol=1e-5, rtol=1e-5)
    assert_close(together, alone, atol=1e-5, rtol=1e-5)
    assert_close(other[:, 0], together[:, 0])
    assert not torch.allclose(run(model, pixel_values=recoloured(pixels))[:, 0], whole[:, 0])
    assert_close(run(model, pixel_values=pixels), whole)  # as it was


def test_llava_is_blind_in_the_tower_and_within_the_text() -> None:
    model = build("llava")
    inputs = given(model)
    with eager(model, lambda keys: 1 + PATCHES if keys == 17 else PATCHES, "clip", "llama"):
        expected = run(model, **inputs)
    with regard.knock_out(model, region=RIGHT) as blind:
        mine = run(model, **inputs)
        again = run(model, **inputs | {"pixel_values": recoloured(inputs["pixel_values"])})
    assert blind.region is not None
    assert blind.region.hidden == {"vision.L0": 4, "vision.L1": 4, "L0": 4, "L1": 4}
    assert_close(mine[:, 16:], expected[:, 16:], atol=1e-5, rtol=1e-5)
    assert_close(again[:, 16:], mine[:, 16:])


def test_a_recording_shows_who_is_not_seen_also_while_the_model_writes() -> None:
    model = build("llava")
    inputs, region = given(model), Patches(((0, 1), (3, 3)), of=(4, 4))
    with regard.knock_out(model, region=region), regard.record(model) as rec:
        model.generate(**inputs, max_new_tokens=4, min_new_tokens=4, do_sample=False)
    heads = [head for prompt in rec.prompts for head in prompt]
    for head in heads:
        start, grid = head.key_axis.grids()[0]
        keys, weights = [start + grid.at(0, 0, 1), start + grid.at(0, 3, 3)], head.dense()
        assert not weights[:, keys].any() and np.delete(weights[-1], keys).all()
    assert max(head.shape[0] for head in heads) > inputs["input_ids"].shape[1]


@pytest.mark.parametrize("family", ["swin", "qwen2_vl", "smolvlm", "paligemma", "vivit", "deit"])
def test_every_family_hides_the_same_part_of_the_picture(family: str) -> None:
    """A quarter of it, whatever the grid; windows and merged patches included."""
    model = build(family)
    inputs = given(model)
    with regard.knock_out(model, region=Box(0, 0.5, 0.5, 1)), regard.record(model) as rec:
        run(model, **inputs)
    checked = 0
    for head in rec.recording:
        for start, grid in head.key_axis.grids():
            apart = grid.windows != (1, 1) and not grid.apart
            own = head.place.total_heads // (grid.windows[0] * grid.windows[1])
            centres = grid.centres(head.head // own if apart else 0)
            there = (centres[:, 0] < 0.5) & (centres[:, 1] >= 0.5)
            received = head.received()[start + grid.prefix : start + grid.count]
            assert not received[there].any(), head.label
            assert received[~there].any() or there.all() or not received.any()
            checked += there.sum()
    assert checked


def test_one_picture_of_several() -> None:
    model = build("smolvlm")
    inputs = given(model)
    with regard.knock_out(model, region=Box(0, 0, 1, 1), picture=1) as blind:
        run(model, **inputs)
    assert blind.region is not None
    assert blind.region.hidden == {"vision.L0": 16, "vision.L1": 16, "text.L0": 4, "text.L1": 4}


def test_positions_that_are_declared() -> None:
    layer, x = regard.nn.MultiHeadAttention(16, 2), torch.randn(1, 12, 16)
    blind = regard.knock_out(layer, region=RIGHT)
    with pytest.raises(InputError, match="nothing was hidden"), blind:
        layer(x)
    cut = regard.knock_out(layer, region=Box(0, 0, 1, 2, of=(3, 4)), axes=Grid(3, 4))
    with cut, regard.record(layer) as rec:
        layer(x)
    weights = rec["L0H0"].dense()
    assert not weights[:, :2].any() and weights[:, 2:].all()


def classifier() -> Any:
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        image_size=32, patch_size=8, id2label={0: "cat", 1: "dog", 2: "cow"}, initializer_range=0.5,
    )  # fmt: skip
    return transformers.ViTForImageClassification(config).eval()


def test_classes_before_and_after() -> None:
    model, pixels = classifier(), torch.randn(1, 3, 32, 32)
    box = Box(0, 0, 2, 4, of=(4, 4))
    change = without_region(model, {"pixel_values": pixels}, box)
    with torch.no_grad():
        before = model(pixels).logits[0]
        with regard.knock_out(model, region=box):
            after = model(pixels).logits[0]
    p, q = before.softmax(-1), after.softmax(-1)
    likeliest = sorted(p.tolist(), reverse=True)
    assert [one.before for one in change.before] == pytest.approx(likeliest, abs=1e-5)
    for one in change.after:
        n = one.number
        assert one.name == ("cat", "dog", "cow")[n]
        assert one.after == pytest.approx(float(q[n]), abs=1e-5)
        assert one.delta_logit == pytest.approx(float(after[n] - before[n]), abs=1e-5)
    kl = float((p * (p / q).log()).sum())
    assert change.kl == pytest.approx(kl, abs=1e-4) and kl > 0.01
    assert change.hidden == {"L0": 8, "L1": 8} and not change.unknown
    assert change.changed == (int(p.argmax()) != int(q.argmax()))
    verb = "becomes" if change.changed else "stays"
    assert str(change).startswith(f"without rows 0–2, columns 0–4 of 4 × 4 the answer {verb} ")


def test_the_next_token_of_a_model_that_reads_pictures() -> None:
    class Letters:
        def decode(self, ids: list[int]) -> str:
            return f"<{ids[0]}>"

    model, box = build("llava"), Box(0.5, 0, 1, 1)
    inputs = given(model)
    change = without_region(model, inputs, box, tokenizer=Letters(), top=3)
    with torch.no_grad(), regard.knock_out(model, region=box):
        after = model(**inputs).logits[0, -1].softmax(-1)
    assert [one.number for one in change.after] == after.topk(3).indices.tolist()
    assert change.after[0].name == f"<{change.after[0].number}>"
    assert change.after[0].after == pytest.approx(float(after.max()), abs=1e-6)


def test_texts_that_fit_a_picture() -> None:
    model = build("clip")
    inputs = given(model)
    ids = inputs.pop("input_ids").repeat(3, 1)
    ids[1:, 1] += torch.tensor([1, 2])
    inputs.pop("attention_mask", None)
    change = without_region(model, {"input_ids": ids, **inputs}, Box(0, 0, 0.5, 1))
    assert len(change.before) == 3 and change.hidden == {"vision.L0": 8, "vision.L1": 8}
    assert sum(one.after for one in change.after) == pytest.approx(1)


def test_what_is_no_region_and_what_cannot_be_asked() -> None:
    vit, pixels = build("vit"), torch.randn(2, 3, 32, 32)
    with pytest.raises(InputError, match=r"region=\(0, 1\); give regard.axes.Box"):
        regard.knock_out(vit, region=(0, 1))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="was not run inside"), regard.knock_out(vit, region=RIGHT):
        pass
    for model, inputs, said in (
        (vit, given(vit), "gives no logits"),
        (classifier(), {"pixel_values": pixels}, "2 pictures or texts at once"),
        (classifier().train(), {}, "training mode"),
    ):
        with pytest.raises(InputError, match=said):
            without_region(model, inputs, RIGHT)
