"""What the patterns are told by, under every kind of mask, against the dense truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard import study
from regard.mask.kinds import Table
from regard.recording import Recording
from regard.score import ScoreRule
from regard.study.facts import PlaceFacts
from support.recordings import Chunk, WrittenPlace, write_recording

N = 150
MASKS = {
    "all": None,
    "causal": regard.Causal(),
    "window": regard.Window(20),
    "both ways": regard.Window(9, 6),
    "documents": regard.Documents(torch.arange(N) // 50) & regard.Causal(),
    "table": Table(torch.rand(N, N, generator=torch.Generator().manual_seed(0)) < 0.6),
}
EVERY_MASK = pytest.mark.parametrize("name", MASKS)


def made(
    mask: Any, score: ScoreRule | None = None, **options: Any
) -> tuple[Recording, WrittenPlace]:
    rule = ScoreRule(0.25) if score is None else score
    chunk = Chunk((0, N), (0, N), mask, rule)
    store, truth = write_recording(chunks=[chunk], spread=3.0, **options)
    return Recording(store), truth


def words_of(recording: Recording) -> tuple[np.ndarray, np.ndarray]:
    view = recording.prompts[0]
    return view.ids, view.streams["tokens"].delimiters


@EVERY_MASK
def test_patterns_are_their_definitions(name: str) -> None:
    recording, truth = made(MASKS[name])
    ids, stops = words_of(recording)
    sees = truth.truth.exact.visible.numpy()
    i, j = np.arange(N)[:, None], np.arange(N)
    copies = (ids[i] == ids) & (j < i)
    after = (ids[i] == np.roll(ids, 1)) & (j < i) & (j > 0)
    for n, head in enumerate(study.patterns(recording)):
        p, seen = truth.truth.weights()[n], sees[n]
        known = name != "table"  # of a table nobody knows which copies a row sees
        for pattern, which in (("duplicate-token", copies), ("prefix-matching", after)):
            rows = (which & seen).any(-1) if known else which.any(-1)
            assert head[pattern].score == pytest.approx((p * which).sum(-1)[rows].mean(), abs=1e-5)
        for pattern, which in (("local-8", np.abs(i - j) < 8), ("self", i == j)):
            assert head[pattern].score == pytest.approx((p * which).sum(-1).mean(), abs=1e-5)
            chance = ((which & seen).sum(-1) / seen.sum(-1)).mean()
            expected = pytest.approx(chance if known else np.nan, nan_ok=True)
            assert head[pattern].chance == expected
        assert head["delimiter"].score == pytest.approx((p * stops).sum(-1).mean(), abs=1e-5)


@EVERY_MASK
def test_sinks_are_those_of_the_statistics(name: str) -> None:
    recording, _ = made(MASKS[name])
    facts = PlaceFacts(recording.prompts[0], "L0")
    for slot, head in enumerate(facts.heads()):
        for mine, theirs in ((head.sink, "sink"), (head.non_sink, "non_sink")):
            assert mine == pytest.approx(facts.statistics[theirs][slot])


def test_a_learned_sink_is_a_sink() -> None:
    sink = torch.tensor([-20.0, 0.0, 4.0, 30.0])
    recording, truth = made(regard.Causal(), ScoreRule(0.25, sink=sink))
    heads = study.patterns(recording)
    taken = truth.truth.exact.sink.numpy().mean(-1)
    for head, mass in zip(heads, taken, strict=True):
        assert head["sink"].detail.get("learned", 0) == pytest.approx(mass, abs=1e-3)
        assert head.non_sink <= 1 - mass + 1e-3
    assert heads[3].labels == ("sink", "inactive") and heads[3].sink == pytest.approx(1, abs=1e-3)
    assert "a learned sink" in study.sentence(heads[3], heads[3]["sink"])
    assert "sink" not in heads[0].labels


def test_rows_and_keys_in_bins() -> None:
    plain, binned = made(regard.Causal())[0], made(regard.Causal(), row_bin=4, top_every=4)[0]
    for one, other in zip(study.patterns(plain), study.patterns(binned), strict=True):
        for pattern in ("previous", "self", "local-8", "duplicate-token", "prefix-matching"):
            assert other[pattern].score == pytest.approx(one[pattern].score, abs=1e-6)
            assert other[pattern].chance == pytest.approx(one[pattern].chance)
    coarse = study.patterns(made(regard.Causal(), key_bin=8)[0])
    assert "single keys" in coarse[0]["delimiter"].why_not
    assert np.isnan(coarse[0]["delimiter"].score) and not coarse[0]["delimiter"].known


def test_what_was_not_kept_is_not_known() -> None:
    recording, _ = made(regard.Causal(), statistics=False)
    for head in study.patterns(recording):
        assert head.labels == ()
        assert all(not one.known and one.why_not for one in head)
    without = study.patterns(made(regard.Causal(), tokens=False)[0])
    for pattern in ("duplicate-token", "prefix-matching", "delimiter"):
        assert without[0][pattern].why_not == "the tokens are not known"
    assert without[0]["previous"].known


def test_cross_attention_has_no_distances() -> None:
    chunk = Chunk((0, 30), (0, 80))
    store, _ = write_recording(chunks=[chunk], kind="cross", query_tokens="", key_tokens="tokens")
    for head in study.patterns(Recording(store)):
        assert "different sequences" in head["previous"].why_not
        assert not head["prefix-matching"].known
        assert head["sink"].known and head["sharp"].known


def test_rows_that_were_not_recorded_do_not_count() -> None:
    recording, truth = made(regard.Causal(), rows=(60, 130))
    for n, head in enumerate(study.patterns(recording)):
        p = truth.truth.weights()[n][60:130]
        before = p[np.arange(70), np.arange(59, 129)]
        assert head["previous"].score == pytest.approx(before.mean(), abs=1e-5)
        for one in (seen for finding in head for seen in finding.rows):
            assert 60 <= one.row < 130
