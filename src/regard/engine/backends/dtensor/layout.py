"""What each axis of a device mesh splits: entries of the batch, heads, queries or nothing.

                (*batch, heads, …)    batch     heads         queries
    rows        output, lse, top      Shard     Shard         Shard
    keys        key, value            Shard     Shard, or     Replicate, its gradient Partial
                                                Replicate where groups would be torn apart
    columns     mass, Aᵀ @ y          Shard     Shard         Partial

The queries decide. Where they are whole along an axis of the mesh, the keys' batch or heads do.
Keys that are split along the sequence are gathered: `regard.parallel` is for sequences whose keys
do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from regard.errors import InputError
from regard.shapes import AttentionShape


@dataclass(frozen=True)
class Layout:
    """One problem on one mesh."""

    mesh: DeviceMesh
    shape: AttentionShape
    splits: tuple[int | None, ...]  # per axis of the mesh: the axis of the query that it splits

    @classmethod
    def of(cls, query: Tensor, key: Tensor, value: Tensor, shape: AttentionShape) -> Layout:
        """From the placements of three DTensors on one mesh."""
        given = {"query": query, "key": key, "value": value}
        plain = [name for name, tensor in given.items() if not isinstance(tensor, DTensor)]
        meshes = {t.device_mesh for t in given.values() if isinstance(t, DTensor)}
        if plain or len(meshes) > 1:
            said = f"{plain[0]} is a plain tensor" if plain else "they are on different meshes"
            raise InputError(
                f"query, key and value are not all DTensors of one mesh: {said}; "
                "use distribute_tensor(…) or DTensor.from_local(…) on all three"
            )
        found = cls(meshes.pop(), shape, ())
        for q, k in zip(_placements(query), _placements(key), strict=True):
            candidates = (_axis(q, query.ndim), _axis(k, key.ndim))
            at = found._useful(candidates[0], len(shape.batch) + 1)
            # keys along the sequence are no axis of the query
            at = found._useful(candidates[1], len(shape.batch)) if at is None else at
            found = replace(found, splits=(*found.splits, at))
        return found

    def _useful(self, axis: int | None, last: int) -> int | None:
        """The axis, if it is one to split by and no rank's share of it is empty."""
        if axis is None or axis > last:
            return None
        ranks = prod(self.mesh.size(n) for n, at in enumerate(self.splits) if at == axis)
        ranks *= self.mesh.size(len(self.splits))
        size = self._sizes[axis]
        return axis if -(-size // ranks) * (ranks - 1) < size else None

    @property
    def _sizes(self) -> tuple[int, ...]:
        shape = self.shape
        return (*shape.batch, shape.query_heads, shape.queries)

    @property
    def head_axis(self) -> int:
        """Which axis of the query counts its heads."""
        return len(self.shape.batch)

    @property
    def splits_queries(self) -> bool:
        """Whether ranks hold different queries of the same heads."""
        return self.head_axis + 1 in self.splits

    def gathered(self) -> Layout:
        """The same with all queries everywhere."""
        whole = self.head_axis + 1
        return replace(self, splits=tuple(None if at == whole else at for at in self.splits))

    # ── this rank's share ────────────────────────────────────────────────────────────────────

    def share(self, axis: int) -> range:
        """Which entries of an axis of the query this rank holds; as torch.chunk cuts them."""
        found = range(self._sizes[axis])
        at = self.mesh.get_coordinate()
        for n, split in enumerate(self.splits):
            if split == axis and at is not None:
                size = -(-len(found) // self.mesh.size(n))
                found = found[at[n] * size : (at[n] + 1) * size]
        return found

    @property
    def batch(self) -> tuple[range, ...]:
        """This rank's entries of each batch axis."""
        return tuple(self.share(axis) for axis in range(self.head_axis))

    @property
    def heads(self) -> range:
        """This rank's query heads."""
        return self.share(self.head_axis)

    @property
    def queries(self) -> range:
        """This rank's queries."""
        return self.share(self.head_axis + 1)

    @cached_property
    def splits_keys(self) -> bool:
        """Whether key heads can be split along with the query heads they serve."""
        ranks = prod(self.mesh.size(n) for n, s in enumerate(self.splits) if s == self.head_axis)
        return self.shape.key_heads % ranks == 0

    # ── placements ───────────────────────────────────────────────────────────────────────────

    def rows(self) -> list[Placement]:
        """Of what has one entry per query."""
        return [Replicate() if at is None else Shard(at) for at in self.splits]

    def columns(self, join: str = "sum") -> list[Placement]:
        """Of what is summed over queries, or the largest of them ("max")."""
        return [
            Replicate() if at is None else Partial(join) if at > self.head_axis else Shard(at)
            for at in self.splits
        ]

    def entries(self, heads: bool = True) -> list[Placement]:
        """Of what speaks of no single query; `heads` tells whether heads are split."""
        last = self.head_axis if heads else self.head_axis - 1
        return [Replicate() if at is None or at > last else Shard(at) for at in self.splits]

    def keys(self) -> list[Placement]:
        """Of keys and values."""
        return self.entries(heads=self.splits_keys)

    def everywhere(self) -> list[Placement]:
        """Of what every rank has whole."""
        return [Replicate() for _ in self.splits]

    def summed(self) -> list[Placement]:
        """Of what every rank has computed a share of."""
        return [Replicate() if at is None else Partial() for at in self.splits]

    # ── between DTensors and this rank's tensors ─────────────────────────────────────────────

    def local(self, tensor: Tensor, placements: Sequence[Placement]) -> Tensor:
        """This rank's part, placed so. Its gradients are a sum over the ranks that had the same
        part and used it differently. A plain tensor is taken to be the same on every rank."""
        if not isinstance(tensor, DTensor):
            tensor = DTensor.from_local(tensor, self.mesh, self.everywhere(), run_check=False)
        grads = [
            Partial() if at is not None and placed.is_replicate() else placed
            for at, placed in zip(self.splits, placements, strict=True)
        ]
        placed = tensor.redistribute(self.mesh, placements)
        found: Tensor = placed.to_local(grad_placements=grads)
        return _defined(found)

    def spread(
        self, local: Tensor, shape: Sequence[int], placements: Sequence[Placement]
    ) -> DTensor:
        """This rank's part of a tensor of the given shape, as a DTensor."""
        stride = torch.empty(tuple(shape), device="meta").stride()
        made: Any = DTensor.from_local(
            local.contiguous(), self.mesh, placements, run_check=False, shape=torch.Size(shape),
            stride=stride,
        )  # fmt: skip
        found: DTensor = made
        return found


class _Defined(torch.autograd.Function):
    """The same tensor; a gradient that never came is a zero."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        """The same numbers."""
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """What came, or the zero that autograd makes of nothing."""
        return grad


def _defined(tensor: Tensor) -> Tensor:
    """DTensor's own backward stumbles over a gradient that nobody sent, and a rank that skips it
    would leave the others waiting."""
    found: Tensor = _Defined.apply(tensor)  # type: ignore[no-untyped-call]
    return found


def _placements(tensor: Tensor) -> tuple[Placement, ...]:
    return tensor.placements if isinstance(tensor, DTensor) else ()


def _axis(placement: Placement, ndim: int) -> int | None:
    """The axis a placement splits; strided splits (as of two kinds of sharding at once) are not
    followed: what they split is gathered."""
    return placement.dim % ndim if type(placement) is Shard else None
