"""Two prompts side by side, of one recording that is served or of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from regard.recording import Recording
from regard.study import Comparison, compare_recordings
from regard.viewer.opened import Opened

ROWS: Final = 128  # of each head, spread evenly
_FEW: Final = 32
_HEAD_BYTES: Final = 512  # of a comparison's answer, about


class Side(NamedTuple):
    """One prompt."""

    opened: Opened
    prompt: int

    def as_dict(self, recording: Recording) -> dict[str, Any]:
        """Who it is."""
        view = recording.prompts[self.prompt]
        return {
            "recording": self.opened.number, "prompt": self.prompt, "name": self.opened.name,
            "model": str(recording.model.get("name", "")), "title": view.title,
        }  # fmt: skip


def comparison(a: Side, b: Side, go_on: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Every head that both have; made once as long as neither recording grows. `go_on` is called
    for each head, and may raise."""
    for side in (a, b):
        side.opened.prompt(side.prompt)  # which says so where there is none
    key = tuple((one.opened.number, one.opened.revision, one.prompt) for one in (a, b))
    size = _HEAD_BYTES * len(a.opened.prompt(a.prompt))
    return a.opened.shared(("compare", *key), lambda: _made(a, b, go_on), size)


def _made(a: Side, b: Side, go_on: Callable[[], None]) -> dict[str, Any]:
    left, right = a.opened.snapshot(), b.opened.snapshot()
    found = compare_recordings(left, right, prompts=(a.prompt, b.prompt), rows=ROWS, go_on=go_on)
    sides = {"a": a.as_dict(left), "b": b.as_dict(right)}
    return found.as_dict() | sides | {"doubts": _doubts(found, left, right)}


def _doubts(found: Comparison, left: Recording, right: Recording) -> list[str]:
    """What must be known before the numbers are read."""
    doubts = []
    names = [str(one.model.get("name", "a model without a name")) for one in (left, right)]
    if names[0] != names[1]:
        doubts.append(
            f"two models, {names[0]} and {names[1]}: heads of one name need not do the same"
        )
    if left.is_live or right.is_live:
        doubts.append("still being written: this is about what there is so far")
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
