"""How the ranks of a group exchange tensors: along a ring, all-to-all, all-gather, all-reduce.

In the ring every rank sends to the next and receives from the previous one. `circulate` brings
every shard to every rank; the next one is in flight while the caller works on the current one.
`RingReduceScatter` sends accumulators after the shards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import distributed_c10d

from regard.errors import DTypeError, InputError, UnavailableError

_GRACE = 2.0  # seconds a peer has to leave a note
_NOTE = "regard/waited-for"


@dataclass(frozen=True)
class Peers:
    """The ranks of one group. Ranks are counted within the group."""

    group: Any  # a ProcessGroup
    rank: int
    world: int

    @classmethod
    def of(cls, group: Any = None) -> Peers:
        """Of a ProcessGroup, a DeviceMesh of one axis, or None for all ranks."""
        if not (dist.is_available() and dist.is_initialized()):
            raise UnavailableError(
                "there is no process group: call torch.distributed.init_process_group first, or "
                "start the program with torchrun"
            )
        if hasattr(group, "get_group") and hasattr(group, "mesh_dim_names"):
            if group.ndim != 1:
                raise InputError(
                    f"group is a DeviceMesh of {group.ndim} axes; give one of them, such as "
                    "mesh['context']"
                )
            group = group.get_group()
        group = dist.group.WORLD if group is None else group
        if group == dist.GroupMember.NON_GROUP_MEMBER:
            raise InputError(
                f"rank {dist.get_rank()} is no member of the group it was given; call this on the "
                "group's own ranks only"
            )
        if not isinstance(group, dist.ProcessGroup):
            raise DTypeError(
                f"group is a {type(group).__name__}; give a ProcessGroup, a DeviceMesh or None"
            )
        return cls(group, dist.get_rank(group), dist.get_world_size(group))

    @property
    def next(self) -> int:
        """The rank this one sends to in the ring."""
        return (self.rank + 1) % self.world

    @property
    def previous(self) -> int:
        """The rank this one receives from in the ring."""
        return (self.rank - 1) % self.world

    def owner(self, step: int) -> int:
        """Whose shard this rank holds at a step of the ring: its own at step 0."""
        return (self.rank - step) % self.world


# ── messages ─────────────────────────────────────────────────────────────────────────────────


def pack(tensors: Sequence[Tensor]) -> Tensor:
    """(n,) uint8: the tensors' bytes, one after the other."""
    return torch.cat([_bytes(tensor.detach().contiguous()) for tensor in tensors])


def size_of(dtypes: Sequence[torch.dtype], shapes: Sequence[Sequence[int]]) -> int:
    """How many bytes tensors of these dtypes and shapes have."""
    return sum(prod(shape) * dtype.itemsize for dtype, shape in zip(dtypes, shapes, strict=True))


def unpack(
    message: Tensor,
    dtypes: Sequence[torch.dtype],
    shapes: Sequence[Sequence[int]],
    start: int = 0,
) -> list[Tensor]:
    """The tensors of these dtypes and shapes that a message holds from byte `start` on."""
    tensors = []
    for dtype, shape in zip(dtypes, shapes, strict=True):
        part = message.narrow(0, start, size_of([dtype], [shape]))
        aligned = part if start % dtype.itemsize == 0 else part.clone()
        tensors.append(aligned.view(dtype).view(tuple(shape)))
        start += len(part)
    return tensors


def resized(tensor: Tensor, sizes: dict[int, int]) -> list[int]:
    """A tensor's shape with other sizes along some axes."""
    shape = list(tensor.shape)
    for axis, size in sizes.items():
        shape[axis] = size
    return shape


def _bytes(tensor: Tensor) -> Tensor:
    # a tensor of one number is contiguous whatever its stride; bytes want a stride of one
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)


# ── point to point ───────────────────────────────────────────────────────────────────────────


class Transfer:
    """Sends and receives in flight. What is sent is kept alive until it has left."""

    def __init__(
        self,
        peers: Peers,
        sent: Any,
        received: Sequence[Tensor],
        works: Sequence[tuple[Any, int]],
        doing: str,
    ) -> None:
        self._peers, self._sent, self._received = peers, sent, received
        self._works, self._doing = works, doing

    def wait(self) -> list[Tensor]:
        """The received tensors. On a GPU the current stream waits, not the caller."""
        for work, peer in self._works:
            with reporting_lost_rank(self._peers, peer, self._doing):
                work.wait()
        return list(self._received)


def post(
    peers: Peers,
    receive: Sequence[tuple[int, Sequence[Tensor]]],
    send: Sequence[tuple[int, Sequence[Tensor]]],
    doing: str,
    tag: int = 0,
) -> Transfer:
    """Start to receive into tensors from ranks and to send tensors to ranks. Returns at once. The
    n-th tensor of a pair of ranks has tag `tag` + n; only equal tags meet."""
    ops = [  # both ends know the sizes, so empty tensors are not sent
        dist.P2POp(kind, tensor, group=peers.group, tag=tag + n, group_peer=peer)
        for kind, ends in ((dist.irecv, receive), (dist.isend, send))
        for peer, tensors in ends
        for n, tensor in enumerate(tensors)
        if tensor.numel()
    ]
    # on a GPU in one batch, so that no two ranks block each other; on the host one by one, so that
    # it is known which rank does not answer
    on_host = all(op.tensor.device.type == "cpu" for op in ops)
    works: list[tuple[Any, int]] = []
    for batch in [[op] for op in ops] if on_host else [ops]:
        peer = batch[0].group_peer
        with reporting_lost_rank(peers, peer, doing):
            works += [(work, peer) for work in dist.batch_isend_irecv(batch)]
    received = [tensor for _, tensors in receive for tensor in tensors]
    return Transfer(peers, send, received, works, doing)


def shift(
    peers: Peers, tensors: Sequence[Tensor], axis: int, length: int, tag: int = 0
) -> Transfer:
    """Send these to the next rank and receive the previous rank's, whose token axis `axis` is
    `length` long. Returns at once."""
    if peers.world == 1:
        return Transfer(peers, tensors, tensors, [], "in the ring")
    sent = [tensor.contiguous() for tensor in tensors]
    received = [tensor.new_empty(resized(tensor, {axis: length})) for tensor in sent]
    return post(peers, [(peers.previous, received)], [(peers.next, sent)], "in the ring", tag)


def circulate(
    peers: Peers, tensors: Sequence[Tensor], lengths: Sequence[int], axis: int = -2, tag: int = 0
) -> Generator[tuple[int, list[Tensor]], None, None]:
    """(owner, its tensors) for every rank's shard, this rank's first. Close it where the work on a
    shard may fail (`contextlib.closing`): then the ranks stay in step."""
    current = list(tensors)
    for step in range(peers.world - 1):
        following = shift(peers, current, axis, lengths[peers.owner(step + 1)], tag)
        try:
            yield peers.owner(step), current
        finally:  # also where the caller fails: what is in flight must not reach the next ring
            current = following.wait()
    yield peers.owner(peers.world - 1), current


class RingReduceScatter:
    """Accumulators that follow the shards round the ring; each ends at its shard's owner."""

    def __init__(
        self,
        peers: Peers,
        lengths: Sequence[int],
        axis: int,
        joining: Sequence[Callable[[Tensor, Tensor], Tensor]] | None = None,
    ) -> None:
        self._peers, self._lengths, self._axis = peers, lengths, axis
        self._joining = joining  # how each part joins its accumulator; None: all are sums
        self._step = 0
        self._transfer: Transfer | None = None

    def add(self, parts: Sequence[Tensor]) -> None:
        """Join the accumulators of the current shard and send them after it. Called once a step;
        those of the steps before arrive while the caller works."""
        totals = list(parts)
        if self._transfer is not None:
            joining = self._joining or [Tensor.add_] * len(totals)
            arrived = zip(joining, self._transfer.wait(), parts, strict=True)
            totals = [join(total, part) for join, total, part in arrived]
        self._step += 1
        following = self._lengths[self._peers.owner(self._step)]
        self._transfer = shift(self._peers, totals, self._axis, following)

    def result(self) -> list[Tensor]:
        """The totals of this rank's own shard, after the last step."""
        assert self._transfer is not None
        return self._transfer.wait()


# ── collectives ──────────────────────────────────────────────────────────────────────────────


def all_reduce(peers: Peers, tensor: Tensor, doing: str, op: Any = dist.ReduceOp.SUM) -> Tensor:
    """The tensor, reduced in place over all ranks."""
    if peers.world > 1:
        with reporting_lost_rank(peers, None, doing):
            dist.all_reduce(tensor, op, group=peers.group)
    return tensor


def all_gather(peers: Peers, tensors: Sequence[Tensor], doing: str) -> list[list[Tensor]]:
    """Every rank's tensors in rank order, as one message each; all ranks have the same shapes."""
    message = pack(tensors)
    received = [torch.empty_like(message) for _ in range(peers.world)]
    with reporting_lost_rank(peers, None, doing):
        dist.all_gather(received, message, group=peers.group)
    dtypes, shapes = [t.dtype for t in tensors], [t.shape for t in tensors]
    return [unpack(each, dtypes, shapes) for each in received]


def all_to_all(
    peers: Peers,
    tensors: Sequence[Sequence[Tensor]],
    shapes: Sequence[Sequence[Sequence[int]]],
    doing: str,
) -> list[list[Tensor]]:
    """tensors[r] go to rank r as one message; those from rank r have shapes[r] and the dtypes of
    the ones sent."""
    dtypes = [tensor.dtype for tensor in tensors[0]]
    messages = [pack(parts) for parts in tensors]
    sizes = [size_of(dtypes, each) for each in shapes]
    if peers.world == 1:
        received = messages[0]
    else:
        received = messages[0].new_empty(sum(sizes))
        sent = [len(message) for message in messages]
        with reporting_lost_rank(peers, None, doing):
            dist.all_to_all_single(received, torch.cat(messages), sizes, sent, group=peers.group)
    starts = accumulate(sizes, initial=0)
    return [unpack(received, dtypes, each, at) for at, each in zip(starts, shapes, strict=False)]


# ── a lost rank ──────────────────────────────────────────────────────────────────────────────


@contextmanager
def reporting_lost_rank(peers: Peers, peer: int | None, doing: str) -> Iterator[None]:
    """A communication error inside the block becomes one that names the lost rank.

    peer   the rank the block communicates with; None in a collective

    Communication fails at a peer: the connection breaks, or the group's timeout passes. The peer
    may itself have stopped because of another. So each rank that fails leaves a note in the
    group's store, with the rank it waited for, and follows the other ranks' notes: the rank at the
    end of the chain, which left no note, is lost. Where the chain has no end, no rank is lost: the
    ranks are not in step. In a collective the lost ranks are those without a note.
    """
    try:
        yield
    except RuntimeError as error:  # torch's DistError family, and errors of gloo and nccl
        lost = _silent(peers) if peer is None else _lost(peers, peer)
        reason = str(error).strip().partition("\n")[0]
        who = "some rank" if lost is None else " or ".join(f"rank {rank}" for rank in lost)
        indirect = peer is not None and lost and peer not in lost
        via = f" (rank {peer} stopped because of it)" if indirect else ""
        what = (
            f"{who} is lost{via}. It has died, or did not come within the group's timeout; start "
            "the run again"
            if who
            else "no rank is lost, all gave up. They are not in step: every rank must ask the same "
            "in the same order, and run the same backward"
        )
        raise UnavailableError(
            f"rank {peers.rank} of {peers.world} gave up {doing}: {what}",
            {who or f"rank {peers.rank}": [reason]},
        ) from error


def _lost(peers: Peers, peer: int) -> list[int]:
    """The rank at the end of the chain of ranks that waited for one another; none if it is a
    circle."""
    last, visited = peer, {peers.rank}
    try:
        notes = _Notes(peers, peer)
        while last not in visited:
            if not notes.wait(last):
                return [last]
            visited.add(last)
            last = notes.read(last)
    except RuntimeError:  # the store went down with the rank that kept it: report what is known
        return [last]
    return []


def _silent(peers: Peers) -> list[int] | None:
    """The ranks that leave no note; None without a store."""
    try:
        notes = _Notes(peers, peers.rank)
        return [rank for rank in range(peers.world) if not notes.wait(rank)]
    except RuntimeError:  # the store went down with the rank that kept it
        return None


class _Notes:
    """In the group's store: the rank that each rank waited for."""

    def __init__(self, peers: Peers, waited_for: int) -> None:
        self._store: Any = distributed_c10d._get_process_group_store(peers.group)
        self._store.set(f"{_NOTE}/{peers.rank}", str(waited_for))
        self._until = time.monotonic() + _GRACE

    def wait(self, rank: int) -> bool:
        """Whether a rank has left a note, or does so in time."""
        while not self._store.check([f"{_NOTE}/{rank}"]):
            if time.monotonic() > self._until:
                return False
            time.sleep(0.05)
        return True

    def read(self, rank: int) -> int:
        return int(self._store.get(f"{_NOTE}/{rank}"))
