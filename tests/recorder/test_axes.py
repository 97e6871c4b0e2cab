"""What a recording says its positions are, for models that read pictures and sounds."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import DINOv3ViTConfig, DINOv3ViTModel

import regard
from installed import needs
from regard.axes import Axis, Frames, Grid, Other, Tokens
from regard.errors import InputError, RegardWarning
from regard.recorder.axes import AxesReader, Sighted, laid_out, nearest
from regard.recorder.pictures import Grids
from support.families.build import build
from support.families.inputs import accepted

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


def recorded(family, generate=0, **options):
    model = build(family)
    inputs = {name: one_of(name, value) for name, value in accepted(model).items()}
    with warnings.catch_warnings(), regard.record(model, **options) as rec, torch.no_grad():
        warnings.simplefilter("ignore")
        if generate:
            model.generate(**inputs, max_new_tokens=generate, do_sample=False, eos_token_id=None)
        else:
            model(**inputs)
    return rec


@pytest.mark.parametrize("family", EXPECTED)
def test_a_model_that_sees_or_hears_tells_its_axes(family):
    rec = recorded(family)
    for label, wanted in EXPECTED[family].items():
        head = rec[f"{label}H0"]
        assert head.query_axis == head.key_axis == Axis.of(wanted), label
        assert len(head.key_axis) == head.shape[1]


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


def test_registers_are_told_and_grids_need_not_be_square():
    config = DINOv3ViTConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        num_register_tokens=4, image_size=64,
    )  # fmt: skip
    model = DINOv3ViTModel(config)
    with regard.record(model) as rec, torch.no_grad():
        model(pixel_values=torch.randn(1, 3, 64, 96))
    assert rec["L0H0"].key_axis == Axis((Grid(4, 6, prefix=5, names=REGISTERS),))


def test_a_detector_looks_from_its_queries_at_the_backbones_grid():
    model = build("detr")
    with regard.record(model) as rec, torch.no_grad():
        model(pixel_values=torch.randn(1, 3, 192, 256))
    head = rec["cross.L0H0"]
    assert head.key_axis == Axis((Grid(6, 8),))  # a picture 32 times as large
    assert not head.query_axis.grids()
    assert rec["encoder.L0H0"].query_axis == Axis((Grid(6, 8),))


def test_positions_are_called_by_their_place():
    head = recorded("vit")["L0H0"]
    assert head.key_names[:3] == ["class", "(0, 0)", "(0, 1)"]
    assert head.tokens is None


def test_every_sequence_of_a_batch_has_its_own():
    model = build("vit")
    with regard.record(model) as rec, torch.no_grad():
        model(pixel_values=torch.randn(3, 3, 64, 64))
    axes = [prompt.axes("L0")[1] for prompt in rec.prompts]
    assert axes == [Axis((Grid(4, 4, **CLASS),))] * 3


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


def test_what_does_not_add_up_is_not_guessed():
    sight = Sighted("tower.conv", 1, 1, 14, 14)
    assert laid_out(196, sight, ("class",)) == Axis((Grid(14, 14),))
    assert laid_out(197, sight, ("class",)) == Axis((Grid(14, 14, **CLASS),))
    assert laid_out(199, sight, ("class",)) is None
    assert laid_out(49, sight, ()) is None  # some of the patches
    coarser = replace(sight, coarser=frozenset({(7, 7)}))
    assert laid_out(49, coarser, ()) == Axis((Grid(7, 7),))  # a backbone's coarser layers
    assert laid_out(100, coarser, ()) is None
    two = replace(sight, pictures=2)
    assert laid_out(196, two, ()) is None  # parts of both (Pixtral)


def test_towers_are_told_apart():
    a, b = Sighted("image.conv", 1, 1, 4, 4), Sighted("video.embed.conv", 1, 2, 3, 3)
    assert nearest("video.layers.0.attn", [a, b]) == b
    assert nearest("image.layers.0.attn", [a, b]) == a
    assert nearest("anything", []) is None


def test_image_tokens_that_no_picture_explains_say_so():
    axis = text_axis([1, 9, 9, 9, 2])
    assert axis == Axis((Tokens(1), Other(3, "image token"), Tokens(1)))


def text_axis(ids, sights=(), grids=(), films=()):
    """Of a text in which 9 stands for a patch, 8 for one of a film."""

    class Config:
        image_token_id = 9
        video_token_id = 8

    class Model(torch.nn.Module):
        config = Config()

    told = Grids(list(grids), list(films))
    return AxesReader(Model())._text(np.array(ids), list(sights), told)


def test_tiles_with_tokens_between_them_are_not_guessed():
    """LLaVA-NeXT: a picture and its tiles, and a token at the end of every row."""
    sight = Sighted("tower.conv", 2, 1, 4, 4)
    assert text_axis([9] * 36 + [1], [sight]) == Axis((Other(36, "image token"), Tokens(1)))
    both = (Grid(2, 2), Grid(2, 2, picture=1), Tokens(1))
    assert text_axis([9] * 8 + [1], [sight]) == Axis(both)


def test_a_film_whose_frames_have_words_between_them():
    """Qwen3-VL says when each frame is; frames are 2 × 2 here, and a picture of 2 × 4 follows,
    which has the first number."""
    told = {"grids": [(1, 2, 4)], "films": [(2, 2, 2)]}
    axis = text_axis([1, *[8] * 4, 2, *[8] * 4, 3, *[9] * 8], **told)
    frames = (Tokens(1), Grid(2, 2, picture=1), Tokens(1), Grid(2, 2, picture=2), Tokens(1))
    assert axis == Axis((*frames, Grid(2, 4)))
    whole = text_axis([*[8] * 8, 1, *[9] * 8], **told)
    assert whole == Axis((Grid(2, 2, frames=2, picture=1), Tokens(1), Grid(2, 4)))


def test_stills_and_films_that_share_their_tokens_are_not_guessed():
    axis = text_axis([*[9] * 8, 1, *[9] * 8], grids=[(1, 2, 4)], films=[(1, 4, 2)])
    assert axis == Axis((Other(8, "image token"), Tokens(1), Other(8, "image token")))
    film = text_axis([*[9] * 8, 1], films=[(1, 4, 2)])  # a film alone (GLM-4V)
    assert film == Axis((Grid(4, 2), Tokens(1)))


def test_rows_of_a_picture_with_tokens_between_them_are_not_guessed():
    """Pixtral: a row of 4 tokens is no picture of 2 × 2."""
    sight = Sighted("tower.conv", 1, 1, 4, 4)
    axis = text_axis([*[9] * 4, 1] * 4, [sight])
    assert axis == Axis((Other(4, "image token"), Tokens(1)) * 4)
    assert text_axis([9] * 4, [sight]) == Axis((Grid(2, 2),))


def test_pictures_that_are_left_over_explain_nothing():
    sight = Sighted("tower.conv", 3, 1, 4, 4)
    assert text_axis([9] * 32, [sight]) == Axis((Other(32, "image token"),))


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
