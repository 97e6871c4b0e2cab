"""The Trainer of transformers, monitored by its callback."""

from __future__ import annotations

import csv

import numpy as np
from transformers import Trainer, TrainingArguments

import regard
from monitor.steps import hooks
from recorder.models import tiny, tokens


def _arguments(folder, **options):
    usual = {
        "per_device_train_batch_size": 2, "max_steps": 5, "report_to": [], "use_cpu": True,
        "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True,
    }  # fmt: skip
    return TrainingArguments(str(folder), **(usual | options))


def _data(count=40):
    return [{"input_ids": one, "labels": one} for one in tokens(16, count)]


def test_steps_have_the_trainers_numbers(tmp_path):
    model = tiny("llama", num_key_value_heads=2, attn_implementation="regard")
    callback = regard.monitor.TrainerCallback(every=2, log=tmp_path / "run.csv")
    trainer = Trainer(model, _arguments(tmp_path), train_dataset=_data(), callbacks=[callback])
    trainer.train()
    with (tmp_path / "run.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sorted({int(row["step"]) for row in rows}) == [0, 2, 4]
    assert len(rows) == 3 * 2 * 4 and callback.monitor.latest.step == 4
    assert not np.isnan(callback.monitor.latest["grad_w_q"]).any()
    assert hooks(model) == 0


def test_accumulation_and_checkpointing(tmp_path):
    """Micro-batches that are computed twice are one step of as many rows."""
    found = []
    for options in (
        {"per_device_train_batch_size": 4},
        {"gradient_accumulation_steps": 2, "gradient_checkpointing": True},
    ):
        model = tiny("llama", attn_implementation="regard")
        callback = regard.monitor.TrainerCallback()
        arguments = _arguments(tmp_path, max_steps=1, seed=0, **options)
        Trainer(model, arguments, train_dataset=_data(), callbacks=[callback]).train()
        found.append(callback.monitor.latest)
    for name in ("normalized_entropy", "max_score", "peak", "sink_mass"):
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-4, err_msg=name)
