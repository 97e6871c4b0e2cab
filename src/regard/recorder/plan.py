"""What will be kept, decided and counted in bytes before anything runs.

Statistics of all heads come first: finest where they fit into a quarter of the budget, else in
bins of 2, 4, 8 … rows and keys. What is left goes to q and k of whole places, spread over all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from typing import Any

from regard.errors import InputError
from regard.recording.measures import KINDS, ROW_NUMBERS, TOTALS, default_join
from regard.recording.sinks import MOST_HEAVY

TOP = 8  # heaviest keys of a row
EXACT_DISTANCES = 64  # never binned, forwards and backwards
_ROW_STATISTICS = len(ROW_NUMBERS) - 1  # besides lse
_COARSEST = 14  # bins of 2¹⁴ tokens
_LEAST_CELL, _MOST_CELLS = 16, 512  # tokens a cell, cells a side of a pooled map
_FRAMES = 20 * 640  # bytes of headers, notes and index a place
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


@dataclass(frozen=True)
class Size:
    """One place, as far as bytes depend on it."""

    heads: int
    key_heads: int
    dim: int
    queries: int
    keys: int
    _: KW_ONLY
    itemsize: int = 4
    more: int = 0  # statistics of rows besides those of every recording


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is kept of each place."""

    budget: int
    places: int
    row_bin: int
    key_bin: int
    top_every: int
    pool_cell: int
    distances: int  # bins of the offset profile per doubling; 0: every distance
    exact: frozenset[int]  # which places, in the order they are heard, keep q and k
    statistics_bytes: int
    exact_bytes: int
    write_rows: int = 256  # rows are written when so many have gathered
    joins: Mapping[str, str] = field(default_factory=dict)  # of the recording's own statistics
    unheard: tuple[str, ...] = ()  # modules that attend, and of which nothing is kept

    @property
    def total_bytes(self) -> int:
        """What the file will take, about."""
        return self.statistics_bytes + self.exact_bytes

    def is_exact(self, index: int) -> bool:
        """Whether the place that is heard as this one keeps q and k. A module that is called again
        and again makes more places than were foreseen: they do where all do and all fit."""
        if index < self.places or len(self.exact) < self.places:
            return index in self.exact
        return self.total_bytes * (index + 1) <= self.budget * self.places

    def join(self, name: str) -> str:
        """How the rows of a statistic become one number: "sum", "max", "min"."""
        known = KINDS.get(name)
        return self.joins.get(name, known.joins if known else default_join(name))

    def to_dict(self) -> dict[str, Any]:
        """For the note, and for --json."""
        told = asdict(self) | {"exact": sorted(self.exact), "total_bytes": self.total_bytes}
        del told["joins"]  # the note `statistics` says it
        return told

    def lines(self) -> list[str]:
        """In words."""
        bins = "every row" if self.row_bin == 1 else f"bins of {self.row_bin} rows"
        some = f"{len(self.exact)} of {self.places}" if self.exact else "no"
        every = "all" if len(self.exact) == self.places else some
        missed = f"not heard: {', '.join(self.unheard)}"
        return [
            f"statistics of all heads, {bins}, maps of {self.pool_cell} tokens a cell: "
            f"{human(self.statistics_bytes)}",
            f"q and k of {every} attention layers, for exact zoom: {human(self.exact_bytes)}",
            f"total {human(self.total_bytes)} of {human(self.budget)}",
            *([missed] if self.unheard else []),
        ]


def make_plan(budget: int, sizes: Iterable[Size], wanted: Iterable[int] | None = None) -> Plan:
    """The finest plan that fits. `wanted` are the places to keep q and k of, where chosen."""
    every = list(sizes)
    for level in range(_COARSEST + 1):
        plan = _at(level, budget, every)
        most = budget if level == _COARSEST else budget // 4
        if plan.statistics_bytes <= most:
            return _with_exact(plan, every, wanted)
    raise InputError(
        f"a budget of {human(budget)} is too small for anything: the coarsest statistics of "
        f"{len(every)} layers take {human(plan.statistics_bytes)}; give at least that"
    )


def _at(level: int, budget: int, sizes: list[Size]) -> Plan:
    longest = max((max(s.queries, s.keys) for s in sizes), default=1)
    step = 2**level
    cell = max(_LEAST_CELL, _power(-(-longest // _MOST_CELLS)), _power(min(step, longest)))
    heads = sum(s.heads for s in sizes)
    while heads * (-(-longest // cell)) ** 2 * 4 > budget // 8 and cell < longest:
        cell *= 2
    bins = 0 if level == 0 else 32 if level < 6 else 8
    # pieces large enough that a file opens at once, small enough that little is lost with a process
    write = min(max(_power(longest // 16), 256), 8192)
    plan = Plan(
        budget=budget, places=len(sizes), row_bin=step, key_bin=step, top_every=step,
        pool_cell=cell, distances=bins, exact=frozenset(), statistics_bytes=0, exact_bytes=0,
        write_rows=write,
    )  # fmt: skip
    return replace(plan, statistics_bytes=sum(_statistics(plan, s) for s in sizes))


def _power(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def _statistics(plan: Plan, s: Size) -> int:
    rows, keys = -(-s.queries // plan.row_bin), -(-s.keys // plan.key_bin)
    cells = -(-s.queries // plan.pool_cell) * -(-s.keys // plan.pool_cell)
    distances = s.queries + s.keys
    if plan.distances:
        octaves = math.log2(max(max(s.queries, s.keys) / EXACT_DISTANCES, 2))
        near = min(2 * EXACT_DISTANCES, distances)
        distances = near + math.ceil(2 * plan.distances * octaves)
    lse = s.queries if plan.row_bin == 1 else 0
    numbers = lse + (_ROW_STATISTICS + s.more) * rows + 2 * TOP * -(-s.queries // plan.top_every)
    numbers += keys + distances + cells + 2 * (len(TOTALS) + s.more)  # totals are doubles
    numbers += 2 * MOST_HEAVY if plan.key_bin > 1 else 0
    return 4 * (s.heads * numbers + s.key_heads * keys) + _FRAMES


def _exact(plan: Plan, s: Size) -> int:
    lse = 0 if plan.row_bin == 1 else 4 * s.heads * s.queries
    return s.itemsize * s.dim * (s.heads * s.queries + s.key_heads * s.keys) + lse


def _with_exact(plan: Plan, sizes: list[Size], wanted: Iterable[int] | None) -> Plan:
    """As many places as fit, spread evenly; the first and the last among them."""
    candidates = list(range(len(sizes))) if wanted is None else list(wanted)
    for count in range(len(candidates), 0, -1):
        chosen = _spread(candidates, count)
        taken = sum(_exact(plan, sizes[n]) for n in chosen)
        if plan.statistics_bytes + taken <= plan.budget:
            return replace(plan, exact=frozenset(chosen), exact_bytes=taken)
    return plan


def _spread(candidates: list[int], count: int) -> list[int]:
    if count == 1:
        return candidates[len(candidates) // 2 :][:1]
    last = len(candidates) - 1
    return [candidates[n * last // (count - 1)] for n in range(count)]


def parse_budget(given: str | int | float) -> int:
    """Bytes: a number, or a text such as "2GB", "500 MB", "64MiB"."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        number: float = given
    else:
        match = re.fullmatch(
            r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?)b?\s*", str(given), re.IGNORECASE
        )
        if match is None:
            raise InputError(f"budget={given!r}; give bytes, such as '2GB' or '500MB'")
        unit = _UNITS[match[2].lower()]
        if match[3]:
            unit = 1 << (10 * "kmgt".index(match[2].lower()) + 10) if match[2] else 1
        number = float(match[1]) * unit
    if not 1 <= number < math.inf:
        raise InputError(f"budget={given!r}; give more than nothing, such as '2GB'")
    return int(number)


def human(count: float) -> str:
    """Bytes for people."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return "1 byte" if int(count) == 1 else f"{int(count)} bytes"


# ── which layers, heads and queries ────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Choice:
    """None stands for all."""

    layers: frozenset[int] | None = None
    heads: tuple[int, ...] | None = None
    queries: range | int | None = None  # rows from … to, or the last so many

    @classmethod
    def of(
        cls,
        layers: Iterable[int] | int | str | None,
        heads: Iterable[int] | int | str | None,
        queries: slice | range | int | str | None,
    ) -> Choice:
        """From what a caller gives."""
        wanted = _numbers(layers, "layers")
        kept = _numbers(heads, "heads")
        rows = parse_queries(queries)
        return cls(
            None if wanted is None else frozenset(wanted),
            None if kept is None else tuple(sorted(set(kept))),
            rows,
        )

    def has_layer(self, layer: int) -> bool:
        """Whether this layer is to be recorded."""
        return self.layers is None or layer in self.layers

    def heads_of(self, total: int) -> tuple[int, ...]:
        """The heads to record of a layer that has so many."""
        if self.heads is None:
            return tuple(range(total))
        wrong = [n for n in self.heads if n >= total]
        if wrong:
            raise InputError(f"head {wrong[0]} does not exist; this model has 0–{total - 1}")
        return self.heads

    def check_layers(self, count: int) -> None:
        """Every layer asked for exists."""
        wrong = [] if self.layers is None else sorted(n for n in self.layers if n >= count)
        if wrong:
            raise InputError(f"layer {wrong[0]} does not exist; this model has 0–{count - 1}")

    def rows(self, start: int, stop: int, length: int) -> range:
        """Which of the rows start … stop are to be recorded, of a prompt of this length."""
        if self.queries is None:
            return range(start, stop)
        wanted = self.queries
        if isinstance(wanted, int):
            wanted = range(max(length - wanted, 0), 2**62)
        first = max(start, wanted.start)
        return range(first, max(min(stop, wanted.stop), first))


def _numbers(given: Iterable[int] | int | str | None, what: str) -> list[int] | None:
    if given is None:
        return None
    if isinstance(given, str):
        return parse_numbers(given, what)
    numbers = [given] if isinstance(given, int) else list(given)
    wrong = [n for n in numbers if type(n) is not int or n < 0]
    if wrong or not numbers:
        raise InputError(f"{what}={given!r}; give whole numbers from 0 on, such as [0, 5]")
    return numbers


def parse_numbers(text: str, what: str) -> list[int]:
    """`0,5-10` → 0, 5, 6, 7, 8, 9, 10."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:\s*-\s*(\d{1,6}))?\s*", part)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise InputError(f"{what} {text!r}; give numbers and ranges, such as 0,5-10")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return found


def parse_queries(given: slice | range | int | str | None) -> range | int | None:
    """Rows from … to, or the last so many."""
    if given is None or (type(given) is int and given > 0):
        return given
    wanted = given
    if isinstance(given, str):
        match = re.fullmatch(r"\s*(\d{0,18})\s*:\s*(\d{0,18})\s*", given)
        if match:
            wanted = slice(int(match[1] or 0), int(match[2]) if match[2] else None)
        elif re.fullmatch(r"\d{1,18}", given.strip()) and int(given) > 0:
            return int(given)
    if isinstance(wanted, slice) and wanted.step in (None, 1):
        start, stop = wanted.start or 0, 2**62 if wanted.stop is None else wanted.stop
        if all(hasattr(end, "__index__") for end in (start, stop)) and 0 <= start < stop:
            return range(start, stop)
    if isinstance(given, range) and given.step == 1 and 0 <= given.start < given.stop:
        return given
    raise InputError(
        f"queries={given!r}; give a range of rows such as '100:200', or a number n for the last n"
    )
