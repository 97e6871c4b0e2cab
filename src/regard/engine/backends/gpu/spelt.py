"""Any mask as bits: what it allows, in squares of 128 × 128 cells.

    squares    none of it, all of it, or the place of its bits, for each square
    bits       2 KiB for each square that is neither
    walks      for each row of squares, those that somebody sees something of; for columns likewise

Every tile that a kernel walks over lies in one square, so a sweep goes from one square that matters
to the next. A mask is asked some rows at a time. All of it takes 256 MiB at most.

Where bits for every square would take little, or what is made cannot be kept (the mask holds
arrays, whose contents may change, or a function of things that may; a CUDA graph is being
captured), every square has a place and
nothing is fetched from the device. Elsewhere squares that need a place are counted, for which the
host waits once, and what is made is kept for the next call with the same mask and sizes.
"""

from __future__ import annotations

import inspect
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.declare import Declared
from regard.engine.torch_state import capturing, unwatched
from regard.mask import Extent, Mask

SIDE = 128
NOBODY, EVERYBODY = -1, -2

MOST = 2**28  # bytes of one mask, and of all that are kept
_LITTLE = 2**24  # bytes, below which nothing is counted
_MANY = 16  # masks that are kept
_CELLS = 2**24  # that are asked about at once
_BYTES = SIDE * SIDE // 8  # of a square


class Spelt(NamedTuple):
    """(*lead, R, C) squares, in which a ragged one is as large as the mask is there."""

    squares: Tensor  # (*lead, R, C) int32: NOBODY, EVERYBODY or a place among the bits
    bits: Tensor  # (places, 128, 16) uint8: key j of a row is bit j % 8 of byte j // 8
    by_query: Tensor  # (*lead, R, 1 + C) int32: keys to walk over; squares that hold them, in order
    by_key: Tensor  # (*lead, C, 1 + R) int32: the same of queries

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(part.numel() * part.element_size() for part in self)


_KEPT: OrderedDict[Any, Spelt | int] = OrderedDict()  # or how many bytes are too many


def spelt_out(mask: Mask, extent: Extent, device: torch.device) -> Spelt | int:
    """What a mask allows; how many bytes that takes where these are too many."""
    meaning = lasting_meaning(mask)
    name = None if meaning is None else (mask, meaning, extent, device)
    found = None if name is None else _KEPT.get(name)
    if found is None:
        amid = capturing(device)
        with torch.inference_mode(False):  # what is kept serves calls of any mode
            found = _made(mask, extent, device, name is not None, amid)
        # what a CUDA graph captures lives in the graph's own memory
        if name is not None and not amid:
            _keep(name, found)
    return found


def too_many_bytes(mask: Mask, extent: Extent, device: str) -> int | None:
    """What `spelt_out` would take where that is too much; else None. By shapes alone: arrays may
    hold anything. Only a mask without arrays that has too many squares to give each a place is
    made here and now, so that they are counted; where that cannot be, as while torch traces or
    captures, it counts as too large."""
    empty = mask.map(lambda array: torch.zeros(array.shape, dtype=array.dtype, device="cpu"))
    size = _most_bytes(_lead(empty, extent, torch.device("cpu")), extent)
    if size <= MOST:
        return None
    here = _device(device)
    if here is None or lasting_meaning(mask) is None or not unwatched(()) or capturing(here):
        return size
    found = spelt_out(mask, extent, here)
    return found if isinstance(found, int) else None


def _device(kind: str) -> torch.device | None:
    """The device of a kind that kernels run on."""
    if kind == "cuda" and torch.cuda.is_available():
        return torch.device(kind, torch.cuda.current_device())
    return torch.device(kind) if kind == "cpu" else None


def lasting_meaning(mask: Mask) -> tuple[Any, ...] | None:
    """What a mask means beside its own value: the numbers, and the states of the tensors, that its
    functions close over. None where it may mean something else without a trace: it holds an
    array, or a function of anything else."""
    try:
        hash(mask)
        return None if any(True for _ in mask.arrays()) else tuple(map(_state_of, _functions(mask)))
    except (TypeError, ValueError, _MayChangeError):  # no hash; a name that has no value yet
        return None


class _MayChangeError(Exception):
    """A function depends on what can change unseen."""


class _Same:
    """A tensor as itself, whatever it holds; kept, so that no other has its identity."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.tensor is other.tensor

    def __hash__(self) -> int:
        return id(self.tensor)


_CONSTANTS = (
    bool, int, float, str, type(None), type, ModuleType, BuiltinFunctionType, torch.dtype,
    torch.device,
)  # fmt: skip


def _functions(mask: Declared) -> Iterator[Callable[..., Any]]:
    for name, kind, *_ in mask._plan:
        if kind == "constant" and callable(given := getattr(mask, name)):
            yield given
    for part in mask.parts():
        yield from _functions(part)


def _state_of(given: Any, above: tuple[Any, ...] = ()) -> Any:
    """Equal where a function returns the same; `above` are those that lead to it."""
    if isinstance(given, Tensor) and not given.is_inference():
        return _Same(given), given._version
    if isinstance(given, tuple):
        return type(given), *(_state_of(part, above) for part in given)
    if isinstance(given, _CONSTANTS):
        return type(given), given
    if not isinstance(given, FunctionType):
        raise _MayChangeError
    if given in above:
        return given
    held = inspect.getclosurevars(given)
    names = {**held.globals, **held.nonlocals}
    defaults = (given.__defaults__ or (), tuple((given.__kwdefaults__ or {}).values()))
    return given, *(_state_of(part, (*above, given)) for part in (*names.values(), *defaults))


def _keep(name: Any, found: Spelt | int) -> None:
    _KEPT[name] = found
    while len(_KEPT) > _MANY or _size_of_all() > MOST:
        _KEPT.popitem(last=False)


def _size_of_all() -> int:
    return sum(one.size for one in _KEPT.values() if isinstance(one, Spelt))


# ── making ───────────────────────────────────────────────────────────────────────────────────


def _along(tokens: int) -> int:
    return -(-tokens // SIDE)


def _bytes(lead: tuple[int, ...], extent: Extent, places: int) -> int:
    down, across = _along(extent.queries), _along(extent.keys)
    return math.prod(lead) * 4 * (3 * down * across + down + across) + places * _BYTES


def _most_bytes(lead: tuple[int, ...], extent: Extent) -> int:
    """With a place for every square."""
    return _bytes(lead, extent, math.prod(lead) * _along(extent.queries) * _along(extent.keys))


def _lead(mask: Mask, extent: Extent, device: torch.device) -> tuple[int, ...]:
    """The mask's axes before queries and keys, from what it says of one cell."""
    i, j = (torch.arange(min(n, 1), device=device) for n in (extent.queries, extent.keys))
    return tuple(mask.allows(i, j, extent).shape[:-2])


def _made(
    mask: Mask, extent: Extent, device: torch.device, lasting: bool, amid: bool
) -> Spelt | int:
    """In bytes where that is too much."""
    lead = _lead(mask, extent, device)
    most = _most_bytes(lead, extent)
    if amid or not lasting or most <= _LITTLE:
        # one that was counted and has been forgotten since is not refused amid a capture
        if most > MOST and not (amid and lasting):
            return most
        return _with_every_place(mask, extent, lead, device)
    return _with_some_places(mask, extent, lead, device)


def _with_every_place(
    mask: Mask, extent: Extent, lead: tuple[int, ...], device: torch.device
) -> Spelt:
    """Nothing is fetched; the mask is asked once."""
    size = (*lead, _along(extent.queries), _along(extent.keys))
    seen = torch.empty(size, dtype=torch.int32, device=device)
    bits = torch.empty((*size, SIDE, SIDE // 8), dtype=torch.uint8, device=device)
    for rows, part in _strips(mask, extent, lead, device):
        seen[..., rows, :] = part.sum((-2, -1), dtype=torch.int32)
        bits[..., rows, :, :, :] = _packed(part)
    places = torch.arange(seen.numel(), dtype=torch.int32, device=device).view(size)
    return _spelt(seen, places, bits.flatten(0, -3), extent)


def _with_some_places(
    mask: Mask, extent: Extent, lead: tuple[int, ...], device: torch.device
) -> Spelt | int:
    """The host waits for one number; the mask is asked twice."""
    size = (*lead, _along(extent.queries), _along(extent.keys))
    seen = torch.empty(size, dtype=torch.int32, device=device)
    for rows, part in _strips(mask, extent, lead, device):
        seen[..., rows, :] = part.sum((-2, -1), dtype=torch.int32)
    partial = _is_partial(seen, extent)
    many = int(partial.sum())
    taken = _bytes(lead, extent, many + 1)
    if taken > MOST:
        return taken
    places = (partial.flatten().cumsum(0) - 1).view(size).to(torch.int32)
    # squares that need no place are written to the last one
    bits = torch.empty((many + 1, SIDE, SIDE // 8), dtype=torch.uint8, device=device)
    target = places.to(torch.int64).masked_fill(~partial, many)
    for rows, part in _strips(mask, extent, lead, device):
        bits[target[..., rows, :].flatten()] = _packed(part).flatten(0, -3)
    return _spelt(seen, places, bits, extent)


def _strips(
    mask: Mask, extent: Extent, lead: tuple[int, ...], device: torch.device
) -> Iterator[tuple[slice, Tensor]]:
    """Some rows of squares, and what the mask allows there, (*lead, rows, C, 128, 128)."""
    down, across = _along(extent.queries), _along(extent.keys)
    step = max(1, _CELLS // max(1, math.prod(lead) * extent.keys * SIDE))
    j = torch.arange(extent.keys, device=device)
    for start in range(0, down, step):
        stop = min(start + step, down)
        i = torch.arange(start * SIDE, min(stop * SIDE, extent.queries), device=device)
        seen = mask.allows(i, j, extent).expand(*lead, len(i), extent.keys)
        part = seen.new_zeros((*lead, (stop - start) * SIDE, across * SIDE))
        part[..., : len(i), : extent.keys] = seen
        squares = part.view(*lead, stop - start, SIDE, across, SIDE).transpose(-3, -2)
        yield slice(start, stop), squares


def _packed(part: Tensor) -> Tensor:
    """(…, 128, 128) booleans → (…, 128, 16) bytes."""
    eight = part.view(torch.uint8).view(*part.shape[:-1], SIDE // 8, 8)
    place = torch.arange(8, dtype=torch.uint8, device=part.device)
    return (eight << place).sum(-1, dtype=torch.uint8)


def _inside(tokens: int, device: torch.device) -> Tensor:
    """How many tokens each row of squares has: the last may be short."""
    start = torch.arange(_along(tokens), dtype=torch.int32, device=device) * SIDE
    return (tokens - start).clamp(max=SIDE)


def _is_partial(seen: Tensor, extent: Extent) -> Tensor:
    tall, wide = (_inside(n, seen.device) for n in (extent.queries, extent.keys))
    return (seen > 0) & (seen < tall[:, None] * wide)


def _spelt(seen: Tensor, places: Tensor, bits: Tensor, extent: Extent) -> Spelt:
    """From the number of cells that are seen of each square."""
    squares = torch.where(seen > 0, EVERYBODY, NOBODY).to(torch.int32)
    squares = torch.where(_is_partial(seen, extent), places, squares)
    return Spelt(squares, bits, _walk(seen, extent.keys), _walk(seen.mT, extent.queries))


def _walk(seen: Tensor, tokens: int) -> Tensor:
    """(…, R, C) → (…, R, 1 + C). The last square in a list may be short, so that the number of
    tokens before it is a multiple of 128."""
    there = seen > 0
    order = (~there).to(torch.uint8).argsort(dim=-1, stable=True)
    length = (there * _inside(tokens, seen.device)).sum(-1, keepdim=True)
    return torch.cat([length, order], -1).to(torch.int32)
