"""The checks: transformers' own implementation against regard, however regard is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.huggingface import using
from regard.testing.families import attentions as layers
from regard.testing.families.facts import Inputs
from regard.testing.families.recorded import recorded
from regard.testing.families.run import generated, implementations, outputs, raw
from regard.testing.families.subject import Subject


def _built(subject: Subject) -> list[str]:
    """`attn_implementation="regard"` at build time."""
    return subject.compare_named(lambda one: outputs(subject.on_regard, one))


def _switched(subject: Subject) -> list[str]:
    """`set_attn_implementation("regard")` at run time, and back."""
    model, before = subject.model, implementations(subject.model)
    model.set_attn_implementation("regard")
    try:
        return subject.compare_named(lambda one: outputs(model, one))
    finally:
        for name, module in model.named_modules():
            if name in before:
                module.config._attn_implementation = {"": before[name]}


def _used(subject: Subject) -> list[str]:
    """`using(model)`: stands for the implementation the model has; afterwards all is as before."""
    model, before = subject.model, implementations(subject.model)
    wrong = subject.compare(lambda one: _using(model, one), subject.references)
    after = implementations(model)
    return wrong + [f"{name} stays on {after[name]}" for name in before if after != before]


def _used_on_eager(subject: Subject) -> list[str]:
    """The same around a model on eager, against eager."""
    eager = subject.eager
    return subject.compare(lambda one: _using(eager, one), subject.eager_references)


def _using(model: Any, inputs: Inputs) -> dict[str, Tensor]:
    with using(model):
        return outputs(model, inputs)


def _generated(subject: Subject) -> list[str]:
    """A short `generate` with a cache, token for token."""
    wrong = []
    for name, inputs in subject.variants.items():
        if name == "right" or not subject.model.can_generate():
            continue
        try:
            expected = [generated(model, inputs) for model in (subject.model, subject.eager)]
        except Exception as error:  # noqa: BLE001 - transformers cannot, in one of many ways
            subject.notes.append(f"not generated: {type(error).__name__}: {error}"[:160])
            continue
        found = generated(subject.on_regard, inputs)
        if not any(len(found) == len(one) and all(map(_same, found, one)) for one in expected):
            wrong.append(f"{name}: other tokens")
    return wrong


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one.double(), other.double(), rtol=1e-3)


def _told(subject: Subject) -> list[str]:
    """`output_attentions=True`: one matrix per layer, with eager's weights. Of a model on eager:
    implementations differ in rows that see no key, and later layers read them."""
    wrong = []
    for name, expected in subject.attentions.items():
        inputs = subject.variants[name]
        with using(subject.eager):
            found = dict(layers.attentions(raw(subject.eager, inputs, output_attentions=True)))
        wrong += [f"{name}: {said}" for said in layers.misfits(found, expected)]
    return wrong


CHECKS: dict[str, Callable[[Subject], list[str]]] = {
    "built": _built,
    "switched": _switched,
    "using": _used,
    "using on eager": _used_on_eager,
    "generate": _generated,
    "attentions": _told,
    "record": recorded,
}
