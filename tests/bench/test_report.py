"""Reports of several lengths take turns."""

from __future__ import annotations

from bench import report


def test_rows() -> None:
    rows = report.measure([256, 512], seconds=0)
    assert [row.tokens for row in rows] == [256, 512]
    assert rows[0].ratio == 1 and rows[1].ratio > 0
    assert {row.suite for row in rows} == {"report"}
