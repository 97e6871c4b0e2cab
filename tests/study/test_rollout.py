"""The mass of patches by rows and columns, samples of rows, models that see; and rollout: shares of
any layers, against the dense product as published."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard import study
from regard.axes import Axis, Grid, Tokens
from regard.errors import InputError, UnavailableError
from regard.study import patch_offsets, patches
from regard.study.rollout import CAUTION
from study.conftest import record, record_family
from support.recordings.planted import Words, causal, mixed, patch_targets, record_patches, text

FRAMED = Grid(6, 7, frames=2, prefix=2)


def random_weights(grid: Grid) -> np.ndarray:
    p = np.random.default_rng(0).random((1, 2, grid.count, grid.count)) ** 4
    return p / p.sum(-1, keepdims=True)


@pytest.mark.parametrize("most", [2**20, 1000])
def test_the_mass_by_rows_and_columns_is_that_of_the_matrix(monkeypatch, most):
    monkeypatch.setattr(patches, "_MOST_CELLS", most)  # in one tile, or in several
    weights, places = random_weights(FRAMED), FRAMED.places
    expected = np.zeros((11, 13))
    for i, (frame, row, column) in enumerate(places):
        for j, (other, y, x) in enumerate(places):
            if frame == other:
                expected[y - row + 5, x - column + 6] += weights[0, 1, i + 2, j + 2]
    head = record_patches(weights, FRAMED)["L0H1"]
    np.testing.assert_allclose(patch_offsets(head), expected / len(places), atol=1e-6)


def test_what_has_no_rows_and_columns():
    stored = record_patches(random_weights(FRAMED), FRAMED, budget="50kB")["L0H0"]
    with pytest.raises(UnavailableError):
        patch_offsets(stored)
    head = record_patches(random_weights(Grid(4, 5)), Grid(4, 5))["L0H0"]
    head.key_axis = Axis((Tokens(20),))
    with pytest.raises(InputError, match="not the patches of one picture"):
        patch_offsets(head)


def test_a_sample_is_always_the_same_and_its_labels_are_those_of_all(monkeypatch):
    grid, kinds = Grid(16, 16, prefix=1), ["near-1", "same-row", "object"]
    sees, aims = np.ones((grid.count, grid.count), bool), patch_targets(grid)
    rec = record_patches(np.array([[mixed(aims[k], 0, 0.9, 0.2, sees=sees) for k in kinds]]), grid)
    every = study.patterns(rec, evidence="none")
    monkeypatch.setattr(patches, "_MOST_CELLS", 2**15)
    some, again = (study.patterns(rec, evidence="all") for _ in range(2))
    assert [head.as_dict() for head in some] == [head.as_dict() for head in again]
    for head, other, kind in zip(every, some, kinds, strict=True):
        assert head.labels == other.labels == (kind,)
        assert other["near-1"].score == pytest.approx(head["near-1"].score, abs=0.03)
        assert other["near-1"].detail["sampled"] == other["near-1"].n_rows < head["near-1"].n_rows


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", ["vit", "swin", "llava", "qwen2_vl", "vivit", "clip", "whisper"])
def test_models_that_see_are_reported(family):
    rec = record_family(family)
    report = study.make_report(rec)
    assert len(report.heads) == len(rec.labels())
    named = {finding.pattern for head in report.heads for finding in head}
    assert ("near-1" in named) == ("border" in named) == (family != "whisper")
    assert ("previous-frame" in named) == (family == "vivit")


GRID = Grid(4, 6, prefix=2, names=("class", "register"))


class Dense:
    """Any object with a shape and a product will do."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights, self.shape = weights, weights.shape

    @property
    def T(self) -> Dense:  # noqa: N802
        return Dense(self.weights.T)

    def __matmul__(self, y: np.ndarray) -> np.ndarray:
        return self.weights @ y


def weights(layers: int, heads: int, n: int, mask: bool = True, seed: int = 3) -> np.ndarray:
    p = np.random.default_rng(seed).random((layers, heads, n, n)) ** 4 + 1e-3
    p *= causal(n) if mask else 1
    return p / p.sum(-1, keepdims=True)


def dense(p: np.ndarray, residual: float = 0.5) -> np.ndarray:
    """R ← R · (½ mean A + ½ I), last layer first, as published."""
    rolled = np.eye(p.shape[-1])
    for layer in p[::-1]:
        rolled = rolled @ ((1 - residual) * layer.mean(0) + residual * np.eye(p.shape[-1]))
    return rolled


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 23), st.floats(0, 1), st.booleans(),
       st.integers(0, 99))  # fmt: skip
def test_any_objects_with_a_product(
    layers: int, heads: int, n: int, residual: float, mask: bool, seed: int
) -> None:
    p = weights(layers, heads, n, mask, seed)
    parts: Any = [[Dense(head) for head in layer] for layer in p]
    for token in {0, n // 2, n - 1, -1}:
        rolled = study.roll_out(parts, token, residual=residual)
        np.testing.assert_allclose(rolled.shares, dense(p, residual)[token], atol=1e-9)
        assert rolled.shares.sum() == pytest.approx(1) and rolled.layers == layers
        assert rolled.token == token % n and rolled.caution == CAUTION


def test_live_attention():
    torch.manual_seed(0)
    layers, matrices = [], []
    for dtype in (torch.float32, torch.float64, torch.float32):
        q, k, v = torch.randn(3, 1, 4, 50, 16, dtype=dtype, requires_grad=True)
        layers.append(regard.attend(q, k, v, mask=regard.Causal()))
        matrices.append(layers[-1].dense().detach().double().numpy()[0])
    rolled = study.roll_out(layers, -1)
    np.testing.assert_allclose(rolled.shares, dense(np.array(matrices))[-1], atol=1e-5)


@pytest.mark.parametrize("count", [40, 200])  # few rows are computed one by one, many in one sweep
def test_a_recording(count):
    p = weights(3, 2, count)
    rolled = study.roll_out_recording(record(p, text(count)), -1)
    np.testing.assert_allclose(rolled.shares, dense(p)[-1], atol=1e-5)
    assert "drifts to the sink" in rolled.caution


def test_an_encoder_needs_no_caution_and_a_deep_causal_model_does():
    class Encoder(torch.nn.Module):
        def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
            q, k, v = torch.randn(3, 1, 2, 20, 8, generator=torch.Generator().manual_seed(0))
            return regard.attend(q, k, v).output

    model = Encoder()
    with torch.no_grad(), regard.record(model, tokenizer=Words()) as recording:
        model(torch.arange(20)[None])
    rolled = study.roll_out_recording(recording, 3)
    assert rolled.caution == "" and rolled.shares.sum() == pytest.approx(1, abs=1e-5)
    layer = [Dense(weights(1, 1, 30)[0, 0])]
    shallow, deep = (study.roll_out([layer] * n, 29) for n in (2, 40))
    assert deep.shares[0] > 0.5 > shallow.shares[0]


def test_what_cannot_be_rolled_out(kept):
    layers = [[Dense(weights(1, 1, 9)[0, 0])]]
    for ask, error, says in (
        (lambda: study.roll_out(layers, 9), InputError, "token 9 does not exist; there are 0–8"),
        (lambda: study.roll_out([], 0), InputError, "no layers"),
        (lambda: study.roll_out(layers, 0, residual=1.5), InputError, r"residual=1\.5"),
        (lambda: study.roll_out([[Dense(np.ones((9, 12)))]], 0), InputError,
         "rollout needs self-attention of one sequence"),
        (lambda: study.roll_out_recording(kept), UnavailableError,
         r"rollout needs q and k of every layer: L0H0: "),
        (lambda: study.roll_out_recording(kept, stack="cross"), UnavailableError,
         "every layer of the stack 'cross'"),
        (lambda: study.roll_out_recording(record(weights(3, 2, 20), text(20), layers=[0, 2])),
         UnavailableError, "not recorded: 1"),
    ):  # fmt: skip
        with pytest.raises(error, match=says):
            ask()


# ── over a picture ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("start", "at", "name"),
    [(None, 0, "class"), ("register", 1, "register"), ((2, 3), 17, "(2, 3)"), (-1, 25, "(3, 5)")],
)
def test_from_the_class_token_or_a_patch(start, at, name):
    p = weights(3, 2, GRID.count, mask=False)
    rolled = study.roll_out_picture(record_patches(p, GRID), start)
    expected = dense(p)[at]
    np.testing.assert_allclose(rolled.shares, expected, atol=1e-5)
    np.testing.assert_allclose(rolled.maps[0][0], expected[2:].reshape(4, 6), atol=1e-5)
    assert (rolled.start, rolled.layers, rolled.caution) == (name, 3, "")
    assert rolled.on_patches == pytest.approx(expected[2:].sum(), abs=1e-5)


def test_without_a_class_token_it_is_the_mean_of_all_patches():
    grid = Grid(4, 4, merge=2)
    p = weights(3, 2, grid.count, mask=False)
    rolled = study.roll_out_picture(record_patches(p, grid), residual=0.25)
    shares = dense(p, 0.25).mean(0)
    np.testing.assert_allclose(rolled.shares, shares, atol=1e-5)
    assert rolled.maps[0][0, 1, 2] == pytest.approx(shares[grid.at(0, 1, 2)], abs=1e-5)
    assert rolled.start == "all patches"


def test_a_picture_within_a_text_is_seen_from_the_last_token():
    rec = record_family("llava")
    tower = study.roll_out_picture(rec)
    assert tower.start == "class" and tower.maps[0].shape == (1, 4, 4) and not tower.caution
    words = study.roll_out_picture(rec, stack="")
    np.testing.assert_allclose(words.shares, study.roll_out_recording(rec, stack="").shares)
    assert words.caution and words.axis == rec["L0H0"].key_axis
    assert words.maps[0].sum() < words.shares.sum()


def test_what_cannot_be_laid_out():
    rec = record_patches(weights(3, 2, GRID.count, mask=False), GRID)
    windows = Grid(2, 2, windows=(2, 2))
    apart = record_patches(weights(1, 4, 4, mask=False), windows)
    for given_, start, error, says in (
        (rec, "clas", InputError, r"no name of a position; there are class, register, \(0"),
        (rec, (4, 0), InputError, r"no patch of a grid of \(1, 4, 6\)"),
        (rec, 26, InputError, "0–25"),
        (record(weights(3, 2, 20), text(20)), None, InputError, "known to be patches"),
        (apart, None, UnavailableError, "within windows"),
    ):  # fmt: skip
        with pytest.raises(error, match=says):
            study.roll_out_picture(given_, start)
