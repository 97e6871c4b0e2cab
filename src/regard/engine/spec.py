"""A call without its tensors, as one line of text: what torch's operators carry along.

mask | score rule | implementation | output? | measures | seen? | offsets? | what | dropout |
place | aside? | mass?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor

from regard.declare import decode, encode
from regard.engine.problem import Call, What
from regard.errors import InputError
from regard.mask import Mask
from regard.score import ScoreRule
from regard.shapes import AttentionShape
from regard.summary import (
    Concentration,
    Distance,
    Entropy,
    Matching,
    MaxLogit,
    MaxScore,
    Offsets,
    Pooled,
    Received,
    Summary,
    Top,
    Visible,
)

__all__ = ["Spec", "marks_of", "measure_text", "measures_of"]

_NUMBERS: dict[str, type[Summary]] = {
    "entropy": Entropy,
    "max_score": MaxScore,
    "max_logit": MaxLogit,
    "concentration": Concentration,
    "distance": Distance,
    "visible": Visible,
}


@dataclass(frozen=True)
class Spec:
    """Everything about a call and a question that is no tensor."""

    mask: str
    score: str
    implementation: str = ""  # "" leaves the choice to the operator
    output: bool = False
    asked: str = ""  # measures of a row sweep, and of columns in their company
    seen: bool = False  # a column sweep counts who may see each key
    offsets: bool = False  # and sums up diagonals
    what: What = "weights"
    dropout: float = 0.0
    place: int | None = None
    aside: bool = False  # entropy is measured for a listener and takes no part in the graph
    mass: bool = False  # the backward brings the mass of all queries; an attached value is that

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
        return (
            f"{self.mask}|{self.score}|{self.implementation}|{int(self.output)}|{self.asked}|"
            f"{int(self.seen)}|{int(self.offsets)}|{self.what}|{float(self.dropout)}|{self.place}|"
            f"{int(self.aside)}|{int(self.mass)}"
        )

    @staticmethod
    @lru_cache(maxsize=4096)
    def parse(text: str) -> Spec:
        """Back from text."""
        mask, score, implementation, output, asked, seen, offsets, what, *rest = text.split("|")
        kind: What = "scores" if what == "scores" else "weights"
        place = None if rest[1] == "None" else int(rest[1])
        return Spec(
            mask, score, implementation, output == "1", asked, seen == "1", offsets == "1", kind,
            float(rest[0]), place, rest[2] == "1", rest[3] == "1",
        )  # fmt: skip

    def call(
        self, q: Tensor, k: Tensor, v: Tensor, arrays: Sequence[Tensor], seed: int = 0
    ) -> Call:
        """The call again, over these tensors: the mask's arrays first, then the rule's."""
        rest = iter(arrays)
        mask = decode(self.mask, rest, Mask)  # type: ignore[type-abstract]
        score = decode(self.score, rest, ScoreRule)
        assert score is not None
        shape = AttentionShape.of(q.shape, k.shape, v.shape)
        return Call(q, k, v, mask, score, shape, self.dropout, seed, self.place)

    def fake_measures(self, q: Tensor, k: Tensor, exact: torch.dtype) -> list[Tensor]:
        """Empty tensors of the shapes the measures come in."""
        lead = q.shape[:-1]
        made = []
        for summary in measures_of(self.asked):
            if isinstance(summary, Top):
                made.append(q.new_empty((*lead, summary.k), dtype=exact))
                made.append(q.new_empty((*lead, summary.k), dtype=torch.int64))
                made.append(q.new_empty((*lead, summary.k), dtype=exact))
            elif isinstance(summary, Pooled):
                cell = summary.size(AttentionShape.of(q.shape, k.shape))
                cells = (*lead[:-1], -(-lead[-1] // cell), -(-k.shape[-2] // cell))
                made.append(q.new_empty(cells, dtype=exact))
            elif isinstance(summary, Received):
                columns = (*lead[:-1], k.shape[-2])
                made.append(q.new_empty(columns, dtype=exact))
                if summary.per == "visible":
                    made.append(q.new_empty(columns, dtype=torch.int64))
            elif isinstance(summary, Offsets):
                diagonals = (*lead[:-1], lead[-1] + k.shape[-2] - 1)
                made.append(q.new_empty(diagonals, dtype=exact))
            else:
                counts = isinstance(summary, Visible)
                made.append(q.new_empty(lead, dtype=torch.int64 if counts else exact))
        return made


@lru_cache(maxsize=4096)
def _asking(spec: Spec, changes: tuple[tuple[str, Any], ...]) -> str:
    return replace(spec, **dict(changes)).text()


def measure_text(measures: Sequence[Summary]) -> str:
    """Measures as text: those of a row sweep, and the mass of all queries and the diagonals."""
    names = {kind: name for name, kind in _NUMBERS.items()}
    parts = []
    for summary in measures:
        if isinstance(summary, Top):
            parts.append(f"top:{summary.k}")
        elif isinstance(summary, Pooled):
            parts.append(f"pooled:{summary.cell}:{summary.how}")
        elif isinstance(summary, Matching):
            parts.append("matching")
        elif isinstance(summary, Received):
            parts.append(f"received:{summary.per}")
        elif isinstance(summary, Offsets):
            parts.append("offsets")
        else:
            parts.append(names[type(summary)])
    return ",".join(parts)


def measures_of(text: str, marks: Sequence[Tensor] = ()) -> tuple[Summary, ...]:
    """The measures again; those that hold tensors, over the next of `marks`."""
    if not marks:
        return _measures(text)
    left = iter(marks)
    return tuple(
        m.map(lambda _: next(left)) if isinstance(m, Matching) else m for m in _measures(text)
    )


def marks_of(measures: Sequence[Summary]) -> list[Tensor]:
    """The tensors inside measures, in order."""
    found: list[Tensor] = []
    for m in measures:
        found += [m.query_marks, m.key_marks] if isinstance(m, Matching) else []
    return found


@lru_cache(maxsize=1024)
def _measures(text: str) -> tuple[Summary, ...]:
    return tuple(_measure(part) for part in text.split(",") if part)


def _measure(text: str) -> Summary:
    name, *rest = text.split(":")
    if name in _NUMBERS:
        return _NUMBERS[name]()
    if name == "matching":
        nothing = torch.empty(0, dtype=torch.int64, device="cpu")
        return Matching(nothing, nothing)
    if name == "top":
        return Top(int(rest[0]))
    if name == "pooled":
        how: Literal["mean", "max"] = "max" if rest[1] == "max" else "mean"
        return Pooled(None if rest[0] == "None" else int(rest[0]), how)
    if name == "received":
        return Received(per="visible" if rest[0] == "visible" else "sum")
    if name == "offsets":
        return Offsets()
    raise InputError(f"no measure is called {name!r}")
