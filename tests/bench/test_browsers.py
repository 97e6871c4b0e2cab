"""How soon pages are there: real servers, a real browser, one short round of each suite."""

from __future__ import annotations

from bench import page, play, sight


def test_the_page_of_a_recording() -> None:
    overview, head, file = page.measure([2048], rounds=1)
    assert [row.what for row in (overview, head, file)] == ["overview", "head", "file"]
    assert (overview.tokens, file.tokens) == (2048, 128)
    assert (overview.causal, file.causal) == (True, False)
    assert overview.peer == "budget of 1000 ms" and file.peer == "budget of 500 ms"
    for row in (overview, head, file):
        assert 0 < row.p20_ms <= row.median_ms <= row.p80_ms
        assert row.rounds == 1 and row.heads == 144


def test_a_row_over_its_picture() -> None:
    single, heads, without, with_picture = sight.measure(64, rounds=1)
    assert (single.what, heads.what) == ("one head", "heads of a layer")
    assert single.peer == "budget of 150 ms" and single.heads == 24 * 16
    assert without.ratio == 1.0 and with_picture.what == "opened with"


def test_play() -> None:
    rows = play.measure(12, rounds=1)
    assert [row.what for row in rows] == list(play.BUDGETS)
    for row in rows:
        assert (row.suite, row.tokens, row.implementation) == ("play", 12, "chromium")
        assert row.median_ms > 0 and "load" in row.note
        assert row.peer == f"budget of {play.BUDGETS[row.what]:.0f} ms"
