"""regard.Monitor: what it hears, and when."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from monitor.dense import heard, truth
from recorder.models import Plain, Stack
from regard.engine.listen import listeners
from regard.errors import InputError, RegardWarning


def _x(seed=0, batch=2, tokens=20):
    return torch.randn(batch, tokens, 32, generator=torch.Generator().manual_seed(seed))


def _hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def _train(model, *batches):
    for x in batches:
        model(x).square().mean().backward()


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Stack()


def test_one_step_is_the_matrix(model):
    x = _x()
    calls = heard(model, x)
    with regard.Monitor(model) as monitor:
        _train(model, x)
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


def test_several_forwards_of_one_step(model):
    """Means are over all rows, so longer batches count for more; gradients add up."""
    batches = [_x(0, 3, 30), _x(1, 1, 7)]
    calls = [heard(model, x) for x in batches]
    with regard.Monitor(model) as monitor:
        _train(model, *batches)
        sample = monitor.step()
    for place in range(2):
        for name, right in truth([one[place] for one in calls]).items():
            np.testing.assert_allclose(sample[name][place], right, rtol=1e-5, err_msg=name)
    grad = model.layers[1].w_q.weight.grad[:8].norm()
    np.testing.assert_allclose(sample["grad_w_q"][1, 0], grad, rtol=1e-5)


def test_nothing_listens_between_samples(model):
    assert _hooks(model) == 0
    with regard.Monitor(model, every=3) as monitor:
        found = []
        for step in range(7):
            assert (_hooks(model) > 0) == (step % 3 == 0)
            _train(model, _x(step))
            assert listeners() == ()  # only within the forward
            found.append(monitor.step())
    assert [one.step for one in found if one] == [0, 3, 6]
    assert _hooks(model) == 0


def test_outputs_and_gradients_are_the_same(model):
    x = _x()
    plain = model(x)
    plain.sum().backward()
    grads = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with regard.Monitor(model) as monitor:
        watched = model(x)
        watched.sum().backward()
        monitor.step()
    assert torch.equal(plain, watched)
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), grads, strict=True))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_counts_once(reentrant):
    from torch.utils.checkpoint import checkpoint

    class Saving(Stack):
        def forward(self, x):
            for layer in self.layers:

                def run(y, layer=layer):
                    return layer(y, mask=regard.Causal())

                x = x + checkpoint(run, x, use_reentrant=reentrant)
            return x

    torch.manual_seed(0)
    plain, saving = Stack(), Saving()
    saving.load_state_dict(plain.state_dict())
    samples = []
    for model in (plain, saving):
        with regard.Monitor(model) as monitor:
            for seed in (0, 1):  # with accumulation
                model(_x(seed).requires_grad_()).square().mean().backward()
            samples.append(monitor.step())
    for name, right in samples[0].values.items():
        np.testing.assert_allclose(samples[1][name], right, rtol=1e-5, err_msg=name)


def test_checkpointing_around_the_model_counts_once(model):
    from torch.utils.checkpoint import checkpoint

    with regard.Monitor(model) as monitor:
        _train(model, _x())
        plain = monitor.step()
        model.zero_grad()
        checkpoint(model, _x(), use_reentrant=False).square().mean().backward()
        assert monitor._ears.tally._sums["L0"].sums[-1].tolist() == [40.0] * 4  # rows, once
        saving = monitor.step()
    for name, right in plain.values.items():
        np.testing.assert_allclose(saving[name], right, rtol=1e-5, err_msg=name)


def test_forwards_without_gradients_are_left_out(model):
    with regard.Monitor(model) as monitor:
        _train(model, _x(0))
        with torch.no_grad():
            model(_x(1) * 50)
        assert monitor.step()["max_score"].max() < 10
    with regard.Monitor(model, evaluation=True) as monitor:
        with torch.no_grad():
            model(_x(1) * 50)
        assert monitor.step()["max_score"].max() > 10


def test_no_gradient_has_a_reason(model):
    with regard.Monitor(model) as monitor:
        _train(model, _x())
        model.zero_grad()
        sample = monitor.step()
    assert np.isnan(sample["grad_w_q"]).all() and "before zero_grad" in monitor.reasons["L0"]
    assert not np.isnan(sample["peak"]).any()
    model.layers[0].w_k.requires_grad_(False)
    with regard.Monitor(model) as monitor:
        _train(model, _x())
        sample = monitor.step()
    assert np.isnan(sample["grad_w_k"][0]).all() and not np.isnan(sample["grad_w_q"]).any()
    assert monitor.reasons == {"L0": "the projection is frozen"}


def test_torch_attention_is_heard():
    torch.manual_seed(0)
    model = Plain()
    x = _x()
    with regard.Monitor(model) as monitor:
        watched = model(x)
        watched.square().mean().backward()
        sample = monitor.step()
    assert torch.equal(watched, model(x))
    assert sample.places == ("L0", "L1", "L2") and sample["peak"].shape == (3, 4)
    q, k, _ = model.blocks[0].qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
    a = regard.attend(q, k, k, mask=regard.Causal())
    np.testing.assert_allclose(
        sample["max_score"][0], a.max_score().amax((0, 2)).detach(), rtol=1e-5
    )
    grad = model.blocks[0].qkv.weight.grad
    np.testing.assert_allclose(sample["grad_w_k"][0, 1], grad[40:48].norm(), rtol=1e-5)


def test_torchs_own_layer():
    torch.manual_seed(0)
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0), 2
    )
    with regard.Monitor(model) as monitor:
        _train(model, _x())
        sample = monitor.step()
    assert sample["max_score"].shape == (2, 4) and monitor.reasons == {}
    grad = model.layers[1].self_attn.in_proj_weight.grad
    np.testing.assert_allclose(sample["grad_w_q"][1, 2], grad[16:24].norm(), rtol=1e-5)
    np.testing.assert_allclose(sample["grad_w_k"][1, 3], grad[56:64].norm(), rtol=1e-5)


def test_autocast(model):
    x = _x()
    with regard.Monitor(model) as monitor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
        half = monitor.step()
        model.zero_grad()
        _train(model, x)
        whole = monitor.step()
    for name, right in whole.values.items():
        np.testing.assert_allclose(half[name], right, rtol=0.1, atol=0.02, err_msg=name)


def test_the_optimiser_closes_steps(model):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with regard.Monitor(model, every=2, optimizer=optimizer, start=10) as monitor:
        steps = []
        for seed in range(3):
            _train(model, _x(seed))
            optimizer.step()
            optimizer.zero_grad()
            steps.append(monitor.latest.step)
        assert not np.isnan(monitor.latest["grad_w_q"]).any()
    assert steps == [10, 10, 12]
    before = monitor.latest
    _train(model, _x())
    optimizer.step()  # no hook is left
    assert monitor.latest is before


def test_a_number_renames_the_step(model):
    with regard.Monitor(model, every=10) as monitor:
        _train(model, _x())
        assert monitor.step(100).step == 100
        _train(model, _x())
        assert monitor.step() is None  # 101


def test_a_recorder_beside_it(model):
    """Steps that end inside somebody's block leave their listening alone."""
    with regard.Monitor(model) as monitor:
        with regard.record(model) as rec:
            model(_x())
            monitor.step()
            model(_x(1))
        assert len(rec.recording.prompts) == 4
        _train(model, _x())
        assert monitor.step() is not None
    assert listeners() == () and _hooks(model) == 0


def test_a_forward_that_fails_leaves_nothing_behind(model):
    with regard.Monitor(model) as monitor:
        with pytest.raises(regard.errors.ShapeError):
            model(torch.randn(2, 20, 31))
        assert listeners() == ()
        _train(model, _x())
        assert monitor.step() is not None


def test_nothing_is_held(model):
    """No activation outlives its step because somebody monitored it."""
    held = []

    class Keep(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            held.append(weakref.ref(y := x * 1))
            return self.inner(y)

    outer = Keep()
    with regard.Monitor(outer) as monitor:
        _train(outer, _x())
        gc.collect()
        assert held[0]() is None
        monitor.step()


def test_nothing_heard_is_said_once():
    model = nn.Linear(4, 4)
    with regard.Monitor(model) as monitor:
        model(torch.randn(2, 4)).sum().backward()
        with pytest.warns(RegardWarning, match="no attention was heard: Linear"):
            assert monitor.step() is None
        assert monitor.step() is None
        assert monitor.latest is None


def test_layers_that_are_skipped():
    """A place heard for the first time later on has a row from then on."""

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
            _train(model, _x())
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
    with pytest.raises(InputError, match=r"before torch\.compile"):
        regard.Monitor(torch.compile(model))
    monitor = regard.Monitor(model)
    with pytest.raises(InputError, match="not attached"):
        monitor.step()
    with monitor, pytest.raises(InputError, match="attached already"):
        monitor.attach()
    with pytest.raises(InputError, match="heard: none yet"):
        monitor.module_of("L0")
    monitor.detach()  # again: nothing happens


def test_sdpa_without_a_model_is_not_heard(model):
    with regard.Monitor(model) as monitor:
        q = torch.randn(1, 2, 5, 8, requires_grad=True)
        F.scaled_dot_product_attention(q, q, q)
        regard.attend(q, q, q)
        _train(model, _x())
        assert monitor.step().places == ("L0", "L1")
