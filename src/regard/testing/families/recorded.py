"""`regard.record` around a forward: what is in the recording, and what it leaves as it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

import regard
from regard.testing.families.attentions import as_told
from regard.testing.families.compare import differences
from regard.testing.families.facts import BATCH
from regard.testing.families.run import implementations, outputs
from regard.testing.families.subject import Subject

__all__ = ["recorded"]

ALLOWED = 1e-3  # of a weight


def recorded(subject: Subject) -> list[str]:
    """Outputs, weights and implementations stay; every matrix of eager's is in the recording."""
    model = subject.model
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    before = implementations(model)
    wrong = []
    for name, inputs in subject.variants.items():
        with regard.record(model) as rec:
            inside = outputs(model, inputs)
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
    """Matrices of eager's that no recorded head of the same sequence has.

    Where eager and the reference differ, eager's matrices are not those that were computed; where
    images of a batch are one long sequence, its rows are nobody's.
    """
    if subject.differ(
        subject.eager_references["unpadded"], subject.references["unpadded"], "unpadded"
    ):
        return
    for name, layer in subject.attentions.get("unpadded", {}).items():
        if not isinstance(layer, Tensor) or layer.ndim != 4 or layer.shape[0] != BATCH:
            continue
        if len(rec.prompts) != BATCH:
            yield f"{len(rec.prompts)} prompts recorded of {BATCH}"
            return
        for entry, prompt in enumerate(rec.prompts):
            heads = [torch.as_tensor(prompt[label].dense()) for label in prompt.labels()]
            alike = [head for head in heads if head.shape == layer.shape[2:]]
            for head, weights in enumerate(layer[entry]):
                if not any(
                    (as_told(one, weights) - weights).abs().max() <= ALLOWED for one in alike
                ):
                    yield f"{name}: head {head} of sequence {entry} is not in the recording"
                    return
