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
from regard.recorder.pictures import Tone, encoded, read_picture, seen_pictures, unpatched
from support.families.build import build

HALF = Tone((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


class Processor:
    image_mean, image_std = HALF.mean, HALF.std


def scene(high=64, wide=64):
    """A picture whose quarters differ."""
    made = np.zeros((high, wide, 3), np.uint8)
    made[: high // 2, : wide // 2] = (200, 30, 30)
    made[high // 2 :, wide // 2 :] = (20, 30, 220)
    made[: high // 2, wide // 2 :] = np.linspace(0, 255, wide - wide // 2)[None, :, None]
    return made


def as_pixels(picture):
    """(3, h, w), as a processor normalises."""
    plain = (picture / 255 - np.array(HALF.mean)) / np.array(HALF.std)
    return torch.tensor(plain.transpose(2, 0, 1), dtype=torch.float32)


def kept(prompt):
    """The pictures of a prompt, decoded."""
    data = (prompt.picture(n) for n in range(len(prompt.pictures)))
    return [np.asarray(Image.open(io.BytesIO(one)).convert("RGB")) for one in data]


def recorded(model, inputs, **options):
    with regard.record(model, **options) as rec, torch.no_grad():
        model(**inputs)
    return rec.prompts


def test_a_recording_holds_what_the_model_saw():
    model, pictures = build("vit"), [scene(), scene()[::-1].copy()]
    pixels = {"pixel_values": torch.stack([as_pixels(one) for one in pictures])}
    prompts = recorded(model, pixels, tokenizer=Processor())
    for prompt, picture in zip(prompts, pictures, strict=True):
        (noted,) = prompt.pictures
        assert (noted.width, noted.height, noted.type) == (64, 64, "image/png")
        assert np.array_equal(kept(prompt)[0], picture)
    with pytest.raises(InputError, match="no picture 1; it has 1"):
        prompts[0].picture(1)
    # where nothing says how pixels are normalised: from dark to bright
    (plain,) = kept(recorded(model, {"pixel_values": as_pixels(scene())[None] * 3 + 1})[0])
    assert (plain.min(), plain.max()) == (0, 255)


def test_none_is_kept_where_none_is_wanted(tmp_path):
    pixels = {"pixel_values": torch.randn(1, 3, 64, 64)}
    assert recorded(build("vit"), pixels, images=False)[0].pictures == ()


def test_originals_are_kept_where_they_show_what_was_seen():
    """In their own resolution; the square in the middle where that was seen; else what was seen."""
    model, large = build("vit"), scene(640, 640)
    wide = np.concatenate([scene(90, 90)] * 3, axis=1)
    white = np.full((640, 640, 3), 255, np.uint8)
    pixels = as_pixels(scene())[None]
    for original, shown in ((large, large), (wide, wide[:, 90:180]), (white, scene())):
        images = [Image.fromarray(original)]
        prompts = recorded(model, {"pixel_values": pixels}, images=images, tokenizer=Processor())
        (picture,) = kept(prompts[0])
        assert picture.shape == shown.shape
        assert np.abs(picture.astype(int) - shown).mean() < 8  # large ones are JPEG


def test_originals_of_prompts_are_not_mixed_up():
    model = build("vit")
    pictures = [np.full((640, 640, 3), shade, np.uint8) for shade in (0, 200)]
    with torch.no_grad(), regard.record(model) as rec:
        for number, one in enumerate(pictures):
            rec.show([one])
            model(pixel_values=torch.full((1, 3, 64, 64), number * 200 / 255))
    for prompt, one in zip(rec.prompts, pictures, strict=True):
        (picture,) = kept(prompt)
        assert picture.shape == one.shape and np.abs(picture.astype(int) - one).max() < 3


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
    (prompt,) = recorded(model, inputs, tokenizer=processor)
    ((_, grid),) = prompt.axes("L0")[1].grids()
    assert (grid.frames, grid.height, grid.width) == (count // 2, 4, 4)
    shades = [one.mean() for one in kept(prompt)]
    assert shades == pytest.approx([one.mean() for one in frames[::2]], abs=2)


def test_patches_in_one_row_become_the_frames_of_a_film_within_a_text():
    """Qwen2-VL's: blocks of 2 × 2 patches, two pictures a patch."""
    model = build("qwen2_vl")
    config, token = model.config.vision_config, model.config.video_token_id
    t, h, w, m, p = 2, 4, 6, 2, config.patch_size
    frames = [scene(h * p, w * p), scene(h * p, w * p)[::-1].copy()]
    pixels = torch.stack([as_pixels(one) for one in frames]).repeat_interleave(
        2, 0
    )  # (2t, C, H, W)
    blocks = pixels.reshape(t, 2, 3, h // m, m, p, w // m, m, p)
    flat = blocks.permute(0, 3, 6, 4, 7, 2, 1, 5, 8).reshape(t * h * w, -1)
    ids = torch.tensor([[token] * (t * h * w // 4) + [5, 6, 7]])
    inputs = {
        "input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values_videos": flat,
        "video_grid_thw": torch.tensor([[t, h, w]]), "mm_token_type_ids": (ids == token).int() * 2,
    }  # fmt: skip
    (prompt,) = recorded(model, inputs, tokenizer=Processor())
    assert all(np.array_equal(a, b) for a, b in zip(kept(prompt), frames, strict=True))
    text = prompt.axes("model.language_model.layers.*.self_attn.L0")[0]
    assert text == Axis((Grid(2, 3, t), Tokens(3)))


def test_pixels_of_one_colour_are_grey_and_patches_that_are_no_grid_no_picture():
    (grey,) = seen_pictures(torch.linspace(-3, 5, 12).reshape(1, 1, 3, 4), None)
    assert grey.shape == (3, 4, 3) and (grey.min(), grey.max()) == (0, 255)
    assert unpatched(torch.zeros(3, 3 * 2 * 8 * 8), [(1, 2, 2)], 2, HALF) == []


def test_many_pictures_become_smaller():
    dice = np.random.default_rng(0)
    noise = [dice.integers(0, 256, (1024, 1024, 3), dtype=np.uint8) for _ in range(8)]
    made = encoded(noise)
    assert sum(len(data) for _, data in made) <= 4 << 20
    assert all(128 < picture.width < 1024 for picture, _ in made)


# ── files ────────────────────────────────────────────────────────────────────────────────────


def bomb(wide, high):
    """A PNG that claims a size, of a few bytes."""

    def chunk(kind, data):
        sum_ = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", sum_)

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0))
    data = chunk(b"IDAT", zlib.compress(b"\0" * 64))
    return b"\x89PNG\r\n\x1a\n" + head + data + chunk(b"IEND", b"")


def image_file(kind, frames, **options):
    """An encoded picture, or an animation."""
    made, (first, *rest) = io.BytesIO(), [Image.fromarray(one) for one in frames]
    first.save(made, kind, append_images=rest, **options)
    return made.getvalue()


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        (b"no picture", FileError, "not a picture"),
        (b"", FileError, "not a picture"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", FileError, "not a picture"),
        (bomb(30_000, 30_000), FileError, "pixels"),
        (bomb(60_000, 60_000), FileError, "pixels"),
        (bomb(64, 64), FileError, "cannot be read"),
        (None, FileError, "No such file"),
        (image_file("GIF", [scene(), scene()[::-1].copy()], save_all=True), InputError,
         "2 frames; give a still picture"),
        (image_file("TIFF", [np.ones((4, 5), np.float32)]), InputError, "numbers of 32 bits"),
        (image_file("TIFF", [np.ones((4, 5), np.int32)]), InputError, "numbers of 32 bits"),
    ],
)  # fmt: skip
def test_what_is_no_picture_is_one_line(tmp_path, data, error, said):
    path = tmp_path / "a.png"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(error, match=rf"a\.png: .*{said}") as caught:
        regard.record(torch.nn.Linear(1, 1), images=[path])
    assert "\n" not in str(caught.value)


def test_folders_and_arrays_of_another_kind_are_refused(tmp_path):
    with pytest.raises(FileError):
        regard.record(torch.nn.Linear(1, 1), images=tmp_path)
    with pytest.raises(InputError, match="give Pillow images"):
        regard.record(torch.nn.Linear(1, 1), images=[np.zeros((4, 4))])


def test_a_picture_is_read_upright_and_with_its_shades(tmp_path):
    path, picture = tmp_path / "a.png", scene(20, 30)
    Image.fromarray(picture).save(path)
    assert np.array_equal(read_picture(path), picture)
    exif = Image.Exif()
    exif[0x0112] = 6  # held on its side
    Image.fromarray(picture).save(tmp_path / "b.jpg", exif=exif, quality=100)
    assert read_picture(tmp_path / "b.jpg").shape == (30, 20, 3)
    grey = np.linspace(0, 65535, 40 * 30).reshape(40, 30).astype(np.uint16)
    Image.fromarray(grey).save(path)  # of 16 bits, which Pillow alone cuts off at 255
    shades = read_picture(path)
    assert shades.shape == (40, 30, 3) and (shades[..., 0] == grey // 257).all()
