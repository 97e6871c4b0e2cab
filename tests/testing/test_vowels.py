"""The sound for models of speech."""

from __future__ import annotations

import numpy as np

from support.vowels import vowels


def test_vowels_follow_each_other_with_silence_between() -> None:
    sound = vowels("ai", gap=0.2, rate=8_000)
    assert sound.dtype == np.float32 and len(sound) == 8_000 * (0.5 + 2 * 0.55)
    assert abs(np.abs(sound).max() - 0.3) < 1e-6
    loud = np.abs(sound).reshape(-1, 400).max(1) > 0.01  # of 50 milliseconds each
    assert loud.tolist() == [False] * 10 + ([True] * 7 + [False] * 4) * 2
