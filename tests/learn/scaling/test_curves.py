"""The plot puts points where they belong, in braille and in ASCII."""

from __future__ import annotations

from itertools import pairwise

from regard.learn.scaling.curves import Curve, plot


def text(lines):
    return ["".join(piece for piece, _ in line) for line in lines]


def curve(*points, name="a", mark="*"):
    return Curve(name, mark, "", points)


def test_a_power_law_is_a_straight_line():
    rows = text(plot([curve((1, 1e-6), (1e6, 1))], ascii_only=True))
    columns = [row.index("*") - 7 for row in rows if "*" in row]
    assert columns == sorted(columns, reverse=True)
    gaps = {a - b for a, b in pairwise(columns)}
    assert len(columns) == 14 and max(gaps) - min(gaps) <= 2


def test_curves_are_named_where_they_end():
    high, low = curve((1, 1), (10, 1), name="high"), curve((1, 1), (10, 1e-4), name="low", mark="o")
    rows = text(plot([high, low], ascii_only=True))
    assert next(row for row in rows if "high" in row).endswith("* high")
    assert next(i for i, row in enumerate(rows) if "low" in row) > 10


def test_names_of_curves_that_end_together_do_not_collide():
    twins = [curve((1, 1), (10, 1), name=name) for name in ("first", "second", "third")]
    rows = text(plot(twins))
    assert sum(name in row for row in rows for name in ("first", "second", "third")) == 3


def test_what_is_too_small_stands_on_the_floor_and_the_floor_says_so():
    rows = text(plot([curve((1, 1), (10, 1e-30), (100, 0.0))]))
    floor = next(row for row in rows if row.lstrip().startswith("≤"))
    assert "a" in floor and rows.index(floor) == 13


def test_two_curves_share_a_braille_cell():
    floor = curve((1, 1e-9), (10, 1e-9), name="floor")  # fixes the frame of all three pictures

    def first_cell(*points):
        rows = text(plot([floor, *(curve((1, y), (10, y)) for y in points)]))
        return ord(rows[0][7]) - 0x2800

    assert first_cell(1) and first_cell(0.4) and first_cell(1) != first_cell(0.4)
    assert first_cell(1, 0.4) == first_cell(1) | first_cell(0.4)
