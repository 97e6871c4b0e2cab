"""A sound that a model of speech writes words for, made of sines: vowels one behind the other."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# (frequency, width, loudness) of the formants of each vowel
FORMANTS: Final = {
    "a": ((730, 90, 1.0), (1090, 110, 0.6), (2440, 160, 0.3)),
    "i": ((270, 60, 1.0), (2290, 120, 0.5), (3010, 170, 0.3)),
    "o": ((570, 80, 1.0), (840, 90, 0.7)),
    "u": ((300, 60, 1.0), (870, 90, 0.5), (2240, 150, 0.1)),
}


def vowels(spoken: str, gap: float = 0.3, rate: int = 16_000) -> NDArray[np.float32]:
    """(samples,) in −0.3 … 0.3: half a second of silence, then 0.35 s for each vowel of `spoken`,
    each a little lower than the one before, with `gap` seconds behind it."""
    parts: list[NDArray[Any]] = [np.zeros(rate // 2)]
    for number, vowel in enumerate(spoken):
        parts += [_vowel(vowel, 120.0 - 3 * number, rate), np.zeros(int(gap * rate))]
    sound = np.concatenate(parts)
    return (0.3 * sound / np.abs(sound).max()).astype(np.float32)


def _vowel(vowel: str, pitch: float, rate: int, seconds: float = 0.35) -> NDArray[Any]:
    """Overtones of a pitch, as loud as the formants near them, that swell and fade."""
    t = np.arange(int(seconds * rate)) / rate
    sound = np.zeros_like(t)
    for overtone in range(1, int(4000 / pitch)):
        tone = overtone * pitch
        loud = sum(g * np.exp(-(((tone - c) / w) ** 2)) for c, w, g in FORMANTS[vowel])
        sound += loud * np.sin(2 * np.pi * tone * t + overtone**2)
    return sound * np.minimum(1, np.minimum(t / 0.03, (seconds - t) / 0.05))
