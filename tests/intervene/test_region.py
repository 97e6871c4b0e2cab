"""A region of a picture that nobody may look at, against eager attention with −∞ there."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regard
from regard.axes import Box, Grid, Patches
from regard.errors import InputError
from support.families.build import build
from support.families.inputs import accepted

RIGHT = Box(0.25, 0.5, 0.75, 1)  # of 4 × 4 patches: rows 1 and 2, columns 2 and 3
CELLS = [(1, 2), (1, 3), (2, 2), (2, 3)]


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
        found = model(**inputs)
    named = ("logits", "last_hidden_state")
    return next(getattr(found, name) for name in named if hasattr(found, name))


@contextmanager
def eager(model: Any, hidden: Callable[[int], list[int]], *modules: str) -> Iterator[None]:
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


def test_a_vit_without_a_region_is_eager_with_minus_infinity() -> None:
    model = build("vit")
    inputs = given(model)
    keys = [1 + 4 * row + column for row, column in CELLS]
    with eager(model, lambda _: keys, "vit"):
        expected = run(model, **inputs)
    whole = run(model, **inputs)
    with regard.knock_out(model, region=RIGHT) as blind:
        found = run(model, **inputs)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(found, whole, atol=1e-3)
    assert blind.region is not None and blind.region.hidden == {"L0": 4, "L1": 4}
    torch.testing.assert_close(run(model, **inputs), whole)  # as it was


def test_what_lies_there_does_not_matter_any_more() -> None:
    """Other colours in the region change nothing that the class token says."""
    model = build("vit")
    pixels = given(model)["pixel_values"]
    other = pixels.clone()
    size = pixels.shape[-1]
    other[..., size // 4 : 3 * size // 4, size // 2 :] += 1
    assert not torch.allclose(run(model, pixel_values=pixels), run(model, pixel_values=other))
    with regard.knock_out(model, region=RIGHT):
        one, two = (run(model, pixel_values=given)[:, 0] for given in (pixels, other))
    torch.testing.assert_close(one, two)


def test_llava_is_blind_in_the_tower_and_within_the_text() -> None:
    model = build("llava")
    inputs = given(model)
    pixels, size = inputs["pixel_values"], inputs["pixel_values"].shape[-1]
    tower = [1 + 4 * row + column for row, column in CELLS]
    words = [4 * row + column for row, column in CELLS]

    def hidden(keys: int) -> list[int]:
        return tower if keys == 17 else words

    with eager(model, hidden, "clip", "llama"):
        expected = run(model, **inputs)
    with regard.knock_out(model, region=RIGHT) as blind:
        found = run(model, **inputs)
    assert blind.region is not None
    assert blind.region.hidden == {"vision.L0": 4, "vision.L1": 4, "L0": 4, "L1": 4}
    torch.testing.assert_close(found[:, 16:], expected[:, 16:], atol=1e-5, rtol=1e-5)
    other = pixels.clone()
    other[..., size // 4 : 3 * size // 4, size // 2 :] += 1
    with regard.knock_out(model, region=RIGHT):
        again = run(model, **{**inputs, "pixel_values": other})
    torch.testing.assert_close(again[:, 16:], found[:, 16:])


def test_a_recording_shows_who_is_not_seen() -> None:
    model = build("llava")
    inputs, region = given(model), Patches(((0, 1), (3, 3)), of=(4, 4))
    with regard.knock_out(model, region=region), regard.record(model) as rec:
        run(model, **inputs)
    for head in rec.recording:
        start, grid = head.key_axis.grids()[0]
        keys = [start + grid.at(0, 0, 1), start + grid.at(0, 3, 3)]
        weights = head.dense()
        assert not weights[:, keys].any()
        assert np.delete(weights[-1], keys).all()


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
            window = head.head // own if apart else 0
            centres = grid.centres(window)
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


def test_a_batch_of_pictures_loses_the_same_part_each() -> None:
    model = build("vit")
    pixels = torch.randn(3, *given(model)["pixel_values"].shape[1:])
    with regard.knock_out(model, region=RIGHT):
        together = run(model, pixel_values=pixels)
        alone = torch.cat([run(model, pixel_values=one[None]) for one in pixels])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_while_writing_the_region_stays_hidden() -> None:
    model = build("llava")
    inputs = given(model)
    with regard.knock_out(model, region=RIGHT), regard.record(model) as rec:
        model.generate(**inputs, max_new_tokens=4, min_new_tokens=4, do_sample=False)
    head = max((one for prompt in rec.prompts for one in prompt), key=lambda one: one.shape[0])
    keys = [4 * row + column for row, column in CELLS]
    assert head.shape[0] > inputs["input_ids"].shape[1]
    assert not head.dense()[:, keys].any()


def test_positions_that_are_declared() -> None:
    layer, x = regard.nn.MultiHeadAttention(16, 2), torch.randn(1, 12, 16)
    blind = regard.knock_out(layer, region=RIGHT)
    with pytest.raises(InputError, match="nothing was hidden"), blind:
        layer(x)
    with (
        regard.knock_out(layer, region=Box(0, 0, 1, 2, of=(3, 4)), axes=Grid(3, 4)),
        regard.record(layer) as rec,
    ):
        layer(x)
    weights = rec["L0H0"].dense()
    assert not weights[:, :2].any() and weights[:, 2:].all()


def test_what_is_no_region() -> None:
    with pytest.raises(InputError, match=r"region=\(0, 1\); give regard.axes.Box"):
        regard.knock_out(build("vit"), region=(0, 1))  # type: ignore[arg-type]
    blind = regard.knock_out(build("vit"), region=RIGHT)
    with pytest.raises(InputError, match="was not run inside"), blind:
        pass
