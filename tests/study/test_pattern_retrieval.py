"""Retrieval: needles that are copied while writing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard import study
from regard.errors import InputError
from support.recordings.planted import causal, record_planted, text

NEEDLE, WROTE = range(40, 50), 10


def needle_case(copied: int, length: int = 120, needle: range = NEEDLE) -> tuple[Any, np.ndarray]:
    """A head that, while the needle's tokens are written, looks at the first `copied` of them; and
    one that looks at a token of the needle which is not the one written."""
    ids = text(length, words=5000)
    ids[needle.start : needle.stop] = np.arange(6000, 6000 + len(needle))
    ids[-WROTE:] = ids[needle.start : needle.start + WROTE]
    even = causal(length) / np.arange(1, length + 1)[:, None]
    right, wrong = even * 0.1, even * 0.1
    rows = np.arange(length - WROTE - 1, length - 1)  # the row before writes the token
    right[: -WROTE - 1] = wrong[: -WROTE - 1] = even[: -WROTE - 1]
    right[-1] = wrong[-1] = even[-1]
    for n, row in enumerate(rows):
        right[row, needle.start + n if n < copied else 7] += 0.9
        wrong[row, needle.start + (n + 1) % len(needle)] += 0.9
    return np.stack([right, wrong])[None], ids


def test_the_share_of_needle_tokens_that_were_copied() -> None:
    weights, ids = needle_case(7)
    recording = record_planted(weights, ids)
    right, wrong = study.patterns(recording, needle=NEEDLE, generated=WROTE)
    assert right["retrieval"].score == pytest.approx(0.7) and "retrieval" in right.labels
    assert wrong["retrieval"].score == 0 and "retrieval" not in wrong.labels
    assert right["retrieval"].detail == {"needle": [40, 50], "rows": WROTE}
    best = right["retrieval"].rows[0]
    assert best.row >= 120 - WROTE - 1 and ids[best.key] == ids[best.row + 1]
    assert "copies the needle" in study.sentence(right, right["retrieval"])


def test_the_same_from_q_and_k_where_the_heaviest_keys_were_not_kept() -> None:
    from regard import Causal
    from regard.recording import Recording
    from support.recordings import Chunk, write_recording

    chunk = Chunk((0, 100), (0, 100), Causal())
    found = []
    for every in (1, 8):
        store, _ = write_recording(chunks=[chunk], spread=4.0, top_every=every, row_bin=every)
        heads = study.patterns(Recording(store), needle=range(60), generated=30)
        found.append([head["retrieval"].score for head in heads])
    assert found[0] == found[1] and sum(found[0]) > 0
    store, _ = write_recording(chunks=[chunk], top_every=8, row_bin=8, exact=False)
    (head, *_) = study.patterns(Recording(store), needle=range(60), generated=30)
    assert "were not kept" in head["retrieval"].why_not


def test_means_over_lengths_and_depths() -> None:
    cases = []
    for length, copied, needle in ((120, 10, NEEDLE), (160, 5, range(90, 100))):
        weights, ids = needle_case(copied, length, needle)
        cases.append((record_planted(weights, ids), 0, needle))
    assert study.mean_retrieval(cases, generated=WROTE) == {
        "L0H0": pytest.approx(0.75), "L0H1": 0.0
    }  # fmt: skip


def test_what_is_wrong_with_a_needle(planted: Any) -> None:
    (head, *_) = study.patterns(planted)
    assert head["retrieval"].why_not == "no needle was given"
    (head, *_) = study.patterns(planted, needle=range(3, 9))
    assert head["retrieval"].why_not == "the recording has no generated tokens"
    for needle, generated, words in (
        (range(0), 5, "give the needle's tokens"),
        (range(9, 3, -1), 5, "give the needle's tokens"),
        (range(150, 158), 10, "reaches beyond the 150 tokens"),
        (range(3, 9), 999, "999 generated tokens of 160"),
    ):
        with pytest.raises(InputError, match=words):
            study.patterns(planted, needle=needle, generated=generated)
