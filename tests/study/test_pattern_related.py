"""Heads planted on a grid are called what they are; numbers are those of the matrix."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regard
from regard import study
from regard.axes import Axis, Grid, Tokens
from regard.study.words import sentence
from support.families.build import build
from support.families.inputs import accepted
from support.recordings.planted import (
    FRAME_KINDS,
    PATCH_KINDS,
    Words,
    causal,
    expected_of_patches,
    mixed,
    patch_targets,
    record_patches,
)

SINKS = (0.0, 0.5, 0.9, 0.999)
GRIDS = (Grid(10, 9, prefix=1, names=("class",)), Grid(14, 14, prefix=5), Grid(8, 16, prefix=2))
SCALES = (0.3, 1.0, 2.0, 4.0, 8.0)


def planted(grid: Grid, cases: list[tuple[str, float]], seed: int, **options: Any) -> Any:
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


@pytest.mark.parametrize("grid", GRIDS, ids=lambda g: f"{g.height}x{g.width}")
def test_every_planted_head_has_its_label_and_no_other(grid: Grid) -> None:
    cases = [(kind, sink) for kind in PATCH_KINDS for sink in SINKS]
    for seed in range(3):
        found = study.patterns(planted(grid, cases, seed), evidence="none")
        for (kind, sink), head in zip(cases, found, strict=True):
            assert set(head.labels) == expected_of_patches(kind, sink), (kind, sink, seed)


def test_frames_of_a_film() -> None:
    grid = Grid(7, 8, frames=3, prefix=1)
    kinds = [*FRAME_KINDS, *(kind for kind in PATCH_KINDS if kind != "object")]
    cases = [(kind, sink) for kind in kinds for sink in (0.0, 0.5, 0.999)]
    for (kind, sink), head in zip(cases, study.patterns(planted(grid, cases, 1)), strict=True):
        assert set(head.labels) == expected_of_patches(kind, sink), (kind, sink)
    (single,) = study.patterns(planted(Grid(10, 9, prefix=1), [("near-1", 0.0)], 0))
    assert "previous-frame" not in {one.pattern for one in single}


class Random(nn.Module):
    """Heads with random q and k, of several scales."""

    def __init__(self, dim: int, seed: int) -> None:
        super().__init__()
        self.dim, self.seed = dim, seed

    def forward(self, pixels: Tensor) -> Tensor:
        dice = torch.Generator().manual_seed(self.seed)
        size = 1, 50, pixels.shape[1], self.dim
        q, k, v = (torch.randn(size, generator=dice) for _ in range(3))
        scales = torch.tensor([SCALES[n % len(SCALES)] for n in range(50)])
        q = q * (scales / self.dim**0.5)[:, None, None]
        return regard.attend(q, k, v, scale=1.0).output


@pytest.mark.parametrize("dim", [8, 32])
def test_random_heads_get_no_label_that_says_where_they_look(dim: int) -> None:
    given: Counter[str] = Counter()
    for grid in (Grid(4, 4, prefix=1), Grid(7, 7, prefix=1), Grid(14, 14), Grid(4, 4, frames=3)):
        for seed in range(2):
            model = Random(dim, seed)
            with torch.no_grad(), regard.record(model, axes=grid) as rec:
                model(torch.zeros(1, grid.count, 1))
            for head in study.patterns(rec, evidence="none"):
                given.update(set(head.labels) - {"uniform", "sharp", "saturated", "inactive"})
    assert not given


def test_every_number_is_its_definition() -> None:
    """Against the dense matrix, under a mask that lets rows see what comes before them."""
    grid = Grid(6, 7, frames=2, prefix=1)
    aims, n = patch_targets(grid), grid.count
    p = np.random.default_rng(0).random((n, n)) ** 3 * causal(n)
    p /= p.sum(-1, keepdims=True)

    class Masked(nn.Module):
        def forward(self, pixels: Tensor) -> Tensor:
            scores = torch.tensor(np.log(np.maximum(p, 1e-30)), dtype=torch.float32)[None, None]
            key = torch.eye(n)[None, None]
            return regard.attend(scores, key, key, mask=regard.Causal(), scale=1.0).output

    model = Masked()
    with torch.no_grad(), regard.record(model, axes=grid) as rec:
        model(torch.zeros(1, n, 1))
    (head,) = study.patterns(rec, evidence="all")
    seen = np.arange(n) + 1
    for name in ("near-1", "near-2", "same-row", "same-column", "previous-frame", "next-frame"):
        rows = aims[name].any(-1)
        assert head[name].score == pytest.approx((p * aims[name]).sum(-1)[rows].mean(), abs=1e-5)
        chance = ((aims[name] & causal(n)).sum(-1) / seen)[rows].mean()
        assert head[name].chance == pytest.approx(chance, abs=1e-9), name
    for name, rows in (("border", slice(None)), ("register", slice(None))):
        assert head[name].score == pytest.approx((p * aims[name]).sum(-1)[rows].mean(), abs=1e-5)
        chance = ((aims[name] & causal(n)).sum(-1) / seen).mean()
        assert head[name].chance == pytest.approx(chance, abs=1e-9), name
    best = head["near-1"].rows[0]
    assert best.value == pytest.approx((p * aims["near-1"]).sum(-1)[best.row], abs=1e-5)
    assert best.token == grid.name(best.row)


def test_a_sharper_label_says_it() -> None:
    """Left and right alone: beside it, and not along the row."""
    grid = Grid(10, 10)
    aims = patch_targets(grid)
    sees = np.ones((100, 100), bool)
    weights = mixed(aims["near-1"] & aims["same-row"], strength=0.95, sees=sees)
    (head,) = study.patterns(record_patches(weights[None, None], grid))
    assert head.labels == ("near-1",)
    for name in ("same-row", "near-2"):
        assert head[name].why_not == "a sharper label says it", name


def test_patches_are_not_told_as_words() -> None:
    (head,) = study.patterns(planted(Grid(10, 9, prefix=1), [("near-1", 0.0)], 0))
    told = {one.pattern for one in head}
    assert not told & {"previous", "offset", "local-8", "duplicate-token", "delimiter", "sink"}
    words = sentence(head, head["near-1"])
    assert words.startswith("L0H0 looks at the patches beside its own (0.")
    assert "of its mass; chance 0.07" in words and "best seen at row" in words


def test_without_q_and_k_what_keys_received_is_told_and_the_rest_is_not_known() -> None:
    grid = Grid(14, 14, prefix=1)
    kinds = ["near-1", "border", "register", "sink-patch", "object"]
    rec = planted(grid, [(kind, 0.0) for kind in kinds], 0, budget="800kB")
    assert not rec["L0H0"].exact and rec["L0H0"].place.key_bin == 1
    found = study.patterns(rec)
    assert [head.labels for head in found] == [(), ("border",), ("register",), ("sink-patch",), ()]
    assert "needs its q and k" in found[0].not_known["near-1"]
    assert "needs their q and k" in found[4].not_known["object"]
    assert "not known" in str(study.make_report(rec).unknown()) or study.make_report(rec).unknown()


def test_a_picture_within_a_text_has_words_and_patches() -> None:
    """Words are judged by words alone, and patches by patches."""
    grid = Grid(8, 8)
    axis = Axis((Tokens(6), grid, Tokens(40)))
    n, dice = len(axis), np.random.default_rng(1)
    ids = dice.integers(2, 60, n)
    ids[0], ids[6:70] = 0, 999  # every patch has the same token
    aims = np.zeros((n, n), bool)
    aims[6:70, 6:70] = patch_targets(grid)["near-1"]
    words = np.r_[1:6, 71:n]
    aims[words, words - 1] = True  # the token before
    patches = aims.copy()
    patches[words] = False
    weights = [mixed(one, 0, 0.9, 0.1) for one in (aims, patches)]

    class Decoder(nn.Module):
        def forward(self, input_ids: Tensor) -> Tensor:
            scores = torch.tensor(np.log(np.maximum(weights, 1e-18)), dtype=torch.float32)[None]
            key = torch.eye(n).expand(1, 2, n, n)
            return regard.attend(scores, key, key, mask=regard.Causal(), scale=1.0).output

    model = Decoder()
    with torch.no_grad(), regard.record(model, axes={"L0": axis}, tokenizer=Words()) as rec:
        model(torch.tensor(ids)[None])
    both, alone = study.patterns(rec)
    assert both.labels == ("previous", "near-1") and alone.labels == ("near-1",)
    p = np.asarray(rec["L0H1"], np.float64)
    expected = np.mean([p[i, i - 1] for i in range(n) if ids[i] != 999 and i > 0])
    assert alone["previous"].score == pytest.approx(expected, abs=1e-5)
    assert alone["duplicate-token"].score < 0.1  # patches are no copies of one another


@pytest.mark.parametrize("family", ["vit", "swin", "llava", "qwen2_vl", "vivit", "clip", "whisper"])
def test_models_that_see_are_reported(family: str) -> None:
    model = build(family)
    inputs = {
        name: value[: 16 if name == "pixel_values" and value.ndim == 2 else 1]
        for name, value in accepted(model).items()
        if isinstance(value, Tensor)
    }
    with warnings.catch_warnings(), regard.record(model) as rec, torch.no_grad():
        warnings.simplefilter("ignore")
        model(**inputs)
    report = study.make_report(rec)
    assert len(report.heads) == len(rec.labels())
    named = {one.pattern for head in report.heads for one in head}
    assert ("near-1" in named) == (family != "whisper")
    assert ("border" in named) == (family != "whisper")
    assert ("previous-frame" in named) == (family == "vivit")
