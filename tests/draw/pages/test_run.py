"""A training run, many documents and the words of a sound, in the terminal and as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import regard
from recorder.models import tiny, tokens
from regard.draw import Paper, finished, plain
from regard.draw.pages import many_lines, overview_lines, run_lines, word_lines
from regard.recording import STATISTICS, Alarm, Limit, Memory, Recording, open
from regard.recording.format.write import extend
from regard.study import WordTime
from regard.views.findings import many_answer
from regard.views.overview import whole_overview
from support.recordings import on_disk, write_training

WORDS = {"max_score": "largest score", "grad_w_q": "norm"}
ALARM = Alarm("score growth", "L1H0", 20, "max_score", 120.5, 100.0)


def _noted(store, alarms=()):
    values = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    values[0, 1, 1] = np.nan
    return write_training(
        store, {"max_score": values, "grad_w_q": np.full_like(values, np.nan)}, WORDS,
        steps=[0, 10, 20], limits={"max_score": Limit("above", 100)}, alarms=alarms,
        maps=[("L0H1", 10, np.eye(3))],
    )  # fmt: skip


@pytest.fixture
def bare():
    """A run and nothing else."""
    return Recording(_noted(Memory(), [ALARM]))


def _run(recording):
    paper = Paper(width=80)
    return plain(finished(run_lines(recording.training, paper), paper))


def _overview(recording):
    paper = Paper(width=80)
    return plain(finished(overview_lines(recording, 0, "entropy", paper), paper))


def test_its_course_and_its_alarms(bare):
    lines = _run(bare)
    assert lines[0] == "training: 3 sampled steps, 0–20, 2 layers"
    assert lines[1].split() == ["statistic", "limit", "first", "last", "least", "largest"]
    assert lines[2].split() == "max_score > 100 1.00 9.50 0 L0H0 11.0 L1H1".split()
    assert lines[3].split() == ["grad_w_q", "nan", "nan"]  # never known
    assert "score growth: L1H0 at step 20, max_score 120.5, above 100" in lines
    assert lines[-1] == "1 map of 1 head stored; regard view FILE shows them"


def _with_loss(loss):
    values = np.ones((len(loss), 2, 2))
    return Recording(write_training(Memory(), values, loss=loss))


def test_the_loss():
    assert _run(_with_loss([4.0, 1.0, 2.0]))[1] == (
        "loss 4.00 at step 0, 2.00 at step 2, least 1.00 at step 1"
    )
    lines = _run(_with_loss([4.0, 1.0, np.nan, np.inf]))
    assert lines[1] == "loss 4.00 at step 0, NaN or infinite at step 3, least 1.00 at step 1"
    assert lines[2] == "the loss is NaN or infinite in 2 sampled steps, the first of them 2"


def test_as_json(bare):
    found = json.loads(json.dumps(whole_overview(bare)["training"], allow_nan=False))
    score = found["statistics"]["max_score"]
    assert score["least"] == {"value": 0, "head": "L0H0", "step": 0}
    assert score["largest"] == {"value": 11, "head": "L1H1", "step": 20}
    assert score["limit"] == {"side": "above", "value": 100, "customary": False}
    assert found["statistics"]["grad_w_q"]["median_last"] is None
    assert found["alarms"] == [ALARM.to_dict()] and found["maps"] == {"L0H1": [10]}
    assert found["steps"] == [0, 20] and found["samples"] == 3


def test_many_alarms_are_counted():
    lines = _run(Recording(_noted(Memory(), [ALARM] * 14)))
    assert "14 alarms" in lines and "and 2 more" in lines
    assert "no alarm: no head stayed over a limit" in _run(Recording(_noted(Memory())))


def test_the_overview_has_it_with_and_without_a_text(bare, tmp_path):
    alone = _overview(bare)
    assert "nothing was recorded yet" not in "".join(alone)
    assert alone[-1] == _run(bare)[-1]
    assert whole_overview(bare)["training"]["samples"] == 3
    path = on_disk(tmp_path / "run.regard")
    with open(path) as recording:
        assert _run(recording) == []
        assert whole_overview(recording)["training"] is None
    with extend(path) as writer:
        _noted(writer)
    with open(path) as recording:
        both = _overview(recording)
    assert any(line.startswith("prompt 0") for line in both)
    assert "training: 3 sampled steps, 0–20, 2 layers" in both


@pytest.fixture(scope="module")
def many_files(tmp_path_factory):
    """Three files of two documents."""
    many_files = tmp_path_factory.mktemp("many")
    model = tiny("llama", num_key_value_heads=2)
    # a head that looks at one key alone is a surprise among its kin
    model.model.layers[1].self_attn.q_proj.weight.data[:8] *= 60
    for n in range(3):
        with torch.no_grad(), regard.record(model, many_files / f"shard-0000{n}.regard"):
            model(tokens(40 + n, seed=n))
            model(tokens(5, seed=10 + n))
    return many_files


def test_in_words(many_files):
    with regard.open(many_files) as rec:
        lines = plain(many_lines(rec, rec.merged(), "entropy", Paper(width=80)))
    text = "\n".join(lines)
    assert "6 documents in 3 files, 138 tokens; every row counts alike" in text
    assert "entropy: mean entropy of a row, in nats" in text
    assert "L0" in text and "L1" in text
    assert "heads that stand out in their layer" in text and "L1H0" in text
    assert max(map(len, lines)) <= 80


def test_as_json_with_every_statistic_of_every_head(many_files):
    with regard.open(many_files) as rec:
        merged = rec.merged()
        said = json.loads(json.dumps(many_answer(rec, merged), allow_nan=False))
    assert said["documents"] == 6 and said["tokens"] == 138 and len(said["files"]) == 3
    assert said["heads"] == [f"L{layer}H{head}" for layer in (0, 1) for head in range(4)]
    assert list(said["statistics"]) == list(STATISTICS)
    entropy = said["statistics"]["entropy"]
    np.testing.assert_allclose(entropy["values"], merged.grid("entropy").reshape(-1))
    assert entropy["rows"] == [138] * 8
    assert {one["label"] for one in said["surprising"]} >= {"L1H0"}


def test_a_single_document_has_its_own_page(many_files):
    with regard.open(many_files) as rec:
        text = "\n".join(plain(overview_lines(rec, 3, "entropy", Paper(width=80))))
    assert "prompt 3, 5 tokens" in text


def text(lines):
    return ["".join(part for part, _ in line).rstrip() for line in lines]


def test_words_stand_under_each_other() -> None:
    words = [WordTime("Hello", 0.0, 0.5), WordTime("world.", 10.5, 11.25)]
    assert text(word_lines("a.wav", words, Paper(40))) == [
        "a.wav",
        "  start      end  word",
        " 0.00 s   0.50 s  Hello",
        "10.50 s  11.25 s  world.",
    ]
    assert text(word_lines("a.wav", [], Paper(40))) == ["a.wav: no words"]
