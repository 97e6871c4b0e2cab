"""The checks: eager or sdpa against regard, in every way in which regard can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

import regard
from regard.huggingface import using
from regard.testing.families import attentions as layers
from regard.testing.families.build import build
from regard.testing.families.compare import Flat, differences, tolerances
from regard.testing.families.run import (
    exact,
    generated,
    implementations,
    outputs,
    raw,
)  # fmt: skip
from regard.testing.families.words import padded

__all__ = ["CHECKS", "Subject"]

Inputs = dict[str, Any]


@dataclass
class Subject:
    """A model type under examination: its models, inputs and what transformers makes of them."""

    name: str
    model: Any  # on the implementation it has by default
    inputs: Inputs
    notes: list[str] = field(default_factory=list)

    @cached_property
    def eager(self) -> Any:
        """The same weights on eager."""
        return self._twin("eager")

    @cached_property
    def on_regard(self) -> Any:
        """The same weights in a model that was built with our name."""
        return self._twin("regard")

    def _twin(self, implementation: str) -> Any:
        twin = build(self.name, implementation)
        twin.load_state_dict(self.model.state_dict())
        return twin

    @cached_property
    def variants(self) -> dict[str, Inputs]:
        """The inputs without padding, with padding on the left and on the right."""
        pad = getattr(self.model.config.get_text_config(), "pad_token_id", None) or 0
        found = {"unpadded": self.inputs}
        for side in ("left", "right"):
            inputs = padded(self.inputs, side, pad)
            if inputs is not None and self._runs(side, inputs):
                found[side] = inputs
        return found

    def _runs(self, side: str, inputs: Inputs) -> bool:
        try:
            outputs(self.model, inputs)
        except Exception as error:  # noqa: BLE001 - transformers' own refusal of such inputs
            self.notes.append(f"not run padded {side}: {type(error).__name__}")
            return False
        return True

    @cached_property
    def references(self) -> dict[str, Flat]:
        """What the default implementation gives for every variant."""
        return {name: outputs(self.model, one) for name, one in self.variants.items()}

    @cached_property
    def eagers(self) -> dict[str, Flat]:
        """What eager gives for every variant; the default's, where eager is broken by itself."""
        found = {name: outputs(self.eager, one) for name, one in self.variants.items()}
        return {
            name: one if all(t.isfinite().all() for t in one.values()) else self.references[name]
            for name, one in found.items()
        }

    @cached_property
    def allowed(self) -> dict[str, dict[str, float]]:
        """How far from it another computation may lie."""
        return {
            name: tolerances(self.references[name], exact(self.model, one))
            for name, one in self.variants.items()
        }

    def compare(self, run: Callable[[Inputs], Flat], references: dict[str, Flat]) -> list[str]:
        """Every variant, run in another way, against references."""
        return [
            f"{name}: {said}"
            for name, inputs in self.variants.items()
            for said in differences(run(inputs), references[name], self.allowed[name])
        ]


def _built(subject: Subject) -> list[str]:
    """`attn_implementation="regard"` at build time, against eager."""
    return subject.compare(lambda one: outputs(subject.on_regard, one), subject.eagers)


def _switched(subject: Subject) -> list[str]:
    """`set_attn_implementation("regard")` at run time, and back, against eager."""
    model, before = subject.model, implementations(subject.model)
    model.set_attn_implementation("regard")
    try:
        return subject.compare(lambda one: outputs(model, one), subject.eagers)
    finally:
        _restore(model, before)


def _restore(model: Any, before: dict[str, Any]) -> None:
    for name, module in model.named_modules():
        if name in before:
            module.config._attn_implementation_internal = before[name]


def _within(subject: Subject) -> list[str]:
    """`using(model)`: stands for the implementation that the model has."""

    def run(inputs: Inputs) -> Flat:
        with using(subject.model):
            return outputs(subject.model, inputs)

    return subject.compare(run, subject.references) + _restored(subject.model, run, subject.inputs)


def _restored(model: Any, run: Callable[[Inputs], Any], inputs: Inputs) -> list[str]:
    before = implementations(model)
    run(inputs)
    after = implementations(model)
    return [f"{name} is left on {after[name]}" for name in before if after[name] != before[name]]


def _within_eager(subject: Subject) -> list[str]:
    """The same around a model on eager, against eager, broken or not."""
    references = {name: outputs(subject.eager, one) for name, one in subject.variants.items()}

    def run(inputs: Inputs) -> Flat:
        with using(subject.eager):
            return outputs(subject.eager, inputs)

    return subject.compare(run, references)


def _generates(subject: Subject) -> list[str]:
    """A short `generate` with a cache, token for token."""
    if not subject.model.can_generate():
        return []
    wrong = []
    for name in ("unpadded", "left"):
        if name not in subject.variants:
            continue
        inputs = subject.variants[name]
        try:
            expected = generated(subject.model, inputs)
        except Exception as error:  # noqa: BLE001 - transformers cannot, so there is nothing to compare
            subject.notes.append(f"not generated {name}: {type(error).__name__}: {error}"[:160])
            continue
        found = generated(subject.on_regard, inputs)
        if len(found) != len(expected) or not all(map(_same, found, expected)):
            wrong.append(f"{name}: other tokens are generated")
    return wrong


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one.double(), other.double(), rtol=1e-3)


def _attentions(subject: Subject) -> list[str]:
    """`output_attentions=True`, layer by layer, of a model on eager: rows that see no key differ
    between implementations, and later layers read them."""
    wrong = []
    for name in ("unpadded", "left"):
        if name not in subject.variants:
            continue
        inputs = subject.variants[name]
        try:
            expected = dict(layers.attentions(raw(subject.eager, inputs, output_attentions=True)))
        except Exception as error:  # noqa: BLE001 - the family does not offer it
            subject.notes.append(f"no attentions: {type(error).__name__}: {error}"[:160])
            return []
        with using(subject.eager):
            found = dict(layers.attentions(raw(subject.eager, inputs, output_attentions=True)))
        wrong += [f"{name}: {said}" for said in layers.misfits(found, expected)]
    return wrong


def _recorded(subject: Subject) -> list[str]:
    """`regard.record` changes neither outputs nor weights nor names, and hears every prompt."""
    model = subject.model
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    before = implementations(model)
    wrong = []
    for name, inputs in subject.variants.items():
        with regard.record(model) as rec:
            inside = outputs(model, inputs)
        after = outputs(model, inputs)
        reference = subject.references[name]
        wrong += [f"{name}: {s}" for s in differences(inside, reference, subject.allowed[name])]
        none = dict.fromkeys(reference, 0.0)
        wrong += [f"{name}, afterwards: {s}" for s in differences(after, reference, none)]
        wrong += [f"{name}: {said}" for said in _plausible(subject, rec, inputs)]
    now = implementations(model)
    wrong += [f"{name} is left on {now[name]}" for name in before if now[name] != before[name]]
    changed = [n for n, v in model.state_dict().items() if not _equal(v, weights[n])]
    return wrong + [f"{name} has changed" for name in changed]


def _equal(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one, other) or torch.equal(one.isnan(), other.isnan())


def _plausible(subject: Subject, rec: Any, inputs: Inputs) -> Iterator[str]:
    """Heads and prompts, as many as eager's attentions have."""
    try:
        seen = dict(layers.attentions(raw(subject.eager, inputs, output_attentions=True)))
    except Exception:  # noqa: BLE001 - the family does not offer it
        return
    shapes = [one.shape for one in seen.values() if isinstance(one, Tensor) and one.ndim == 4]
    text = [s for name, s in zip(seen, shapes, strict=False) if "vision" not in name]
    if not text or "input_ids" not in inputs:
        return
    batch = {shape[0] for shape in text}
    if len(rec.prompts) not in batch:
        yield f"{len(rec.prompts)} prompts recorded, attentions have {sorted(batch)}"
    heads = {heads for _, heads in rec.stacks.values()}
    if lost := {shape[1] for shape in text} - heads:
        yield f"{sorted(heads)} heads a layer recorded, attentions have {sorted(lost)}"


CHECKS: dict[str, Callable[[Subject], list[str]]] = {
    "built": _built,
    "switched": _switched,
    "using": _within,
    "using, eager": _within_eager,
    "generate": _generates,
    "attentions": _attentions,
    "record": _recorded,
}
