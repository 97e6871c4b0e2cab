"""Words with times, on a terminal."""

from __future__ import annotations

from regard.draw.pages import word_lines
from regard.draw.paper import Paper
from regard.study import WordTime


def text(lines):
    return ["".join(part for part, _ in line).rstrip() for line in lines]


def test_words_stand_under_each_other() -> None:
    words = [WordTime("Hello", 0.0, 0.5), WordTime("world.", 10.5, 11.25)]
    assert text(word_lines("a.wav", words, Paper(40))) == [
        "a.wav",
        "  start      end  word",
        " 0.00 s   0.50 s  Hello",
        "10.50 s  11.25 s  world.",
    ]
    assert text(word_lines("a.wav", [], Paper(40))) == ["a.wav: no words"]
