"""Two recordings, head by head."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard import study
from regard.errors import InputError
from regard.recording import Recording
from regard.score import ScoreRule
from regard.study import js_distance
from support.recordings import Chunk, write_prompt, write_recording
from support.recordings.planted import mixed, record_planted, targets, text

N = 140


def made(seed: int = 0, **options: Any) -> tuple[Recording, np.ndarray]:
    chunk = Chunk((0, N), (0, N), options.pop("mask", regard.Causal()), options.pop("score", RULE))
    store, truth = write_recording(chunks=[chunk], seed=seed, spread=2.0, **options)
    return Recording(store), truth.truth.weights()


RULE = ScoreRule(0.25)


def test_rows_against_the_dense_definition() -> None:
    (a, p), (b, q) = made(0), made(1)
    found = study.compare_recordings(a, b)
    assert found.alignment == "the same tokens" and len(found.heads) == 4
    for one in found.heads:
        n = int(one.label[-1])
        each = js_distance(p[n], q[n])
        assert (one.how, one.rows) == ("rows", N)
        assert one.distance == pytest.approx(each.mean(), abs=1e-5)
        assert one.worst is not None and one.worst[0] == one.worst[1]
        assert one.worst_distance == pytest.approx(each.max(), abs=1e-5)
    away = [one.distance for one in found.heads]
    assert away == sorted(away, reverse=True) and found.largest == away[0]


def test_a_recording_and_itself(planted: Any) -> None:
    found = study.compare_recordings(planted, planted)
    assert found.largest == 0 and {one.how for one in found.heads} == {"rows"}


def test_a_number_format() -> None:
    """bf16 q and k: small, the same for all heads, and not zero."""
    (a, _), (b, _) = made(0), made(0, dtype=torch.bfloat16)
    found = study.compare_recordings(a, b)
    assert all(0 < one.distance < 0.02 for one in found.heads)


def test_some_rows_speak_for_all() -> None:
    (a, _), (b, _) = made(0), made(1)
    every = study.compare_recordings(a, b, rows=None).heads
    some = {one.label: one for one in study.compare_recordings(a, b, rows=48).heads}
    for one in every:
        assert some[one.label].rows == 48
        assert some[one.label].distance == pytest.approx(one.distance, abs=0.1)


def test_without_q_and_k_profiles_are_compared_and_it_is_said(planted: Any, kept: Any) -> None:
    found = study.compare_recordings(planted, kept)
    assert {one.how for one in found.heads} == {"profiles"}
    assert found.largest < 1e-4  # the same heads
    assert {name for name, _ in found.heads[0].profiles} == {"entropy", "received", "offsets"}
    (a, _), (b, _) = made(0, statistics=False, exact=False), made(0)
    none = study.compare_recordings(a, b)
    assert {one.how for one in none.heads} == {"nothing"} and none.largest == 0


def test_heads_by_rows_come_before_heads_by_profiles() -> None:
    stores = []
    for seed in (0, 1):
        store, _ = write_recording(chunks=[Chunk((0, 60), (0, 60), regard.Causal())], seed=seed)
        chunk = Chunk((0, 60), (0, 60), regard.Causal())
        write_prompt(store, [chunk], seed=seed + 5, layer=1, exact=False, tokens=False)
        stores.append(store)
    a, b = map(Recording, stores)
    found = study.compare_recordings(a, b).heads
    assert [one.how for one in found] == ["rows"] * 4 + ["profiles"] * 4


def test_a_text_with_a_word_more() -> None:
    """Rows and keys are matched by their tokens: the same pattern is the same head."""
    ids = text(120, words=3000)
    longer = np.insert(ids, 50, 9999)
    heads = [
        record_planted(mixed(targets(one)["previous"], strength=0.95)[None, None], one)
        for one in (ids, longer)
    ]
    (one,) = study.compare_recordings(*heads).heads
    assert one.rows == 120 and one.distance < 0.1
    assert one.worst == (50, 51) and one.worst_distance > 0.8  # the word before it is another
    assert "by tokens: 120 of 120 and 121" in study.compare_recordings(*heads).alignment


def test_keys_without_a_partner_are_apart() -> None:
    ids = text(60, words=3000)
    longer = np.append(np.insert(ids, 30, 9999), [9998])
    weights = np.zeros((62, 62))
    weights[:31, 0] = 1
    weights[31:, 30] = 1  # the inserted token
    plain = np.zeros((60, 60))
    plain[:, 0] = 1
    a, b = record_planted(plain[None, None], ids), record_planted(weights[None, None], longer)
    (one,) = study.compare_recordings(a, b).heads
    assert one.distance == pytest.approx(0.5, abs=0.01) and one.worst_distance == pytest.approx(1)


def test_a_learned_sink_is_a_key_of_both() -> None:
    sink = torch.full((4,), 3.0)
    (a, p), (b, q) = (
        made(0, score=ScoreRule(0.25, sink=sink)),
        made(1, score=ScoreRule(0.25, sink=sink)),
    )
    found = {one.label: one.distance for one in study.compare_recordings(a, b).heads}
    for n in range(4):
        wide = (np.c_[one[n], 1 - one[n].sum(-1)] for one in (p, q))
        assert found[f"L0H{n}"] == pytest.approx(js_distance(*wide).mean(), abs=1e-5)


def test_two_prompts_of_one_recording() -> None:
    store, _ = write_recording(chunks=[Chunk((0, 50), (0, 50), regard.Causal())])
    write_prompt(store, [Chunk((0, 50), (0, 50), regard.Causal())], prompt=1, seed=3)
    recording = Recording(store)
    assert study.compare_recordings(recording, recording, prompts=(0, 1)).largest > 0.1
    assert study.compare_recordings(recording, recording, prompts=(1, 1)).largest == 0


def test_heads_that_only_one_has() -> None:
    (a, _), (b, _) = made(0, recorded=[0, 1, 2]), made(0, recorded=[1, 2, 3])
    found = study.compare_recordings(a, b)
    assert (list(found.only_a), list(found.only_b)) == (["L0H0"], ["L0H3"])
    assert {one.label for one in found.heads} == {"L0H1", "L0H2"}
    back = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert back["only_a"] == ["L0H0"] and back["heads"][0]["how"] == "rows"


def test_what_cannot_be_compared() -> None:
    (a, _), (b, _) = made(0, recorded=[0]), made(0, recorded=[1])
    with pytest.raises(InputError, match="have no head in common"):
        study.compare_recordings(a, b)
    with pytest.raises(InputError, match="rows=0"):
        study.compare_recordings(a, a, rows=0)
    with pytest.raises(InputError, match="prompt 2 does not exist"):
        study.compare_recordings(a, a, prompts=(0, 2))


def test_heads_that_park_on_the_first_token_are_not_the_farthest_apart() -> None:
    """Of two texts of other lengths that begin with other words, and share some."""
    left, right = text(N), text(N - 20)
    right[0] = int(left.max()) + 1  # a word that the other text does not have
    right[1:60] = left[1:60]

    def two_heads(ids: np.ndarray) -> Recording:
        parked = np.zeros((len(ids), len(ids)))
        parked[:, 0] = 1
        return record_planted(np.stack([parked, mixed(targets(ids)["uniform"])])[None], ids)

    found = study.compare_recordings(two_heads(left), two_heads(right))
    away = {one.label: one.distance for one in found.heads}
    assert away["L0H0"] < 0.01 < away["L0H1"] and found.heads[0].label == "L0H1"
    assert found.alignment.endswith("and the first tokens do")


@pytest.mark.parametrize("before", [1, 17, 60])
def test_a_text_inside_a_longer_text_parks_where_that_parks(before: int) -> None:
    """The first token of the one stands for a later token of the other, and is parked on."""
    inner = text(N - 60)
    start = np.arange(before) + int(inner.max()) + 1
    longer = np.concatenate([start, inner])

    def two_heads(ids: np.ndarray) -> Recording:
        parked = np.zeros((len(ids), len(ids)))
        parked[:, 0] = 1
        return record_planted(np.stack([parked, mixed(targets(ids)["uniform"])])[None], ids)

    for pair in ((inner, longer), (longer, inner)):
        found = study.compare_recordings(*map(two_heads, pair))
        away = {one.label: one.distance for one in found.heads}
        assert away["L0H0"] < 0.01 < away["L0H1"]


def test_progress_is_told_head_by_head(planted: Any) -> None:
    told: list[tuple[int, int]] = []
    study.compare_recordings(planted, planted, go_on=lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == list(range(told[0][1])) and len(set(told)) == len(told)
