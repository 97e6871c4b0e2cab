"""What stands in for transformers' N×N mask on its way through a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from regard.mask import Mask


class MaskDescriptor:
    """A regard mask dressed as the tensor (batch, 1, queries, keys) it stands for: booleans, or
    numbers to add to scores, as the implementation that regard stands for would have built it.

    Models hand it on untouched. One that computes with its mask, as sparse attention does, gets
    the tensor, which is built then and only then.
    """

    def __init__(
        self,
        mask: Mask | None,
        shape: tuple[int, int, int, int],
        device: torch.device,
        dense: Callable[[], Tensor],
        reach: int | None = None,
        counted: Tensor | None = None,
        dtype: torch.dtype = torch.bool,
        complete: bool = False,
        skipped: bool = False,
    ) -> None:
        self.mask = mask  # of keys alone: a query that is padding sees what any other would
        self.shape = torch.Size(shape)
        self.device = device
        self.reach = shape[-1] if reach is None else reach  # keys beyond are seen by no query
        self.counted = counted  # (batch, queries): those that are no padding; None: all of them
        self.dtype = dtype  # bool: True = may attend
        self.complete = complete  # every query is known to see a key
        self.skipped = skipped  # sdpa would have got None, and asked the layer if it is causal
        self.told: dict[Any, Any] = {}  # by the size of a call: its restriction, for all layers
        self._dense = dense

    @property
    def ndim(self) -> int:
        """Four, as the tensor's."""
        return 4

    def dim(self) -> int:
        """Four."""
        return 4

    def size(self, axis: int | None = None) -> Any:
        """The shape, or the length of one axis."""
        return self.shape if axis is None else self.shape[axis]

    def is_floating_point(self) -> bool:
        """Whether it is added to scores."""
        return self.dtype.is_floating_point

    def contiguous(self) -> MaskDescriptor:
        """Itself."""
        return self

    def clone(self) -> MaskDescriptor:
        """Itself: it never changes."""
        return self

    def to(self, *args: Any, **kwargs: Any) -> MaskDescriptor:
        """On another device; it has no other dtype to take."""
        named = [kwargs.get("device"), *args]
        device = next((torch.device(d) for d in named if isinstance(d, (str, torch.device))), None)
        if device is None or device == self.device:
            return self
        mask = None if self.mask is None else self.mask.map(lambda array: array.to(device))
        shape = (self.shape[0], self.shape[1], self.shape[2], self.shape[3])
        counted = None if self.counted is None else self.counted.to(device)
        return MaskDescriptor(
            mask, shape, device, lambda: self.dense.to(device), self.reach, counted, self.dtype,
            self.complete, self.skipped,
        )  # fmt: skip

    @cached_property
    def dense(self) -> Tensor:
        """(batch, 1, queries, keys): the tensor, as transformers would have built it."""
        return self._dense()

    def __getitem__(self, index: Any) -> Tensor:
        """A piece of the tensor."""
        return self.dense[index]

    def __getattr__(self, name: str) -> Any:
        """Every other method of a tensor is the tensor's."""
        if name.startswith("_") or not hasattr(Tensor, name):
            raise AttributeError(f"a MaskDescriptor has no {name!r}")
        return getattr(self.dense, name)

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """torch's functions are given the tensor."""
        given = torch.utils._pytree.tree_map_only(cls, lambda one: one.dense, (args, kwargs or {}))
        return function(*given[0], **given[1])

    def __repr__(self) -> str:
        return f"MaskDescriptor({self.mask!r}, shape={tuple(self.shape)})"


def _as_tensors(name: str) -> Callable[..., Any]:
    """An operator that Python looks up on the type, as the tensor has it."""

    def operator(self: MaskDescriptor, *others: Any) -> Any:
        return getattr(self.dense, name)(*others)

    return operator


for _name in (
    "add radd sub rsub mul rmul truediv rtruediv neg and rand or ror xor rxor invert "
    "eq ne lt le gt ge"
).split():
    setattr(MaskDescriptor, f"__{_name}__", _as_tensors(f"__{_name}__"))
MaskDescriptor.__hash__ = object.__hash__  # type: ignore[method-assign]
