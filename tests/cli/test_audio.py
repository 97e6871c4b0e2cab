"""`regard record MODEL --audio FILE`."""

from __future__ import annotations

import pytest

import regard
from recorder.test_sound import as_wav, tone


@pytest.fixture
def record(shell, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tone.wav").write_bytes(as_wav(tone(1.0)))
    return lambda *words: shell("record", *words)


def test_a_sound_becomes_a_recording(record, tmp_path):
    status, out, err = record("whisper-tiny.en", "--audio", "tone.wav", "-o", "x.regard")
    assert status == 0
    assert "1.0 s of sound" in err and "tone.wav: " in err
    assert "regard show x.regard cross.L0H0" in out
    with regard.open(tmp_path / "x.regard") as recording:
        assert set(recording.stacks) == {"cross", "decoder", "encoder"}
        assert recording.prompts[0].title == "tone.wav"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("whisper-tiny.en", "--audio", "none.wav"), "none.wav: cannot be read"),
        (("whisper-tiny.en", "--audio", "tone.wav", "--text", "a"), "leave out --text"),
        (("whisper-tiny.en", "--audio", "tone.wav", "--plan"), "leave out --plan"),
        (("minilm", "--audio", "tone.wav"), "minilm reads input ids, no sound"),
    ],
)
def test_what_is_wrong_is_one_line(record, tmp_path, words, said):
    status, _, err = record(*words)
    assert status in (2, 3)
    assert said in err.splitlines()[-1]
    assert not (tmp_path / "run.regard").exists()
