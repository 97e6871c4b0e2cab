"""Gradient norms of w_q and w_k: whose they are, and of which loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from recorder.models import Stack
from regard.monitor.gradients import squares_of_gradient
from regard.monitor.projections import Projection


def _x(seed=0):
    return torch.randn(2, 12, 32, generator=torch.Generator().manual_seed(seed))


def _model():
    torch.manual_seed(0)
    return Stack()


@pytest.fixture
def right():
    """Of the loss itself."""
    model = _model()
    with regard.Monitor(model) as monitor:
        model(_x()).square().mean().backward()
        return monitor.step()


def _norms_are(sample, right, factor=1.0):
    for name in ("grad_w_q", "grad_w_k"):
        np.testing.assert_allclose(sample[name], factor * right[name], rtol=1e-4, err_msg=name)


# ── a loss that was scaled up ────────────────────────────────────────────────────────────────


def test_the_optimiser_closes_a_step_when_gradients_are_unscaled(right):
    """A scaler unscales before it lets the optimiser step, so nothing has to be called."""
    model, scaler = _model(), torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with regard.Monitor(model, optimizer=optimizer) as monitor:
        scaler.scale(model(_x()).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
    _norms_are(monitor.latest, right)


def test_a_step_that_is_closed_by_hand_needs_unscale(right):
    model, scaler = _model(), torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with regard.Monitor(model) as monitor:
        scaler.scale(model(_x()).square().mean()).backward()
        scaler.unscale_(optimizer)
        sample = monitor.step()
        scaler.step(optimizer)
        optimizer.zero_grad()
    _norms_are(sample, right)
    model, scaler = _model(), torch.amp.GradScaler("cpu", init_scale=1024.0)
    with regard.Monitor(model) as monitor:
        scaler.scale(model(_x()).square().mean()).backward()
        _norms_are(monitor.step(), right, 1024.0)  # without it: of what was differentiated


def test_half_precision_with_a_scaler(right):
    """In fp16 under autocast, over two forwards whose gradients come together."""
    model, scaler = _model(), torch.amp.GradScaler("cpu", init_scale=256.0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with regard.Monitor(model, optimizer=optimizer) as monitor:
        for _ in range(2):
            with torch.autocast("cpu", torch.float16):
                loss = model(_x()).float().square().mean() / 2
            scaler.scale(loss).backward()
        scaler.step(optimizer)
    for name, value in right.values.items():
        np.testing.assert_allclose(monitor.latest[name], value, rtol=0.02, err_msg=name)


def test_a_step_that_the_scaler_skips_is_not_closed(right):
    """Its forwards count to the next step that is made; gradients are those of that one."""
    model, scaler = _model(), torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with regard.Monitor(model, optimizer=optimizer) as monitor:
        for factor in (float("inf"), 1.0):
            scaler.scale(model(_x()).square().mean() * factor).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert monitor.latest.step == 0
    _norms_are(monitor.latest, right)
    np.testing.assert_allclose(monitor.latest["peak"], right["peak"], rtol=1e-5)


# ── whose it is ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_belong_to_heads(axis):
    """Rows without a head count for nobody; a gradient of half precision is summed in full."""
    weight = torch.nn.Parameter(torch.zeros(6, 5) if axis == 0 else torch.zeros(5, 6))
    gradient = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)) * 300
    gradient = gradient.to(torch.float16).float()
    weight.data = weight.data.half()
    weight.grad = (gradient if axis == 0 else gradient.T).half()
    owner = torch.tensor([0, 0, -1, 1, 1, -1])
    found = squares_of_gradient(Projection(weight, None, axis, owner, 2), 1)
    wanted = gradient.double().square().sum(1)
    wanted = torch.stack([wanted[:2].sum(), wanted[3:5].sum()])
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=0)


def test_each_rank_has_its_share():
    weight = torch.nn.Parameter(torch.zeros(4, 3))
    weight.grad = torch.ones(4, 3)
    projection = Projection(weight, None, 0, torch.tensor([0, 0, 1, 1]), 2)
    assert squares_of_gradient(projection, 4).tolist() == pytest.approx([1.5, 1.5])
