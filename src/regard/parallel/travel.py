"""How tensors travel round the ring: every rank gives to the next and takes from the previous.

`around` brings every shard past every rank; the next one is on its way while the caller works on
the one that is here. `Luggage` travels with the shards, grows at every stop and comes home.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from regard.parallel.failure import named
from regard.parallel.group import Peers

__all__ = ["Arrival", "Luggage", "around", "pass_on", "posted"]


class Arrival:
    """Tensors on their way; what was given is kept until it has left."""

    def __init__(
        self,
        peers: Peers,
        given: Sequence[Tensor],
        taken: Sequence[Tensor],
        works: Sequence[tuple[Any, int]],
    ) -> None:
        self._peers, self._given, self._taken, self._works = peers, given, taken, works

    def wait(self) -> list[Tensor]:
        """What the previous rank gave. On a GPU the current stream waits, not the caller."""
        for work, other in self._works:
            with named(self._peers, other, "in the ring"):
                work.wait()
        return list(self._taken)


def pass_on(peers: Peers, given: Sequence[Tensor], axis: int, length: int, tag: int = 0) -> Arrival:
    """Give these to the next rank and take the like of the previous one, whose token axis `axis`
    is `length` long. Returns at once. Only what has the same tag can meet."""
    if peers.world == 1:
        return Arrival(peers, given, given, [])
    given = [tensor.contiguous() for tensor in given]
    taken = [_room(tensor, axis, length) for tensor in given]
    # both sides know the sizes, so what is empty need not travel
    ops = [
        dist.P2POp(kind, tensor, group=peers.group, tag=tag + n, group_peer=other)
        for kind, tensors, other in (
            (dist.irecv, taken, peers.previous),
            (dist.isend, given, peers.next),
        )
        for n, tensor in enumerate(tensors)
        if tensor.numel()
    ]
    return Arrival(peers, given, taken, posted(peers, ops, "in the ring"))


def posted(peers: Peers, ops: Sequence[dist.P2POp], doing: str) -> list[tuple[Any, int]]:
    """Work under way, and with whom. On a GPU all of it is one batch, so that nobody waits for
    somebody who waits; on the host one by one, so that it is known who does not answer."""
    on_host = all(op.tensor.device.type == "cpu" for op in ops)
    batches = [[op] for op in ops] if on_host else [list(ops)]
    works: list[tuple[Any, int]] = []
    for batch in batches:
        other = batch[0].group_peer
        with named(peers, other, doing):
            works += [(work, other) for work in dist.batch_isend_irecv(batch)]
    return works


def around(
    peers: Peers, mine: Sequence[Tensor], lengths: Sequence[int], axis: int = -2, tag: int = 0
) -> Generator[tuple[int, list[Tensor]], None, None]:
    """(owner, its tensors) for every rank's shard, one's own first. Close it where the work on a
    shard may fail (`contextlib.closing`): then the ranks stay in step."""
    held = list(mine)
    for step in range(peers.world - 1):
        coming = pass_on(peers, held, axis, lengths[peers.owner(step + 1)], tag)
        try:
            yield peers.owner(step), held
        finally:  # also where the caller gives up: what is under way must not meet the next ring
            held = coming.wait()
    yield peers.owner(peers.world - 1), held


class Luggage:
    """Sums that travel with the shards: what is added on any rank comes home to the owner."""

    def __init__(
        self,
        peers: Peers,
        lengths: Sequence[int],
        axis: int,
        joining: Sequence[Callable[[Tensor, Tensor], Tensor]] | None = None,
    ) -> None:
        self._peers, self._lengths, self._axis = peers, lengths, axis
        self._joining = joining  # how each part joins what came; None: all are sums
        self._step = 0
        self._coming: Arrival | None = None

    def add(self, parts: Sequence[Tensor]) -> None:
        """Add to the sums of the shard that is here, and send them after it. Called once a step;
        the sums of the steps before arrive while the caller works."""
        sums = list(parts)
        if self._coming is not None:
            joining = self._joining or [Tensor.add_] * len(sums)
            came = zip(joining, self._coming.wait(), parts, strict=True)
            sums = [join(total, part) for join, total, part in came]
        self._step += 1
        following = self._lengths[self._peers.owner(self._step)]
        self._coming = pass_on(self._peers, sums, self._axis, following)

    def home(self) -> list[Tensor]:
        """The sums of one's own shard, after the last step."""
        assert self._coming is not None
        return self._coming.wait()


def _room(tensor: Tensor, axis: int, length: int) -> Tensor:
    size = list(tensor.shape)
    size[axis] = length
    return torch.empty(size, dtype=tensor.dtype, device=tensor.device)
