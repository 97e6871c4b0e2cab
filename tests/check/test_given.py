"""Batches and models as they are given: types, wrappers, contexts and odd masks change nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from check import models
from check.architectures import ids, make, padded
from check.faults import ahead, plant
from check.models import seeded
from check.reports import clean
from regard.check import check

LEFT = padded("left")
MASK = LEFT["attention_mask"]
EMBEDDINGS = torch.randn(2, 20, 32, generator=torch.Generator().manual_seed(8))
BATCHES: dict[str, Any] = {
    "int32": ids().int(),
    "a bool mask": {**LEFT, "attention_mask": MASK.bool()},
    "a float mask": {**LEFT, "attention_mask": MASK.float()},
    "of a tokenizer": transformers.BatchEncoding(LEFT),
    "options beside it": {**LEFT, "output_attentions": False, "return_dict": True},
    "embeddings": {"inputs_embeds": EMBEDDINGS},
    "padded embeddings": {"inputs_embeds": EMBEDDINGS, "attention_mask": MASK},
    "special tokens within": torch.cat([torch.ones(2, 3).long(), ids(2, 9), ids(2, 1) * 0 + 2], 1),
    "one word": torch.full((2, 12), 7),
    "as many as tokens": ids(16, 16),
    "three tokens": ids(2, 3),
    "padded on both sides": {
        "input_ids": ids(2, 12),
        "attention_mask": torch.tensor([[1] * 12, [0] * 3 + [1] * 6 + [0] * 3]),
    },
    "a hole": {
        "input_ids": ids(2, 12),
        "attention_mask": torch.tensor([[1] * 12, [1] * 4 + [0] * 3 + [1] * 5]),
    },
    "one token in the last": {
        "input_ids": ids(2, 12), "attention_mask": torch.tensor([[1] * 12, [0] * 11 + [1]]),
    },
    "nothing in the last": {
        "input_ids": ids(2, 12), "attention_mask": torch.tensor([[1] * 12, [0] * 12]),
    },
}  # fmt: skip


@pytest.mark.parametrize("given", BATCHES)
def test_batches(given: str) -> None:
    clean(check(make("llama"), BATCHES[given]), "future")


@pytest.mark.parametrize("given", BATCHES)
def test_a_fault_in_such_batches(given: str) -> None:
    model = plant(make("llama"), "model.layers.1.self_attn", ahead(1e-3))
    report = check(model, BATCHES[given], rules=["future"])
    assert [each.module for each in report.findings] == ["model.layers.1.self_attn"]


class Named(nn.Module):
    """Takes whatever it is given by name."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = make("llama")

    def forward(self, **given: Any) -> Any:
        return self.inner(**given)


class Whole(Named):
    """Takes the mapping itself."""

    def forward(self, batch: dict[str, Tensor]) -> Any:  # type: ignore[override]
        return self.inner(**batch)


def checkpointed() -> Any:
    model = make("llama")
    model.gradient_checkpointing_enable()
    return model.train()


WRAPPERS: dict[str, Callable[[], Any]] = {
    "any name": lambda: Named().eval(),
    "one mapping": lambda: Whole().eval(),
    "many devices": lambda: nn.DataParallel(make("llama")),
    "doubles": lambda: make("llama").double(),
    "checkpointed": checkpointed,
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_wrappers(wrapper: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of checkpoints without gradients
        clean(check(WRAPPERS[wrapper](), padded("left"), causal=True), "future")


@pytest.mark.parametrize(
    "norm", [parametrizations.weight_norm, parametrizations.spectral_norm, nn.utils.weight_norm]
)
def test_weights_that_are_computed(norm: Any) -> None:
    """Some of them cannot be copied once they are."""
    model = seeded(models.Words)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last is an older form
        norm(model.mix[0].out)
        model(ids())
    clean(check(model, {"tokens": ids()}, causal=True), "future")


@pytest.mark.parametrize("how", ["script", "trace"])
def test_scripts(how: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = seeded(models.Shifted)
        model = torch.jit.script(model) if how == "script" else torch.jit.trace(model, ids())
        clean(check(model, ids(), causal=True), "future")


@contextmanager
def doubles() -> Iterator[None]:
    """Numbers have double precision by default."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    ("name", "context"),
    [
        ("llama", lambda: torch.autocast("cpu", torch.bfloat16)),
        ("bert", lambda: torch.autocast("cpu", torch.bfloat16)),
        ("qwen3_moe", lambda: torch.autocast("cpu", torch.bfloat16)),
        ("llama", torch.inference_mode),
        ("llama", doubles),
    ],
)
def test_contexts(name: str, context: Any) -> None:
    model = make(name)
    with context():
        clean(check(model, padded("left")), *["future"] * (name != "bert"))


OUTPUTS: dict[str, Callable[[Tensor], Any]] = {
    "a number a row": lambda x: x.cumsum(1).sum(-1),
    "complex": lambda x: torch.fft.fft(x, dim=-1).cumsum(1),
    "minus infinity in places": lambda x: torch.cat([x.cumsum(1), x * 0 - torch.inf], -1),
    "within others": lambda x: (x.mean(), {"rest": [x.cumsum(1)]}),
    "noise of a seed": lambda x: x.cumsum(1) + torch.randn_like(x),
}  # fmt: skip


@pytest.mark.parametrize("output", OUTPUTS)
def test_outputs(output: str) -> None:
    clean(check(OUTPUTS[output], EMBEDDINGS[:, :11], causal=True), "future")
