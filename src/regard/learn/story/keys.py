"""Which keys of a row are spelt out: all it may see, or the strongest of many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.learn.lesson import Lesson
from regard.learn.lesson.head import Head
from regard.learn.text import cells, padded

_MOST, _SHORT = 8, 6


@dataclass(frozen=True)
class SeenKeys:
    """The keys of one row: `kept` are spelt out, `rest` are seen too, `hidden` are masked."""

    labels: tuple[str, ...]
    kept: tuple[int, ...]
    rest: tuple[int, ...]
    hidden: tuple[int, ...]

    @property
    def seen(self) -> tuple[int, ...]:
        """All keys the row may see, in order."""
        return tuple(sorted(self.kept + self.rest))

    def names(self, form: str = "{}") -> list[str]:
        """Labels of the keys that are spelt out, put into a form such as "k({})", equally wide."""
        names = [form.format(self.labels[j]) for j in self.kept]
        return [padded(name, max(map(cells, names))) for name in names]


def seen_keys(lesson: Lesson, head: Head) -> SeenKeys:
    """The keys of the row that is spelt out."""
    focus = lesson.sentence.focus
    row = head.masked[focus]
    seen = [int(j) for j in np.flatnonzero(np.isfinite(row))]
    strongest = sorted(seen, key=lambda j: -head.weights[focus, j])[:_SHORT]
    own = {focus} & set(seen) if lesson.key_labels == lesson.sentence.labels else set()
    kept = tuple(seen if len(seen) <= _MOST else sorted({*own, *strongest}))
    return SeenKeys(
        labels=lesson.key_labels,
        kept=kept,
        rest=tuple(j for j in seen if j not in kept),
        hidden=tuple(j for j in range(row.size) if j not in seen),
    )
