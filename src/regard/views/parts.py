"""Parts of heads: which are asked for, and what is known of them row by row and key by key.

What was kept in bins comes in bins: entry n stands for edges[n] … edges[n + 1] − 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.declare import decode
from regard.errors import InputError, UnavailableError
from regard.recording import Head, PromptView, Recording
from regard.recording.measures import KINDS
from regard.summary import RowStatistic

_Array: TypeAlias = NDArray[Any]
Span: TypeAlias = slice | range | int | None
Patterns: TypeAlias = str | Sequence[str] | None

_QUICK: Final = 2**26  # cells


@dataclass(frozen=True)
class HeadPart:
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


@dataclass(frozen=True)
class Selection:
    """Some heads of some texts, and a part of each."""

    recording: Recording
    heads: Patterns = None
    prompt: int | None = None
    rows: Span = None
    keys: Span = None
    top: int = 8  # heaviest keys of a row

    @property
    def prompts(self) -> Sequence[PromptView]:
        """The texts; InputError says which there are."""
        first = self.recording.prompt(self.prompt or 0)
        return self.recording.prompts if self.prompt is None else [first]

    def labels(self, prompt: PromptView) -> list[str]:
        """The heads of one of them."""
        return matching(prompt.labels(), self.heads)

    def parts(self) -> Iterator[HeadPart]:
        """Every head with its part, text by text."""
        for prompt in self.prompts:
            for head in (prompt[label] for label in self.labels(prompt)):
                rows = part_of("rows", self.rows, head.recorded, head.shape[0])
                yield HeadPart(prompt, head, rows, part_of("keys", self.keys, range(head.shape[1])))


def matching(labels: Sequence[str], patterns: Patterns) -> list[str]:
    """Those that any of the patterns means: L0H0, L5 (all its heads), L*H3, cross.L2H*."""
    if patterns is None:
        return list(labels)
    given = re.split(r"[,\s]+", patterns.strip()) if isinstance(patterns, str) else patterns
    wanted: set[str] = set()
    for pattern in given:
        whole = pattern if re.search(r"[hH][^.]*$", pattern) else f"{pattern}H*"
        found = [one for one in labels if fnmatchcase(one.lower(), whole.lower())]
        if not found:
            some = f"{labels[0]!r} … {labels[-1]!r}" if labels else "none"
            raise InputError(f"heads {pattern!r}: means no recorded head; there are {some}")
        wanted.update(found)
    return [label for label in labels if label in wanted]


def part_of(name: str, wanted: Span, known: range, count: int | None = None) -> range:
    """The part of `known` that is meant; without a wish all of it.

    Negative numbers count from `count`, by default the end of `known`. A range that is empty, or
    of which nothing is known, is an InputError.
    """
    if wanted is None:
        return known
    spelt = wanted if isinstance(wanted, slice | range) else None
    ends: list[Any] = [wanted] if spelt is None else [spelt.start, spelt.stop]
    fine = all(n is None or hasattr(n, "__index__") for n in ends)
    if not fine or (spelt is not None and spelt.step not in (None, 1)):
        raise InputError(f"{name} {wanted!r}: give a slice or range without a step, or a number")
    size = known.stop if count is None else count
    first, *rest = (n + size if n is not None and n < 0 else n for n in ends)
    first = known.start if first is None else first
    last = first + 1 if not rest else known.stop if rest[0] is None else rest[0]
    if not known or first < known.start or last > known.stop or first >= last:
        have = f"{known.start}:{known.stop}" if known else "nothing"
        asked = ":".join("" if n is None else str(n) for n in ends)
        raise InputError(f"{name} {asked}: not a part of what there is; that is {have}")
    return range(first, last)


def check_exact(part: HeadPart) -> None:
    """UnavailableError where single cells of the head cannot be computed."""
    if not part.head.exact:
        raise UnavailableError(
            f"{part.head.label}: {part.head.why_not}; name heads of other layers (regard show FILE "
            "says which)"
        )


# ── what is known row by row and key by key ──────────────────────────────────────────────────


class TopRows(NamedTuple):
    """The heaviest keys (rows, k) of some rows, −1 and 0 where a row has fewer."""

    rows: _Array
    keys: _Array
    weights: _Array


def known_rows(part: HeadPart) -> tuple[_Array, dict[str, Callable[[], _Array]]]:
    """(n + 1,) edges: single rows, or the bins in which long texts were kept; and, by name, what
    gives the (n,) numbers that are known over them."""
    head = part.head
    kept = {name: _bin(head, name) > 1 for name in head.row_numbers if head.has(name)}
    ways: dict[str, Callable[[], _Array]] = {}
    if any(kept.values()) and not _is_quick(head):
        binned = [name for name, is_binned in kept.items() if is_binned]
        edges = np.asarray(head.stored[binned[0]].edges)
        inside = _inside(edges, part.rows)
        ways |= {name: partial(_stored, head, name, inside) for name in binned}
        return _edges(edges, inside), ways
    own = part.own_rows
    if head.exact:
        ways |= {
            name: partial(_taken, partial(kind.again, head), own)
            for name, kind in KINDS.items()
            if kind.again is not None and kind.summary is None
        }
        given = summaries(part.prompt, head.place.label)
        every = {name: one for name, one in given.items() if one.takes_numpy}
        asked = tuple(every.values())  # in one sweep, which the head remembers
        ways |= {
            name: partial(_taken, partial(_asked, head, one, asked), own)
            for name, one in every.items()
        }
    single = [name for name, is_binned in kept.items() if not is_binned]
    ways |= {name: partial(_stored, head, name, own) for name in single}
    return np.arange(part.rows.start, part.rows.stop + 1), {
        name: ways[name] for name in head.row_numbers if name in ways
    }


def _stored(head: Head, name: str, where: Any) -> _Array:
    return head.stored[name].values[where]


def _taken(way: Callable[[], _Array], where: slice) -> _Array:
    return np.asarray(way())[where]


def _asked(head: Head, one: RowStatistic, every: Sequence[RowStatistic]) -> _Array:
    return head.summarize(*every)[one]


def summaries(prompt: PromptView, label: str) -> dict[str, RowStatistic]:
    """The statistics of rows by the names a place keeps them under, those whose class is here."""
    found: dict[str, RowStatistic] = {}
    for text, name in prompt.held(label).kept_as.items():
        with suppress(InputError):
            one = decode(text, iter(()), RowStatistic)  # type: ignore[type-abstract]
            found |= {} if one is None else {name: one}
    return found


def _is_quick(head: Head) -> bool:
    """Whether single rows are soon computed; else what was kept will do, in its bins."""
    return head.exact and len(head.recorded) * head.shape[1] <= _QUICK


def _bin(head: Head, name: str) -> int:
    """Rows that one kept number stands for."""
    is_binned = name not in KINDS or KINDS[name].is_binned
    return head.place.row_bin if is_binned else 1


def _inside(edges: _Array, span: range) -> _Array:
    """Which bins a range touches."""
    return (edges[1:] > span.start) & (edges[:-1] < span.stop)


def _edges(edges: _Array, inside: _Array) -> _Array:
    return np.append(edges[:-1][inside], edges[1:][inside][-1:])


def heaviest(part: HeadPart, k: int) -> TopRows:
    """The k heaviest keys of each row; fewer keys, or only every nth row, where no more were kept.
    UnavailableError where none were."""
    head = part.head
    kept = [head.stored[name] for name in ("top_weights", "top_keys") if head.has(name)]
    if len(kept) < 2 or _is_quick(head):
        found = head.top(k)
        rows = np.arange(part.rows.start, part.rows.stop)
        return TopRows(rows, found.keys[part.own_rows], found.weights[part.own_rows])
    rows = np.asarray(kept[0].edges)[:-1]
    inside = (rows >= part.rows.start) & (rows < part.rows.stop)
    return TopRows(rows[inside], kept[1].values[inside][:, :k], kept[0].values[inside][:, :k])


def received(part: HeadPart) -> tuple[_Array, Callable[[], _Array]]:
    """(n + 1,) edges, and what gives the (n,) mass that each key, or bin of keys, got from all
    recorded rows."""
    head = part.head
    if not head.has("received"):
        return np.arange(part.keys.start, part.keys.stop + 1), partial(
            _taken, head.received, part.own_keys
        )
    edges = np.asarray(head.stored["received"].edges)
    inside = _inside(edges, part.keys)
    return _edges(edges, inside), partial(_stored, head, "received", inside)
