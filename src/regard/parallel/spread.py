"""Which heads each rank computes, where ranks trade tokens for heads.

    spread(8, 4, 2)    rank 0: query heads 0–3 on key heads 0–1   rank 1: 4–7 on 2–3
    spread(8, 2, 4)    ranks 0, 1: query heads 0–1, 2–3 on key head 0   ranks 2, 3: 4–5, 6–7 on 1

Key heads are spread as evenly as they go. Where there are fewer of them than ranks, several ranks
share one: it is sent to each of them, and each has some of its query heads. A rank may be left
without any.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

__all__ = ["HeadRange", "spread"]


class HeadRange(NamedTuple):
    """What one rank computes: neighbouring query heads, and the key heads they look at."""

    query: range
    key: range


def spread(query_heads: int, key_heads: int, world: int) -> tuple[HeadRange, ...]:
    """The heads of every rank."""
    group = query_heads // key_heads if key_heads else 1
    if key_heads >= world:
        return tuple(
            HeadRange(range(key.start * group, key.stop * group), key)
            for key in _runs(range(key_heads), world)
        )
    found = []
    for head, ranks in enumerate(_runs(range(world), key_heads)):
        for query in _runs(range(head * group, (head + 1) * group), len(ranks)):
            found.append(HeadRange(query, range(head, head + 1) if query else range(0)))
    return tuple(found) or tuple(HeadRange(range(0), range(0)) for _ in range(world))


def _runs(whole: range, parts: int) -> list[range]:
    """Neighbours together, as evenly as it goes; the first have the longer runs."""
    if not parts:
        return []
    sizes = [len(whole) // parts + (n < len(whole) % parts) for n in range(parts)]
    return [whole[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]
