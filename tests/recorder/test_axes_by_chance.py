"""Positions that are as many as a grid has patches, by chance: they are called no patches. Where a
grid is named, a patch's numbers come from the pixels it is said to lie on."""

from __future__ import annotations

import pytest
import torch
import transformers

import regard
from regard.axes import Axis, Grid, Other, Tokens
from support.families.build import _enliven, build
from support.families.inputs import accepted
from support.families.shrink import model_class, tiny_config


def small(family, cls=None, **changes):
    """A model of a family whose configuration, or a part of it (part__name), is changed."""
    config = tiny_config(family)
    for name, value in changes.items():
        *parts, last = name.split("__")
        of = config
        for part in parts:
            of = getattr(of, part)
        setattr(of, last, value)
    torch.manual_seed(0)
    return _enliven((cls or model_class(family))._from_config(config)).eval()


def recorded(model, **inputs):
    with regard.record(model, images=False) as rec, torch.no_grad():
        model(**inputs)
    return rec


def axes(rec, prompt=0):
    one = rec.prompts[prompt]
    return {label: one.axes(label) for label in one.places}


def named(rec, prompt=0):
    """Places whose queries or keys are called patches."""
    return {
        label
        for label, pair in axes(rec, prompt).items()
        if any(axis is not None and axis.grids() for axis in pair)
    }


@pytest.mark.parametrize(
    ("family", "size", "queries"),
    [("detr", (320, 320), 100), ("conditional_detr", (96, 128), 12)],
)
def test_object_queries_are_no_patches(family, size, queries):
    rec = recorded(small(family, num_queries=queries), pixel_values=torch.randn(1, 3, *size))
    grid = Axis((Grid(size[0] // 32, size[1] // 32),))
    found = axes(rec)
    assert found["encoder.L0"] == (grid, grid)
    assert found["cross.L0"] == (Axis((Tokens(queries),)), grid)
    assert not any(label.startswith("decoder") for label in named(rec))


@pytest.mark.filterwarnings("ignore:not recorded")  # deformable attention
def test_object_queries_that_were_chosen_are_no_patches():
    rec = recorded(small("rt_detr", num_queries=25), pixel_values=torch.randn(1, 3, 160, 160))
    assert named(rec) == {"encoder.L0"}


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("aria", {}),
        ("idefics2", {"perceiver_config__resampler_n_latents": 16}),
        ("blip-2", {"num_query_tokens": 16}),
    ],
)
def test_what_sums_a_picture_up_is_no_patch(family, changes):
    """Sixteen learnt queries of a picture with 4 × 4 patches; Aria has four of one with 2 × 2."""
    model = small(family, **changes)
    rec = recorded(model, **accepted(model))
    assert named(rec)  # the tower's
    for label, (queries, keys) in axes(rec).items():
        path = rec.prompts[0].places[label].name
        if "vision" not in path:
            assert not queries.grids(), label
        if "language_model" in path or "text_model" in path:
            assert not keys.grids(), label


def test_the_patches_that_a_masked_autoencoder_keeps_are_no_grid():
    """A quarter of 8 × 4 × 4 is as many as 8 × 2 × 2; its decoder has the masked ones behind."""
    model = small("videomae", transformers.VideoMAEForPreTraining)
    mask = torch.ones(1, 128, dtype=torch.bool)
    mask[:, torch.randperm(128)[:32]] = False
    side, frames = model.config.image_size, model.config.num_frames
    film = torch.randn(1, frames, 3, side, side)
    assert not named(recorded(model, pixel_values=film, bool_masked_pos=mask))


def test_patches_in_another_order_are_no_grid():
    model = small("vit_mae", transformers.ViTMAEModel, mask_ratio=0.0)
    side = model.config.image_size
    assert not named(recorded(model, pixel_values=torch.randn(1, 3, side, side)))


def test_sequences_with_different_numbers_of_pictures_keep_plain_positions():
    """Two pictures of the second of two sequences are not one of each."""
    model = build("llava")
    vision, image = model.config.vision_config, model.config.image_token_id
    count, side = (vision.image_size // vision.patch_size) ** 2, vision.image_size
    ids = [[50] * (2 * count + 3), [*[image] * count, 51, *[image] * count, 52, 53]]
    inputs = {"input_ids": torch.tensor(ids), "pixel_values": torch.randn(2, 3, side, side)}
    with regard.record(model) as rec, torch.no_grad():
        model(**inputs)
    assert not named(rec, 0) | named(rec, 1)
    assert all(prompt.pictures == () for prompt in rec.prompts)


def test_an_image_token_that_a_model_writes_is_no_picture():
    parts = regard.recorder.axes.AxesReader(build("llava"))
    image = next(iter(parts._named(("image_token_id", "image_token_index"))))
    sights = [regard.recorder.axes.Sighted("vision.conv", 1, 1, 2, 2)]
    ids = torch.tensor([image] * 4 + [50, image, 51]).numpy()
    axis = parts._text(ids, sights, regard.recorder.axes.NO_GRIDS, read=5)
    assert axis == Axis((Grid(2, 2), Tokens(3)))
    assert parts._text(ids, sights, regard.recorder.axes.NO_GRIDS).parts[0] == Other(
        4, "image token"
    )


def two_pictures(family, video):
    """A still of 4 × 6 patches and one of 8 × 2, or a film of 6 × 4 that is first in the text."""
    model = build(family)
    config = model.config.vision_config
    image, film = model.config.image_token_id, model.config.video_token_id
    width = 3 * config.temporal_patch_size * config.patch_size**2
    ids = [50, *[film if video else image] * 6, 51, *[image] * (6 if video else 4), 52]
    kinds = [{image: 1, film: 2}.get(one, 0) for one in ids]
    inputs = {"input_ids": torch.tensor([ids]), "mm_token_type_ids": torch.tensor([kinds])}
    sizes = [[1, 4, 6]] if video else [[1, 4, 6], [1, 8, 2]]
    inputs["image_grid_thw"] = torch.tensor(sizes)
    inputs["pixel_values"] = torch.randn(sum(h * w for _, h, w in sizes), width)
    if video:
        inputs["video_grid_thw"] = torch.tensor([[1, 6, 4]])
        inputs["pixel_values_videos"] = torch.randn(24, width)
    return recorded(model, **inputs)


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl"])
def test_a_tower_that_reads_picture_after_picture_has_a_grid_for_each(family):
    found = axes(two_pictures(family, video=False))
    (first,), (second,) = (found[label][1].parts for label in ("L0", "L1"))
    assert (first.height, first.width, first.picture) == (4, 6, 0)
    assert (second.height, second.width, second.picture) == (8, 2, 1)


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen3_vl"])
def test_a_film_before_a_still_keeps_its_own_grid(family):
    found = axes(two_pictures(family, video=True))
    words = next(found[label][1] for label in found if "language_model" in label)
    assert [grid for _, grid in words.grids()] == [Grid(3, 2, picture=1), Grid(2, 3)]


# ── from which pixels a position's numbers come ──────────────────────────────────────────────


def centres_of(model, path, pixels):
    """(entries, positions, 2) where the pixels lie that a module's inputs are made of, as shares of
    the picture, if no attention moves anything; NaN for none."""
    given, handles = [], []
    for name, module in model.named_modules():
        if name == path:
            keep = lambda _, args: given.append(args[0])  # noqa: E731
            handles.append(module.register_forward_pre_hook(keep))
        if "attention" in type(module).__name__.lower():
            stop = lambda _, __, made: (made[0] * 0, *made[1:])  # noqa: E731
            handles.append(module.register_forward_hook(stop))
    pixels = pixels.clone().requires_grad_()
    model(pixel_values=pixels)
    for handle in handles:
        handle.remove()
    entries, count, width = given[0].shape
    found = torch.full((entries, count, 2), torch.nan)
    weights = torch.randn(width, generator=torch.Generator().manual_seed(0))
    for entry in range(entries):
        for at in range(count):
            number = (given[0][entry, at] * weights).sum()
            (grown,) = torch.autograd.grad(number, pixels, retain_graph=True)
            heat = grown.abs().sum((0, 1))
            if heat.sum() > 0:
                for axis, shares in enumerate((heat.sum(1), heat.sum(0))):
                    middle = (torch.arange(len(shares)) + 0.5) / len(shares)
                    found[entry, at, axis] = (shares * middle).sum() / shares.sum()
    return found


@pytest.mark.parametrize("size", [(48, 48), (40, 56)])
@pytest.mark.parametrize("layer", [0, 1])
def test_windows_that_reach_beyond_the_picture_lie_where_their_pixels_are(size, layer):
    """12 × 12 and 10 × 14 patches in windows of 5 × 5, in layer 1 moved by two."""
    config = transformers.SwinConfig(
        image_size=48, patch_size=4, embed_dim=8, depths=[2], num_heads=[2], window_size=5
    )
    torch.manual_seed(0)
    model, pixels = transformers.SwinModel(config).eval(), torch.randn(1, 3, *size)
    rec = recorded(model, pixel_values=pixels)
    (_, grid), *_ = rec[f"L{layer}H0"].key_axis.grids()
    assert grid.size == (size[0] // 4, size[1] // 4)
    path = rec.prompts[0].places[f"L{layer}"].name
    for window, seen in enumerate(centres_of(model, path, pixels).numpy()):
        said = grid.centres(window)
        beyond = (said > 1).any(1)
        assert (abs(seen - said) < 0.4 / max(grid.size))[~beyond].all()
        assert (seen != seen)[beyond].all()  # padding comes from nowhere
