"""`Monitor(…, check_first_batch=True)`: the first batch is checked before its step."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import regard
from monitor.first_batches import Reader, leaks_on_a_rank, state_of
from parallel.world import run as run_ranks
from recorder.models import tiny, tokens
from regard.errors import InputError, RegardWarning

IDS = tokens(12, batch=3)


def step(model: Any, call: Any, **options: Any) -> regard.Monitor:
    """One step of training; the monitor, with alarms and without warnings."""
    alarms: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", RegardWarning)
        with regard.Monitor(
            model, **{"check_first_batch": True, "on_alarm": alarms.append, **options}
        ) as monitor:
            call().backward()
            monitor.step()
    assert alarms == monitor.alarms
    return monitor


CALLS = {
    "positional": lambda model: model(IDS).sum(),
    "with targets": lambda model: model(IDS, IDS)[1],
    "by name": lambda model: model(targets=IDS, ids=IDS)[1],
}


@pytest.mark.parametrize("how", CALLS)
def test_a_leak_in_the_first_batch_is_an_alarm_before_the_step(how: str) -> None:
    model = Reader(hides=False)
    monitor = step(model, lambda: CALLS[how](model), check_first_batch={"causal": True})
    alarm, *_ = monitor.alarms
    assert alarm.kind == "future" and alarm.step == 0 and alarm.value > 1e-3
    assert str(alarm).startswith("first batch: future: ")
    assert monitor.first_batch.checked["future"] == "found"
    assert monitor.latest is not None  # the step was sampled as ever


def test_without_on_alarm_it_is_a_warning() -> None:
    model = Reader(hides=False)
    said = pytest.warns(RegardWarning, match="first batch: future: position .* moves?")
    with regard.Monitor(model, check_first_batch={"causal": True}), said:
        model(IDS)


@pytest.mark.parametrize("how", CALLS)
def test_a_right_model_is_left_as_it_was(how: str) -> None:
    results = []
    for is_checked in (False, True):
        model = Reader().train()
        torch.manual_seed(1)
        before = state_of(model)
        with regard.Monitor(model, evaluation=True, check_first_batch=is_checked) as monitor:
            loss = CALLS[how](model)
            loss.backward()
            monitor.step()
        after = state_of(model)
        assert before["modes"] == after["modes"] and before["hooks"] == after["hooks"]
        assert all(torch.equal(x, after["weights"][n]) for n, x in before["weights"].items())
        results.append((loss, model.qkv.weight.grad, after["dice"], monitor.latest.values))
    (loss, grad, dice, values), (own_loss, own_grad, own_dice, own_values) = results
    assert monitor.first_batch.checked["future"] == "ok" and not monitor.alarms
    assert torch.equal(loss, own_loss) and torch.equal(grad, own_grad)  # dropout is the same
    assert torch.equal(dice, own_dice)
    for name, value in values.items():
        assert (value == own_values[name]).all(), name  # and rows of the check are not counted


def test_only_the_first_batch_that_is_differentiated_is_checked() -> None:
    model = Reader(hides=False)
    with regard.Monitor(
        model, evaluation=True, on_alarm=lambda _: None, check_first_batch={"causal": True}
    ) as monitor:
        with torch.no_grad():
            model(IDS)
        assert monitor.first_batch is None
        model.embed(IDS)  # a layer called by itself
        assert monitor.first_batch is None
        model(IDS)
        first = monitor.first_batch
        model(IDS)
        assert first is not None and monitor.first_batch is first
        monitor.step()
    assert len(monitor.alarms) == len(first.findings)


def test_a_step_that_is_not_sampled_is_checked_too() -> None:
    model = Reader(hides=False)
    options = {"check_first_batch": {"causal": True}, "start": 1, "every": 2}
    monitor = step(model, lambda: model(IDS).sum(), **options)
    assert monitor.latest is None and monitor.alarms[0].step == 1


def test_logs_keep_the_alarms_of_heads_alone(tmp_path: Path) -> None:
    model = Reader(hides=False)
    log = tmp_path / "run.regard"
    monitor = step(model, lambda: model(IDS).sum(), log=log, check_first_batch={"causal": True})
    assert monitor.alarms and regard.open(log).training.alarms == ()


def test_what_is_left_open_and_what_cannot_be_checked_are_warnings() -> None:
    model = Reader(hides=False)
    model.is_causal = None
    said = pytest.warns(RegardWarning, match="leaves open what the model sees .*causal=True")
    with regard.Monitor(model, check_first_batch=True), said:
        model(IDS)

    class Numbers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, number: float) -> Any:
            return self.inner.weight.sum() * number

    said = pytest.warns(
        RegardWarning, match="the first batch could not be checked: batch is a float"
    )
    with regard.Monitor(Numbers(), check_first_batch=True) as monitor, said:
        monitor.model(2.0).backward()
    assert monitor.first_batch is None


def test_options_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match="check_first_batch has casual; give True, or options"):
        regard.Monitor(Reader(), check_first_batch={"casual": True})


# ── how models are run ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("implementation", ["sdpa", "eager", "regard"])
def test_a_model_of_transformers(implementation: str) -> None:
    model = tiny("llama", attn_implementation=implementation).train()
    mask = torch.ones_like(IDS)
    mask[1, 8:] = 0
    batch = {"input_ids": IDS, "attention_mask": mask, "labels": IDS}
    monitor = step(model, lambda: model(**batch).loss)
    checked = monitor.first_batch.checked
    assert checked["future"] == checked["padding"] == checked["training"] == "ok"
    assert monitor.first_batch.layers[0].sees == "causal" and not monitor.alarms
    assert "2 × 12 positions" in monitor.first_batch.about  # two of three sequences


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_a_pack_whose_documents_see_one_another(implementation: str) -> None:
    """By the model's own attention: where regard stands for eager, it tells documents apart."""
    model = tiny("bert", attn_implementation=implementation).train()
    positions = torch.arange(24)[None] % 12
    batch = {"input_ids": IDS[:2].reshape(1, 24), "position_ids": positions}
    by_layer = {"by_layer": True}  # without a copy of the model
    monitor = step(model, lambda: model(**batch)[0].sum(), check_first_batch=by_layer)
    assert {alarm.kind for alarm in monitor.alarms} == {"documents"}
    assert "encoder.layer.0" in monitor.alarms[0].head


@pytest.mark.parametrize("how", ["compiled", "in place", "checkpointed", "autocast"])
def test_however_it_is_run(how: str) -> None:
    model: Any = tiny("llama").train()
    run: Any = model
    if how == "compiled":
        run = torch.compile(model, backend="eager")
    elif how == "in place":
        model.compile(backend="eager")
    elif how == "checkpointed":
        model.gradient_checkpointing_enable()

    def loss() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=how == "autocast"):
            return run(input_ids=IDS, labels=IDS, use_cache=False).loss

    monitor = step(run, loss)
    assert monitor.first_batch.checked["future"] == "ok" and not monitor.alarms
    assert monitor.latest is not None
    torch._dynamo.reset()


@pytest.mark.parametrize("how", ["leaks", "fails", "sharded"])
def test_ranks_have_one_verdict(how: str) -> None:
    answers = run_ranks(2, leaks_on_a_rank, how, timeout=300.0, patience=120.0)
    assert how == "sharded" or torch.equal(answers[0]["grad"], answers[1]["grad"])
    for answer in answers:
        if how == "leaks":
            assert answer["verdict"] == "found"
            assert any("rank 1: future" in words for words in answer["alarms"])
        else:
            assert answer["verdict"] is None and answer["alarms"] == []
            why = {
                "fails": "MemoryError: the device is full",
                "sharded": "is shared out over ranks",
            }[how]
            assert any(why in words for words in answer["said"])


# ── trainers ─────────────────────────────────────────────────────────────────────────────────


def test_the_trainer_of_transformers(tmp_path: Path) -> None:
    from transformers import Trainer, TrainingArguments

    alarms: list[Any] = []
    arguments = TrainingArguments(
        str(tmp_path), per_device_train_batch_size=2, max_steps=2, report_to=[], use_cpu=True,
        save_strategy="no", logging_strategy="no", disable_tqdm=True, bf16=True,
    )  # fmt: skip
    callback = regard.monitor.TrainerCallback(check_first_batch=True, on_alarm=alarms.append)
    data = [{"input_ids": one, "labels": one} for one in tokens(16, 8)]
    Trainer(tiny("llama"), arguments, train_dataset=data, callbacks=[callback]).train()
    future = callback.monitor.first_batch.checked["future"]
    assert (future, future.decided_by) == ("ok", "float64") and alarms == []


def test_the_trainer_of_lightning() -> None:
    import lightning

    class Module(lightning.LightningModule):  # type: ignore[misc]
        """A step that calls a part of the module."""

        def __init__(self) -> None:
            super().__init__()
            self.reader = Reader(hides=False)

        def training_step(self, ids: Any, number: int) -> Any:
            return self.reader(ids, ids)[1]

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    alarms: list[Any] = []
    callback = regard.monitor.LightningCallback(
        check_first_batch={"causal": True}, on_alarm=alarms.append
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(
            callbacks=[callback], max_epochs=1, logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
        )  # fmt: skip
        trainer.fit(Module(), torch.utils.data.DataLoader(IDS, batch_size=3))
    assert alarms[0].kind == "future"
