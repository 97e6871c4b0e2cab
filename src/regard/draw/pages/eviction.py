"""What an eviction would drop and lose, layer by layer, on a terminal."""

from __future__ import annotations

from typing import Final

from regard.draw.finish import wrapped
from regard.draw.paper import Paper, StyledLine
from regard.draw.table import Column, aligned
from regard.study.eviction import LAST, EvictionStudy, LayerEviction

_RANGES: Final = 4  # of keys, listed


def eviction_lines(found: EvictionStudy, paper: Paper) -> list[StyledLine]:
    """A line for each layer."""
    asked = found.eviction
    lines = wrapped(
        f"eviction by {asked.name}, budget {asked.budget}: {asked.sinks} first and "
        f"{asked.recent} last keys always stay", paper, "bold",
    )  # fmt: skip
    if found.layers:
        lines += [[], *aligned(_columns(found.layers), paper)]
    for label, why in found.refused.items():
        lines += wrapped(f"{label}: {why}", paper, "dim")
    note = (
        "lost: the share of a head's attention, over all recorded rows and over the last "
        f"{LAST}, that fell on keys its key head would drop."
    )
    return [*lines, [], *wrapped(note, paper, "dim")]


def _columns(layers: tuple[LayerEviction, ...]) -> list[Column]:
    return [
        Column("layer", [one.label for one in layers]),
        Column("kept", [f"{one.kept.shape[-1]} of {one.keys}" for one in layers], True),
        Column("lost", [f"{one.lost.mean():.1%}" for one in layers], True),
        Column(f"last {LAST}", [f"{one.lost_last.mean():.1%}" for one in layers], True),
        Column("most", [_worst(one) for one in layers], True),
        Column("dropped by every head", [_listed(one) for one in layers]),
    ]


def _worst(one: LayerEviction) -> str:
    head = int(one.lost.argmax())
    return f"H{head} {one.lost[head]:.1%}"


def _listed(one: LayerEviction) -> str:
    ranges = one.gone_everywhere
    said = [f"{a}" if b == a + 1 else f"{a}–{b - 1}" for a, b in ranges[:_RANGES]]
    more = f" and {len(ranges) - _RANGES} more ranges" if len(ranges) > _RANGES else ""
    return ", ".join(said) + more if said else "none"
