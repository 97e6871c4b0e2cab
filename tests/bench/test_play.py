"""How `regard play` feels: a real server, a real browser, one short round."""

from __future__ import annotations

from bench.play import BUDGETS, measure


def test_a_row_for_each_budget():
    rows = measure(12, rounds=1)
    assert [row.what for row in rows] == list(BUDGETS)
    for row in rows:
        assert (row.suite, row.tokens, row.implementation) == ("play", 12, "chromium")
        assert 0 < row.median_ms < 120_000
        assert row.peer == f"budget of {BUDGETS[row.what]:.0f} ms"
    assert "load" in rows[0].note
