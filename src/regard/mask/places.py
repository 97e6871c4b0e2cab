"""A function of single places asked about a tile, by torch's vmap."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def by_vmap(fn: Callable[..., Any], places: list[Tensor]) -> Tensor:
    """(*batch, heads, R, C), or (R, C): what fn returns for one place at a time, as FlexAttention
    asks. Axes before the last two along which nothing changes have size 1."""

    import torch  # whose tensors these are, so it is loaded already

    def alone(*at: Tensor) -> Any:
        return fn(*at).reshape(())

    for axis in reversed(range(len(places))):
        alone = torch.vmap(
            alone, in_dims=tuple(0 if n == axis else None for n in range(len(places)))
        )
    with _indexing()():
        seen: Tensor = alone(*(place.reshape(-1) for place in places))
    for axis in range(seen.ndim - 2):
        if seen.stride(axis) == 0:
            seen = seen.narrow(axis, 0, 1)
    if len(places) == 2:
        return seen
    batch = places[0].shape if seen.shape[0] > 1 else (1,) * places[0].ndim
    return seen.reshape(*batch, *seen.shape[1:])


@cache
def _indexing() -> Any:
    """`table[i]`, where i is one number, reads the number of i on the host; inside vmap there is
    none. Within a block of this mode it gathers."""
    import torch
    from torch import Tensor
    from torch.overrides import TorchFunctionMode

    def gathered(table: Tensor, index: tuple[Any, ...]) -> Tensor:
        at = [torch.tensor(n, device=table.device) if isinstance(n, int) else n for n in index]
        cut = table[tuple(slice(None) if isinstance(n, Tensor) else n for n in at)]
        return torch.ops.aten.index(cut, [n if isinstance(n, Tensor) else None for n in at])

    def is_place(n: Any) -> bool:
        return isinstance(n, Tensor | int | slice) and n is not True and n is not False

    class Indexing(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            if func is Tensor.__getitem__:
                index = args[1] if isinstance(args[1], tuple) else (args[1],)
                numbers = (isinstance(n, Tensor) and n.ndim == 0 for n in index)
                if any(numbers) and all(map(is_place, index)):
                    return gathered(args[0], index)
            return func(*args, **(kwargs or {}))

    return Indexing
