"""Who takes part: the ranks of a process group, and where this one stands among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from regard.errors import DTypeError, InputError, UnavailableError

__all__ = ["Peers"]


@dataclass(frozen=True)
class Peers:
    """The ranks of one group. Ranks are counted within the group."""

    group: Any  # a ProcessGroup
    rank: int
    world: int

    @classmethod
    def of(cls, group: Any = None) -> Peers:
        """Of a ProcessGroup, a DeviceMesh of one axis, or None for all ranks there are."""
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
        """To whom this rank gives."""
        return (self.rank + 1) % self.world

    @property
    def previous(self) -> int:
        """From whom this rank takes."""
        return (self.rank - 1) % self.world

    def owner(self, step: int) -> int:
        """Whose shard this rank holds at a step of the ring: its own at step 0."""
        return (self.rank - step) % self.world
