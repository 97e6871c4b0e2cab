"""The pictures that a recording keeps: what the model saw, small; refused where they cannot be."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import regard
from regard.axes import Axis, Grid, Tokens
from regard.errors import FileError, InputError
from regard.recorder.pictures import (
    Tone,
    alike,
    encoded,
    first_frames,
    read_picture,
    seen_pictures,
    unpatched,
)
from regard.recorder.sight import Sighting, drive_sighting
from support.families.build import build
from support.families.inputs import accepted

HALF = Tone((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


def scene(high=64, wide=64):
    """A picture whose quarters differ."""
    found = np.zeros((high, wide, 3), np.uint8)
    found[: high // 2, : wide // 2] = (200, 30, 30)
    found[high // 2 :, wide // 2 :] = (20, 30, 220)
    found[: high // 2, wide // 2 :] = np.linspace(0, 255, wide - wide // 2)[None, :, None]
    return found


def as_pixels(picture, tone=HALF):
    """(3, h, w), as a processor normalises."""
    plain = (picture / 255 - np.array(tone.mean)) / np.array(tone.std)
    return torch.tensor(plain.transpose(2, 0, 1), dtype=torch.float32)


def opened(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def test_a_recording_holds_what_the_model_saw():
    model, picture = build("vit"), scene()

    class Processor:
        image_mean, image_std = HALF.mean, HALF.std

    with regard.record(model, tokenizer=Processor()) as rec, torch.no_grad():
        model(pixel_values=torch.stack([as_pixels(picture), as_pixels(picture[::-1].copy())]))
    first, second = rec.prompts
    (noted,) = first.pictures
    assert (noted.width, noted.height, noted.type) == (64, 64, "image/png")
    assert np.array_equal(opened(first.picture()), picture)
    assert np.array_equal(opened(second.picture()), picture[::-1])
    with pytest.raises(InputError, match="no picture 1; it has 1"):
        first.picture(1)


def test_none_is_kept_where_none_is_wanted(tmp_path):
    model = build("vit")
    with regard.record(model, tmp_path / "a.regard", images=False) as rec, torch.no_grad():
        model(pixel_values=torch.randn(1, 3, 64, 64))
    assert rec.prompts[0].pictures == ()


def test_originals_are_kept_in_their_own_resolution():
    model, large = build("vit"), scene(640, 640)
    with regard.record(model, images=[Image.fromarray(large)]) as rec, torch.no_grad():
        model(pixel_values=as_pixels(scene())[None])
    (noted,) = rec.prompts[0].pictures
    assert (noted.width, noted.height) == (640, 640)


def test_an_original_that_was_cropped_is_cropped():
    wide = np.concatenate([scene(90, 90), scene(90, 90), scene(90, 90)], axis=1)
    middle = wide[:, 90:180]
    assert np.array_equal(alike(wide, middle[::2, ::2]), middle)
    other = np.full((64, 64, 3), 255, np.uint8)
    assert np.array_equal(alike(wide, other), other)


def test_patches_in_one_row_become_the_picture():
    """Qwen2-VL's: blocks of 2 × 2 patches, two frames a patch."""
    picture, p, m = scene(48, 64), 8, 2
    high, wide = 48 // p, 64 // p
    pixels = as_pixels(picture).repeat(2, 1, 1, 1)  # (T, C, H, W)
    blocks = pixels.reshape(1, 2, 3, high // m, m, p, wide // m, m, p)
    flat = blocks.permute(0, 3, 6, 4, 7, 2, 1, 5, 8).reshape(high * wide, -1)
    (found,) = unpatched(flat, [(1, high, wide)], m, HALF)
    assert np.array_equal(found, picture)
    assert unpatched(flat[:3], [(1, high, wide)], m, HALF) == []


def test_pixels_of_an_unknown_tone_reach_from_dark_to_bright():
    (found,) = seen_pictures(torch.linspace(-3, 5, 12).reshape(1, 1, 3, 4), None)
    assert found.shape == (3, 4, 3)
    assert (found.min(), found.max()) == (0, 255)


def test_many_pictures_become_smaller():
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 256, (1024, 1024, 3), dtype=np.uint8) for _ in range(8)]
    kept = encoded(noise)
    assert sum(len(data) for _, data in kept) <= 4 << 20
    assert all(picture.width < 1024 for picture, _ in kept)


def test_a_film_has_a_picture_for_each_frame_of_its_grid():
    pictures = [np.full((2, 2, 3), n, np.uint8) for n in range(8)]
    assert [int(one[0, 0, 0]) for one in first_frames(pictures, 4)] == [0, 2, 4, 6]
    assert len(first_frames(pictures, 3)) == 8


SIZE = {"height": 64, "width": 64}
VIDEO = {
    "vivit": transformers.VivitImageProcessor(size=SIZE, crop_size=SIZE, do_resize=False),
    "videomae": transformers.VideoMAEImageProcessorPil(size=SIZE, crop_size=SIZE),
}


@pytest.mark.parametrize("family", VIDEO)
def test_a_model_of_video_is_recorded_with_a_picture_for_each_pair_of_frames(family):
    model, processor = build(family), VIDEO[family]
    count = model.config.num_frames
    frames = [np.full((64, 64, 3), 10 + 200 * n // count, np.uint8) for n in range(count)]
    inputs = processor(images=frames, return_tensors="pt")
    with regard.record(model, tokenizer=processor) as rec, torch.no_grad():
        model(**inputs)
    (prompt,) = rec.prompts
    ((_, grid),) = prompt.axes("L0")[1].grids()
    assert (grid.frames, grid.height, grid.width) == (count // 2, 4, 4)
    shades = [opened(prompt.picture(n)).mean() for n in range(len(prompt.pictures))]
    assert shades == pytest.approx([one.mean() for one in frames[::2]], abs=2)


def test_a_film_within_a_text_has_its_frames_too():
    """Qwen2-VL: pixel_values_videos and video_grid_thw."""
    model = build("qwen2_vl")
    config = model.config.vision_config
    t, h, w = 2, 4, 4
    size = config.in_channels * config.temporal_patch_size * config.patch_size**2
    token = model.config.video_token_id
    ids = torch.tensor([[token] * (t * h * w // 4) + [5, 6, 7]])
    with regard.record(model) as rec, torch.no_grad():
        model(
            input_ids=ids, attention_mask=torch.ones_like(ids),
            pixel_values_videos=torch.rand(t * h * w, size),
            video_grid_thw=torch.tensor([[t, h, w]]), mm_token_type_ids=(ids == token).int() * 2,
        )  # fmt: skip
    prompt = rec.prompts[0]
    assert len(prompt.pictures) == 2
    text = prompt.axes("model.language_model.layers.*.self_attn.L0")[0]
    assert text == Axis((Grid(2, 2, 2), Tokens(3)))


def test_pictures_of_prompts_are_not_mixed_up():
    model = build("vit")
    pictures = [np.full((640, 640, 3), shade, np.uint8) for shade in (0, 200)]
    recorder = regard.record(model)
    with recorder:
        for number, one in enumerate(pictures):
            pixels = torch.full((1, 3, 64, 64), number * 200 / 255)
            drive_sighting(recorder, Sighting({"pixel_values": pixels}, "", [one]), 0)
    for prompt, one in zip(recorder.recording.prompts, pictures, strict=True):
        kept = opened(prompt.picture())
        assert kept.shape == (640, 640, 3) and abs(int(kept[5, 5, 0]) - int(one[0, 0, 0])) < 2


@pytest.mark.parametrize("family", ["llava", "smolvlm", "qwen2_vl", "vivit"])
def test_models_that_see_keep_a_picture_for_each_grid(family):
    model = build(family)
    inputs = {
        name: value[: 16 if name == "pixel_values" and value.ndim == 2 else 1]
        for name, value in accepted(model).items()
    }
    with regard.record(model) as rec, torch.no_grad():
        model(**inputs)
    prompt = rec.prompts[0]
    axes = [axis for label in prompt.places for axis in prompt.axes(label)]
    last = max(
        grid.picture + (grid.windows[1] if grid.apart else grid.frames)
        for axis in axes
        for _, grid in axis.grids()
    )
    assert len(prompt.pictures) == last
    assert opened(prompt.picture(last - 1)).size


# ── files ────────────────────────────────────────────────────────────────────────────────────


def bomb(wide, high):
    """A PNG that claims a size, of a few bytes."""

    def chunk(kind, data):
        sum_ = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", sum_)

    head = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0" * 64))
        + chunk(b"IEND", b"")
    )


def test_a_picture_is_read_upright(tmp_path):
    path, picture = tmp_path / "a.png", scene(20, 30)
    Image.fromarray(picture).save(path)
    assert np.array_equal(read_picture(path), picture)
    exif = Image.Exif()
    exif[0x0112] = 6  # held on its side
    Image.fromarray(picture).save(tmp_path / "b.jpg", exif=exif, quality=100)
    assert read_picture(tmp_path / "b.jpg").shape == (30, 20, 3)


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        (b"no picture", FileError, "not a picture"),
        (b"", FileError, "not a picture"),
        (bomb(30_000, 30_000), FileError, "pixels"),
        (bomb(60_000, 60_000), FileError, "pixels"),
        (bomb(64, 64), FileError, "cannot be read"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", FileError, "not a picture"),
    ],
)
def test_what_is_no_picture_is_one_line(tmp_path, data, error, said):
    path = tmp_path / "a.png"
    path.write_bytes(data)
    with pytest.raises(error, match=said) as caught:
        read_picture(path)
    assert "\n" not in str(caught.value)
    assert "a.png" in str(caught.value)


def test_an_animation_is_refused(tmp_path):
    frames = [Image.fromarray(scene()), Image.fromarray(scene()[::-1].copy())]
    path = tmp_path / "a.gif"
    frames[0].save(path, save_all=True, append_images=frames[1:])
    with pytest.raises(InputError, match="2 frames; give a still picture"):
        read_picture(path)


def test_a_folder_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(FileError):
        read_picture(tmp_path)
    with pytest.raises(FileError):
        read_picture(tmp_path / "none.png")


def test_images_of_another_kind_are_refused():
    with pytest.raises(InputError, match="give Pillow images"):
        regard.record(build("vit"), images=[np.zeros((4, 4))])


def test_greys_of_16_bits_keep_their_shades(tmp_path):
    """Pillow alone cuts them off at 255, which leaves white."""
    grey = np.linspace(0, 65535, 40 * 30).reshape(40, 30).astype(np.uint16)
    Image.fromarray(grey).save(tmp_path / "grey.png")
    found = read_picture(tmp_path / "grey.png")
    assert found.shape == (40, 30, 3) and (found[..., 0] == grey // 257).all()


@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_numbers_without_black_and_white_are_refused(kind, tmp_path):
    Image.fromarray(np.ones((4, 5), kind)).save(tmp_path / "numbers.tiff")
    with pytest.raises(InputError, match="numbers of 32 bits"):
        read_picture(tmp_path / "numbers.tiff")
