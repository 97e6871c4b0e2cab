"""What stands where code expects a tensor: its functions, methods and operators are given the whole
matrix, where that is small enough to be built.

One mechanism for all of them: a function of torch's arrives at `__torch_function__`, a method at
`__getattr__`, an operator at the table below; each asks for the matrix and goes on with torch's
own, so that code written for eager's tensors runs as it is and gets tensors. What a subclass has of
its own (`a @ x`, slices, statistics) builds no matrix and comes first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from regard.errors import InputError

# what is done to a tensor that stays; a matrix built for the call would be forgotten with it
_STAYING = ("register_hook", "register_post_accumulate_grad_hook", "retain_grad", "__setitem__")


class TensorLike:
    """Whoever can give a whole tensor."""

    @abstractmethod
    def _whole(self, asked: str) -> Tensor:
        """The tensor; TooLargeError names what was `asked`."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The tensor's."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The tensor's."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The tensor's."""

    # ── what is known without the tensor ─────────────────────────────────────────────────────

    @property
    def ndim(self) -> int:
        """How many axes the matrix has."""
        return len(self.shape)

    def dim(self) -> int:
        """How many axes the matrix has."""
        return len(self.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or how long one axis is."""
        return torch.Size(self.shape) if dim is None else self.shape[dim]

    def numel(self) -> int:
        """How many cells the matrix has."""
        return torch.Size(self.shape).numel()

    def __len__(self) -> int:
        return self.shape[0]

    # ── everything else ──────────────────────────────────────────────────────────────────────

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if torch.compiler.is_compiling() and _may_be_swapped(function, args):
            torch._dynamo.graph_break()  # Python itself then computes a @ x
        return _with_whole(function, args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        member = None if name.startswith("_") else getattr(Tensor, name, None)
        if member is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if callable(member):
            return lambda *args, **kwargs: _with_whole(member, (self, *args), kwargs)
        # a property: of the kind of tensor this is, unless it is made of the numbers
        kind = torch.zeros((), dtype=self.dtype, device=self.device).expand(self.shape)
        found = getattr(kind, name)
        return getattr(self._whole(f".{name}"), name) if isinstance(found, Tensor) else found


def _may_be_swapped(function: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Dynamo calls `matmul` with (x, a) for x @ a and, in most versions, for a @ x as well."""
    return getattr(function, "__name__", "") == "matmul" and not isinstance(args[0], TensorLike)


def _with_whole(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = getattr(function, "__name__", str(function))
    in_place = name in _STAYING or (name.endswith("_") and not name.endswith("__"))
    if (in_place and isinstance(args[0], TensorLike)) or isinstance(kwargs.get("out"), TensorLike):
        raise InputError(
            f"{name} needs a tensor that stays, and this matrix is not stored: take one, "
            "a.dense(); to change what a layer does, give it another mask, bias or value"
        )
    given = tree_map_only(TensorLike, lambda one: one._whole(name), (args, kwargs))
    return function(*given[0], **given[1])


def _operator(name: str) -> Callable[..., Any]:
    method = getattr(Tensor, name)

    def run(self: TensorLike, *others: Any) -> Any:
        return _with_whole(method, (self, *others), {})

    return run


# Python looks for these on the class, never by __getattr__
for _name in """add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow
matmul rmatmul neg pos abs lt le gt ge eq ne and rand or ror xor rxor invert bool contains
setitem""".split():
    setattr(TensorLike, f"__{_name}__", _operator(f"__{_name}__"))
TensorLike.__hash__ = object.__hash__  # type: ignore[method-assign]  # as tensors: by identity
