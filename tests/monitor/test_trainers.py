"""The callbacks for the Trainer of transformers and for Lightning's."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import pytest
import torch
from transformers import Trainer, TrainingArguments

import regard
from monitor.steps import batch, hooks, train
from monitor.test_first_batch import Reader
from recorder.models import Stack, tiny, tokens

IDS = tokens(9, batch=12)


def losses_of(losses: list[Any]) -> Any:
    """A log that keeps the loss of every sample."""
    return lambda numbers, _: losses.append(numbers["attention/loss"])


# ── transformers ─────────────────────────────────────────────────────────────────────────────


def trained(folder: Path, callback: Any, model: Any = None, **options: Any) -> Trainer:
    usual = {
        "per_device_train_batch_size": 2, "max_steps": 3, "report_to": [], "use_cpu": True,
        "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True,
    }  # fmt: skip
    data = [{"input_ids": one, "labels": one} for one in tokens(16, 40)]
    arguments = TrainingArguments(str(folder), **(usual | options))
    model = tiny("llama", num_key_value_heads=2) if model is None else model
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[callback])
    trainer.train()
    return trainer


def test_steps_have_the_trainers_numbers(tmp_path: Path) -> None:
    callback = regard.monitor.TrainerCallback(every=2, log=tmp_path / "run.csv")
    assert hooks(trained(tmp_path, callback, max_steps=5).model) == 0
    with (tmp_path / "run.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sorted({int(row["step"]) for row in rows}) == [0, 2, 4]
    assert len(rows) == 3 * 2 * 4 and callback.monitor.latest.step == 4
    assert not np.isnan(callback.monitor.latest["grad_w_q"]).any()


def test_accumulation_and_checkpointing(tmp_path: Path) -> None:
    """Micro-batches that are computed twice are one step of as many rows."""
    samples = []
    for options in (
        {"per_device_train_batch_size": 4},
        {"gradient_accumulation_steps": 2, "gradient_checkpointing": True},
    ):
        callback = regard.monitor.TrainerCallback()
        trained(tmp_path, callback, max_steps=1, seed=0, **options)
        samples.append(callback.monitor.latest)
    for name in ("normalized_entropy", "max_score", "peak", "sink_mass"):
        np.testing.assert_allclose(samples[0][name], samples[1][name], rtol=1e-4, err_msg=name)


class Tuple(torch.nn.Module):
    """A model that is not given how many tokens all micro-batches have, and returns a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = tiny("llama")

    def forward(self, input_ids: Any, labels: Any) -> Any:
        out = self.inner(input_ids=input_ids, labels=labels)
        return out.loss, out.logits


@pytest.mark.parametrize("make", [lambda: None, Tuple])
def test_the_trainers_loss(tmp_path: Path, make: Any) -> None:
    losses: list[float] = []
    callback = regard.monitor.TrainerCallback(log=losses_of(losses))
    options = {"logging_strategy": "steps", "logging_steps": 1, "gradient_accumulation_steps": 2}
    trainer = trained(tmp_path, callback, make(), **options)
    said = [one["loss"] for one in trainer.state.log_history if "loss" in one]
    np.testing.assert_allclose(losses, said, rtol=1e-3)


def test_a_loss_from_outside_the_model_is_none(tmp_path: Path) -> None:
    """Label smoothing: the Trainer computes it from the logits."""
    callback = regard.monitor.TrainerCallback(every=2)
    trained(tmp_path, callback, max_steps=2, label_smoothing_factor=0.1)
    assert callback.monitor.latest.loss is None


def test_the_trainers_first_batch_is_checked(tmp_path: Path) -> None:
    alarms: list[Any] = []
    callback = regard.monitor.TrainerCallback(check_first_batch=True, on_alarm=alarms.append)
    trained(tmp_path, callback, max_steps=1, bf16=True)
    future = callback.monitor.first_batch.checked["future"]
    assert (future, future.decided_by) == ("ok", "float64") and alarms == []


# ── Lightning ────────────────────────────────────────────────────────────────────────────────


class Module(lightning.LightningModule):  # type: ignore[misc]
    """A step that calls a part of the module, which is never called itself."""

    def __init__(self, fails: int | None = None, leaks: bool = False) -> None:
        super().__init__()
        self.model = Reader(hides=False) if leaks else tiny("llama")
        self.fails, self.leaks, self.losses = fails, leaks, list[float]()

    def training_step(self, ids: Any, number: int) -> Any:
        if number == self.fails:
            raise RuntimeError("the data is at its end")
        loss = self.model(ids, ids)[1] if self.leaks else self.model(ids, labels=ids).loss
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)


def fit(callback: Any, module: Module, **options: Any) -> None:
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
             "enable_model_summary": False, "accelerator": "cpu"}  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(callbacks=[callback], max_epochs=1, **quiet, **options)
        trainer.fit(module, torch.utils.data.DataLoader(IDS, batch_size=2))


def test_every_step_of_lightning_is_sampled_with_its_number_and_loss(tmp_path: Path) -> None:
    taken: list[int] = []
    losses: list[float] = []
    logs = [tmp_path / "run.csv", lambda _, n: taken.append(n), losses_of(losses)]
    callback, module = regard.monitor.LightningCallback(log=logs), Module()
    fit(callback, module, accumulate_grad_batches=2)
    assert taken == [0, 1, 2] and callback.monitor.latest.places == ("L0", "L1")
    assert np.isfinite(callback.monitor.latest["grad_w_q"]).all()
    assert len((tmp_path / "run.csv").read_text().splitlines()) == 1 + 3 * 8
    np.testing.assert_allclose(losses, np.reshape(module.losses, (3, 2)).mean(1), rtol=1e-6)


def test_a_run_that_breaks_leaves_its_log_whole(tmp_path: Path) -> None:
    module = Module(fails=2)
    callback = regard.monitor.LightningCallback(log=tmp_path / "run.csv", every=2)
    with pytest.raises(RuntimeError, match="at its end"):
        fit(callback, module)
    assert len((tmp_path / "run.csv").read_text().splitlines()) == 1 + 8
    assert not any(m._forward_hooks for m in module.model.modules())


def test_lightnings_scale_is_taken_out() -> None:
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


def test_lightnings_first_batch_is_checked() -> None:
    alarms: list[Any] = []
    options = {"check_first_batch": {"causal": True}, "on_alarm": alarms.append}
    fit(regard.monitor.LightningCallback(**options), Module(leaks=True))
    assert alarms[0].kind == "future"
