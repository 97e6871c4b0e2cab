"""A model of speech, asked by a sound file."""

from __future__ import annotations

import io
import wave

import numpy as np
import pytest

from play.tiny import make_session
from real_models import whisper
from regard.errors import InputError
from regard.play.requests import ReadRequest
from regard.play.session import ForgottenError, Session


def _wav(seconds: float) -> bytes:
    """A tone."""
    samples = 0.5 * np.sin(2 * np.pi * 440 * np.arange(int(seconds * 16_000)) / 16_000)
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes((samples * 32_767).astype("<i2").tobytes())
    return made.getvalue()


def test_a_sound_is_heard_and_its_words_read_it():
    session = Session(whisper())
    assert (session.kind, session.about()["start"]) == ("sound", "cross.L1H0")
    with pytest.raises(ForgottenError, match="choose the file again"):
        session.state_of(ReadRequest(sound="nothing"))
    name = session.add_sound(_wav(2.0))
    reading = session.read(session.state_of(ReadRequest(sound=name)))
    assert list(reading.stacks) == ["cross", "decoder"] and reading.frames == 100
    rows, keys = reading.size("cross")
    assert (rows, keys) == (len(reading.texts), 1500)
    np.testing.assert_allclose(reading.weights("cross", range(2)).sum(-1), 1, atol=1e-4)
    less = session.read(session.state_of(ReadRequest(sound=name, heads=("cross.L1H0",))))
    assert less.key != reading.key
    with pytest.raises(InputError, match="reads text"):
        make_session().add_sound(b"")
    with pytest.raises(InputError, match=r"^the file: not a sound file"):
        session.add_sound(b"no sound at all")
    with pytest.raises(InputError, match=r"31\.0 s of sound; give at most 30 s"):
        session.add_sound(_wav(31.0))
