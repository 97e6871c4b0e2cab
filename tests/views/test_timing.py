"""A recorded sound as it is answered about."""

from __future__ import annotations

import torch

import regard
from regard.axes import Axis, Frames, Tokens
from regard.recording import Memory, Recording
from regard.study import WordTime, word_times
from regard.views.timing import heard_answer, sound_answer
from support.recordings.sighted import sighted, write_heard


def test_a_sound_and_its_words() -> None:
    layer = regard.nn.MultiHeadAttention(16, 2)
    with regard.record(layer) as rec:
        layer(torch.randn(1, 5, 16))
        rec.say(0, facts={"sound": {"start": 30, "seconds": 1.5}})
    words = [WordTime("Hello", 30.0, 30.5)]
    assert sound_answer(rec.prompts[0], words) == {
        "start": 30.0,
        "seconds": 1.5,
        "words": [{"word": "Hello", "start": 30.0, "end": 30.5}],
    }
    rec.prompts[0].note.facts["sound"] = "no object"
    assert sound_answer(rec.prompts[0], []) == {"start": 0.0, "seconds": None, "words": []}


def test_words_stand_at_their_tokens_and_the_spectrogram_is_found() -> None:
    store = Memory()
    write_heard(store, ["Hel", "lo", " big", " wor", "ld"], Frames(40, 0.05, 30.0), 1.5)
    store.close()
    rec = Recording(store)
    told = heard_answer(rec.prompts[0])
    assert (told["picture"], told["start"], told["seconds"]) == (0, 30.0, 1.5)
    assert [(one["position"], one["word"]) for one in told["words"]] == [
        (0, "Hello"), (2, "big"), (3, "world")
    ]  # fmt: skip
    times = [(one["word"], one["start"], one["end"]) for one in told["words"]]
    assert times == [tuple(one) for one in word_times(rec)]


def test_what_is_no_sound_has_no_words() -> None:
    rec, _ = sighted(Axis((Tokens(9),)))
    nothing = {"picture": -1, "start": 0.0, "seconds": None, "words": []}
    assert heard_answer(rec.prompts[0]) == nothing
    rec.prompts[0].note.facts["sound"] = {"seconds": 2.0}  # no cross-attention
    assert heard_answer(rec.prompts[0])["words"] == []
