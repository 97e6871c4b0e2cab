"""Even, sharp, saturated and inactive heads: the shares that come second, and the rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard import study
from support.recordings.planted import causal, mixed, record_planted, targets, text

N = 200


def test_sharp_rows_on_a_sink_and_elsewhere() -> None:
    """Two rows of three park; the others look at one key each."""
    ids = text(N)
    weights = mixed(targets(ids)["sharp"])
    parked = np.arange(N) % 3 > 0
    weights[parked] = 0
    weights[parked, 0] = 1
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    assert head.labels == ("sink",)  # a third of the rows look at one key that is none
    assert "without sinks" in head["sharp"].why_not
    assert head["sharp"].score == pytest.approx(1, abs=0.01)
    assert head["saturated"].score == pytest.approx(1 / 3, abs=0.03)  # rows on a sink are in health
    assert head["saturated"].conditional == pytest.approx(1, abs=0.01)


def test_a_pure_sink_is_not_called_sharp() -> None:
    ids = text(N)
    weights = np.zeros((N, N))
    weights[:, 0] = 1
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    assert head["sharp"].score == 1 and head.labels == ("sink",)
    assert "0 without sinks" in head["sharp"].why_not
    assert math.isnan(head["sharp"].conditional)  # no row looks elsewhere


def test_rows_that_see_few_keys_show_nothing() -> None:
    ids = text(N)
    weights = np.stack([mixed(targets(ids)[kind]) for kind in ("uniform", "sharp")])
    for head in study.patterns(record_planted(weights[None], ids)):
        (label,) = head.labels
        for one in (*head[label].rows, head[label].counter):
            assert one.row >= 15


def test_rows_of_an_even_head() -> None:
    ids = text(N)
    weights = mixed(targets(ids)["uniform"], noise=0.1)
    weights[120] = 0
    weights[120, 8] = 1
    (head,) = study.patterns(record_planted(weights[None, None], ids), evidence="all")
    assert head["uniform"].counter.row == 120 and head["uniform"].counter.key == 8
    assert head["uniform"].rows[0].value > 0.98
    assert math.isnan(head["uniform"].chance)


@pytest.mark.parametrize(("share", "is_labelled"), [(0.4, False), (0.6, True)])
def test_the_share_of_sharp_rows(share: float, is_labelled: bool) -> None:
    ids = text(N)
    weights = causal(N) / np.arange(1, N + 1)[:, None]
    some = np.random.default_rng(0).random(N) < share
    weights[some] = mixed(targets(ids)["sharp"])[some]
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    assert ("sharp" in head.labels) == is_labelled
    assert head["sharp"].score == pytest.approx(share, abs=0.08)


def test_norms_are_compared_with_the_layer() -> None:
    ids = text(60)
    even = mixed(targets(ids)["uniform"])
    values = np.array([[1.0, 1.0, 0.05], [1.0, 1.0, 0.3]])
    found = study.patterns(record_planted(np.stack([[even] * 3] * 2), ids, values=values))
    inactive = [head.label for head in found if "inactive" in head.labels]
    assert inactive == ["L0H2"]
    scores = [head["inactive"].score for head in found[:3]]
    assert np.mean(scores) == pytest.approx(1, abs=1e-5)
    words = study.sentence(found[2], found[2]["inactive"])
    assert "writes next to nothing" in words and "of its layer's mean norm" in words


def test_what_rows_in_bins_do_not_tell_is_said() -> None:
    """A head that writes nothing and one that is stuck, where a bin holds all of the rows."""
    ids = text(200)
    weights = np.stack([mixed(targets(ids)["sharp"])] * 4)[None]
    quiet = np.array([[1, 1, 0.001, 1.0]])
    made = record_planted(weights, ids, budget="24kB", values=quiet, raised=150.0)
    row_bin = made["L0H0"].place.row_bin
    assert row_bin > 200
    found = study.patterns(made, evidence="none")
    words = f"rows are binned by {row_bin} in this recording"
    assert [head.not_known.get("inactive") for head in found] == [None, None, words, None]
    assert all("one row in" in head.not_known["saturated"] for head in found)
