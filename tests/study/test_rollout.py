"""Rollout without a matrix is rollout with one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard import study
from regard.errors import InputError, UnavailableError
from regard.study.rollout import CAUTION
from support.recordings.planted import Words, causal, record_planted, text


class Dense:
    """Any object with a shape and a product will do."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights, self.shape = weights, weights.shape

    @property
    def T(self) -> Dense:  # noqa: N802
        return Dense(self.weights.T)

    def __matmul__(self, y: np.ndarray) -> np.ndarray:
        return self.weights @ y


def weights(layers: int, heads: int, n: int, mask: bool = True) -> np.ndarray:
    p = np.random.default_rng(layers).random((layers, heads, n, n)) ** 4
    p *= causal(n) if mask else 1
    return p / p.sum(-1, keepdims=True)


def dense(p: np.ndarray, residual: float = 0.5) -> np.ndarray:
    """R ← R · (½ mean A + ½ I), last layer first, as published."""
    rolled = np.eye(p.shape[-1])
    for layer in p[::-1]:
        rolled = rolled @ ((1 - residual) * layer.mean(0) + residual * np.eye(p.shape[-1]))
    return rolled


@pytest.mark.parametrize("token", [-1, 0, 7, 22])
def test_any_objects_with_a_product(token: int) -> None:
    p = weights(3, 2, 23)
    layers = [[Dense(head) for head in layer] for layer in p]
    found = study.roll_out(layers, token)
    np.testing.assert_allclose(found.shares, dense(p)[token], atol=1e-12)
    assert found.shares.sum() == pytest.approx(1) and found.layers == 3
    assert found.token == token % 23 and found.caution == CAUTION


def test_the_share_of_the_residual_stream() -> None:
    p = weights(2, 3, 11)
    layers = [[Dense(head) for head in layer] for layer in p]
    for residual in (0.0, 0.25, 1.0):
        found = study.roll_out(layers, 10, residual=residual)
        np.testing.assert_allclose(found.shares, dense(p, residual)[10], atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_live_attention(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layers, matrices = [], []
    for _ in range(3):
        q, k, v = torch.randn(3, 1, 4, 50, 16, dtype=dtype, requires_grad=True)
        a = regard.attend(q, k, v, mask=regard.Causal())
        layers.append(a)
        matrices.append(a.dense().detach().double().numpy()[0])
    found = study.roll_out(layers, -1)
    np.testing.assert_allclose(found.shares, dense(np.array(matrices))[-1], atol=1e-5)


@pytest.mark.parametrize("count", [40, 200])  # few rows are computed one by one, many in one sweep
def test_a_recording(count: int) -> None:
    p, ids = weights(3, 2, count), text(count)
    recording = record_planted(p, ids)
    found = study.roll_out_recording(recording, -1)
    np.testing.assert_allclose(found.shares, dense(p)[-1], atol=1e-5)
    assert "drifts to the sink" in found.caution


def test_an_encoder_needs_no_caution() -> None:
    class Encoder(torch.nn.Module):
        def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
            q, k, v = torch.randn(3, 1, 2, 20, 8, generator=torch.Generator().manual_seed(0))
            return regard.attend(q, k, v).output

    model = Encoder()
    with torch.no_grad(), regard.record(model, tokenizer=Words()) as recording:
        model(torch.arange(20)[None])
    found = study.roll_out_recording(recording, 3)
    assert found.caution == "" and found.shares.sum() == pytest.approx(1, abs=1e-5)


def test_on_a_deep_causal_model_it_drifts_to_the_first_token() -> None:
    shallow, deep = (study.roll_out([[Dense(weights(1, 1, 30)[0, 0])]] * n, 29) for n in (2, 40))
    assert deep.shares[0] > 0.5 > shallow.shares[0]


def test_what_cannot_be_rolled_out(kept: Any) -> None:
    layers = [[Dense(weights(1, 1, 9)[0, 0])]]
    with pytest.raises(InputError, match="token 9 does not exist; there are 0–8"):
        study.roll_out(layers, 9)
    with pytest.raises(InputError, match="no layers"):
        study.roll_out([], 0)
    with pytest.raises(InputError, match=r"residual=1\.5"):
        study.roll_out(layers, 0, residual=1.5)
    with pytest.raises(InputError, match="rollout needs self-attention of one sequence"):
        study.roll_out([[Dense(np.ones((9, 12)))]], 0)
    with pytest.raises(UnavailableError, match=r"rollout needs q and k of every layer: L0H0: "):
        study.roll_out_recording(kept)
    with pytest.raises(UnavailableError, match="every layer of the stack 'cross'"):
        study.roll_out_recording(kept, stack="cross")


def test_layers_that_were_not_recorded() -> None:
    recording = record_planted(weights(3, 2, 20), text(20), layers=[0, 2])
    with pytest.raises(UnavailableError, match="not recorded: 1"):
        study.roll_out_recording(recording)
