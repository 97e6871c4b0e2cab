"""Answers against the recording they are about, and two prompts side by side."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.errors import InputError, UnavailableError
from regard.recording import Head, open
from regard.recording.schema import tensor_name
from regard.study import compare_recordings
from regard.viewer import answers
from regard.viewer.answers import comparison, comparison_progress
from regard.viewer.opened import Opened
from regard.views import comparison as module
from regard.views import row as rows_module
from regard.views.encoding import as_text
from support.recordings import HOSTILE, WORDS, make_state, on_disk
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
    scale = found["scale"]
    assert (found["tile"], scale["low"], scale["high"], scale["last"]) == (256, 0.1, 100, 255)
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


@pytest.fixture
def two(tmp_path):
    """Two prompts in one recording."""
    return make_opened(tmp_path, [WORDS[n % 12] for n in range(60)], prompts=2, exact=(0, 1))


def test_numbers_are_those_of_the_study(two):
    said = comparison((two, 0), (two, 1))
    truth = compare_recordings(two.recording, two.recording, prompts=(0, 1), rows=module.ROWS)
    assert said["heads"] == truth.as_dict()["heads"] and said["largest"] == truth.largest > 0
    assert said["a"] == {
        "recording": 0, "prompt": 0, "name": "run.regard", "model": "tiny", "title": "text 0",
    }  # fmt: skip
    assert said["b"]["prompt"] == 1 and said["doubts"] == []


def test_what_must_be_known_first(tmp_path):
    one = Opened(open(make_state(tmp_path / "stored.regard", "stored only")))
    (tmp_path / "more").mkdir()
    other = make_opened(tmp_path / "more", exact=(0, 1))
    said = " ".join(comparison((one, 0), (other, 0))["doubts"])
    assert "have no q and k on both sides" in said
    same = comparison((other, 0), (other, 0))
    assert same["doubts"] == ["only 12 rows stand for each other: these numbers say little"]


def test_two_models_are_named(tmp_path):
    one, other = (Opened(open(make_state(tmp_path / f"{n}.regard", "exact"))) for n in "ab")
    with open(tmp_path / "a.regard") as left, open(tmp_path / "b.regard") as right:
        right.model["name"] = "large"
        sides = module.Side(left, 0, one.who), module.Side(right, 0, other.who)
        assert "two models, tiny and large" in module.make_comparison(*sides)["doubts"][0]
    one.close()
    other.close()


def test_it_is_made_once(two, monkeypatch):
    made = []
    real = module.compare_recordings
    monkeypatch.setattr(
        module, "compare_recordings", lambda *a, **k: (made.append(1), real(*a, **k))[1]
    )
    first = comparison((two, 0), (two, 1))
    assert comparison((two, 0), (two, 1)) is first and made == [1]
    comparison((two, 1), (two, 0))
    assert made == [1, 1]


def test_it_can_be_given_up_and_its_progress_is_known(two):
    """Nothing is said of a comparison that nobody waits for."""
    told = []

    def look():
        told.append(comparison_progress((two, 0), (two, 1)))
        if len(told) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        comparison((two, 0), (two, 1), look)
    assert len(told) == 3
    heads = len(two.prompt(0))
    comparison((two, 0), (two, 1), look)
    assert [each["done"] for each in told[4:]] == list(range(heads - 1))
    assert {each["total"] for each in told[4:]} == {heads}
    assert comparison_progress((two, 0), (two, 1)) == {"done": 0, "total": 0}


def test_nothing_in_common(tmp_path, two):
    cross = Opened(open(make_state(tmp_path / "cross.regard", "cross")), 1)
    said = r"^run\.regard and cross\.regard have no head in common$"
    with pytest.raises(InputError, match=said):
        comparison((two, 0), (cross, 0))
