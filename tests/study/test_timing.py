"""Words of a sound are timed by the heads that follow it, as transformers times them."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from PIL import Image
from transformers.models.whisper import generation_whisper

import regard
from real_models import whisper
from regard.axes import Axis, Frames
from regard.errors import InputError
from regard.recorder.sound import Clip, clips, drive_clip
from regard.recording.pictures import SPECTROGRAM
from regard.study import word_times
from regard.study.timing import _begins_word, jumps, smoothed, standardised, token_times
from support.vowels import vowels

RATE = 16_000


@cache
def recorded() -> tuple[regard.recording.Recording, tuple[Clip, ...]]:
    """Two sounds in one recording, the second as if it were the later clip of a file."""
    import tempfile

    loaded = whisper()
    with tempfile.TemporaryDirectory() as folder:
        made = []
        for name, spoken in (("beep.wav", "ii"), ("ah.wav", "aiuo")):
            soundfile.write(Path(folder) / name, vowels(spoken), RATE)
            made += clips(loaded, Path(folder) / name)
    recorder = regard.record(loaded.model, tokenizer=loaded.processor)
    with recorder:
        for clip in made:
            drive_clip(recorder, clip, 16)
    return recorder.recording, tuple(made)


def theirs(clip: Clip) -> tuple[list[int], list[float]]:
    """Ids and token timestamps of transformers' own generation."""
    model = whisper().model
    model.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            found = model.generate(
                **clip.inputs, return_token_timestamps=True, num_beams=1, do_sample=False,
                max_new_tokens=16, max_length=None,
            )  # fmt: skip
    finally:
        model.set_attn_implementation("sdpa")
    return found["sequences"][0].tolist(), found["token_timestamps"][0].tolist()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [0, 1])
def test_tokens_begin_when_transformers_says(number: int) -> None:
    recording, made = recorded()
    prompt = recording.prompt(number)
    ids, right = theirs(made[number])
    starts, end = token_times(prompt)
    own = prompt.ids.tolist()[-len(starts) :]
    assert len(own) > 2 and ids[: len(own)] == own
    np.testing.assert_allclose(starts, right[: len(own)], atol=0.021)  # a frame
    assert end == pytest.approx(made[number].seconds, abs=0.02)


def test_words_are_whole_and_follow_each_other() -> None:
    recording, _ = recorded()
    words = word_times(recording, 0)
    assert " ".join(one.word for one in words) == "Beep Beep Beep"
    assert [one.end for one in words[:-1]] == [one.start for one in words[1:]]
    assert len(word_times(recording)) > len(words)  # of both sounds
    assert word_times(recording.prompt(0)) == words
    assert word_times(recording, 0, heads=[(3, 0), (3, 1)])[0].word == "Beep"


def test_without_named_heads_those_of_the_later_layers_are_taken() -> None:
    recording, _ = recorded()
    prompt = regard.recording.Recording.prompt(recording, 0)
    facts = dict(prompt.note.facts)
    prompt.note.facts.clear()
    try:
        words = word_times(prompt, heads=None)
    finally:
        prompt.note.facts.update(facts)
    assert [one.word for one in words] == ["Beep", "Beep", "Beep"]
    assert words[-1].end == pytest.approx(30.0)  # nobody said where the sound ends


def test_a_recording_knows_its_seconds_and_its_spectrogram() -> None:
    recording, made = recorded()
    for prompt, clip in zip(recording.prompts, made, strict=True):
        assert prompt.axes("encoder.L0")[0] == Axis((Frames(1500, 0.02),))
        assert prompt.axes("cross.L1")[1] == Axis((Frames(1500, 0.02),))
        assert prompt.note.facts["sound"]["seconds"] == clip.seconds
        (picture,) = prompt.pictures
        assert (picture.title, picture.type, picture.height) == (SPECTROGRAM, "image/png", 80)
        assert picture.width == round(clip.seconds * 100)  # ten milliseconds a column
        drawn = np.asarray(Image.open(io.BytesIO(prompt.picture(0))).convert("L"))
        np.testing.assert_array_equal(drawn, clip.spectrogram)
        assert drawn[:, :40].mean() < drawn[:, 50:80].mean() / 2  # half a second of silence


def test_a_recording_of_text_has_no_words_to_time() -> None:
    layer = regard.nn.MultiHeadAttention(16, 2)
    with regard.record(layer) as rec:
        layer(torch.randn(1, 5, 16))
    with pytest.raises(InputError, match="prompt 0 has no cross-attention to time its words by"):
        word_times(rec.recording)


def test_the_path_is_that_of_transformers() -> None:
    rng = np.random.default_rng(0)
    for tokens, frames in ((1, 1), (1, 9), (7, 1), (5, 30), (40, 200), (30, 10)):
        gain = rng.normal(size=(tokens, frames))
        text, time = generation_whisper._dynamic_time_warping(-gain)
        first = np.pad(np.diff(text), (1, 0), constant_values=1).astype(bool)
        assert jumps(gain).tolist() == time[first].tolist()
    right = generation_whisper._median_filter(torch.tensor(gain)[None, None], 7)[0, 0].numpy()
    np.testing.assert_array_equal(smoothed(gain, 7), right)
    np.testing.assert_array_equal(smoothed(gain[:, :3], 7), gain[:, :3])


def test_a_frame_that_no_token_tells_apart_says_nothing() -> None:
    weights = np.array([[0.5, 0.2], [0.5, 0.8]])
    np.testing.assert_allclose(standardised(weights), [[0, -1], [0, 1]])


def test_words_of_scripts_without_spaces() -> None:
    assert [_begins_word(text) for text in (" a", "a", "ing", "猫", "の", ",")] == [
        True, False, False, True, True, False,
    ]  # fmt: skip
