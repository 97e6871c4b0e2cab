"""Two recordings, head by head: which token stands for which, how far apart two rows or two stored
profiles are, and which heads differ most."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import regard
from regard import study
from regard.errors import InputError
from regard.recording import Recording
from regard.score import ScoreRule
from regard.study import js_distance
from regard.study.align import align
from regard.study.divergence import js_of_masses
from study.conftest import even, on_first, record
from support.recordings import Chunk, write_prompt, write_recording
from support.recordings.planted import mixed, targets, text

N = 140
RULE = ScoreRule(0.25)


# ── distances between distributions ──────────────────────────────────────────────────────────

SHARES = arrays.arrays(np.float64, 6, elements=st.floats(0, 10)).map(
    lambda masses: (masses + 1e-3) / (masses + 1e-3).sum()
)


@given(SHARES, SHARES, SHARES, st.permutations(range(6)), st.floats(0.01, 100))
def test_it_is_a_distance_of_its_definition(
    p: np.ndarray, q: np.ndarray, r: np.ndarray, order: list[int], size: float
) -> None:
    """Neither the order of things nor the size of masses matters."""
    m = (p + q) / 2
    bits = (p * np.log2(p / m) + q * np.log2(q / m)).sum() / 2
    distance = float(js_distance(p, q))
    assert distance == pytest.approx(np.sqrt(max(bits, 0)), abs=1e-7) and 0 <= distance <= 1
    assert js_distance(p, p) == pytest.approx(0, abs=1e-7)
    assert js_distance(q, p) == pytest.approx(distance)
    assert js_distance(p[order], q[order]) == pytest.approx(distance, abs=1e-9)
    assert js_distance(p, r) <= distance + js_distance(q, r) + 1e-9
    assert js_of_masses(size * p, q) == pytest.approx(distance, abs=1e-6)


def test_what_one_side_does_not_have():
    """The same as with those things written out; nothing is as far from something as can be."""
    wide = study.js_distance([0.6, 0.4, 0.0], [0.7, 0.0, 0.3])
    assert study.js_distance([0.6], [0.7], apart=0.4 + 0.3) == pytest.approx(float(wide))
    assert study.js_distance([0.0], [0.0], apart=2.0) == 1
    assert study.js_distance([0.5, 0.5, 0.0], [0, 0, 1.0]) == pytest.approx(1)
    assert js_of_masses([0, 0], [0, 0]) == 0 and js_of_masses([0, 0], [1, 0]) == 1


# ── which token stands for which ─────────────────────────────────────────────────────────────

IDS = st.lists(st.integers(0, 3), max_size=25)


def stream(ids: Any) -> Any:
    return SimpleNamespace(ids=np.array(ids, np.int64))


def pairs(a: Any, b: Any, counts: tuple[int, int] | None = None) -> tuple[str, list[Any]]:
    aligned = align(stream(a), stream(b), counts or (len(a), len(b)))
    return aligned.how, [*zip(aligned.a.tolist(), aligned.b.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("a", "b", "how", "aligned"),
    [
        ([1, 2, 3], [1, 2, 3], "the same tokens", [0, 1, 2]),
        ([1, 2, 3], [1, 9, 3], "row by row; 2 of 3 tokens are the same", [0, 1, 2]),
        ([1, 2, 5, 6, 7, 4], [1, 2, 8, 5, 6, 7, 3, 4],
         "by tokens: 6 of 6 and 8 stand for each other", [0, 1, 3, 4, 5, 7]),
        ([1, 2], [3, 4, 5], "", []),
    ],
)  # fmt: skip
def test_beginning_and_end_and_what_both_have_between(a, b, how, aligned):
    says, pair = pairs(a, b)
    assert how in says and pair == list(enumerate(aligned))


@given(IDS, IDS, st.lists(st.integers(4, 9), max_size=6))
def test_pairs_are_of_equal_tokens_and_ascend(a: list[int], b: list[int], new: list[int]) -> None:
    """From either side; and words put in between are left out."""
    for first, second in ((a, b), (b, a)):
        _, aligned = pairs(first, second)
        assert all(i < j and k < m for (i, k), (j, m) in itertools.pairwise(aligned))
        if len(a) == len(b):
            assert aligned == [(n, n) for n in range(len(a))]
        else:
            assert all(first[i] == second[j] for i, j in aligned)
    _, aligned = pairs(a + b, a + new + b)
    assert len(aligned) == len(a + b)
    assert not new or not {j for _, j in aligned} & set(range(len(a), len(a + new)))


@pytest.mark.parametrize("sizes", [(9, 0), (0, 9), (9, 4), (4, 9), (4, 4), None])
def test_too_few_ids_on_either_side_are_said(sizes):
    """A side with more ids than rows does not make up for the other."""
    sides = (None, None) if sizes is None else tuple(stream(range(size)) for size in sizes)
    aligned = align(*sides, (6, 6))
    assert aligned.how == "row by row; the tokens are not known"
    assert len(aligned) == 6 and aligned.is_identity


def test_a_long_difference_keeps_beginning_and_end():
    a = np.arange(70_000)
    b = np.concatenate([a[:100], -a[100:50_000], a[50_000:-1], a[-1:], a[-1:]])
    assert 100 <= len(align(stream(a), stream(b), (a.size, b.size))) < 70_000


# ── recordings ───────────────────────────────────────────────────────────────────────────────


def made(seed: int = 0, n: int = N, **options: Any) -> tuple[Recording, np.ndarray]:
    chunk = Chunk((0, n), (0, n), options.pop("mask", regard.Causal()), options.pop("score", RULE))
    store, place = write_recording(chunks=[chunk], seed=seed, spread=2.0, **options)
    return Recording(store), place.truth.weights()


@pytest.mark.parametrize("sink", [None, torch.full((4,), 3.0)])
def test_rows_against_the_dense_definition(sink):
    """A learned sink is a key of both."""
    (a, p), (b, q) = (made(seed, score=ScoreRule(0.25, sink=sink)) for seed in (0, 1))
    comparison = study.compare_recordings(a, b)
    assert comparison.alignment == "the same tokens" and len(comparison.heads) == 4
    for head in comparison.heads:
        n = int(head.label[-1])
        each = js_distance(*(np.c_[side[n], (1 - side[n].sum(-1)).clip(0)] for side in (p, q)))
        assert (head.how, head.rows) == ("rows", N)
        assert head.distance == pytest.approx(each.mean(), abs=1e-5)
        assert head.worst is not None and head.worst[0] == head.worst[1]
        assert head.worst_distance == pytest.approx(each.max(), abs=1e-5)
    away = [head.distance for head in comparison.heads]
    assert away == sorted(away, reverse=True) and comparison.largest == away[0]


def test_some_rows_stand_for_all_and_a_number_format_is_a_small_difference():
    (a, _), (b, _), (half, _) = made(0), made(1), made(0, dtype=torch.bfloat16)
    some = {head.label: head for head in study.compare_recordings(a, b, rows=48).heads}
    for head in study.compare_recordings(a, b, rows=None).heads:
        assert some[head.label].rows == 48
        assert some[head.label].distance == pytest.approx(head.distance, abs=0.1)
    assert all(0 < head.distance < 0.02 for head in study.compare_recordings(a, half).heads)


def test_a_recording_and_itself_with_q_and_k_or_by_profiles(planted, kept):
    progress: list[tuple[int, int]] = []
    same = study.compare_recordings(
        planted, planted, go_on=lambda done, total: progress.append((done, total))
    )
    assert same.largest == 0 and {head.how for head in same.heads} == {"rows"}
    assert [done for done, _ in progress] == list(range(progress[0][1]))
    stored = study.compare_recordings(planted, kept)
    assert {head.how for head in stored.heads} == {"profiles"} and stored.largest < 1e-4
    assert {name for name, _ in stored.heads[0].profiles} == {"entropy", "received", "offsets"}
    (a, _), (b, _) = made(0, statistics=False, exact=False), made(0)
    none = study.compare_recordings(a, b)
    assert {head.how for head in none.heads} == {"nothing"} and none.largest == 0


def profiles_of(a: Recording, b: Recording) -> dict[str, float]:
    heads = {head.label: head for head in study.compare_recordings(a, b).heads}
    assert {head.how for head in heads.values()} == {"profiles"}
    return dict(heads["L0H2"].profiles)


def test_profiles_against_the_stored_arrays():
    """Mass by distance over shared edges; rows and keys in other bins are not compared."""
    (a, _), (b, _) = (made(seed, exact=False) for seed in (0, 1))
    far = profiles_of(a, b)
    stored = [(a["L0H2"].stored[name], b["L0H2"].stored[name]) for name in
              ("entropy", "received", "offsets")]  # fmt: skip
    gap = np.abs(stored[0][0].values - stored[0][1].values).mean()
    assert far["entropy"] == pytest.approx(gap, rel=1e-5)
    for name, sides in zip(("received", "offsets"), stored[1:], strict=True):
        p, q = (np.asarray(side.values, np.float64) for side in sides)
        assert far[name] == pytest.approx(float(js_distance(p / p.sum(), q / q.sum())), rel=1e-6)
    binned, other = (made(seed, exact=False, row_bin=4, key_bin=4)[0] for seed in (0, 1))
    assert profiles_of(a, binned) == {"offsets": 0}
    assert set(profiles_of(binned, other)) == {"entropy", "received", "offsets"}
    short = made(0, 80, exact=False)[0]
    shorter, p = profiles_of(a, short), a["L0H2"].stored["offsets"].values
    q = np.pad(short["L0H2"].stored["offsets"].values, N - 80)
    assert shorter["offsets"] == pytest.approx(float(js_distance(p / p.sum(), q / q.sum())), 1e-5)
    assert 0 < shorter["received"] < 1


def test_heads_by_rows_come_before_heads_by_profiles():
    stores = []
    for seed in (0, 1):
        store, _ = write_recording(chunks=[Chunk((0, 60), (0, 60), regard.Causal())], seed=seed)
        write_prompt(store, [Chunk((0, 60), (0, 60), regard.Causal())], seed=seed + 5, layer=1,
                     exact=False, tokens=False)  # fmt: skip
        stores.append(store)
    heads = study.compare_recordings(*map(Recording, stores)).heads
    assert [head.how for head in heads] == ["rows"] * 4 + ["profiles"] * 4


def test_a_text_with_a_word_more():
    """Rows and keys are matched by their tokens: the same pattern is the same head, and keys
    without a partner are apart."""
    ids = text(120, words=3000)
    longer = np.insert(ids, 50, 9999)
    pair = [record(mixed(targets(own)["previous"], strength=0.95), own) for own in (ids, longer)]
    comparison = study.compare_recordings(*pair)
    (head,) = comparison.heads
    assert head.rows == 120 and head.distance < 0.1
    assert head.worst == (50, 51) and head.worst_distance > 0.8  # the word before it is another
    assert "by tokens: 120 of 120 and 121" in comparison.alignment
    weights = on_first(121)
    weights[60:] = np.eye(121)[50]  # the inserted token
    (head,) = study.compare_recordings(record(on_first(120), ids), record(weights, longer)).heads
    assert head.distance == pytest.approx(0.5, abs=0.02) and head.worst_distance == pytest.approx(1)


@pytest.mark.parametrize("before", [None, 1, 60])
def test_heads_that_park_on_the_first_token_are_not_the_farthest_apart(before):
    """Of a text and one in which it stands further back, or that begins with another word: the
    first token of the one stands for another of the other, and is parked on."""
    left = text(N)
    if before is None:
        right = text(N - 20)
        right[0] = int(left.max()) + 1  # a word that the other text does not have
        right[1:60] = left[1:60]
    else:
        right = np.concatenate([np.arange(before) + int(left.max()) + 1, left])
    sides = [record(np.stack([on_first(len(ids)), even(len(ids))]), ids) for ids in (left, right)]
    for pair in (sides, sides[::-1]):
        comparison = study.compare_recordings(*pair)
        away = {head.label: head.distance for head in comparison.heads}
        assert away["L0H0"] < 0.01 < away["L0H1"] and comparison.heads[0].label == "L0H1"
        assert before is not None or comparison.alignment.endswith("and the first tokens do")


def test_prompts_and_heads_that_both_have():
    recording, _ = made(0, 50)
    write_prompt(recording.store, [Chunk((0, 50), (0, 50), regard.Causal())], prompt=1, seed=3)
    recording.refresh()
    assert study.compare_recordings(recording, recording, prompts=(0, 1)).largest > 0.1
    assert study.compare_recordings(recording, recording, prompts=(1, 1)).largest == 0
    (a, _), (b, _) = made(0, recorded=[0, 1, 2]), made(0, recorded=[1, 2, 3])
    comparison = study.compare_recordings(a, b)
    assert (list(comparison.only_a), list(comparison.only_b)) == (["L0H0"], ["L0H3"])
    assert {head.label for head in comparison.heads} == {"L0H1", "L0H2"}
    back = json.loads(json.dumps(comparison.as_dict(), allow_nan=False))
    assert back["only_a"] == ["L0H0"] and back["heads"][0]["how"] == "rows"


def test_what_cannot_be_compared():
    (a, _), (b, _) = made(0, recorded=[0]), made(0, recorded=[1])
    for others, options, says in (
        (b, {}, "have no head in common"), (a, {"rows": 0}, "rows=0"),
        (a, {"prompts": (0, 2)}, "prompt 2 does not exist"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=says):
            study.compare_recordings(a, others, **options)
