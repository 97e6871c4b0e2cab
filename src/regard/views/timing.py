"""The words of a recorded sound, and when each was said."""

from __future__ import annotations

from typing import TypedDict

from regard.errors import InputError, UnavailableError
from regard.recording import PromptView
from regard.recording.pictures import SPECTROGRAM
from regard.study.timing import WordTime, placed_words, word_times
from regard.views.schema import Known
from regard.views.schema_sight import HeardAnswer


class WordTimeAnswer(TypedDict):
    """A word of a recorded sound, in seconds of its file."""

    word: str
    start: float
    end: float


class SoundAnswer(TypedDict):
    """A recorded sound; `seconds` without the silence that the model was given behind it."""

    start: float
    seconds: Known
    words: list[WordTimeAnswer]


def sound_answer(prompt: PromptView, words: list[WordTime] | None = None) -> SoundAnswer:
    """Where the sound begins in its file and how long it is, with its words."""
    sound = prompt.note.facts.get("sound")
    facts = sound if isinstance(sound, dict) else {}
    start, seconds = facts.get("start", 0.0), facts.get("seconds")
    found = word_times(prompt) if words is None else words
    return {
        "start": float(start) if isinstance(start, int | float) else 0.0,
        "seconds": float(seconds) if isinstance(seconds, int | float) else None,
        "words": [{"word": one.word, "start": one.start, "end": one.end} for one in found],
    }


def heard_answer(prompt: PromptView) -> HeardAnswer:
    """A sound as it is drawn: its spectrogram, and its words at their tokens. Of a prompt that is
    no sound, or whose words cannot be timed, there are none."""
    told = sound_answer(prompt, [])
    titles = [one.title for one in prompt.pictures]
    try:
        words = placed_words(prompt) if told["seconds"] is not None else []
    except (InputError, UnavailableError):
        words = []
    return {
        "picture": titles.index(SPECTROGRAM) if SPECTROGRAM in titles else -1,
        "start": told["start"], "seconds": told["seconds"],
        "words": [
            {"position": at, "word": one.word, "start": one.start, "end": one.end}
            for at, one in words
        ],
    }  # fmt: skip
