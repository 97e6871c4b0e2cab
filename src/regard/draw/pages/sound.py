"""The words of a recorded sound, on a terminal."""

from __future__ import annotations

from regard.draw.finish import finished, wrapped
from regard.draw.paper import Paper, StyledLine
from regard.draw.table import Column, aligned
from regard.study import WordTime


def word_lines(title: str, words: list[WordTime], paper: Paper) -> list[StyledLine]:
    """Each word with its start and its end."""
    if not words:
        return wrapped(f"{title}: no words" if title else "no words", paper, "bold")
    columns = [
        Column("start", [f"{one.start:.2f} s" for one in words], True),
        Column("end", [f"{one.end:.2f} s" for one in words], True),
        Column("word", [one.word for one in words]),
    ]
    lines = wrapped(title, paper, "bold") if title else []
    return finished([*lines, *aligned(columns, paper)], paper)
