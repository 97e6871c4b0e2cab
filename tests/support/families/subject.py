"""A model type under examination: its models, its inputs, and what transformers makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor

from regard.check import Decision
from support.families.build import build
from support.families.compare import (
    Flat,
    Inputs,
    attentions,
    differences,
    exact,
    implementations,
    outputs,
    raw,
    tolerances,
)
from support.families.inputs import padded


@dataclass
class Subject:
    """Everything that the checks of one model type share, each made once."""

    name: str
    model: Any  # on the implementation it has by default, which is the reference
    inputs: Inputs
    notes: list[str] = field(default_factory=list)  # what transformers itself does not do
    verdicts: dict[str, Decision] = field(default_factory=dict)  # rule → what `regard.check` says
    findings: dict[str, str] = field(default_factory=dict)  # rule → the sentence

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
        pad = getattr(self.model.config, "pad_token_id", None)
        found = {"unpadded": self.inputs}
        for side in ("left", "right"):
            inputs = padded(self.inputs, side, pad if isinstance(pad, int) else 0)
            if inputs is not None and self._runs(f"padded {side}", self.model, inputs):
                found[side] = inputs
        return found

    @property
    def reference(self) -> str:
        """The implementations that the model has by default, those of its parts included."""
        return ", ".join(sorted({str(one) for one in implementations(self.model).values()}))

    @cached_property
    def references(self) -> dict[str, Flat]:
        """What the default implementation gives for every variant."""
        return {name: outputs(self.model, one) for name, one in self.variants.items()}

    @cached_property
    def eager_references(self) -> dict[str, Flat]:
        """What eager gives."""
        found = {name: outputs(self.eager, one) for name, one in self.variants.items()}
        apart = [name for name in found if self.differ(found[name], self.references[name], name)]
        if apart:
            self.notes.append(f"{self.reference} and eager differ: {', '.join(apart)}")
        return found

    @cached_property
    def allowed(self) -> dict[str, dict[str, float]]:
        """How far from the reference another computation may lie."""
        return {
            name: tolerances(self.references[name], exact(self.model, one))
            for name, one in self.variants.items()
        }

    @cached_property
    def attentions(self) -> dict[str, dict[str, Any]]:
        """Eager's attention, layer by layer, for the variants that tell it."""
        return {
            name: dict(attentions(raw(self.eager, self.variants[name], output_attentions=True)))
            for name in ("unpadded", "left")
            if name in self.variants
            and self._runs("attentions", self.eager, self.inputs, output_attentions=True)
        }

    def differ(self, found: Flat, reference: Flat, variant: str) -> list[str]:
        """Where two outputs of one variant differ by more than is allowed."""
        return differences(found, reference, self.allowed[variant])

    def compare(self, run: Callable[[Inputs], Flat], references: dict[str, Flat]) -> list[str]:
        """Every variant, run in another way, against references."""
        return [
            f"{name}: {said}"
            for name, inputs in self.variants.items()
            for said in self.differ(run(inputs), references[name], name)
        ]

    def compare_named(self, run: Callable[[Inputs], Flat]) -> list[str]:
        """The same of a model on our name: as eager wherever that is a number, or as the default
        where these two differ."""
        wrong = []
        for name, inputs in self.variants.items():
            found, eager = run(inputs), self.eager_references[name]
            numbers = {k: _numbers(one, found.get(k)) for k, one in eager.items()}
            apart = self.differ(found, numbers, name)
            if apart and self.differ(found, self.references[name], name):
                wrong += [f"{name}: {said}" for said in apart]
        return wrong

    def _runs(self, what: str, model: Any, inputs: Inputs, **options: Any) -> bool:
        """Whether transformers itself can do it; where not, there is nothing to compare with."""
        try:
            raw(model, inputs, **options)
        except Exception as error:  # noqa: BLE001 - it says so in many ways
            self.notes.append(f"not {what}: {type(error).__name__}: {error}"[:160])
            return False
        return True


def _numbers(reference: Tensor, found: Tensor | None) -> Tensor:
    """The reference, with what was found where it is no number."""
    if found is None or found.shape != reference.shape or not reference.is_floating_point():
        return reference
    return reference.where(reference.isfinite(), found)
