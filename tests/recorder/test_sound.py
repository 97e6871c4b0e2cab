"""Sound files are read as they sound, cut into clips, and recorded exactly."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

import regard
from real_models import minilm, whisper
from regard.axes import Axis, Frames
from regard.errors import FileError, InputError
from regard.recorder.plan import Choice
from regard.recorder.sound import (
    check_reads_sound,
    clips,
    drive_clip,
    plans_for,
    read_sound,
    spectrogram,
    spectrum,
)

RATE = 16_000


def _tone(seconds: float, rate: int, pitch: float = 440.0) -> Any:
    t = np.arange(int(seconds * rate)) / rate
    return (0.4 * np.sin(2 * np.pi * pitch * t)).astype(np.float32)


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 22_050, 44_100, 48_000])
def test_a_tone_is_the_same_tone_at_any_rate(tmp_path: Path, rate: int) -> None:
    soundfile.write(tmp_path / "a.wav", _tone(1.0, rate), rate, subtype="FLOAT")
    found = read_sound(tmp_path / "a.wav", RATE)
    assert found.dtype == np.float32 and len(found) == RATE
    middle = slice(RATE // 10, -RATE // 10)
    np.testing.assert_allclose(found[middle], _tone(1.0, RATE)[middle], atol=4e-3)


@pytest.mark.parametrize("kind", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
def test_channels_become_one_whatever_the_samples_are(tmp_path: Path, kind: str) -> None:
    both = np.stack([_tone(0.2, RATE), np.zeros(3200, np.float32)], 1)
    soundfile.write(tmp_path / "a.wav", both, RATE, subtype=kind)
    np.testing.assert_allclose(read_sound(tmp_path / "a.wav", RATE), both[:, 0] / 2, atol=1e-2)


@pytest.mark.parametrize("name", ["a.flac", "a.ogg", "a.mp3"])
def test_other_formats_are_read(tmp_path: Path, name: str) -> None:
    soundfile.write(tmp_path / name, _tone(0.5, RATE), RATE)
    found = read_sound(tmp_path / name, RATE)
    assert abs(np.abs(np.fft.rfft(found[:8000])).argmax() * 2 - 440) <= 4


def test_what_is_no_sound_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"none\.wav: cannot be read \(No such file"):
        read_sound(tmp_path / "none.wav", RATE)
    (tmp_path / "text.wav").write_text("hello")
    with pytest.raises(FileError, match=r"text\.wav: not a sound file that can be read"):
        read_sound(tmp_path / "text.wav", RATE)
    with wave.open(str(tmp_path / "empty.wav"), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
    with pytest.raises(InputError, match="holds no sound"):
        read_sound(tmp_path / "empty.wav", RATE)
    soundfile.write(tmp_path / "nan.wav", np.full(99, np.nan, np.float32), RATE, subtype="FLOAT")
    with pytest.raises(InputError, match="samples that are no numbers"):
        read_sound(tmp_path / "nan.wav", RATE)


def test_models_of_text_are_refused() -> None:
    with pytest.raises(InputError, match="minilm reads input ids, not sound"):
        check_reads_sound(minilm(), "minilm")


def test_clips_of_whisper_are_prompts_and_their_weights_those_of_eager(tmp_path: Path) -> None:
    loaded = whisper()
    check_reads_sound(loaded, "whisper-tiny.en")
    soundfile.write(tmp_path / "long.wav", _tone(31.5, 8_000), 8_000)
    parts = clips(loaded, tmp_path / "long.wav")
    assert [clip.title for clip in parts] == ["long.wav, 0:00–0:30", "long.wav, 0:30–0:31.5"]
    plans = plans_for(loaded.model, parts, Choice(), 400_000_000, 4)
    assert all(plan.budget == 200_000_000 for plan in plans)
    recorder = regard.record(loaded.model, tokenizer=loaded.tokenizer, budget="400MB")
    with recorder:
        for clip, plan in zip(parts, plans, strict=True):
            drive_clip(recorder, clip, 4, plan)
    first, second = recorder.recording.prompts
    assert first.axes("encoder.L0")[0] == Axis((Frames(1500, 0.02),))
    assert second.axes("cross.L0")[1] == Axis((Frames(1500, 0.02, start=30.0),))
    assert [p.note.facts["sound"]["seconds"] for p in (first, second)] == [30.0, 1.5]
    assert [p.pictures[0].width for p in (first, second)] == [1024, 150]
    assert [first.title, second.title] == [clip.title for clip in parts]
    ids = torch.tensor([first.ids.tolist()])
    loaded.model.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            right = loaded.model(
                **parts[0].inputs, decoder_input_ids=ids, output_attentions=True
            ).cross_attentions
    finally:
        loaded.model.set_attn_implementation("sdpa")
    head = first["cross.L2H3"]
    np.testing.assert_allclose(head[:, :], right[2][0, 3, : len(head[:, 0])].numpy(), atol=2e-5)


def test_a_spectrogram_has_low_tones_below_and_the_sound_alone() -> None:
    bands = np.zeros((8, 4000), np.float32)
    bands[1, :1000] = 3.0  # the second lowest band
    bands[:, 2000:] = 9.0  # behind the sound's end
    drawn = spectrogram(bands, 0.5)
    assert drawn.shape == (8, 1024)
    assert drawn[6, :500].min() == 255 and drawn[6, 520:].max() == 0
    assert drawn[:6].max() == drawn[7].max() == 0
    np.testing.assert_array_equal(spectrogram(bands[:, :100], 1.0)[6], np.full(100, 255))


def test_the_spectrum_of_samples_is_loudest_at_their_tone() -> None:
    found = spectrum(_tone(0.5, RATE, pitch=2000.0))
    assert found.shape[0] == 201 and set(found.argmax(0).tolist()) == {50}  # of 40 Hz each
    assert found.max() - found.min() <= 8.0
    assert spectrum(np.zeros(10, np.float32)).shape == (201, 1)
