"""A model of speech, asked by a sound file."""

from __future__ import annotations

import numpy as np
import pytest

from play.tiny import make_session
from real_models import whisper
from recorder.test_sound import as_wav, tone
from regard.errors import InputError
from regard.play.requests import ReadRequest
from regard.play.session import ForgottenError, Session


def test_a_sound_is_heard_and_its_words_read_it():
    session = Session(whisper())
    assert (session.kind, session.about()["start"]) == ("sound", "cross.L1H0")
    with pytest.raises(ForgottenError, match="choose the file again"):
        session.state_of(ReadRequest(sound="nothing"))
    name = session.add_sound(as_wav(tone(2.0)))
    reading = session.read(session.state_of(ReadRequest(sound=name)))
    assert list(reading.stacks) == ["cross", "decoder"] and reading.frames == 100
    rows, keys = reading.size("cross")
    assert (rows, keys) == (len(reading.texts), 1500)
    np.testing.assert_allclose(reading.weights("cross", range(2)).sum(-1), 1, atol=1e-4)
    less = session.read(session.state_of(ReadRequest(sound=name, heads=("cross.L1H0",))))
    assert less.key != reading.key
    with pytest.raises(InputError, match="reads text"):
        make_session().add_sound(b"")
