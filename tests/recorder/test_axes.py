"""What a recording says its positions are, for models that read pictures and sounds, and for those
of diffusion; which step of these a prompt is."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from diffusers import UNet2DConditionModel

import regard
from denoisers import WORDS, denoiser
from installed import needs
from regard.axes import Axis, Frames, Grid, Other, Tokens
from regard.errors import InputError, RegardWarning
from regard.recorder.axes import AxesReader, Sighted
from regard.recorder.pictures import Grids
from support.families.build import _enliven, build
from support.families.inputs import accepted
from support.families.shrink import model_class, tiny_config

CLASS = {"prefix": 1, "names": ("class",)}
REGISTERS = ("class", *(f"register {n}" for n in (1, 2, 3, 4)))
PATCHES = 16  # of the one picture that is recorded, where patches come in one row

# a place's label → the axes of queries and keys
EXPECTED = {
    "vit": {"L0": Grid(4, 4, **CLASS)},
    "deit": {"L1": Grid(4, 4, prefix=2, names=("class", "distillation"))},
    "dinov2": {"L0": Grid(4, 4, **CLASS)},
    "dinov2_with_registers": {"L0": Grid(4, 4, prefix=5, names=REGISTERS)},
    "dinov3_vit": {"L0": Grid(4, 4, **CLASS)},
    "beit": {"L0": Grid(4, 4, **CLASS)},
    "clip": {"vision.L0": Grid(4, 4, **CLASS), "text.L0": Tokens(11)},
    "siglip": {"vision.L1": Grid(4, 4)},
    "swin": {
        "L0": Grid(2, 2, windows=(8, 8)),
        "L1": Grid(2, 2, windows=(8, 8), shift=1),
        "L4": Grid(2, 2, windows=(2, 2)),
        "L6": Grid(2, 2),
    },
    "llava": {"vision.L0": Grid(4, 4, **CLASS), "L0": [Grid(4, 4), Tokens(11)]},
    "paligemma": {"vision.L0": Grid(4, 4), "L1": [Grid(4, 4), Tokens(11)]},
    "qwen2_vl": {
        "L0": Grid(4, 4, merge=2),
        "model.language_model.layers.*.self_attn.L0": [Grid(2, 2), Tokens(11)],
    },
    "qwen2_5_vl": {
        "L0": Grid(4, 4, merge=2, tile=4),
        "model.language_model.layers.*.self_attn.L0": [Grid(2, 2), Tokens(11)],
    },
    "qwen3_vl": {
        "L0": Grid(4, 4, merge=2),
        "model.language_model.layers.*.self_attn.L0": [Grid(2, 2), Tokens(11)],
    },
    "smolvlm": {
        "vision.L0": Grid(4, 4, windows=(1, 2), apart=True),
        "text.L0": [Grid(2, 2), Grid(2, 2, picture=1), Tokens(11)],
    },
    "videomae": {"L0": Grid(4, 4, frames=8)},
    "vivit": {"L0": Grid(4, 4, frames=16, **CLASS)},
    "whisper": {"encoder.L0": Frames(128, 0.02)},
}


def one_of(name, value):
    """The first sequence's part of an input."""
    if not isinstance(value, torch.Tensor) or not value.ndim:
        return value
    return value[:PATCHES] if name == "pixel_values" and value.ndim == 2 else value[:1]


def read(model, images=False, generate=0, **inputs):
    with regard.record(model, images=images) as rec, torch.no_grad():
        if generate:
            model.generate(**inputs, max_new_tokens=generate, do_sample=False, eos_token_id=None)
        else:
            model(**inputs)
    return rec


def recorded(family, generate=0):
    model = build(family)
    inputs = {name: one_of(name, value) for name, value in accepted(model).items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read(model, None, generate, **inputs)


@pytest.mark.parametrize("family", EXPECTED)
def test_a_model_that_sees_or_hears_tells_its_axes(family):
    rec = recorded(family)
    for label, wanted in EXPECTED[family].items():
        head = rec[f"{label}H0"]
        assert head.query_axis == head.key_axis == Axis.of(wanted), label
        assert len(head.key_axis) == head.shape[1]
    (prompt,) = rec.prompts
    grids = [grid for place in prompt.places for axis in prompt.axes(place)
             for _, grid in axis.grids()]  # fmt: skip
    last = (g.picture + (g.windows[1] if g.apart else g.frames) for g in grids)
    assert len(prompt.pictures) == max(last, default=0)
    assert all(prompt.picture(n) for n in range(len(prompt.pictures)))


def test_cross_attention_has_words_and_moments():
    head = recorded("whisper")["cross.L0H1"]
    assert head.query_axis == Axis((Tokens(11),))
    assert head.key_axis == Axis((Frames(128, 0.02),))
    assert head.key_names[2] == "0.04 s"


@pytest.mark.parametrize("family", ["llava", "qwen2_vl", "qwen2_5_vl", "smolvlm"])
def test_pictures_are_read_with_their_words_where_a_model_writes(family):
    """generate() may encode pictures first: that is no prompt of its own."""
    rec, plain = recorded(family, generate=3), recorded(family)
    (prompt,), (short,) = rec.prompts, plain.prompts
    assert len(prompt.pictures) == len(short.pictures) > 0
    assert prompt.places.keys() == short.places.keys()
    for label in EXPECTED[family]:
        axis, grids = prompt.axes(label)[1], short.axes(label)[1].grids()
        assert axis.grids() == grids and grids
        assert len(axis) in (len(short.axes(label)[1]), len(short.axes(label)[1]) + 2)


def test_a_detector_looks_from_its_queries_at_the_backbones_grid():
    model = build("detr")
    rec = read(model, pixel_values=torch.randn(1, 3, 192, 256))
    head = rec["cross.L0H0"]
    assert head.key_axis == Axis((Grid(6, 8),))  # a picture 32 times as large
    assert not head.query_axis.grids()
    assert rec["encoder.L0H0"].query_axis == Axis((Grid(6, 8),))


def test_every_sequence_of_a_batch_has_its_own():
    rec = read(build("vit"), pixel_values=torch.randn(3, 3, 64, 64))
    for prompt in rec.prompts:
        assert prompt.axes("L0")[1] == Axis((Grid(4, 4, **CLASS),))
        assert prompt["L0H0"].key_names[:3] == ["class", "(0, 0)", "(0, 1)"]


def test_what_nobody_can_tell_can_be_declared():
    grid = Grid(2, 5, prefix=1)
    layer = regard.nn.MultiHeadAttention(16, 2)
    with regard.record(layer, axes=grid) as rec:
        layer(torch.randn(1, 11, 16))
    assert rec["L0H0"].key_axis == Axis((grid,))
    with regard.record(layer, axes={"L0": (None, Axis((grid,)))}) as rec:
        layer(torch.randn(1, 11, 16))
    assert rec["L0H0"].query_axis == Axis((Tokens(11),))


def test_a_declared_axis_of_another_length_is_refused():
    layer = regard.nn.MultiHeadAttention(16, 2)
    said = "L0 has 11 queries, and the axis given for 'L0' has 12"
    with pytest.raises(InputError, match=said), regard.record(layer, axes={"L0": Grid(3, 4)}):
        layer(torch.randn(1, 11, 16))


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        (Grid(3, 4, prefix=1), "no place has the 13 positions of the axis given; L0 has 11"),
        ({"L9": Grid(3, 4)}, "no place or stack is called 'L9'; L0 has 11 queries and 11 keys"),
    ],
)
def test_a_declared_axis_that_fits_nowhere_is_told_and_nothing_is_lost(axes, said):
    layer = regard.nn.MultiHeadAttention(16, 2)
    with pytest.warns(RegardWarning, match=said), regard.record(layer, axes=axes) as rec:
        layer(torch.randn(1, 11, 16))
    assert rec["L0H0"].key_axis == Axis((Tokens(11),))


def told(count):
    return Other(count, "image token")


def seen(pictures):
    """Pictures of 4 × 4 patches."""
    return {"sights": [Sighted("tower.conv", pictures, 1, 4, 4)]}


# Qwen3-VL says when each frame is; frames are 2 × 2 here, and a picture of 2 × 4 follows, which has
# the first number.
BOTH = {"grids": [(1, 2, 4)], "films": [(2, 2, 2)]}
# a text in which 9 stands for a patch, 8 for one of a film; what was seen; the parts of its axis
TEXTS = {
    "no picture explains them": ([1, 9, 9, 9, 2], {}, (Tokens(1), told(3), Tokens(1))),
    # LLaVA-NeXT: a picture and its tiles, and a token at the end of every row
    "tokens between tiles": ([9] * 36 + [1], seen(2), (told(36), Tokens(1))),
    "two pictures": ([9] * 8 + [1], seen(2), (Grid(2, 2), Grid(2, 2, picture=1), Tokens(1))),
    # Pixtral: a row of 4 tokens is no picture of 2 × 2
    "tokens between rows": ([*[9] * 4, 1] * 4, seen(1), (told(4), Tokens(1)) * 4),
    "one picture": ([9] * 4, seen(1), (Grid(2, 2),)),
    "a picture is left over": ([9] * 32, seen(3), (told(32),)),
    "frames with words between": (
        [1, *[8] * 4, 2, *[8] * 4, 3, *[9] * 8], BOTH,
        (Tokens(1), Grid(2, 2, picture=1), Tokens(1), Grid(2, 2, picture=2), Tokens(1),
         Grid(2, 4))),
    "a whole film": (
        [*[8] * 8, 1, *[9] * 8], BOTH,
        (Grid(2, 2, frames=2, picture=1), Tokens(1), Grid(2, 4))),
    "stills and films that share tokens": (
        [*[9] * 8, 1, *[9] * 8], {"grids": [(1, 2, 4)], "films": [(1, 4, 2)]},
        (told(8), Tokens(1), told(8))),
    "a film alone": ([*[9] * 8, 1], {"films": [(1, 4, 2)]}, (Grid(4, 2), Tokens(1))),  # GLM-4V
    "an image token that the model wrote": (
        [9] * 4 + [5, 9, 6], seen(1) | {"read": 5}, (Grid(2, 2), Tokens(3))),
    "one that it was given": (
        [9] * 4 + [5, 9, 6], seen(1), (told(4), Tokens(1), told(1), Tokens(1))),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_patches_within_a_text(name):
    ids, given, wanted = TEXTS[name]

    class Model(torch.nn.Module):
        config = SimpleNamespace(image_token_id=9, video_token_id=8)

    grids = Grids(given.get("grids", []), given.get("films", []))
    read = {name: given[name] for name in ("read",) if name in given}
    axis = AxesReader(Model())._text(np.array(ids), given.get("sights", []), grids, **read)
    assert axis == Axis(wanted)


def test_the_order_of_windows_is_transformers_own():
    """Qwen2.5-VL sorts its patches by windows before the first layer."""
    needs("transformers", "5.23", "the order of windows is a function of its own")
    from transformers.vision_utils import get_vision_window_index

    window, _ = get_vision_window_index(
        torch.tensor([[2, 20, 26]]), spatial_merge_size=2, window_size=112, patch_size=14
    )
    grid = Grid(20, 26, 2, merge=2, tile=112 // 2 // 14)
    cells = [grid.cell(at) for at in range(0, grid.count, 4)]
    wanted = [divmod(int(n), 130) for n in window]
    assert [tuple(one) for one in cells] == [(t, n // 13 * 2, n % 13 * 2) for t, n in wanted]


# ── as many as a grid has patches, by chance: they are called no patches ───────────────────────


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


def axes(rec, prompt=0):
    return {label: rec.prompts[prompt].axes(label) for label in rec.prompts[prompt].places}


def named(rec, prompt=0):
    """Places whose queries or keys are called patches."""
    pairs = axes(rec, prompt).items()
    return {label for label, pair in pairs if any(axis and axis.grids() for axis in pair)}


@pytest.mark.parametrize(
    ("family", "size", "queries"),
    [("detr", (320, 320), 100), ("conditional_detr", (96, 128), 12)],
)
def test_object_queries_are_no_patches(family, size, queries):
    rec = read(small(family, num_queries=queries), pixel_values=torch.randn(1, 3, *size))
    grid = Axis((Grid(size[0] // 32, size[1] // 32),))
    found = axes(rec)
    assert found["encoder.L0"] == (grid, grid)
    assert found["cross.L0"] == (Axis((Tokens(queries),)), grid)
    assert not any(label.startswith("decoder") for label in named(rec))


@pytest.mark.filterwarnings("ignore:not recorded")  # deformable attention
def test_object_queries_that_were_chosen_are_no_patches():
    rec = read(small("rt_detr", num_queries=25), pixel_values=torch.randn(1, 3, 160, 160))
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
    rec = read(model, **accepted(model))
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
    assert not named(read(model, pixel_values=film, bool_masked_pos=mask))


def test_patches_in_another_order_are_no_grid():
    model = small("vit_mae", transformers.ViTMAEModel, mask_ratio=0.0)
    side = model.config.image_size
    assert not named(read(model, pixel_values=torch.randn(1, 3, side, side)))


def test_sequences_with_different_numbers_of_pictures_keep_plain_positions():
    """Two pictures of the second of two sequences are not one of each."""
    model = build("llava")
    vision, image = model.config.vision_config, model.config.image_token_id
    count, side = (vision.image_size // vision.patch_size) ** 2, vision.image_size
    ids = [[50] * (2 * count + 3), [*[image] * count, 51, *[image] * count, 52, 53]]
    inputs = {"input_ids": torch.tensor(ids), "pixel_values": torch.randn(2, 3, side, side)}
    rec = read(model, images=None, **inputs)
    assert not named(rec, 0) | named(rec, 1)
    assert all(prompt.pictures == () for prompt in rec.prompts)


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
    return read(model, **inputs)


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
    rec = read(model, pixel_values=pixels)
    (_, grid), *_ = rec[f"L{layer}H0"].key_axis.grids()
    assert grid.size == (size[0] // 4, size[1] // 4)
    path = rec.prompts[0].places[f"L{layer}"].name
    for window, seen in enumerate(centres_of(model, path, pixels).numpy()):
        said = grid.centres(window)
        beyond = (said > 1).any(1)
        assert (abs(seen - said) < 0.4 / max(grid.size))[~beyond].all()
        assert (seen != seen)[beyond].all()  # padding comes from nowhere


# ── models of diffusion ──────────────────────────────────────────────────────────────────────


def latents(high, wide):
    return Grid(high, wide, picture=-1)


TEXT = Tokens(WORDS)
DOWN, MID = "down_blocks.*.attentions.*.transformer_blocks.*", "mid_block.attentions.*"
DENOISERS = {
    "unet": {
        "L0": (latents(16, 24), latents(16, 24)),
        f"{DOWN}.attn2.L0": (latents(16, 24), TEXT),
        f"{MID}.transformer_blocks.*.attn2.L0": (latents(8, 12), TEXT),
    },
    "wide_unet": {f"{DOWN}.attn2.L0": (latents(16, 24), TEXT)},
    "dit": {"L1": (latents(8, 8), latents(8, 8))},
    "pixart": {
        "L0": (latents(8, 8), latents(8, 8)),
        "transformer_blocks.*.attn2.L1": (latents(8, 8), TEXT),
    },
    "sd3": {"L1": ([latents(8, 6), TEXT], [latents(8, 6), TEXT])},
    "flux": {
        "L0": ([TEXT, latents(4, 6)], [TEXT, latents(4, 6)]),
        "single_transformer_blocks.*.attn.L0": ([TEXT, latents(4, 6)], [TEXT, latents(4, 6)]),
    },
}


@pytest.mark.parametrize("name", DENOISERS)
def test_queries_are_places_of_the_latents_and_keys_words(name):
    model, inputs = denoiser(name)
    rec = read(model, **inputs)
    for label, (queries, keys) in DENOISERS[name].items():
        assert rec.prompts[0].axes(label) == (Axis.of(queries), Axis.of(keys)), label


def test_a_denoiser_inside_somebody_elses_model():
    model, inputs = denoiser("pixart")
    around = torch.nn.ModuleDict({"transformer": model})
    with regard.record(around) as rec, torch.no_grad():
        around["transformer"](**inputs)
    assert rec.prompts[0].axes("L0")[0] == Axis((latents(8, 8),))


def test_a_text_as_long_as_a_grid_is_still_a_text():
    model, inputs = denoiser("unet")
    for count in (96, 384, 4):  # of the mid block's grid, of the first, of the latents' channels
        inputs["encoder_hidden_states"] = torch.randn(1, count, 12)
        rec = read(model, **inputs)
        for label in (f"{DOWN}.attn2.L0", f"{MID}.transformer_blocks.*.attn2.L0"):
            assert rec.prompts[0].places[label].kind == "cross"
            assert rec.prompts[0].axes(label)[1] == Axis((Tokens(count),))


def test_each_step_is_a_prompt_of_each_sequence():
    model, inputs = denoiser("unet", batch=2)
    with regard.record(model) as rec, torch.no_grad():
        for when in (981, torch.tensor(961)):
            model(**inputs | {"timestep": when})
    assert [prompt.note.facts["diffusion"] for prompt in rec.prompts] == [
        {"step": step, "timestep": when, "sequence": n, "of": 2, "latents": [16, 24]}
        for step, when in enumerate((981.0, 961.0))
        for n in (0, 1)
    ]


def test_the_words_of_the_text_are_the_keys(tmp_path):
    class Tokenizer:
        all_special_ids = ()

        def decode(self, ids):
            return "".join(f"w{n} " for n in ids)

        def convert_ids_to_tokens(self, n):
            return f"w{n}</w>"

    model, inputs = denoiser("unet", batch=2)
    assert isinstance(model, UNet2DConditionModel)
    ids = torch.stack([torch.zeros(WORDS), torch.arange(WORDS)]).long()
    with regard.record(model, tmp_path / "a.regard", tokenizer=Tokenizer()) as rec, torch.no_grad():
        rec.steer(ids)
        model(**inputs)
        model(**inputs)
    with regard.open(tmp_path / "a.regard") as found:
        for prompt in found.prompts:
            head = prompt[f"{DOWN}.attn2.L0H0"]
            first = [f"w{n}" for n in ids[prompt.number % 2].tolist()]
            assert [text.strip() for text in head.key_tokens] == first
            assert head.query_tokens is None and prompt["L0H0"].key_tokens is None
