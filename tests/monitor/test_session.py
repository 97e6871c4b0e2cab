"""regard.Monitor: which steps are sampled, and which attention; the model is left alone."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import regard
from monitor.steps import batch, hooks, train
from recorder.models import Stack
from regard.engine.observers import listeners
from regard.errors import InputError, RegardWarning
from regard.monitor import Snapshots


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Stack()


def same(mine, right, **close):
    for name, numbers in right.values.items():
        np.testing.assert_allclose(mine[name], numbers, err_msg=name, **close)


# ── which steps ──────────────────────────────────────────────────────────────────────────────

PLAIN = nn.Module._call_impl


def test_there_are_no_hooks_and_outputs_and_gradients_are_the_same(model):
    twin = Stack()
    twin.load_state_dict(model.state_dict())
    with regard.Monitor(model, every=3) as monitor:
        samples = []
        for step in range(7):
            assert hooks(model) == 0  # nor while it is sampled: nothing is put on the model
            assert monitor.is_sampling == (step % 3 == 0)
            assert (nn.Module._call_impl is PLAIN) == (step % 3 != 0)
            x = batch(step)
            plain, watched = twin(x), model(x)
            q = torch.randn(1, 2, 5, 8, requires_grad=True)  # outside the model
            F.scaled_dot_product_attention(q, q, regard.attend(q, q, q).output)
            assert torch.equal(plain, watched) and listeners() == ()  # only within the forward
            plain.square().mean().backward()
            watched.square().mean().backward()
            samples.append(monitor.step())
    assert [one.step for one in samples if one] == [0, 3, 6]
    assert samples[6] is monitor.latest and samples[6].places == ("L0", "L1")
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(mine.grad, theirs.grad)


def test_the_optimiser_closes_steps_and_a_number_renames_one(model):
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
        return F.scaled_dot_product_attention(q, q, q)


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
        for model.which in ((0,), (0, 2), (2,), (0, 2)):
            train(model, batch())
            sample = monitor.step()
            places.append((sample.places, (~np.isnan(sample["peak"])).any(1).tolist()))
    assert places == [
        (("L0",), [True]), (("L0", "L2"), [True, True]), (("L0", "L2"), [False, True]),
        (("L0", "L2"), [True, True]),
    ]  # fmt: skip


def test_refusals(model):
    for make, said in (
        (lambda: regard.Monitor(model, every=0), "every=0"),
        (lambda: regard.Monitor("model"), r"give a torch\.nn\.Module"),
        (lambda: Snapshots(("L0",)), "give labels"),
        (lambda: Snapshots(()), "give labels"),
        (lambda: Snapshots(("L0H0",), every=0), "every=0"),
        (lambda: regard.Monitor(model).step(), "not attached"),
    ):
        with pytest.raises(InputError, match=said):
            make()
    monitor = regard.Monitor(model)
    with monitor, pytest.raises(InputError, match="attached already"):
        monitor.attach()
    with pytest.raises(InputError, match="places: none yet"):
        monitor.module_of("L0")
    monitor.detach()  # again: nothing happens


# ── which attention ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["reentrant", "by layer", "around"])
def test_what_is_computed_again_in_the_backward_counts_once(model, how):
    class Saving(Stack):
        def forward(self, x):
            for layer in self.layers:

                def run(y, layer=layer):
                    return layer(y, mask=regard.Causal())

                x = x + checkpoint(run, x, use_reentrant=how == "reentrant")
            return x

    saving = Stack() if how == "around" else Saving()
    saving.load_state_dict(model.state_dict())
    samples = []
    for one in (model, saving):
        with regard.Monitor(one) as monitor:
            for seed in (0, 1):  # with accumulation
                x = batch(seed, 2, 20 - 9 * seed).requires_grad_()
                again = one is saving and how == "around"
                y = checkpoint(one, x, use_reentrant=False) if again else one(x)
                y.square().mean().backward()
            samples.append(monitor.step())
    same(samples[1], samples[0], rtol=1e-5)


def test_forwards_without_gradients_are_left_out(model):
    for evaluation in (False, True):
        with regard.Monitor(model, evaluation=evaluation) as monitor:
            train(model, batch(0))
            with torch.no_grad():
                model(batch(1) * 50)
            assert (monitor.step()["max_score"].max() > 10) == evaluation


def test_nothing_is_held(model):
    """No activation outlives its step because of the monitor."""
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
        train(outer, batch())
        gc.collect()
        assert held[0]() is None
        monitor.step()


# ── the loss of a step ────────────────────────────────────────────────────────────────────


def _run(model, losses, **options):
    """One step for each loss; the samples."""
    samples = []
    with regard.Monitor(model, **options) as monitor:
        for step, loss in enumerate(losses):
            train(model, batch(step, 1, 9))
            samples.append(monitor.step(loss=loss))
            model.zero_grad()
    return samples


def test_a_number_or_a_tensor_that_holds_one(model):
    given = [None, 3, 2.5, np.float32(2.5), torch.tensor([2.5])]
    given.append(torch.tensor(2.5, dtype=torch.bfloat16))
    assert [sample.loss for sample in _run(model, given)] == [None, 3.0, 2.5, 2.5, 2.5, 2.5]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (torch.zeros(4), r"float32 tensor of shape \(4,\); give one real number, as loss.mean"),
        (torch.tensor(1j), "complex64 tensor"),
        ("2.5", "give a number, or a tensor that holds one"),
        (True, "loss=True; give a number"),
    ],
)
def test_what_is_no_loss(model, wrong, said):
    with pytest.raises(InputError, match=said):
        _run(model, [wrong])
    with pytest.raises(InputError, match=said):  # in steps that are not sampled too
        _run(model, [None, wrong], every=2)


def test_no_graph_is_kept_and_no_number_fetched_before_the_sample(model):
    """`meta` has no numbers to fetch."""
    loss = torch.ones((), requires_grad=True, device="meta") * 2
    with regard.Monitor(model, every=2, start=1) as monitor:
        assert monitor.step(loss=loss) is None
        monitor.add_loss(loss)
        assert not monitor._losses[0].requires_grad


def test_micro_batches_are_one_mean(model):
    with regard.Monitor(model, every=2) as monitor:
        total = torch.zeros(())
        for step in range(3):
            for part in range(2):
                train(model, batch(part, 1, 9))
                total.fill_(10 * step + part)  # a tensor that the loop uses again
                monitor.add_loss(total)
            sample = monitor.step()
            assert (sample and sample.loss) == (None if step == 1 else 10 * step + 0.5)
