"""A call without its tensors, as one line of text: what torch's operators carry along.

mask | score rule | implementation | checked? | output? | measures | what | dropout | place |
seen? | offsets? | aside? | mass? | largest? | learns?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from regard.declare import decode, decode_all, encode, encode_all, functions_in
from regard.engine.call import Call, What
from regard.mask import Mask
from regard.score import ScoreRule
from regard.shapes import AttentionShape
from regard.summary import ColumnSums, Summary


@dataclass(frozen=True)
class Spec:
    """Everything about a call and a question that is no tensor."""

    mask: str
    score: str
    implementation: str = ""  # "" leaves the choice to the operator
    checked: bool = True  # whether the named one is known to serve the call
    output: bool = False
    asked: str = ""  # measures of a row sweep, and of columns in their company
    seen: bool = False  # a column sweep counts who may see each key
    offsets: bool = False  # and sums up diagonals
    what: What = "weights"
    dropout: float = 0.0
    place: int | None = None
    aside: bool = False  # entropy is measured for a listener and takes no part in the graph
    mass: bool = False  # the backward brings the mass of all queries; an attached value is that
    largest: bool = False  # a column sweep brings the largest weight of each key
    learns: bool = False  # a gradient of the bias may be asked for

    @classmethod
    def of(cls, mask: Mask | None, score: ScoreRule) -> Spec:
        """The rules of a call."""
        return cls(encode(mask), encode(score))

    def asking(self, **changes: Any) -> str:
        """The same rules with another question, as text."""
        if torch.compiler.is_compiling():
            return replace(self, **changes).text()
        return _asking(self, tuple(changes.items()))

    def text(self) -> str:
        """One line."""
        flags = (self.seen, self.offsets, self.aside, self.mass, self.largest, self.learns)
        return "|".join(
            [
                self.mask, self.score, self.implementation, f"{int(self.checked)}",
                f"{int(self.output)}", self.asked, self.what, f"{float(self.dropout)}",
                f"{self.place}", *[f"{int(flag)}" for flag in flags],
            ]
        )  # fmt: skip

    @staticmethod
    @lru_cache(maxsize=4096)
    def parse(text: str) -> Spec:
        """Back from text."""
        mask, score, name, checked, output, asked, what, dropout, place, *flags = text.split("|")
        seen, offsets, aside, mass, *more = (flag == "1" for flag in flags)
        return Spec(
            mask, score, name, checked == "1", output == "1", asked, seen, offsets,
            "scores" if what == "scores" else "weights", float(dropout),
            None if place == "None" else int(place), aside, mass, *more,
        )  # fmt: skip

    @property
    def columns(self) -> ColumnSums:
        """What a column sweep brings."""
        return ColumnSums(None, self.seen, self.offsets, self.largest)

    def call(
        self, q: Tensor, k: Tensor, v: Tensor, arrays: Sequence[Tensor], seed: int = 0
    ) -> Call:
        """The call again, over these tensors: the mask's arrays first, then the rule's."""
        mask, score = (self._rules if not arrays else None) or self._decoded(arrays)
        shape = AttentionShape.of(q.shape, k.shape, v.shape, dot=score.is_dot)
        return Call(q, k, v, mask, score, shape, self.dropout, seed, self.place)

    def _decoded(self, arrays: Sequence[Tensor]) -> tuple[Mask | None, ScoreRule]:
        rest = iter(arrays)
        mask = decode(self.mask, rest, Mask)  # type: ignore[type-abstract]
        score = decode(self.score, rest, ScoreRule)
        assert score is not None
        return mask, score

    @cached_property
    def _rules(self) -> tuple[Mask | None, ScoreRule] | None:
        """Without arrays. None where there are functions, which nothing here keeps alive."""
        return None if self.names_functions else self._decoded(())

    @cached_property
    def names_functions(self) -> bool:
        """Whether the text is good only as long as those live."""
        return len(functions_in(self.mask)) > 0


@lru_cache(maxsize=4096)
def _asking(spec: Spec, changes: tuple[tuple[str, Any], ...]) -> str:
    return replace(spec, **dict(changes)).text()


def measure_text(measures: Sequence[Summary]) -> str:
    """What a sweep shall measure, as text."""
    return encode_all(measures) if measures else ""


def measures_of(text: str, marks: Sequence[Tensor] = ()) -> tuple[Summary, ...]:
    """The measures again, over the tensors that were inside them."""
    return _measures(text) if not marks else _decoded(text, marks)


@lru_cache(maxsize=1024)
def _measures(text: str) -> tuple[Summary, ...]:
    return _decoded(text, ()) if text else ()


def _decoded(text: str, marks: Sequence[Tensor]) -> tuple[Summary, ...]:
    return decode_all(text, iter(marks), Summary)  # type: ignore[type-abstract]


def marks_of(measures: Sequence[Summary]) -> list[Tensor]:
    """The tensors inside measures, in order."""
    return [tensor for measure in measures for tensor in measure.arrays()]
