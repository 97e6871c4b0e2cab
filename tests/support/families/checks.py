"""The checks: transformers' own implementation against regard, however regard is asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

import regard
from regard.errors import InputError, RegardWarning, UnavailableError
from regard.huggingface import using
from support.families.compare import (
    Inputs,
    as_told,
    attentions,
    differences,
    generated,
    implementations,
    misfits,
    outputs,
    raw,
)
from support.families.inputs import BATCH
from support.families.sight import seen
from support.families.subject import Subject

_ALLOWED = 1e-3  # of a weight


def recorded(subject: Subject) -> list[str]:
    """Outputs, weights and implementations stay; every matrix of eager's is in the recording."""
    model = subject.model
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    before = implementations(model)
    wrong = []
    for name, inputs in subject.variants.items():
        try:
            with regard.record(model) as rec:
                inside = outputs(model, inputs)
        except InputError as error:  # images of a whole batch in one sequence, say
            warnings.warn(f"a batch is not recorded: {error}", RegardWarning, stacklevel=2)
            continue
        reference = subject.references[name]
        wrong += [f"{name}: {said}" for said in subject.differ(inside, reference, name)]
        again = differences(outputs(model, inputs), reference, dict.fromkeys(reference, 0.0))
        wrong += [f"{name}, afterwards: {said}" for said in again]
        if name == "unpadded":
            wrong += _lost(subject, rec)
    after = implementations(model)
    wrong += [f"{name} stays on {after[name]}" for name in before if after[name] != before[name]]
    now = model.state_dict()
    return wrong + [
        f"{name} has changed" for name in weights if not _equal(now[name], weights[name])
    ]


def _equal(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.nan_to_num(), other.nan_to_num())


def _lost(subject: Subject, rec: Any) -> Iterator[str]:
    """Matrices of eager's that no recorded head of the same sequence has."""
    if not _comparable(subject):
        return
    for name, layer in subject.attentions.get("unpadded", {}).items():
        if not isinstance(layer, Tensor) or layer.ndim != 4 or layer.shape[0] != BATCH:
            continue  # images of a batch may be one long sequence, whose rows are nobody's
        if not rec.prompts or len(rec.prompts) % BATCH:
            yield f"{len(rec.prompts)} prompts recorded of {BATCH}"
            return
        for entry in range(BATCH):  # a model that reads two texts has two prompts a sequence
            prompts = rec.prompts[entry::BATCH]
            heads = [torch.as_tensor(one[name].dense()) for one in prompts for name in one.labels()]
            alike = [head for head in heads if head.shape == layer.shape[2:]]
            if not (layer[entry].sum((0, 1)) > 0).all():
                continue  # keys that no query sees are padding, which a recording leaves out
            for head, weights in enumerate(layer[entry]):
                if not any(_far(one, weights) <= _ALLOWED for one in alike):
                    yield f"{name}: head {head} of sequence {entry} is not in the recording"
                    return


def _far(found: Tensor, weights: Tensor) -> float:
    return float((as_told(found, weights) - weights).abs().max())


def _comparable(subject: Subject) -> bool:
    """Whether eager's matrices are those that were computed, and all of them are seen: modules
    that compute attention by themselves are named in a warning, and not recorded."""
    eager, reference = subject.eager_references["unpadded"], subject.references["unpadded"]
    try:
        with using(subject.model) as sight:
            return not sight.unseen and not subject.differ(eager, reference, "unpadded")
    except UnavailableError:  # recorded around torch's own function
        return False


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
            found = dict(attentions(raw(subject.eager, inputs, output_attentions=True)))
        wrong += [f"{name}: {said}" for said in misfits(found, expected)]
    return wrong


CHECKS: dict[str, Callable[[Subject], list[str]]] = {
    "built": _built,
    "switched": _switched,
    "using": _used,
    "using on eager": _used_on_eager,
    "generate": _generated,
    "attentions": _told,
    "record": recorded,
    "check": seen,
}
