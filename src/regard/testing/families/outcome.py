"""What is found out about one model type."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["right", "refused", "wrong", "crashed", "not built"]
KINDS: tuple[Kind, ...] = ("right", "refused", "wrong", "crashed", "not built")


@dataclass(frozen=True)
class Outcome:
    """One model type's result.

    right      everything agrees with transformers' own implementation
    refused    regard says in a sentence that it does not serve the family
    wrong      a check failed: which, and by how much
    crashed    something else than a refusal was raised
    not built  no small model, or no inputs for it, were found automatically
    """

    name: str
    kind: Kind
    said: str = ""  # the sentence, the failed checks, the exception
    checks: dict[str, str] = field(default_factory=dict)  # check → "right" or what it found
    notes: tuple[str, ...] = ()  # what transformers itself does not do or does in two ways
    reference: str = ""  # the implementation the model has by default
    model: str = ""  # the class
    inputs: tuple[str, ...] = ()
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return vars(self) | {"inputs": [*self.inputs], "notes": [*self.notes]}
