"""The last touch: safe and no wider than the paper."""

from __future__ import annotations

from regard.draw import Paper, finished, plain, wrapped

NARROW = Paper(20)


def test_lines_end_at_the_edge():
    line = [("a" * 12, "bold"), ("b" * 12, ""), ("c", "")]
    assert plain(finished([line], NARROW)) == ["a" * 12 + "b" * 7 + "…"]
    assert finished([[("a" * 20, "")]], NARROW) == [[("a" * 20, "")]]


def test_a_cut_between_pieces_is_marked():
    line = [("a" * 20, "bold"), ("b", "")]
    assert plain(finished([line], NARROW)) == ["a" * 19 + "…"]


def test_sentences_go_on_below():
    lines = wrapped("one two three four five six seven", NARROW, "dim", indent=2)
    assert plain(lines) == ["one two three four", "  five six seven"]
    assert {style for line in lines for _, style in line} == {"dim"}
