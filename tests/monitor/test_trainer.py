"""The Trainer of transformers, monitored by its callback."""

from __future__ import annotations

import csv

import numpy as np
import torch
from transformers import Trainer, TrainingArguments

import regard
from recorder.models import tiny, tokens


def _arguments(folder, **options):
    usual = {
        "per_device_train_batch_size": 2, "max_steps": 5, "report_to": [], "use_cpu": True,
        "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True,
    }  # fmt: skip
    return TrainingArguments(str(folder), **(usual | options))


def _data(count=40):
    return [{"input_ids": one, "labels": one} for one in tokens(16, count)]


def _hooks(model):
    return sum(len(m._forward_hooks) for m in model.modules())


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
    assert _hooks(model) == 0


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


def test_padding_of_transformers_is_left_out():
    model = tiny("llama", attn_implementation="regard")
    ids = tokens(20, 2)
    real = torch.ones(2, 20, dtype=torch.long)
    real[1, 8:] = 0
    with regard.Monitor(model) as monitor:
        model(ids, attention_mask=real).logits.sum().backward()
        padded = monitor.step()
        model(ids[:1]).logits.sum().backward()
        model(ids[1:, :8]).logits.sum().backward()
        alone = monitor.step()
        flipped = real.flip(1)
        moved = torch.where(flipped.bool(), ids, 0)
        moved[1, 12:] = ids[1, :8]
        moved[0] = ids[0]
        places = (flipped.cumsum(1) - 1).clamp(min=0)
        model(moved, attention_mask=flipped, position_ids=places).logits.sum().backward()
        left = monitor.step()
    for name in ("normalized_entropy", "max_score", "peak", "sink_mass"):
        np.testing.assert_allclose(padded[name], alone[name], rtol=1e-4, err_msg=name)
        np.testing.assert_allclose(left[name], alone[name], rtol=1e-4, err_msg=name)


def test_sdpa_is_heard_as_well():
    model = tiny("llama", num_key_value_heads=2)
    ids, found = tokens(20, 2), {}
    for name in ("regard", "sdpa"):
        model.set_attn_implementation(name)
        model.zero_grad()
        with regard.Monitor(model) as monitor:
            model(ids).logits.square().mean().backward()
            found[name] = monitor.step()
    for name, right in found["regard"].values.items():
        np.testing.assert_allclose(found["sdpa"][name], right, rtol=1e-3, atol=1e-6, err_msg=name)
