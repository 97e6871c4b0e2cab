"""The rows shown are rows of the head, their numbers are its weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard import study
from regard.recording import Recording
from support.recordings import Chunk, write_recording
from support.recordings.planted import KINDS, mixed, record_planted, targets, text

MASSES = ("previous", "offset", "self", "local-8", "duplicate-token", "prefix-matching",
          "delimiter")  # fmt: skip


def test_rows_show_what_is_said_of_them(planted: Any, words: np.ndarray) -> None:
    aims = targets(words, seed=4)
    for kind, head in zip(KINDS, study.patterns(planted), strict=False):
        if kind not in MASSES:
            continue
        p = np.asarray(planted[head.label], np.float64)
        mass = (p * aims[kind]).sum(-1)
        finding = head[kind]
        assert len(finding.rows) == 3 and finding.counter is not None
        for one in (*finding.rows, finding.counter):
            assert one.row == one.last and one.known
            assert one.value == pytest.approx(mass[one.row], abs=1e-5)
            assert one.token == planted.tokens[one.row]
        for one in finding.rows:
            assert aims[kind][one.row, one.key]
            assert one.weight == pytest.approx(p[one.row, one.key], abs=1e-6)
            assert one.key_token == planted.tokens[one.key]
        values = [one.value for one in finding.rows]
        assert min(values) > finding.counter.value


def test_rows_that_could_not_do_otherwise_show_nothing(planted: Any) -> None:
    """Row 0 gives all to itself, and row 1 half to the one before, whatever the head does."""
    found = study.patterns(planted)
    for name in ("self", "previous"):
        head = next(one for one in found if name in one.labels)
        for one in (*head[name].rows, head[name].counter):
            assert one.row >= 2


def test_a_counter_example_says_what_it_looks_at_instead() -> None:
    ids = text(120)
    weights = mixed(targets(ids)["previous"], strength=0.9)
    weights[70] = 0
    weights[70, 33] = 1
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    counter = head["previous"].counter
    assert (counter.row, counter.key) == (70, 33) and counter.weight == pytest.approx(1)
    words = study.sentence(head, head["previous"])
    assert f"not at row 70 ' w{ids[70]}'" in words and "which looks at key 33" in words


def test_without_q_and_k_a_sum_is_told_as_the_least_it_is(kept: Any, planted: Any) -> None:
    stored, exact = study.patterns(kept), study.patterns(planted)
    n = list(KINDS).index("local-8")
    for one, other in zip(stored[n]["local-8"].rows, exact[n]["local-8"].rows, strict=True):
        assert one.row == other.row and one.value <= other.value + 1e-6


def test_rows_in_bins_are_found_again_where_q_and_k_are() -> None:
    chunk = Chunk((0, 200), (0, 200), regard.Causal())
    for exact in (True, False):
        store, made = write_recording(chunks=[chunk], spread=3.0, row_bin=8, exact=exact)
        for n, head in enumerate(study.patterns(Recording(store), evidence="all")):
            finding = head["duplicate-token"]
            assert finding.rows
            for one in finding.rows:
                assert (one.last == one.row) == exact
                if exact:
                    ids = Recording(store).prompts[0].ids
                    same = ids[: one.row] == ids[one.row]
                    mass = made.truth.weights()[n][one.row, : one.row][same].sum()
                    assert one.value == pytest.approx(mass, abs=1e-5)


def test_rows_are_shown_for_labels_for_all_or_for_none(planted: Any) -> None:
    for evidence, wanted in (("labels", {True}), ("none", set()), ("all", {True, False})):
        found = study.patterns(planted, evidence=evidence)
        shown = {one.holds for head in found for one in head if one.rows}
        assert shown == wanted
