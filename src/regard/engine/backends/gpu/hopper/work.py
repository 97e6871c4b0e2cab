"""What the kernel's parts hand each other. Numbers, pointers and None; what is None is compiled
away."""

from __future__ import annotations

from typing import Any, NamedTuple


class Sight(NamedTuple):
    """What of a rule the kernel knows: every row sees one interval of keys."""

    heads: Any
    group: Any
    queries: Any
    keys: Any
    position: Any  # query i stands at key i + position
    scale: Any
    least: Any  # least ≤ j − i ≤ most
    most: Any
    low: Any  # (B or 1, L): low ≤ j < high
    high: Any
    span_stride: Any
    ranges: Any  # (B or 1, blocks of rows, 4), where there are spans
    range_stride: Any
    sink: Any


class Schedule(NamedTuple):
    """How blocks of rows are dealt to programs."""

    items: Any  # blocks × units
    blocks: Any  # of rows, in this launch
    base: Any  # blocks of rows before it
    tall: Any  # rows from one block's maxima to the next
    crowd: Any  # heads that go together


class Work(NamedTuple):
    """All that is asked."""

    sight: Any  # Sight
    plan: Any  # Schedule
    asked: Any  # ../forward.Asked: where to write
    state: Any  # peak and log, to write
    given: Any  # peak and log of more keys, or two None


class Pipe(NamedTuple):
    """Shared memory, and the barriers that say who may touch it."""

    q: Any  # two tiles, one for each consumer
    k: Any  # rings
    v: Any
    q_full: Any
    q_empty: Any
    k_full: Any  # one for each tile of a ring
    k_empty: Any
    v_full: Any
    v_empty: Any
