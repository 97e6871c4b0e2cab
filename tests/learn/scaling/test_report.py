"""The table, the plot and the readings say what was measured, and no more."""

from __future__ import annotations

import pytest

from regard.learn.scaling import intro, measure, whole_report
from regard.learn.scaling.curves import plot
from regard.learn.scaling.report import curves, summary, table


def text(lines):
    return ["".join(piece for piece, _ in line) for line in lines]


@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_picture_keeps_to_its_width(ascii_only):
    readings = list(measure([1, 16, 256], rows=100))
    rows = text(plot(curves(readings), width=60, ascii_only=ascii_only))
    assert 55 < max(map(len, rows)) <= 60


def test_a_table_line_reads_raw_then_divided():
    (reading,) = measure([256], rows=500)
    cells = text(table([reading]))[-1].split()
    assert cells[0] == "256" and len(cells) == 13
    assert float(cells[1]) == pytest.approx(reading.raw.variance, rel=0.01)
    assert float(cells[2]) == pytest.approx(reading.scaled.variance, rel=0.01)
    assert cells[-1] == "0%"


def test_the_summary_reads_1024_or_the_largest():
    def heading(*d_ks):
        return text(summary(list(measure(d_ks, rows=100))))[0]

    assert heading(16, 1024, 2048).endswith("1024")
    assert heading(16, 64).endswith("64")


def test_the_summary_claims_no_vanishing_where_there_is_none():
    assert "does not vanish yet" in " ".join(text(summary(list(measure([16], rows=500)))))
    assert "hardly changes" in " ".join(text(summary(list(measure([1], rows=500)))))
    assert "Both words" in " ".join(text(summary(list(measure([1024], rows=500)))))


def test_the_whole_report_has_a_plot_where_there_is_something_to_join():
    def said(*d_ks):
        readings = list(measure(d_ks, rows=100))
        opening = intro(16, 100, 0)
        return text(whole_report(readings, opening, width=200, ascii_only=True))

    one, two = said(4), said(4, 8)
    assert not any("by d_k" in line for line in one) and any("by d_k" in line for line in two)
    assert max(map(len, two)) <= 80
    assert "This is temperature" in " ".join(one)
