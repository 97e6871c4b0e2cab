"""A mask seen from a part of its problem: some of the queries, some of the keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from regard.mask.algebra import Mask
from regard.mask.tile import Extent, Verdict

__all__ = ["Part"]


@dataclass(frozen=True, repr=False)
class Part(Mask):
    """Local query i is query i + query_start of the whole problem; keys likewise."""

    mask: Mask
    query_start: int
    key_start: int
    queries: int  # of the whole problem
    keys: int

    def whole(self, extent: Extent) -> Extent:
        """The extent of the whole problem, from that of the part."""
        return replace(extent, queries=self.queries, keys=self.keys)

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """What the mask allows at the global places."""
        return self.mask.allows(i + self.query_start, j + self.key_start, self.whole(extent))

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        """The mask's verdict on the tile at its global place."""
        return self.mask.verdict(
            range(rows.start + self.query_start, rows.stop + self.query_start),
            range(cols.start + self.key_start, cols.stop + self.key_start),
            self.whole(extent),
        )

    def arrays(self) -> Iterator[Any]:
        """The mask's."""
        return self.mask.arrays()

    def map(self, convert: Callable[[Any], Any]) -> Mask:
        """The mask converted."""
        return replace(self, mask=self.mask.map(convert))

    def select(self, batch: tuple[int, ...]) -> Mask:
        """The mask seen from one entry."""
        return replace(self, mask=self.mask.select(batch))

    def check(self, extent: Extent) -> None:
        """The mask fits the whole problem."""
        self.mask.check(self.whole(extent))
