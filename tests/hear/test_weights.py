"""Weights that come when they are needed are weights; weights that never come are none."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import accelerate
import numpy as np
import pytest
import torch
from torch import nn

import regard
from recorder.models import Stack, tiny, tokens
from regard.errors import InputError
from regard.hear.weights import device_of
from regard.intervene import Probe


def to_disk(model: Any, folder: Path) -> None:
    accelerate.disk_offload(model, str(folder), execution_device=torch.device("cpu"))


def to_both(model: Any, folder: Path) -> None:
    """The first layer stays where it is, the others are on disk."""
    places = dict.fromkeys(dict(model.model.named_children()), "cpu")
    names = [f"model.{name}" for name in places if name != "layers"] + ["lm_head"]
    where = dict.fromkeys(names, "cpu") | {"model.layers.0": "cpu", "model.layers.1": "disk"}
    accelerate.dispatch_model(
        model, where, main_device=torch.device("cpu"), offload_dir=str(folder), force_hooks=True
    )


OFFLOADS: dict[str, Callable[[Any, Path], Any]] = {
    "cpu_offload": lambda model, _: accelerate.cpu_offload(model, torch.device("cpu")),
    "disk_offload": to_disk,
    "dispatch_model": to_both,
}


@pytest.mark.parametrize("name", OFFLOADS)
@torch.no_grad()
def test_offloaded_weights_are_recorded_as_those_at_hand(name: str, tmp_path: Path) -> None:
    model, ids = tiny("llama", tie_word_embeddings=False), tokens(9, batch=2)
    away = copy.deepcopy(model)
    OFFLOADS[name](away, tmp_path)
    assert any(one.is_meta for one in away.parameters())
    with regard.record(model) as near, regard.record(away) as far:
        torch.testing.assert_close(away(ids).logits, model(ids).logits)
    assert far.recording.model["device"] == "cpu" and device_of(away) == torch.device("cpu")
    for one, other in zip(near.recording.prompts, far.recording.prompts, strict=True):
        for head, found in zip(one, other, strict=True):
            np.testing.assert_array_equal(found[:, :], head[:, :])


@torch.no_grad()
def test_offloaded_weights_can_be_probed(tmp_path: Path) -> None:
    model, ids = tiny("llama", tie_word_embeddings=False), tokens(9)
    away = copy.deepcopy(model)
    to_disk(away, tmp_path)
    near, far = (Probe(one, ids).effect("L0H1") for one in (model, away))
    assert far.kl == pytest.approx(near.kl, abs=1e-5)


@pytest.mark.parametrize("part", ["all", "one layer"])
def test_weights_that_never_come_are_refused(part: str) -> None:
    model = Stack()
    (model if part == "all" else model.layers[1]).to("meta")
    with pytest.raises(InputError, match=r"meta device and computes nothing: layers\.[01]"):
        regard.record(model).__enter__()


def test_a_hook_that_brings_nothing_does_not_count() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    accelerate.hooks.add_hook_to_module(model, accelerate.hooks.AlignDevicesHook("cpu"))
    model.to("meta")
    with pytest.raises(InputError, match="meta device"):
        regard.record(model).__enter__()
