"""Each pattern is its definition on random heads and on planted ones; planted heads are called what
they are and nothing else, and random ones nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard import study
from regard.axes import Axis, Grid, Tokens
from regard.mask.kinds import Table
from regard.recording import Recording
from regard.score import ScoreRule
from regard.study.patches import near, same_column, same_place, same_row, spots_of
from study.conftest import head_of, head_of_patches, heads_of, record
from study.patternless import LENGTHS, MASKS, SHAPES, Random, labels_given
from support.recordings import Chunk, WrittenPlace, write_recording
from support.recordings.planted import (
    FRAME_KINDS,
    KINDS,
    PATCH_KINDS,
    Planted,
    Words,
    expected,
    expected_of_patches,
    mixed,
    patch_targets,
    record_patches,
    targets,
    text,
)

SINKS = (0.0, 0.5, 0.9, 0.999)
N = 150


# ── every number is its definition ───────────────────────────────────────────────────────────


def definitions(
    p: np.ndarray, ids: np.ndarray, stops: np.ndarray, seen: np.ndarray | None
) -> dict[str, tuple[float, float]]:
    """Score and chance by pattern, from the dense weights (rows, keys) and what may be seen; None
    where masks do not say which copies a row sees."""
    n = len(p)
    i, j = np.arange(n)[:, None], np.arange(n)
    copies, after = (ids[i] == ids) & (j < i), (ids[i] == np.roll(ids, 1)) & (j < i) & (j > 0)
    every = np.ones(n, bool)
    shown = np.ones((n, n), bool) if seen is None else seen
    which = {
        "previous": (i - j == 1, j > 0), "self": (i == j, every),
        "local-8": (np.abs(i - j) < 8, every), "local-64": (np.abs(i - j) < 64, every),
        "duplicate-token": (copies, (copies & shown).any(-1)),
        "prefix-matching": (after, (after & shown).any(-1)), "delimiter": (stops[None], every),
    }  # fmt: skip
    scores = {}
    for name, (keys, rows) in which.items():
        chance = np.nan
        if seen is not None:
            with np.errstate(invalid="ignore"):
                chance = ((keys & seen).sum(-1) / seen.sum(-1))[rows].mean()
        scores[name] = float((p * keys).sum(-1)[rows].mean()), float(chance)
    return scores


def expect(head: study.HeadStudy, wanted: dict[str, tuple[float, float]]) -> None:
    for name, (score, chance) in wanted.items():
        assert head[name].score == pytest.approx(score, abs=2e-5), name
        assert head[name].chance == pytest.approx(chance, abs=1e-6, nan_ok=True), name


def random_heads(
    mask: Any, score: ScoreRule | None = None, **options: Any
) -> tuple[Recording, WrittenPlace]:
    rule = ScoreRule(0.25) if score is None else score
    store, place = write_recording(
        chunks=[Chunk((0, N), (0, N), mask, rule)], spread=3.0, **options
    )
    return Recording(store), place


@pytest.mark.parametrize(
    "mask",
    [None, regard.Causal(), regard.Window(20), regard.Window(9, 6),
     regard.Documents(torch.arange(N) // 50) & regard.Causal(),
     Table(torch.rand(N, N, generator=torch.Generator().manual_seed(0)) < 0.6),
     Table(torch.rand(4, N, N, generator=torch.Generator().manual_seed(1)) < 0.6)],
    ids=["all", "causal", "window", "both ways", "documents", "table", "tables"],
)  # fmt: skip
def test_numbers_of_random_heads_are_their_definitions(mask):
    recording, place = random_heads(mask)
    view, truth = recording.prompts[0], place.truth
    stops = view.streams["tokens"].delimiters
    for n, head in enumerate(study.patterns(recording)):
        seen = None if isinstance(mask, Table) else truth.exact.visible.numpy()[n]
        wanted = definitions(truth.weights()[n], view.ids, stops, seen)
        del wanted["previous"]  # over rows that are no repeats: of planted heads, below
        expect(head, wanted)
        for name, number in (("sink", head.sink), ("non_sink", head.non_sink)):
            assert number == pytest.approx(recording.grid(name)[0, n], nan_ok=True)


def test_numbers_of_planted_heads_are_their_definitions(planted, words):
    n = words.size
    for head in study.patterns(planted, evidence="none"):
        p = np.asarray(planted[head.label], np.float64)
        expect(head, definitions(p, words, words == 1, np.tri(n, dtype=bool)))
        offset = head["offset"].detail["offset"]
        best = max(np.diagonal(p, -d).mean() for d in range(2, n - 64 + 1))
        assert head["offset"].score == pytest.approx(best, abs=2e-5)
        assert np.diagonal(p, -offset).mean() == pytest.approx(best, abs=2e-5)
        sinks = [k for k in range(n - 64 + 1) if p[k:, k].mean() > 0.3]
        assert head["sink"].detail["keys"] == sinks
        assert head["sink"].score == pytest.approx(p[:, sinks].sum(-1).mean(), abs=2e-5)
        assert head.non_sink == pytest.approx(np.delete(p, sinks, 1).sum(-1).mean(), abs=2e-5)
        assert head["sharp"].score == pytest.approx((p.max(-1) > 0.99).mean())


def test_a_learned_sink_is_a_sink():
    sink = torch.tensor([-20.0, 0.0, 4.0, 30.0])
    recording, place = random_heads(regard.Causal(), ScoreRule(0.25, sink=sink))
    heads = study.patterns(recording)
    for head, mass in zip(heads, place.truth.exact.sink.numpy().mean(-1), strict=True):
        assert head["sink"].detail.get("learned", 0) == pytest.approx(mass, abs=1e-3)
        assert head.non_sink <= 1 - mass + 1e-3
    assert heads[3].labels == ("sink", "inactive") and heads[3].sink == pytest.approx(1, abs=1e-3)
    assert "a learned sink" in study.sentence(heads[3], heads[3]["sink"])
    assert "sink" not in heads[0].labels


def test_bins_of_rows_and_missing_q_and_k_change_no_number(planted, kept, words, layers):
    coarse = record(layers, words, budget="900kB")
    assert coarse["L0H0"].place.row_bin > 1
    exact, stored, binned = map(study.patterns, (planted, kept, coarse))
    for head, other, rough in zip(exact, stored, binned, strict=True):
        assert head.labels == other.labels
        for name in KINDS:
            assert other[name].score == pytest.approx(head[name].score, abs=1e-6)
        assert set(rough.labels) == set(head.labels) - {"delimiter"}  # needs single keys
        assert all(finding.rows for finding in rough if finding.holds)
    plain, binned = (random_heads(regard.Causal(), **more)[0] for more in
                     ({}, {"row_bin": 4, "top_every": 4}))  # fmt: skip
    for head, other in zip(*map(study.patterns, (plain, binned)), strict=True):
        for name in ("previous", "self", "local-8", "duplicate-token", "prefix-matching"):
            assert other[name].score == pytest.approx(head[name].score, abs=1e-6)
            assert other[name].chance == pytest.approx(head[name].chance)


def test_what_was_not_kept_is_not_known():
    for head in study.patterns(random_heads(regard.Causal(), statistics=False)[0]):
        assert head.labels == () and all(not finding.known and finding.why_not for finding in head)
    (head, *_) = study.patterns(random_heads(regard.Causal(), tokens=False)[0])
    for name in ("duplicate-token", "prefix-matching", "delimiter"):
        assert head[name].why_not == "the tokens are not known"
    assert head["previous"].known
    (head, *_) = study.patterns(random_heads(regard.Causal(), key_bin=8)[0])
    assert "single keys" in head["delimiter"].why_not and not head["delimiter"].known
    chunk = Chunk((0, 30), (0, 80))
    store, _ = write_recording(chunks=[chunk], kind="cross", query_tokens="", key_tokens="tokens")
    for head in study.patterns(Recording(store)):
        assert "different sequences" in head["previous"].why_not
        assert not head["prefix-matching"].known
        assert head["sink"].known and head["sharp"].known


def test_rows_that_were_not_recorded_do_not_count():
    recording, place = random_heads(regard.Causal(), rows=(60, 130))
    for n, head in enumerate(study.patterns(recording)):
        p = place.truth.weights()[n][60:130]
        before = p[np.arange(70), np.arange(59, 129)]
        assert head["previous"].score == pytest.approx(before.mean(), abs=1e-5)
        assert all(60 <= seen.row < 130 for finding in head for seen in finding.rows)


# ── planted heads ────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_planted_heads_are_called_what_they_are(seed):
    """Whatever a sink takes of their mass; of all cases of a seed one may be wrong."""
    ids, dice = text(288, seed), np.random.default_rng(seed)
    aims, weights = targets(ids, seed), []
    cases = [(kind, sink) for kind in KINDS for sink in SINKS]
    for n, (kind, sink) in enumerate(cases):
        strength = 1.0 if kind in ("uniform", "sharp") else dice.uniform(0.8, 0.97)
        noise = 0.05 if kind == "sharp" else 0.3
        weights.append(mixed(aims[kind], sink, strength, noise, seed * 100 + n))
    heads = heads_of(np.array(weights), ids, "none")
    wrong = [
        (kind, sink, head.labels)
        for (kind, sink), head in zip(cases, heads, strict=True)
        if set(head.labels) != expected(kind, sink)
    ]
    assert len(wrong) <= len(cases) // 30, wrong


@pytest.mark.parametrize("length", [64, 128, 192])
def test_planted_heads_of_short_texts_are_named_with_their_test(length):
    ids = text(length, seed=2, words=30)
    aims = targets(ids) | {"sink": targets(ids)["uniform"]}
    kinds = [*KINDS, "sink", *(["local-64"] if length >= 128 else [])]
    weights = [
        mixed(aims[kind], 0.7 * (kind == "sink"), 1.0 if kind == "sharp" else 0.9, 0.05, n)
        for n, kind in enumerate(kinds)
    ]
    for kind, head in zip(kinds, heads_of(weights, ids, "none"), strict=True):
        assert kind in head.labels, (kind, head.labels, head[kind].why_not)
        assert head[kind].n_rows >= 8 and head[kind].p_value <= 0.0005 and head[kind].test


@pytest.mark.parametrize("seed", [0, 1])
def test_a_head_is_called_the_same_wherever_it_stands(seed):
    """Its labels and scores depend on neither its number nor its neighbours, but for the one
    pattern that is a comparison with them."""
    ids = text(120, seed=seed)
    aims = targets(ids, seed=seed)
    kinds = ["previous", "duplicate-token", "delimiter", "uniform"]
    weights = [mixed(aims[kind], strength=0.9, seed=n) for n, kind in enumerate(kinds)]
    forth, back = heads_of(weights, ids), heads_of(weights[::-1], ids)[::-1]
    for kind, own, head, other in zip(kinds, weights, forth, back, strict=True):
        alone = head_of(own, ids)
        assert kind in head.labels and head.labels == other.labels == alone.labels
        for findings in zip(head, other, alone, strict=True):
            if findings[0].pattern != "inactive":
                scores = [finding.score for finding in findings]
                assert scores == pytest.approx([scores[0]] * 3, abs=1e-6, nan_ok=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("length", LENGTHS)
def test_heads_without_a_pattern_get_no_label(length):
    """Of 400 random heads at each length, one in a hundred at most; none below 16 tokens."""
    every = [
        labels for mask in MASKS.values() for _, labels in labels_given(length, mask, 50, (0, 1))
    ]
    wrong = [labels for labels in every if labels - SHAPES]
    assert len(wrong) <= len(every) // 100, wrong
    assert length >= 16 or not any(every)


# ── patches of pictures ──────────────────────────────────────────────────────────────────────


def planted_patches(grid: Grid, cases: list[tuple[str, float]], seed: int, **options: Any) -> Any:
    """A head for each kind and sink. What is a mean of many random values is small: such heads
    have larger ones."""
    aims, dice = patch_targets(grid, seed), np.random.default_rng(seed)
    sees, weights = np.ones((grid.count, grid.count), bool), []
    for n, (kind, sink) in enumerate(cases):
        strength = 1.0 if kind in ("uniform", "sharp") else dice.uniform(0.8, 0.97)
        noise = 0.05 if kind == "sharp" else 0.3
        weights.append(mixed(aims[kind], sink, strength, noise, seed * 100 + n, sees=sees))
    values = [9.0 if kind in ("uniform", "border") and not sink else 1.0 for kind, sink in cases]
    return record_patches(np.array([weights]), grid, values=np.array([values]), **options)


FRAMES = Grid(7, 8, frames=3, prefix=1)
GRIDS = [
    (Grid(10, 9, prefix=1, names=("class",)), 0), (Grid(14, 14, prefix=5), 1),
    (Grid(8, 16, prefix=2), 2), (FRAMES, 1),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("grid", "seed"), GRIDS, ids=["10x9", "14x14", "8x16", "frames"])
def test_planted_heads_over_patches_have_their_label_and_no_other(grid, seed):
    kinds = [*PATCH_KINDS]
    if grid is FRAMES:
        kinds = [*FRAME_KINDS, *(kind for kind in PATCH_KINDS if kind != "object")]
    cases = [(kind, sink) for kind in kinds for sink in SINKS if grid is not FRAMES or sink != 0.9]
    heads = study.patterns(planted_patches(grid, cases, seed), evidence="none")
    for (kind, sink), head in zip(cases, heads, strict=True):
        assert set(head.labels) == expected_of_patches(kind, sink), (kind, sink)
        assert ("previous-frame" in {finding.pattern for finding in head}) == (grid is FRAMES)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dim", [8, 32])
@pytest.mark.parametrize(
    "grid", [Grid(4, 4, prefix=1), Grid(7, 7, prefix=1), Grid(14, 14), Grid(4, 4, frames=3)]
)
def test_random_heads_over_patches_get_no_label_that_says_where_they_look(dim, grid):
    given: Counter[str] = Counter()
    for seed in range(2):
        model = Random(None, 50, dim, seed)
        with torch.no_grad(), regard.record(model, axes=grid) as rec:
            model(torch.zeros(1, grid.count))
        for head in study.patterns(rec, evidence="none"):
            given.update(set(head.labels) - SHAPES)
    assert not given


def record_causal(weights: np.ndarray, axis: Any, ids: np.ndarray | None = None) -> Any:
    """(heads, N, N) weights under a causal mask, over an axis."""
    model = Planted(weights[None])
    with torch.no_grad(), regard.record(model, axes={"L0": axis}, tokenizer=Words()) as rec:
        model(torch.tensor(np.arange(weights.shape[-1]) if ids is None else ids)[None])
    return rec


def test_numbers_of_patches_are_their_definitions():
    """Against the dense matrix, under a mask that lets rows see what comes before them."""
    grid = Grid(6, 7, frames=2, prefix=1)
    aims, n = patch_targets(grid), grid.count
    sees = np.tri(n, dtype=bool)
    p = np.random.default_rng(0).random((n, n)) ** 3 * sees
    p /= p.sum(-1, keepdims=True)
    (head,) = study.patterns(record_causal(p[None], Axis((grid,))), evidence="all")
    for name in ("near-1", "near-2", "same-row", "same-column", "previous-frame", "next-frame",
                 "border", "register"):  # fmt: skip
        rows = aims[name].any(-1) if name not in ("border", "register") else slice(None)
        mass, even = (p * aims[name]).sum(-1), (aims[name] & sees).sum(-1) / sees.sum(-1)
        assert head[name].score == pytest.approx(mass[rows].mean(), abs=1e-5), name
        assert head[name].chance == pytest.approx(even[rows].mean(), abs=1e-9), name
    best = head["near-1"].rows[0]
    assert best.value == pytest.approx((p * aims["near-1"]).sum(-1)[best.row], abs=1e-5)
    assert best.token == grid.name(best.row)


def test_a_narrower_label_takes_precedence():
    """Left and right alone: beside it, and not along the row."""
    grid = Grid(10, 10)
    aims, sees = patch_targets(grid), np.ones((100, 100), bool)
    head = head_of_patches(mixed(aims["near-1"] & aims["same-row"], strength=0.95, sees=sees), grid)
    assert head.labels == ("near-1",)
    for name in ("same-row", "near-2"):
        assert head[name].why_not == "a sharper label says it", name
    patterns = {finding.pattern for finding in head}
    assert not patterns & {"previous", "offset", "local-8", "duplicate-token", "delimiter", "sink"}
    words = study.sentence(head, head["near-1"])
    assert words.startswith("L0H0 looks at the patches beside its own (0.")
    assert "of its mass; chance 0.0" in words and "best seen at row" in words


def test_without_q_and_k_what_keys_received_is_known_and_the_rest_is_not():
    kinds = ["near-1", "border", "register", "sink-patch", "object"]
    cases = [(kind, 0.0) for kind in kinds]
    rec = planted_patches(Grid(14, 14, prefix=1), cases, 0, budget="800kB")
    assert not rec["L0H0"].exact and rec["L0H0"].place.key_bin == 1
    heads = study.patterns(rec)
    assert [head.labels for head in heads] == [(), ("border",), ("register",), ("sink-patch",), ()]
    assert "needs its q and k" in heads[0].not_known["near-1"]
    assert "needs their q and k" in heads[4].not_known["object"]


def test_a_picture_within_a_text_has_words_and_patches():
    """Words are judged by words alone, and patches by patches."""
    axis = Axis((Tokens(6), Grid(8, 8), Tokens(40)))
    n, dice = len(axis), np.random.default_rng(1)
    ids = dice.integers(2, 60, n)
    ids[0], ids[6:70] = 0, 999  # every patch has the same token
    aims = np.zeros((n, n), bool)
    aims[6:70, 6:70] = patch_targets(Grid(8, 8))["near-1"]
    words = np.r_[1:6, 71:n]
    aims[words, words - 1] = True  # the token before
    patches = aims.copy()
    patches[words] = False
    rec = record_causal(np.array([mixed(aim, 0, 0.9, 0.1) for aim in (aims, patches)]), axis, ids)
    both, alone = study.patterns(rec)
    assert both.labels == ("previous", "near-1") and alone.labels == ("near-1",)
    p, text = np.asarray(rec["L0H1"], np.float64), np.flatnonzero(ids != 999)
    before = np.mean([p[i, i - 1] for i in text if i > 0])
    assert alone["previous"].score == pytest.approx(before, abs=1e-5)
    near = np.abs(np.arange(n)[:, None] - np.arange(n)) < 8
    assert alone["local-8"].score == pytest.approx((p * near)[text].sum(-1).mean(), abs=1e-5)
    chance = (np.minimum(text + 1, 8) / (text + 1)).mean()
    assert alone["local-8"].chance == pytest.approx(chance)
    assert alone["duplicate-token"].score < 0.1  # patches are no copies of one another


def test_positions_know_where_they_lie():
    spots = spots_of(Axis((Tokens(3), Grid(2, 4, prefix=1), Tokens(1), Grid(3, 3, frames=2))))
    assert np.flatnonzero(spots.text).tolist() == [0, 1, 2, 12]
    assert np.flatnonzero(spots.register).tolist() == [3]
    assert spots.grid.tolist() == [-1] * 4 + [0] * 8 + [-1] + [1] * 18
    assert (spots.row[9], spots.column[9]) == (1, 1)
    assert np.flatnonzero(~spots.border[13:]).tolist() == [4, 13]  # the middles of 3 × 3
    # a window of a picture has no border, and a picture beside others has
    assert not spots_of(Axis((Grid(4, 4, windows=(2, 2)),))).border.any()
    assert spots_of(Axis((Grid(4, 4, windows=(1, 2), apart=True),))).border.sum() == 12


def test_blocks_do_not_change_who_is_beside_whom():
    plain, merged = (spots_of(Axis((Grid(4, 8, merge=m),))) for m in (1, 2))
    order = np.lexsort((merged.column, merged.row))
    for relation in (near(1), near(2), same_row, same_column, same_place(1)):
        np.testing.assert_array_equal(
            relation(merged.at(order[:, None]), merged.at(order)),
            relation(plain.at(np.arange(32)[:, None]), plain),
        )
