"""How soon the page is there: real servers, a real browser, small sizes."""

from __future__ import annotations

from bench.page import measure


def test_a_small_round():
    overview, head, file = measure([2048], rounds=2)
    assert [row.what for row in (overview, head, file)] == ["overview", "head", "file"]
    assert (overview.tokens, file.tokens) == (2048, 128)
    assert overview.peer == "budget of 1000 ms" and file.peer == "budget of 500 ms"
    for row in (overview, head, file):
        assert 0 < row.p20_ms <= row.median_ms <= row.p80_ms
        assert row.rounds == 2 and row.heads == 144
