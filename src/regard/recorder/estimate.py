"""What will be kept of prompts and about how long it takes, from a short run of the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from regard.recorder.choice import Choice
from regard.recorder.drive import TrialRun, survey
from regard.recorder.plan import Plan, make_plan


@dataclass(frozen=True)
class Estimate:
    """Plans for prompts of any length."""

    seen: TrialRun  # every attention of the model
    chosen: TrialRun  # those that are to be recorded, with the heads that are

    def plan(self, tokens: int, budget: int) -> Plan:
        """What is kept of a prompt of so many tokens, generated ones included."""
        return make_plan(budget, self.chosen.scaled(tokens))

    def seconds(self, tokens: int, generate: int = 0) -> float:
        """About how long a prompt takes."""
        return self.seen.seconds(tokens, generate)


def estimate(model: Any, ids: Tensor, choice: Choice) -> Estimate:
    """Run the first tokens and see; InputError where a chosen layer or head does not exist."""
    seen = survey(model, ids)
    choice.check_layers(max(seen.layers, default=-1) + 1)
    heard = zip(seen.layers, seen.sizes, strict=True)
    sizes = [size for layer, size in heard if choice.has_layer(layer)]
    kept = tuple(replace(size, heads=len(choice.heads_of(size.heads))) for size in sizes)
    return Estimate(seen, replace(seen, sizes=kept))
