"""What `a[…]` means: numpy's and torch's indexing, answered without the matrix.

An index names cells of a virtual (*batch, Hq, L, S) array. Where it is an outer product of
choices per axis (integers, slices, at most one list) one rectangle is asked for; where several
lists run together, cell by cell, the cells are gathered tile by tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.arrays import brief
from regard.engine.call import Place
from regard.engine.torch_state import capturing
from regard.errors import InputError, UnavailableError

_ROWS_AT_ONCE = 64  # gathered cells are grouped by this many queries


def read_cells(
    index: Any, shape: tuple[int, ...], device: torch.device, block: Callable[[Place], Tensor]
) -> Tensor:
    """The cells `index` names, in the shape torch would give them."""
    if capturing(device):
        _refuse_host(index)
    wanted = _complete(index, shape)
    lists = [part for part in wanted if isinstance(part, Tensor)]
    axes = [torch.arange(n, device=device) for n in shape]
    try:
        if len(lists) > 1 or any(_axes_of(part) > 1 for part in lists):
            return _gather(tuple(wanted), shape, axes, block)
        found = _outer([part for part in wanted if part is not None], shape, axes, block)
        if any(part is None for part in wanted):  # one list at most: new axes move no other
            cells = axes[0].new_zeros(()).expand(shape)
            return found.reshape(cells[tuple(wanted)].shape)
        return found
    except (IndexError, ValueError) as error:  # ValueError: a negative step
        raise InputError(f"index {index!r} does not fit a matrix of shape {shape}") from error


def _refuse_host(index: Any) -> None:
    """What comes from the host, or has to be fetched to it, cannot be captured."""
    named = [part for part in (index if isinstance(index, tuple) else (index,)) if _is_list(part)]
    there = [part for part in named if isinstance(part, Tensor) and part.is_cuda and part.ndim]
    if len(named) > 1 or len(there) < len(named) or any(t.dtype == torch.bool for t in there):
        said = ", ".join(map(brief, named))  # never their numbers: these would have to be fetched
        raise UnavailableError(
            f"an index with {said} comes from the host, or must be looked at there, which a CUDA "
            "graph cannot capture; give whole numbers, slices, and one tensor of indices on the GPU"
        )


def _is_list(part: Any) -> bool:
    return part is not Ellipsis and part is not None and not isinstance(part, (int, slice))


def _complete(index: Any, shape: tuple[int, ...]) -> list[Any]:
    """An entry per axis: an int, a slice or an index tensor; booleans of several axes are one entry
    for them, and None stands where a new axis is wanted."""
    given = list(index) if isinstance(index, tuple) else [index]
    parts = [part if part is Ellipsis else _part(part) for part in given]
    dots = [n for n, part in enumerate(parts) if part is Ellipsis]
    named = sum(_axes_of(part) for part in parts)
    if len(dots) > 1 or named > len(shape):
        raise InputError(f"index {index!r} names too many axes; the matrix has shape {shape}")
    at = dots[0] if dots else len(parts)
    missing = [slice(None)] * (len(shape) - named)
    return [*parts[:at], *missing, *parts[at + len(dots) :]]


def _axes_of(part: Any) -> int:
    """How many axes of the matrix an entry speaks of."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if isinstance(part, Tensor) and part.dtype == torch.bool else 1


def _part(part: Any) -> Any:
    if part is None:
        return None
    whole = isinstance(part, (int, torch.SymInt)) and not isinstance(part, bool)
    if whole or isinstance(part, slice):
        return part
    try:
        found = torch.as_tensor(list(part) if isinstance(part, range) else part)
    except (TypeError, ValueError, RuntimeError):
        raise _useless(part) from None
    flags = found.dtype == torch.bool
    if found.numel() == 0 and not flags:
        return found.long()  # an empty list has no dtype of its own
    if found.is_floating_point() or found.is_complex() or (flags and found.ndim == 0):
        raise _useless(part)
    return int(found) if found.ndim == 0 else found


def _useless(part: Any) -> InputError:
    return InputError(f"{part!r} cannot index an attention matrix; use slices and integers")


def _outer(
    wanted: list[Any], shape: tuple[int, ...], axes: list[Tensor], block: Callable[[Place], Tensor]
) -> Tensor:
    """A rectangle: choose heads, rows and columns apart, then give the axes their shapes."""
    heads = torch.arange(_product(shape[:-2]), device=axes[0].device).view(shape[:-2])
    units = heads[tuple(wanted[:-2])] if len(shape) > 2 else heads
    rows, cols = axes[-2][wanted[-2]], axes[-1][wanted[-1]]
    found = block(Place(units.reshape(-1), rows.reshape(-1), cols.reshape(-1)))
    return found.reshape((*units.shape, *rows.shape, *cols.shape))


def _gather(
    wanted: tuple[Any, ...],
    shape: tuple[int, ...],
    axes: list[Tensor],
    block: Callable[..., Tensor],
) -> Tensor:
    """Cell by cell: each axis's coordinate of every wanted cell, then the cells of each tile."""
    spread = [
        axis.view(-1, *(1,) * (len(shape) - 1 - n)).expand(shape)[wanted]
        for n, axis in enumerate(axes)
    ]
    place = spread[0].shape
    unit = torch.zeros(place, dtype=torch.int64, device=axes[0].device)
    for size, coordinate in zip(shape[:-2], spread[:-2], strict=True):
        unit = unit * size + coordinate
    unit, row, col = unit.reshape(-1), spread[-2].reshape(-1), spread[-1].reshape(-1)
    strip = unit * (shape[-2] // _ROWS_AT_ONCE + 1) + row // _ROWS_AT_ONCE
    order = strip.argsort(stable=True)
    counts = torch.unique_consecutive(strip[order], return_counts=True)[1].tolist()
    parts = []
    for members in torch.split(order, counts):
        rows, at_row = torch.unique(row[members], return_inverse=True)
        cols, at_col = torch.unique(col[members], return_inverse=True)
        parts.append(block(Place(unit[members[:1]], rows, cols))[0, at_row, at_col])
    if not parts:
        return block(Place(unit, row, col)).reshape(place)
    return torch.cat(parts)[order.argsort()].reshape(place)


def _product(sizes: tuple[int, ...]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total
