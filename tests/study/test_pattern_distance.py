"""Patterns of distance where distances were kept in bins, and where few rows share one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard import study
from support.recordings.planted import causal, mixed, record_planted, targets, text

N = 400


def at(offset: int, n: int = N) -> np.ndarray:
    i, j = np.arange(n)[:, None], np.arange(n)
    return (i - j == offset) & causal(n)


def coarse(*weights: np.ndarray) -> Any:
    """Recorded on so small a budget that distances beyond 64 share bins."""
    ids = text(len(weights[0]))
    found = record_planted(np.stack(weights)[None], ids, budget=f"{120 * len(weights)}kB")
    assert 1 < found["L0H0"].place.key_bin <= 8
    edges = found["L0H0"].stored["offsets"].edges
    assert np.diff(edges).max() > 1
    return found


def test_an_offset_in_a_bin_is_told_as_the_bin() -> None:
    (head,) = study.patterns(coarse(mixed(at(100), strength=0.9)))
    detail = head["offset"].detail
    assert "offset" in head.labels
    assert detail["offset"] <= 100 <= detail.get("to", detail["offset"])
    assert head["offset"].score == pytest.approx(0.9, abs=0.03)
    words = study.sentence(head, head["offset"])
    assert f"looks {detail['offset']}" in words and "tokens back" in words


def test_near_distances_are_never_binned() -> None:
    previous, oneself = study.patterns(coarse(mixed(at(1)), mixed(at(0))))
    assert "previous" in previous.labels and "self" in oneself.labels
    assert previous["previous"].detail == {"offset": 1}


@pytest.mark.parametrize("n", [20, 60, N])
def test_a_sink_is_no_offset_however_few_rows_there_are(n: int) -> None:
    """Every row has the first token at a distance of its own; the last distances have one row."""
    ids = text(n, words=4000)
    weights = np.zeros((n, n))
    weights[:, 0] = 1
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    assert head.labels == ("sink",)
    assert head["offset"].score < 0.2 or n < 40


def test_a_sink_is_no_offset_in_bins() -> None:
    weights = np.zeros((N, N))
    weights[:, 0] = 1
    (head,) = study.patterns(coarse(weights))
    assert head["offset"].score < 0.1 and "offset" not in head.labels


def test_a_neighbourhood_under_a_window_is_no_news() -> None:
    """Where no row sees more than 8 tokens, to stay within 8 is chance."""
    import regard
    from regard.recording import Recording
    from support.recordings import Chunk, write_recording

    store, _ = write_recording(chunks=[Chunk((0, 90), (0, 90), regard.Window(7))])
    for head in study.patterns(Recording(store)):
        assert head["local-8"].score == pytest.approx(1, abs=1e-5)
        assert head["local-8"].chance == pytest.approx(1)
        assert "local-8" not in head.labels and "local-64" not in head.labels


def test_of_equal_distances_the_nearest_is_told() -> None:
    ids = text(120, words=4000)
    both = (mixed(at(7, 120)) + mixed(at(30, 120))) / 2
    both[:30] = mixed(at(7, 120))[:30] * 0.5 + 0.5 * mixed(at(0, 120))[:30]
    (head,) = study.patterns(record_planted(both[None, None], ids))
    assert head["offset"].detail["offset"] in (7, 30) and "offset" in head.labels


def test_an_offset_of_a_text_without_repetition_is_an_offset() -> None:
    ids = np.arange(200) + 2
    (head,) = study.patterns(record_planted(mixed(at(12, 200), strength=0.9)[None, None], ids))
    assert head.labels == ("offset",) and "no token of this text comes twice" in (
        head["duplicate-token"].why_not
    )


def test_tokens_that_repeat_at_another_distance_do_not_question_an_offset() -> None:
    r = np.arange(2, 82)
    ids = np.concatenate([[0], r, r])
    weights = mixed(at(12, ids.size), strength=0.9)
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    assert head.labels == ("offset",)
    assert targets(ids)["prefix-matching"].sum() == 80
