"""Which heads are exported, and which part of each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from regard.errors import InputError, UnavailableError
from regard.recording import Head, PromptView


@dataclass(frozen=True)
class Chosen:
    """One head of one prompt; rows as the model counts them, all of them recorded."""

    prompt: PromptView
    head: Head
    rows: range
    keys: range

    @property
    def name(self) -> str:
        """P0/L5H1."""
        return f"P{self.prompt.number}/{self.head.label}"

    @property
    def own_rows(self) -> slice:
        """Where the rows stand among the recorded ones."""
        first = self.head.recorded.start
        return slice(self.rows.start - first, self.rows.stop - first)

    @property
    def own_keys(self) -> slice:
        """The keys as a slice."""
        return slice(self.keys.start, self.keys.stop)


def matching(prompt: PromptView, patterns: str | None) -> list[Head]:
    """The heads that any of the patterns means: L0H0, L5 (all its heads), L*H3, cross.L2H*."""
    labels = prompt.labels()
    if patterns is None:
        return [prompt[label] for label in labels]
    wanted: set[str] = set()
    for pattern in re.split(r"[,\s]+", patterns.strip()):
        whole = pattern if re.search(r"[hH][^.]*$", pattern) else f"{pattern}H*"
        found = [one for one in labels if fnmatchcase(one.lower(), whole.lower())]
        if not found:
            some = f"{labels[0]!r} … {labels[-1]!r}" if labels else "none"
            raise InputError(f"--heads {pattern!r}: means no recorded head; there are {some}")
        wanted.update(found)
    return [prompt[label] for label in labels if label in wanted]


def by_place(chosen: Iterable[Chosen]) -> dict[tuple[int, str], list[Chosen]]:
    """Heads of one module together, in order."""
    found: dict[tuple[int, str], list[Chosen]] = {}
    for one in chosen:
        found.setdefault((one.prompt.number, one.head.place.label), []).append(one)
    return found


def check_exact(one: Chosen) -> None:
    """UnavailableError where single cells of the head cannot be computed."""
    if not one.head.exact:
        raise UnavailableError(
            f"{one.head.label}: {one.head.why_not}; name heads of other layers with --heads "
            "(regard show FILE says which)"
        )
