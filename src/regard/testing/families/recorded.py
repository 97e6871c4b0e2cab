"""`regard.record` around a forward: what is in the recording, and what it leaves as it was."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

import regard
from regard.errors import InputError, RegardWarning, UnavailableError
from regard.huggingface import using
from regard.testing.families.attentions import as_told
from regard.testing.families.compare import differences
from regard.testing.families.facts import BATCH
from regard.testing.families.run import implementations, outputs
from regard.testing.families.subject import Subject

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
