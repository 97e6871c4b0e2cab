"""The loss of a step: what may be given, which ranks count, and where it is written."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest
import torch
from transformers import Trainer

import regard
from monitor.steps import batch, hooks, train
from monitor.test_lightning import Module, fit
from monitor.test_trainer import _arguments, _data
from recorder.models import Stack, tiny
from regard.errors import InputError, RegardWarning
from regard.monitor import STATISTICS, TensorBoard
from regard.recording import Reader


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Stack()


def _run(model, losses, log=None, **options):
    """One step for each loss; the samples."""
    samples = []
    with regard.Monitor(model, log=log, **options) as monitor:
        for step, loss in enumerate(losses):
            train(model, batch(step, 1, 9))
            samples.append(monitor.step(loss=loss))
            model.zero_grad()
    return samples


# ── what may be given ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "given",
    [2.5, np.float32(2.5), torch.tensor(2.5, dtype=torch.bfloat16), torch.tensor([2.5])],
)
def test_a_number_or_a_tensor_that_holds_one(model, given):
    assert _run(model, [given])[0].loss == 2.5


def test_none_is_none_and_an_integer_a_number(model):
    assert [one.loss for one in _run(model, [None, 3])] == [None, 3.0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (torch.zeros(4), r"float32 tensor of shape \(4,\); give one real number, as loss.mean"),
        (torch.tensor(1j), "complex64 tensor"),
        ("2.5", "give a number, or a tensor that holds one"),
        (True, "loss=True; give a number"),
    ],
)
def test_refusals(model, wrong, said):
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


# ── a step ───────────────────────────────────────────────────────────────────────────────────


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


def test_with_the_optimiser(model):
    optimizer, losses = torch.optim.SGD(model.parameters(), 0.1), []
    log = lambda numbers, _: losses.append(numbers["attention/loss"])  # noqa: E731
    with regard.Monitor(model, optimizer=optimizer, log=log) as monitor:
        for step in range(2):
            train(model, batch(step, 1, 9))
            monitor.add_loss(float(step))
            optimizer.step()
    assert losses == [0.0, 1.0]


# ── where it is written ──────────────────────────────────────────────────────────────────────

LOSSES = [4.0, None, math.nan, math.inf, 1.5]


def test_a_recording_has_what_was_given(model, tmp_path):
    path = tmp_path / "run.regard"
    _run(model, LOSSES, path)
    training = regard.open(path).training
    assert training.steps.tolist() == [0, 1, 2, 3, 4]
    assert training.has_loss.tolist() == [True, False, True, True, True]
    np.testing.assert_array_equal(training.loss, [4, np.nan, np.nan, np.inf, 1.5])
    assert list(training.words) == list(STATISTICS)


def test_a_run_without_a_loss_writes_none(model, tmp_path):
    path = tmp_path / "run.regard"
    _run(model, [None, None], path)
    with Reader(path) as reader:
        assert not [name for name in reader.entries if "loss" in name]
    training = regard.open(path).training
    assert not training.has_loss.any() and np.isnan(training.loss).all()


def test_a_resumed_run_counts_as_told_last(model, tmp_path):
    path = tmp_path / "run.regard"
    _run(model, [5.0, 4.0, 3.0], path)
    _run(model, [None, 2.0], path, start=1)
    training = regard.open(path).training
    assert training.has_loss.tolist() == [True, False, True]
    np.testing.assert_array_equal(training.loss, [5, np.nan, 2])


def test_csv(model, tmp_path):
    path = tmp_path / "run.csv"
    _run(model, LOSSES, path)
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert {row["step"]: row["loss"] for row in rows} == {
        "0": "4", "1": "", "2": "nan", "3": "inf", "4": "1.5"
    }  # fmt: skip


def test_a_csv_of_before_keeps_its_columns(model, tmp_path):
    path = tmp_path / "run.csv"
    path.write_text(",".join(("step", "head", *STATISTICS)) + "\n")
    _run(model, [None], path)
    with pytest.warns(RegardWarning, match="run.csv has no column `loss`") as said:
        _run(model, [1.0, 2.0], path, start=1)
    assert len(said) == 1
    assert {line.count(",") for line in path.read_text().splitlines()} == {1 + len(STATISTICS)}


def test_loggers_get_it_finite_or_not(model, tmp_path):
    numbers = []
    _run(model, LOSSES, [lambda one, _: numbers.append(one), TensorBoard(tmp_path / "board")])
    losses = [one.get("attention/loss") for one in numbers]
    assert losses[:2] == [4.0, None] and math.isnan(losses[2]) and losses[3:] == [math.inf, 1.5]
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(tmp_path / "board"))
    board.Reload()
    assert [one.step for one in board.Scalars("attention/loss")] == [0, 2, 3, 4]


# ── trainers ─────────────────────────────────────────────────────────────────────────────────


def test_lightning_hands_it_over():
    own, losses = [], []
    log = lambda numbers, _: losses.append(numbers["attention/loss"])  # noqa: E731

    class Telling(Module):
        def training_step(self, ids, number):
            loss = super().training_step(ids, number)
            own.append(loss.item())
            return loss

    fit(regard.monitor.LightningCallback(log=log), Telling(), accumulate_grad_batches=2)
    np.testing.assert_allclose(losses, np.reshape(own, (3, 2)).mean(1), rtol=1e-6)


def test_lightnings_scale_is_taken_out():
    """In half precision the callback gets the loss times the scaler's scale."""

    class Plugin:
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    class FakeTrainer:
        precision_plugin, global_step = Plugin, 0

    module = Stack()
    callback = regard.monitor.LightningCallback()
    callback.on_train_start(FakeTrainer, module)
    train(module, batch())
    callback.on_before_backward(FakeTrainer, module, Plugin.scaler.scale(torch.tensor(3.0)))
    callback.on_before_optimizer_step(FakeTrainer, module, None)
    callback.on_train_end(FakeTrainer, module)
    assert callback.monitor.latest.loss == 3.0


class Plain(torch.nn.Module):
    """A model that is not told how many tokens all micro-batches have, and returns a tuple."""

    def __init__(self):
        super().__init__()
        self.inner = tiny("llama")

    def forward(self, input_ids, labels):
        out = self.inner(input_ids=input_ids, labels=labels)
        return out.loss, out.logits


@pytest.mark.parametrize("make", [lambda: tiny("llama"), Plain])
@pytest.mark.parametrize("options", [{}, {"gradient_accumulation_steps": 2}])
def test_the_trainer_hands_it_over(tmp_path, make, options):
    model = make()
    losses = []
    log = lambda numbers, _: losses.append(numbers["attention/loss"])  # noqa: E731
    callback = regard.monitor.TrainerCallback(log=log)
    arguments = _arguments(
        tmp_path, max_steps=3, logging_strategy="steps", logging_steps=1, **options
    )
    trainer = Trainer(model, arguments, train_dataset=_data(), callbacks=[callback])
    trainer.train()
    said = [one["loss"] for one in trainer.state.log_history if "loss" in one]
    np.testing.assert_allclose(losses, said, rtol=1e-3)
    assert hooks(model) == 0


def test_a_loss_from_outside_the_model_is_none(tmp_path):
    """Label smoothing: the Trainer computes it from the logits."""
    callback = regard.monitor.TrainerCallback(every=2)
    arguments = _arguments(tmp_path, max_steps=2, label_smoothing_factor=0.1)
    Trainer(tiny("llama"), arguments, train_dataset=_data(), callbacks=[callback]).train()
    assert callback.monitor.latest.loss is None
