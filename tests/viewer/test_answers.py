"""Answers against the recording they are about."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.errors import InputError, UnavailableError
from regard.recording import Head, open
from regard.recording.schema import tensor_name
from regard.viewer import answers
from regard.viewer.opened import Opened
from regard.views import row as rows_module
from regard.views.encoding import as_text
from support.recordings import HOSTILE, WORDS, on_disk
from viewer.served import make_opened


def _read(value):
    """As it is sent: JSON without NaN."""
    return json.loads(as_text(value), parse_constant=pytest.fail)


def test_a_damaged_tensor_costs_only_what_needs_it(tmp_path):
    path = on_disk(tmp_path / "run.regard")
    raw = bytearray(path.read_bytes())
    entry = open(path).store.entries[tensor_name(0, "L0", "totals")]
    raw[entry.frame.data] ^= 255
    path.write_bytes(raw)
    one = Opened(open(path))
    facts = _read(answers.head_facts(one, 0, "L0H0"))
    assert facts["statistics"]["entropy"] is None
    assert facts["tracks"]["entropy"]["mean"]
    assert "wrong checksum" in facts["problems"][0]
    found = _read(answers.overview(one))
    assert found["stacks"][0]["grids"]["entropy"] is None
    assert any("wrong checksum" in one for one in found["problems"])
    assert len(found["heads"]) == 8


def test_tokens_come_in_pages(tmp_path):
    one = make_opened(tmp_path, HOSTILE)
    found = _read(answers.tokens(one, start=2, count=7))
    assert found["tokens"] == HOSTILE[2:9]
    assert (found["start"], found["total"], found["stream"]) == (2, len(HOSTILE), "tokens")
    assert len(found["ids"]) == len(found["flags"]) == 7
    assert answers.tokens(one, start=len(HOSTILE))["tokens"] == []


def test_facts_of_heads_with_q_and_k_and_without(tmp_path):
    one = make_opened(tmp_path)
    found = _read(answers.head_facts(one, 0, "L0H1"))
    assert (found["label"], found["exact"], found["why_not"]) == ("L0H1", True, None)
    assert found["levels"] == {"mean": [1], "max": [1]} and found["sight"] is True
    assert (found["tile"], found["scale"]["low"], found["scale"]["high"]) == (256, 0.1, 100)
    assert len(found["tracks"]["entropy"]["mean"]) == len(WORDS)
    found = _read(answers.head_facts(one, 0, "L1H0"))
    assert found["exact"] is False and "budget" in found["why_not"]
    assert found["levels"] == {"mean": [16], "max": []}


def test_a_row_and_its_weights(tmp_path):
    one = make_opened(tmp_path)
    head = one.head(0, "L0H2")
    found = _read(answers.row_facts(one, 0, "L0H2", 5, top=3))
    assert (found["row"], found["visible"], found["token"]) == (5, 6, WORDS[5])
    row = np.frombuffer(answers.weights(one, 0, "L0H2", 5), "<f4")
    np.testing.assert_array_equal(row[:6], head[5, :6])
    assert np.isnan(row[6:]).all()
    best = np.argsort(-row[:6])[:3]
    assert [pair["key"] for pair in found["top"]] == best.tolist()


def test_a_weight_that_is_no_number_is_not_taken_for_hidden(tmp_path, monkeypatch):
    one = make_opened(tmp_path)
    real = Head.__getitem__
    monkeypatch.setattr(Head, "__getitem__", lambda head, at: real(head, at) * np.nan)
    row = np.frombuffer(answers.weights(one, 0, "L0H2", 5), "<f4")
    assert (row[:6] == np.inf).all() and np.isnan(row[6:]).all()


def test_a_row_of_a_head_without_q_and_k_has_its_heaviest_keys(tmp_path):
    one = make_opened(tmp_path)
    found = answers.row_facts(one, 0, "L1H0", 5, top=4)
    assert len(found["top"]) == 4
    with pytest.raises(UnavailableError, match="budget"):
        answers.weights(one, 0, "L1H0", 5)


def test_cells_are_exact_and_say_how_many_keys_a_row_sees(tmp_path):
    one = make_opened(tmp_path, rows=(2, 12))
    found = np.frombuffer(answers.cells(one, 0, "L0H0", range(8), range(1, 6)), "<f4")
    table, visible = found[:40].reshape(8, 5), found[40:]
    assert np.isnan(table[:2]).all() and np.isnan(visible[:2]).all()
    np.testing.assert_array_equal(visible[2:], np.arange(3, 9))
    dense = one.head(0, "L0H0")[2:8, 1:6]
    seen = np.arange(1, 6) <= np.arange(2, 8)[:, None]
    np.testing.assert_array_equal(table[2:], np.where(seen, dense, np.nan))


def test_cells_are_few(tmp_path, monkeypatch):
    monkeypatch.setattr(rows_module, "MOST_CELLS", 10)
    with pytest.raises(InputError, match="12 × 1 cells; at most 10"):
        answers.cells(make_opened(tmp_path), 0, "L0H0", range(12), range(1))
