"""Two prompts side by side, of one recording or of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, cast

from regard.recording import Recording
from regard.study import Comparison, compare_recordings
from regard.views.overview import Who
from regard.views.schema import ComparedAnswer, ComparisonAnswer

ROWS: Final = 128  # of each head, spread evenly
_FEW: Final = 32


class Side(NamedTuple):
    """One prompt."""

    recording: Recording
    prompt: int
    who: Who

    def as_answer(self) -> ComparedAnswer:
        """Who it is."""
        return {
            "recording": self.who.number, "name": self.who.name,
            "prompt": range(len(self.recording.prompts))[self.prompt],
            "model": str(self.recording.model.get("name", "")),
            "title": self.recording.prompts[self.prompt].title,
        }  # fmt: skip


def make_comparison(
    a: Side,
    b: Side,
    *,
    rows: int | None = ROWS,
    go_on: Callable[[int, int], None] = lambda done, total: None,
) -> ComparisonAnswer:
    """Every head that both have. `go_on(done, total)` is called for each head, and may raise."""
    prompts = a.prompt, b.prompt
    found = compare_recordings(a.recording, b.recording, prompts=prompts, rows=rows, go_on=go_on)
    sides = {"a": a.as_answer(), "b": b.as_answer()}
    doubts = {"doubts": _doubts(found, a, b)}
    return cast(ComparisonAnswer, found.as_dict() | sides | doubts)


def _doubts(found: Comparison, a: Side, b: Side) -> list[str]:
    """What must be known before the numbers are read."""
    doubts, left, right = [], a.recording, b.recording
    names = [str(one.model.get("name", "a model without a name")) for one in (left, right)]
    if names[0] != names[1]:
        doubts.append(
            f"two models, {names[0]} and {names[1]}: heads of one name need not do the same"
        )
    if left.is_live or right.is_live:
        doubts.append("still being written: this is about what there is so far")
    halves = [one for one in (a, b) if one.recording.unheard]
    doubts += dict.fromkeys(
        f"{one.who.name}: not recorded: {', '.join(one.recording.unheard)}" for one in halves
    )
    rows = max((one.rows for one in found.heads), default=0)
    if 0 < rows < _FEW:
        doubts.append(f"only {rows} rows stand for each other: these numbers say little")
    by = [one.how for one in found.heads]
    if "profiles" in by:
        doubts.append(
            f"{by.count('profiles')} of {len(by)} heads have no q and k on both sides: of those "
            "only profiles are compared, which can agree where rows do not"
        )
    if "nothing" in by:
        doubts.append(f"{by.count('nothing')} of {len(by)} heads cannot be compared")
    return doubts
