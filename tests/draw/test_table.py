"""Columns line up, whatever the letters' width; bars follow the weights."""

from __future__ import annotations

from regard.draw import Column, Paper, aligned, plain, weight_table
from regard.draw.spelling import cells

COLUMNS = [Column("key", ["3", "12"], is_number=True), Column("token", ["猫", "the"])]


def test_columns_line_up():
    assert plain(aligned(COLUMNS, Paper())) == ["key  token", "  3  猫", " 12  the"]


def test_no_rows_are_a_heading_alone():
    assert plain(aligned([Column("key", [])], Paper())) == ["key"]


def test_bars_start_in_one_column():
    head, first, second = plain(weight_table(COLUMNS, [0.5, 0.25], Paper(is_ascii=True)))
    assert head == "key  token"
    assert first.endswith("#" * 20) and second.endswith("#" * 10)
    assert cells(first) - 20 == cells(second) - 10


def test_without_weight_there_are_no_bars():
    assert plain(weight_table(COLUMNS, [0.0, 0.0], Paper())) == plain(aligned(COLUMNS, Paper()))
