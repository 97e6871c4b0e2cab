"""The model, the batch and all generators are left as they were: after a report, an error in the
model, Ctrl-C and too little memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn

from check.architectures import ids, make, padded
from check.faults import ahead, plant
from check.models import Words, seeded
from regard.check import check


class Trouble:
    """Raises in one call of a model or of its copies, which share it."""

    def __init__(self) -> None:
        self.at, self.error, self.calls = 0, BaseException(), 0

    def __deepcopy__(self, memo: Any) -> Trouble:
        return self

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == self.at:
            raise self.error


class Busy(nn.Module):
    """Changes itself in every call: running statistics, a count, an attribute, buffers that it
    makes or replaces; and draws from all generators."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm, self.drop = Words(), nn.BatchNorm1d(64), nn.Dropout(0.3)
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("later", None)
        self.last: Any = None
        self.trouble = Trouble()

    def forward(self, tokens: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        self.count += 1
        self.last, self.later = tokens, torch.ones(3)
        self.norm.momentum = 0.5
        random.random(), numpy.random.rand(), torch.rand(1)
        self.trouble()
        logits = self.words(tokens, padding_mask)["logits"]
        rows: Tensor = self.drop(self.norm(logits.transpose(1, 2)).transpose(1, 2))
        return rows


def state(model: nn.Module) -> dict[str, Any]:
    """All that a call could leave behind."""
    modules = {
        name: (
            module.training, sorted(vars(module)), list(module._buffers), list(module._modules),
            [len(hooks) for key, hooks in vars(module).items() if key.endswith("hooks")],
            {key: value for key, value in vars(module).items()
             if isinstance(value, int | float | str | type(None))},
        )
        for name, module in model.named_modules()
    }  # fmt: skip
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {
        "modules": modules,
        "tensors": {name: (id(x), x.detach().clone(), x.dtype, x.requires_grad, x.grad)
                    for name, x in tensors.items()},
        "cpu": torch.random.get_rng_state(), "python": random.getstate(),
        "numpy": numpy.random.get_state()[1:3], "grad": torch.is_grad_enabled(),
        "default": torch.get_default_dtype(),
    }  # fmt: skip


def same(first: Any, second: Any) -> bool:
    if isinstance(first, Tensor):
        return torch.equal(first, second)
    if isinstance(first, numpy.ndarray):
        return bool((first == second).all())
    if isinstance(first, dict):
        return list(first) == list(second) and all(same(first[n], second[n]) for n in first)
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


def unlike(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [name for name in before if not same(before[name], after[name])]


def mixed(model: Any) -> Any:
    """Some modules train, others do not; some weights are frozen."""
    model.train()
    next(model.children()).eval()
    next(model.parameters()).requires_grad_(False)
    return model


@pytest.mark.parametrize("by_layer", [False, True])
@pytest.mark.parametrize("name", ["llama", "gemma3", "qwen3_moe", "bart"])
def test_after_a_report(name: str, by_layer: bool) -> None:
    model, batch = mixed(make(name)), padded("left")
    kept = {key: x.clone() for key, x in batch.items()}
    before = state(model)
    check(model, batch, by_layer=by_layer)
    assert unlike(before, state(model)) == [] and same(kept, batch)


def test_after_findings() -> None:
    model = mixed(plant(make("gpt2"), "transformer.h.1.attn", ahead(1e-3)))
    before = state(model)
    assert check(model, {"input_ids": ids()}).findings
    assert unlike(before, state(model)) == []


def test_a_model_that_changes_itself() -> None:
    model = mixed(seeded(Busy))
    model.last = kept = object()
    before = state(model)
    check(model, {"tokens": ids()}, causal=True)
    assert unlike(before, state(model)) == []
    assert model.last is kept and model.later is None and model.norm.momentum == 0.1


ERRORS: dict[str, Callable[[], BaseException]] = {
    "an error": lambda: RuntimeError("no"),
    "Ctrl-C": lambda: KeyboardInterrupt(),
    "no memory": lambda: MemoryError(),
    "no memory of a device": lambda: torch.OutOfMemoryError("CUDA out of memory"),
    "an exit": lambda: SystemExit(3),
}


@pytest.mark.parametrize("at", [1, 2, 4, 7, 10])
@pytest.mark.parametrize("error", ERRORS)
def test_after_an_error(error: str, at: int) -> None:
    """It is raised, or the reason why a rule is not decided; Ctrl-C always ends the check."""
    model = mixed(seeded(Busy))
    model.trouble.at, model.trouble.error = at, ERRORS[error]()
    before = state(model)
    try:
        check(model, {"tokens": ids()}, causal=True)
    except BaseException as raised:  # noqa: BLE001 - Ctrl-C as well
        assert raised is model.trouble.error
    else:
        assert error not in ("Ctrl-C", "an exit"), "swallowed"
    assert model.trouble.calls >= at
    assert unlike(before, state(model)) == []


def test_an_error_within_a_hooked_call_leaves_no_hook() -> None:
    """A module that refuses to be called again, as the check does to measure it."""
    model = make("llama")
    calls = []

    def refuses(module: Any, args: Any, kwargs: Any) -> None:
        calls.append(1)
        if len(calls) > 6:
            raise KeyboardInterrupt

    model.model.layers[1].self_attn.register_forward_pre_hook(refuses, with_kwargs=True)
    before = state(model)
    with pytest.raises(KeyboardInterrupt):
        check(model, {"input_ids": ids()})
    assert unlike(before, state(model)) == []


def test_gradients_stay() -> None:
    model = make("gpt2")
    model(ids(), labels=ids()).loss.backward()
    kept = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    check(model, {"input_ids": ids(), "labels": ids()}).raise_for_findings()
    assert same(kept, {name: weight.grad for name, weight in model.named_parameters()})


def test_the_comparison_sees_changes() -> None:
    """Each change of a call alone is one that would be told."""
    model = seeded(Busy)
    before = state(model)
    model(ids())
    assert set(unlike(before, state(model))) == {"modules", "tensors", "cpu", "python", "numpy"}
    assert unlike(state(model), state(model)) == []
