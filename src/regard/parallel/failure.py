"""A rank that is lost: every other rank ends with an error that names it.

A ring fails at a neighbour: the connection breaks, or the group's timeout passes. The neighbour
itself may only have stopped because of its own neighbour. So each rank that fails leaves a note in
the group's store, saying whom it waited for, and follows the notes of the others: the one at the
end of the chain, who left no note, is the one that is lost. Where the chain has no end, nobody is
lost: the ranks are not in step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from regard.errors import UnavailableError
from regard.parallel.group import Peers

__all__ = ["named"]

_GRACE = 2.0  # seconds a neighbour has to leave a note
_NOTE = "regard/waited-for"


@contextmanager
def named(peers: Peers, other: int | None, doing: str) -> Iterator[None]:
    """An error of the communication inside the block becomes one that names the lost rank.

    other   whom the block speaks with; None where that is everybody: then the lost one is among
            those who leave no note
    """
    try:
        yield
    except RuntimeError as error:  # torch's DistError family, gloo's and nccl's own words
        lost = _silent(peers) if other is None else _lost(peers, other)
        said = str(error).strip().partition("\n")[0]
        who = "some rank" if lost is None else " or ".join(f"rank {rank}" for rank in lost)
        via = (
            ""
            if other is None or not lost or other in lost
            else (f" (rank {other} stopped because of it)")
        )
        what = (
            f"{who} is lost{via}. It has died, or did not come within the group's timeout; start "
            "the run again"
            if who
            else "no rank is lost, all gave up. They are not in step: every rank must ask the same "
            "in the same order, and run the same backward"
        )
        raise UnavailableError(
            f"rank {peers.rank} of {peers.world} gave up {doing}: {what}",
            {who or f"rank {peers.rank}": [said]},
        ) from error


def _lost(peers: Peers, other: int) -> list[int]:
    """The rank at the end of the chain of those who waited for one another; none where there is
    no end."""
    last, seen = other, {peers.rank}
    try:
        notes = _Notes(peers, str(other))
        while last not in seen:
            if not notes.wait(last):
                return [last]
            seen.add(last)
            last = notes.read(last)
    except RuntimeError:  # the store went down with the rank that kept it: say what is known here
        return [last]
    return []


def _silent(peers: Peers) -> list[int] | None:
    """The ranks that leave no note; None where nothing can be found out."""
    try:
        notes = _Notes(peers, str(peers.rank))
        return [rank for rank in range(peers.world) if not notes.wait(rank)]
    except RuntimeError:  # the store went down with the rank that kept it
        return None


class _Notes:
    """Who waited for whom, in the group's store."""

    def __init__(self, peers: Peers, mine: str) -> None:
        self._store: Any = peers.group.get_group_store()
        self._store.set(f"{_NOTE}/{peers.rank}", mine)
        self._until = time.monotonic() + _GRACE

    def wait(self, rank: int) -> bool:
        """Whether a rank has left a note, or does so in time."""
        while not self._store.check([f"{_NOTE}/{rank}"]):
            if time.monotonic() > self._until:
                return False
            time.sleep(0.05)
        return True

    def read(self, rank: int) -> int:
        """For whom a rank waited."""
        return int(self._store.get(f"{_NOTE}/{rank}"))
