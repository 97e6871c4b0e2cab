"""Films: frames are taken evenly, shown to a model and kept; refused where they cannot be."""

from __future__ import annotations

import io
import struct
import sys
import types

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import regard
from regard.axes import Axis, Grid, Tokens
from regard.errors import FileError, InputError, MissingExtraError
from regard.models import Loaded
from regard.recorder import film as films
from regard.recorder.film import check_watches, evenly, film_sightings, read_film
from regard.recorder.pictures import Tone
from regard.recorder.sight import Sighting, drive_sighting
from support.families.build import build

SIZE = {"height": 64, "width": 64}
FORMATS = {"a.gif": {}, "a.webp": {"lossless": True}, "a.png": {}}


def frames(count, side=64):
    """Each has another brightness, brighter with time."""
    return [np.full((side, side, 3), 10 + 200 * n // count, np.uint8) for n in range(count)]


def write(path, pictures, duration=100, **options):
    first, *rest = [Image.fromarray(one) for one in pictures]
    first.save(path, save_all=True, append_images=rest, duration=duration, loop=0, **options)
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_frames_are_taken_evenly_with_their_times(tmp_path, name):
    path = write(tmp_path / name, frames(24), duration=[50, 150] * 12, **FORMATS[name])
    found = read_film(path, 6)
    assert [int(one.mean().round()) for one in found.frames] == [
        int(frames(24)[n].mean()) for n in (0, 4, 8, 12, 16, 20)
    ]
    assert found.seconds == pytest.approx([0, 0.4, 0.8, 1.2, 1.6, 2.0])


def test_a_short_film_shows_its_frames_several_times(tmp_path):
    found = read_film(write(tmp_path / "a.gif", frames(3)), 6)
    assert evenly(3, 6) == [0, 0, 1, 1, 2, 2]
    assert found.seconds == pytest.approx([0, 0, 0.1, 0.1, 0.2, 0.2])


def models():
    """Tiny models of film with the processors they are used with."""
    return {
        "vivit": transformers.VivitImageProcessor(size=SIZE, crop_size=SIZE, do_resize=False),
        "videomae": transformers.VideoMAEImageProcessorPil(size=SIZE, crop_size=SIZE),
    }


@pytest.mark.parametrize("family", ["vivit", "videomae"])
def test_a_film_is_recorded_with_its_frames(tmp_path, family):
    model, processor = build(family), models()[family]
    loaded = Loaded(model, None, processor, family, "")
    check_watches(loaded, family)
    path = write(tmp_path / "a.gif", frames(64), duration=40)
    (seen,) = film_sightings(loaded, [path], [])
    count, tubes = model.config.num_frames, model.config.num_frames // 2
    assert seen.title == "a.gif" and seen.inputs["pixel_values"].shape[:2] == (1, count)
    recorder = regard.record(model, tokenizer=processor)
    with recorder:
        drive_sighting(recorder, seen, 0)
    prompt = recorder.recording.prompts[0]
    ((_, grid),) = prompt.axes("L0")[1].grids()
    assert (grid.frames, grid.height, grid.width) == (tubes, 4, 4)
    assert len(prompt.pictures) == tubes
    every = 64 // tubes
    assert [p.seconds for p in prompt.pictures] == pytest.approx(
        [0.04 * every * n for n in range(tubes)]
    )
    for n in (0, tubes - 1):
        kept = np.asarray(Image.open(io.BytesIO(prompt.picture(n))).convert("RGB"))
        assert abs(float(kept.mean()) - float(frames(64)[every * n].mean())) < 2
    with pytest.raises(InputError, match="reads films alone"):
        film_sightings(loaded, [path], ["words"])


def test_the_tone_of_vivit_reaches_from_minus_one_to_one():
    processor = models()["vivit"]
    picture = frames(2)[1]
    pixels = processor(images=[picture] * 2, return_tensors="pt")["pixel_values"][0, 0]
    tone = Tone.of(processor)
    colours = pixels[0, 0, 0].item() * tone.std[0] + tone.mean[0]
    assert colours * 255 == pytest.approx(picture[0, 0, 0], abs=0.01)


def test_pictures_of_prompts_are_not_mixed_up():
    model = build("vit")
    pictures = [np.full((640, 640, 3), shade, np.uint8) for shade in (0, 200)]
    recorder = regard.record(model)
    with recorder:
        for number, one in enumerate(pictures):
            pixels = torch.full((1, 3, 64, 64), number * 200 / 255)
            drive_sighting(recorder, Sighting({"pixel_values": pixels}, "", [one]), 0)
    for prompt, one in zip(recorder.recording.prompts, pictures, strict=True):
        kept = np.asarray(Image.open(io.BytesIO(prompt.picture())).convert("RGB"))
        assert kept.shape == (640, 640, 3) and abs(int(kept[5, 5, 0]) - int(one[0, 0, 0])) < 2


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


def test_what_is_no_film_is_one_sentence(tmp_path, monkeypatch):
    with pytest.raises(FileError, match=r"none\.gif: cannot be read \(No such file"):
        read_film(tmp_path / "none.gif", 4)
    Image.fromarray(frames(1)[0]).save(tmp_path / "still.png")
    with pytest.raises(InputError, match=r"still\.png: holds one picture; give it with --image"):
        read_film(tmp_path / "still.png", 4)
    (tmp_path / "text.mp4").write_text("hello")
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingExtraError, match=r"regard\[video\]"):
        read_film(tmp_path / "text.mp4", 4)
    path = write(tmp_path / "a.gif", frames(9))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises((FileError, InputError), match=r"a\.gif: "):
        read_film(path, 9)


def test_huge_films_are_refused_before_they_are_decoded(tmp_path, monkeypatch):
    path = write(tmp_path / "a.gif", frames(9))
    data = bytearray(path.read_bytes())
    data[6:10] = struct.pack("<HH", 60_000, 60_000)
    (tmp_path / "large.gif").write_bytes(data)
    with pytest.raises(FileError, match=r"large\.gif: .*(too large|too many pixels)"):
        read_film(tmp_path / "large.gif", 4)
    monkeypatch.setattr(films, "_MOST_FRAMES", 8)
    with pytest.raises(FileError, match="9 frames; at most 8 are read"):
        read_film(path, 4)


class _Frame:
    def __init__(self, number):
        self.time = number / 25
        self._pixels = frames(30)[number]

    def to_ndarray(self, format):
        assert format == "rgb24"
        return self._pixels


class _Container:
    """What is used of PyAV's, with 30 packets of which 28 become frames."""

    def __init__(self, has_video=True):
        stream = types.SimpleNamespace(width=64, height=64)
        self.streams = types.SimpleNamespace(video=[stream] if has_video else [])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def demux(self, stream):
        return iter([types.SimpleNamespace(size=n) for n in [9] * 30 + [0]])

    def decode(self, video):
        return iter([_Frame(n) for n in range(28)])


def test_other_films_go_through_pyav_which_may_open_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "a.mp4").write_bytes(b"\0\0\0\x18ftypmp42")
    asked = []

    def opened(file, mode, options):
        asked.append(options)
        return _Container()

    module = types.SimpleNamespace(open=opened, FFmpegError=type("FFmpegError", (Exception,), {}))
    monkeypatch.setitem(sys.modules, "av", module)
    found = read_film(tmp_path / "a.mp4", 5)
    assert found.seconds == pytest.approx([0, 6 / 25, 12 / 25, 18 / 25, 24 / 25])
    assert len(read_film(tmp_path / "a.mp4", 30).frames) == 30  # the last ones stand still
    assert all("hls" not in one["format_whitelist"] for one in asked)
    module.open = lambda file, mode, options: _Container(has_video=False)
    with pytest.raises(InputError, match=r"a\.mp4: holds no frames"):
        read_film(tmp_path / "a.mp4", 5)

    def fails(file, mode, options):
        raise module.FFmpegError("bad")

    module.open = fails
    with pytest.raises(FileError, match=r"a\.mp4: not a film that can be read"):
        read_film(tmp_path / "a.mp4", 5)


def test_an_mp4_is_read_by_pyav_itself(tmp_path):
    """A bar that grows by two columns a frame, ten frames a second."""
    import av

    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for n in range(30):
            frame = np.zeros((48, 64, 3), np.uint8)
            frame[:, : 2 * n + 2] = 200
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    found = read_film(tmp_path / "a.mp4", 5)
    assert found.seconds == pytest.approx([0, 0.6, 1.2, 1.8, 2.4])
    assert [round((one[..., 0] > 100).sum() / 48) for one in found.frames] == [2, 14, 26, 38, 50]
    cut = (tmp_path / "a.mp4").read_bytes()[:700]
    (tmp_path / "b.mp4").write_bytes(cut)
    with pytest.raises(FileError, match=r"b\.mp4") as caught:
        read_film(tmp_path / "b.mp4", 5)
    assert "\n" not in str(caught.value)


def test_models_of_still_pictures_are_refused():
    loaded = Loaded(build("vit"), None, models()["videomae"], "vit", "")
    with pytest.raises(InputError, match="--video: vit does not read films"):
        check_watches(loaded, "vit")
