"""regard.Monitor: which steps are sampled, and what a sample has."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import regard
from monitor.steps import batch, calls_of, hooks, train, truth
from recorder.models import Stack
from regard.engine.observers import listeners
from regard.errors import InputError, RegardWarning


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Stack()


def test_one_step_is_the_matrix(model):
    x = batch()
    calls = calls_of(model, x)
    with regard.Monitor(model) as monitor:
        train(model, x)
        sample = monitor.step()
    assert sample is monitor.latest and sample.step == 0 and sample.places == ("L0", "L1")
    for place, call in enumerate(calls):
        for name, right in truth([call]).items():
            np.testing.assert_allclose(sample[name][place], right, rtol=1e-5, err_msg=name)
    for place, layer in enumerate(model.layers):
        q = layer.w_q.weight.grad.unflatten(0, (4, 8)).norm(dim=(1, 2))
        k = layer.w_k.weight.grad.unflatten(0, (2, 8)).norm(dim=(1, 2)).repeat_interleave(2)
        np.testing.assert_allclose(sample["grad_w_q"][place], q, rtol=1e-5)
        np.testing.assert_allclose(sample["grad_w_k"][place], k, rtol=1e-5)
    assert all(value.shape == (2, 4) for value in sample.values.values())


PLAIN = nn.Module._call_impl


def test_there_are_no_hooks_between_samples(model):
    assert hooks(model) == 0
    with regard.Monitor(model, every=3) as monitor:
        found = []
        for step in range(7):
            assert hooks(model) == 0  # nor while it is sampled: nothing is put on the model
            assert monitor.is_sampling == (step % 3 == 0)
            assert (nn.Module._call_impl is PLAIN) == (step % 3 != 0)
            train(model, batch(step))
            assert listeners() == ()  # only within the forward
            found.append(monitor.step())
    assert [one.step for one in found if one] == [0, 3, 6]
    assert hooks(model) == 0


def test_no_gradient_has_a_reason(model):
    with regard.Monitor(model) as monitor:
        train(model, batch())
        model.zero_grad()
        sample = monitor.step()
    assert np.isnan(sample["grad_w_q"]).all() and "before zero_grad" in monitor.reasons["L0"]
    assert not np.isnan(sample["peak"]).any()
    model.layers[0].w_k.requires_grad_(False)
    with regard.Monitor(model) as monitor:
        train(model, batch())
        sample = monitor.step()
    assert np.isnan(sample["grad_w_k"][0]).all() and not np.isnan(sample["grad_w_q"]).any()
    assert monitor.reasons == {"L0": "the projection is frozen"}


def test_the_optimiser_closes_steps(model):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with regard.Monitor(model, every=2, optimizer=optimizer, start=10) as monitor:
        steps = []
        for seed in range(3):
            train(model, batch(seed))
            optimizer.step()
            optimizer.zero_grad()
            steps.append(monitor.latest.step)
        assert not np.isnan(monitor.latest["grad_w_q"]).any()
    assert steps == [10, 10, 12]
    before = monitor.latest
    train(model, batch())
    optimizer.step()  # no hook is left
    assert monitor.latest is before


def test_a_number_renames_the_step(model):
    with regard.Monitor(model, every=10) as monitor:
        train(model, batch())
        assert monitor.step(100).step == 100
        train(model, batch())
        assert monitor.step() is None  # 101


class ByHand(nn.Linear):
    def forward(self, x):
        return (x @ x.mT).softmax(-1) @ super().forward(x)


class MultiHead(nn.Linear):
    def forward(self, x):
        q = super().forward(x).unflatten(-1, (2, 2)).transpose(1, 2)
        return torch.nn.functional.scaled_dot_product_attention(q, q, q)


@pytest.mark.parametrize(
    ("kind", "run", "said"),
    [
        (nn.Linear, lambda model, x: model(x), "Linear ran, and nothing in it looks like"),
        (ByHand, lambda model, x: model(x), r"ByHand ran, with the model \(ByHand\)"),
        (nn.Linear, lambda model, x: x.requires_grad_(), "Linear was not run since the last step"),
        (MultiHead, lambda model, x: model(x[:0]), "MultiHead ran on an empty batch"),
    ],
    ids=["none", "by hand", "not run", "empty"],
)
def test_a_step_without_attention_warns_once(kind, run, said):
    model = kind(4, 4)
    with regard.Monitor(model) as monitor:
        run(model, torch.randn(2, 3, 4)).sum().backward()
        with pytest.warns(RegardWarning, match=f"no attention was measured: {said}"):
            assert monitor.step() is None
        assert monitor.step() is None
        assert monitor.latest is None


def test_layers_that_are_skipped():
    """A place has a row from its first call on."""

    class Skipping(Stack):
        which = (0,)

        def forward(self, x):
            for n in self.which:
                x = x + self.layers[n](x, mask=regard.Causal())
            return x

    model = Skipping(layers=3)
    with regard.Monitor(model) as monitor:
        places = []
        for which in ((0,), (0, 2), (2,), (0, 2)):
            model.which = which
            train(model, batch())
            sample = monitor.step()
            places.append((sample.places, (~np.isnan(sample["peak"])).any(1).tolist()))
    assert places == [
        (("L0",), [True]),
        (("L0", "L2"), [True, True]),
        (("L0", "L2"), [False, True]),
        (("L0", "L2"), [True, True]),
    ]


def test_refusals(model):
    with pytest.raises(InputError, match="every=0"):
        regard.Monitor(model, every=0)
    with pytest.raises(InputError, match=r"give a torch\.nn\.Module"):
        regard.Monitor("model")
    monitor = regard.Monitor(model)
    with pytest.raises(InputError, match="not attached"):
        monitor.step()
    with monitor, pytest.raises(InputError, match="attached already"):
        monitor.attach()
    with pytest.raises(InputError, match="places: none yet"):
        monitor.module_of("L0")
    monitor.detach()  # again: nothing happens
