"""What a sweep did, as steps that do the same over other tensors.

A step works on places: on the tensors given, on the tensors made for the answer, and in one piece
of memory in which everything else stands, each part of it for as long as it is used. To go through
the steps again is to allocate, to fill a table of addresses, and to launch (`driver`).

What steps cannot say is a tensor from elsewhere and a number fetched from the GPU.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from regard.engine.backends.gpu import driver
from regard.engine.backends.gpu.launch import Launch

_APART = 256  # bytes that parts of the memory begin at, as torch's own tensors do
_WIDE = ctypes.sizeof(ctypes.c_uint64)

_aten = torch.ops.aten
_ALLOCATING = {
    _aten.empty.memory_format, _aten.empty_strided.default, _aten.new_empty.default,
    _aten.new_empty_strided.default, _aten.empty_like.default,
}  # fmt: skip
_ZEROS = {_aten.zeros.default, _aten.new_zeros.default, _aten.zeros_like.default}


class Operation(NamedTuple):
    """One of torch's, with what came of it."""

    function: Any
    args: tuple[Any, ...]
    options: dict[str, Any]
    found: Any


class Made(NamedTuple):
    """A tensor to allocate."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


class Workspace:
    """What steps work on: tensors by their number, and the addresses of places."""

    def __init__(self, steps: SweepSteps, given: Sequence[Tensor]) -> None:
        device = given[0].device
        made = [torch.empty_strided(s, t, dtype=d, device=device) for s, t, d in steps.made]
        memory = torch.empty(steps.memory, dtype=torch.uint8, device=device)
        self.tensors: list[Any] = [memory, *given, *made, *[None] * steps.computed]
        starts = [0 if one is None else one.data_ptr() for one in self.tensors]
        self.places, self.addresses = steps.places, steps.addresses
        self.addresses[:] = [starts[number] + offset for number, offset in self.places]
        self.stream = stream_of(device)

    def put(self, number: int, tensor: Tensor) -> None:
        """A tensor that a step computed."""
        self.tensors[number] = tensor
        start = tensor.data_ptr()
        for n, (owner, offset) in enumerate(self.places):
            if owner == number:
                self.addresses[n] = start + offset


def stream_of(device: torch.device) -> int:
    """The stream that torch works on now, as the driver calls it: without the object that
    `torch.cuda.current_stream` makes around it."""
    found: int = torch._C._cuda_getCurrentRawStream(device.index)
    return found


Step = Callable[[Workspace], None]
Fill = Callable[[Sequence[Any]], Any]  # from tensors by their number


class SweepSteps:
    """Of one kind of sweep. Numbers of tensors: the memory, those given, those made, those that
    steps compute."""

    def __init__(self, plan: _Planner, drafts: Sequence[Any], found: Any) -> None:
        self.made, self.computed, self.memory = plan.number()
        self.finish = plan.answer(found)
        tables = [plan.stand(draft) for draft in drafts]
        self.places = tuple(plan.places)
        self.addresses = (ctypes.c_uint64 * len(self.places))()
        self.steps = tuple(stand(self.addresses) for stand in tables)
        self._lock = threading.RLock()  # of the addresses

    def again(self, given: Sequence[Tensor]) -> Any:
        """The same sweep over other tensors."""
        with self._lock:
            held = Workspace(self, given)
            for step in self.steps:
                step(held)
        return self.finish(held.tensors)


def steps_of(given: Sequence[Tensor], seen: Sequence[Any], found: Any) -> SweepSteps | None:
    """From what was seen of a sweep, launches and operations; None where steps cannot say it."""
    plan = _Planner(given)
    try:
        drafts = [plan.draft(n, one) for n, one in enumerate(seen)]
        for one in _tensors(found):
            plan.show(one, len(seen))
    except _CannotRepeatError:
        return None
    return SweepSteps(plan, [draft for draft in drafts if draft is not None], found)


class _CannotRepeatError(Exception):
    """A sweep does what steps cannot say."""


class _Storage:
    """What a tensor stands on. In the memory, unless it was given or somebody must see it as a
    tensor."""

    def __init__(self, made: Made, size: int, step: int) -> None:
        self.made, self.bytes = made, size
        self.first = self.last = step
        self.is_tensor = self.is_computed = False
        self.number = self.offset = 0  # of the tensor; in the memory, which is tensor 0


class _Standing(NamedTuple):
    piece: _Storage
    offset: int  # bytes


class _Clear(NamedTuple):
    spot: _Standing
    size: int


class _Start(NamedTuple):
    kernel: driver.Kernel
    grid: tuple[int, int, int]
    told: list[Any]  # spots and numbers
    own: _Standing | None  # memory of the programs


class _Compute(NamedTuple):
    operation: Operation
    results: list[_Storage | None]  # None: one that was there before


class _Planner:
    """First every tensor gets a spot, and it is found who must be a tensor and how long each piece
    is used (`draft`, `show`); then numbers are given, and steps made of the drafts."""

    def __init__(self, given: Sequence[Tensor]) -> None:
        self.spots: dict[int, _Standing] = {}
        self.pieces: list[_Storage] = []
        self.given = len(given)
        for n, one in enumerate(given):
            if id(one) not in self.spots:
                piece = _Storage(_made(one), 0, 0)
                piece.number = 1 + n
                self.spots[id(one)] = _Standing(piece, 0)
        self.places: dict[tuple[int, int], int] = {}  # tensor, bytes from its start → which place

    # ── spots ────────────────────────────────────────────────────────────────────────────────

    def draft(self, n: int, seen: Any) -> _Clear | _Start | _Compute | None:
        """What one thing that was seen will be; None where nothing has to be done."""
        if isinstance(seen, Launch):
            return self._start(n, seen)
        function, args, options, found = seen
        given = _tensors((args, options))
        for one in given:
            self._use(one, n)
        if function in _ALLOCATING:
            self._allocate(found, n)
            return None
        if function in _ZEROS:
            self._allocate(found, n)
        if function in _ZEROS or (function is _aten.zero_.default and found.is_contiguous()):
            size = found.numel() * found.element_size()
            return _Clear(self.spots[id(found)], size) if size else None
        if len(given) == 1 and _is_seen_otherwise(function, given[0], found):
            spot, moved = self.spots[id(given[0])], found.data_ptr() - given[0].data_ptr()
            self.spots[id(found)] = _Standing(spot.piece, spot.offset + moved)
            return None
        for one in given:
            self.show(one, n)
        results = found if isinstance(found, tuple | list) else [found]
        if not all(isinstance(one, Tensor) for one in results):
            if not given:
                return None  # about dtypes and the like
            raise _CannotRepeatError  # a number, which will be another next time
        fresh = [self._computed(one, n) if id(one) not in self.spots else None for one in results]
        return _Compute(seen, fresh)

    def _start(self, n: int, seen: Launch) -> _Start:
        kernel = driver.kernel_of(seen.compiled)
        told = driver.parameters(seen.compiled, seen.args)
        if kernel is None or told is None:
            raise _CannotRepeatError
        x, y, z = (*seen.grid, 1, 1)[:3]
        own = None
        if kernel.scratch:
            size = kernel.scratch * x * y * z
            own = _Standing(_Storage(Made((size,), (1,), torch.uint8), size, n), 0)
            self.pieces.append(own.piece)
        spots = [self._use(one, n) if isinstance(one, Tensor) else one for one in told]
        return _Start(kernel, (x, y, z), spots, own)

    def _allocate(self, tensor: Tensor, n: int) -> _Standing:
        piece = _Storage(_made(tensor), tensor.untyped_storage().nbytes(), n)
        self.pieces.append(piece)
        self.spots[id(tensor)] = _Standing(piece, 0)
        return self.spots[id(tensor)]

    def _computed(self, tensor: Tensor, n: int) -> _Storage:
        piece = self._allocate(tensor, n).piece
        piece.is_tensor = piece.is_computed = True
        return piece

    def _use(self, tensor: Tensor, n: int) -> _Standing:
        spot = self.spots.get(id(tensor))
        if spot is None:
            raise _CannotRepeatError
        spot.piece.last = n
        return spot

    def show(self, tensor: Tensor, n: int) -> None:
        """It must be there as a tensor."""
        spot = self._use(tensor, n)
        spot.piece.is_tensor = True
        if tensor.dtype != spot.piece.made.dtype:
            raise _CannotRepeatError

    def _is_whole(self, tensor: Tensor) -> bool:
        piece, offset = self.spots[id(tensor)]
        return not offset and piece.made == _made(tensor)

    # ── numbers ──────────────────────────────────────────────────────────────────────────────

    def number(self) -> tuple[tuple[Made, ...], int, int]:
        """Tensors to make, how many steps compute, bytes of the memory."""
        made = [piece for piece in self.pieces if piece.is_tensor and not piece.is_computed]
        computed = [piece for piece in self.pieces if piece.is_computed]
        for n, piece in enumerate((*made, *computed)):
            piece.number = 1 + self.given + n
        rest = [piece for piece in self.pieces if not piece.is_tensor]
        return tuple(piece.made for piece in made), len(computed), _arrange(rest)

    def _place(self, spot: _Standing) -> int:
        piece, offset = spot
        name = piece.number, piece.offset + offset
        return self.places.setdefault(name, len(self.places))

    # ── steps ────────────────────────────────────────────────────────────────────────────────

    def stand(self, draft: _Clear | _Start | _Compute) -> Callable[[Any], Step]:
        """A step, once it is known where addresses stand."""
        if isinstance(draft, _Start):
            return self._launching(draft)
        if isinstance(draft, _Clear):
            at, size = self._place(draft.spot), draft.size
            return lambda _: lambda held: driver.clear(held.addresses[at], size, held.stream)
        return self._computing(draft)

    def _launching(self, draft: _Start) -> Callable[[Any], Step]:
        kernel, grid, told, own = draft
        zero = ctypes.c_uint64(0)
        parameters = [self._place(one) if isinstance(one, _Standing) else one for one in told]
        parameters += [zero if own is None else self._place(own), zero]

        def launching(addresses: Any) -> Step:
            start = ctypes.addressof(addresses)
            stand = [
                start + one * _WIDE if isinstance(one, int) else ctypes.addressof(one)
                for one in parameters
            ]
            table = (ctypes.c_void_p * len(stand))(*stand)
            # the numbers stand where the table says for as long as the step is there
            return partial(_launch, kernel, grid, table, parameters)

        return launching

    def _computing(self, draft: _Compute) -> Callable[[Any], Step]:
        function, args, options, found = draft.operation
        flat, tree = tree_flatten((args, options))
        fills = [self.fill(one) for one in flat]
        targets = [None if piece is None else piece.number for piece in draft.results]
        several = isinstance(found, tuple | list)

        def step(held: Workspace) -> None:
            args, options = tree.unflatten([fill(held.tensors) for fill in fills])
            got = function(*args, **options)
            for target, one in zip(targets, got if several else [got], strict=True):
                if target is not None:
                    held.put(target, one)

        return lambda _: step

    def fill(self, one: Any) -> Fill:
        """What stands for one argument, or part of the answer."""
        if not isinstance(one, Tensor):
            return lambda _: one
        (piece, offset), size, stride = self.spots[id(one)], tuple(one.shape), one.stride()
        number, start = piece.number, offset // one.element_size()
        if self._is_whole(one):
            return lambda tensors: tensors[number]

        def part(tensors: Sequence[Any]) -> Tensor:
            whole: Tensor = tensors[number]  # one that was given may begin anywhere
            return whole.as_strided(size, stride, whole.storage_offset() + start)

        return part

    def answer(self, found: Any) -> Fill:
        """Named tuples and dictionaries of tensors."""
        if isinstance(found, dict):
            named = {name: self.answer(one) for name, one in found.items()}
            return lambda tensors: {name: fill(tensors) for name, fill in named.items()}
        if isinstance(found, tuple | list):
            fills = [self.answer(one) for one in found]
            make = getattr(type(found), "_make", type(found))
            return lambda tensors: make([fill(tensors) for fill in fills])
        return self.fill(found)


def _launch(kernel: driver.Kernel, grid: Any, table: Any, alive: Any, held: Workspace) -> None:
    driver.launch(kernel, grid, table, held.stream)


def _made(tensor: Tensor) -> Made:
    return Made(tuple(tensor.shape), tensor.stride(), tensor.dtype)


def _arrange(pieces: Sequence[_Storage]) -> int:
    """Offsets such that pieces used at the same time lie apart; how many bytes that takes."""
    most, placed = 0, list[_Storage]()
    for piece in pieces:
        at = 0
        beside = (p for p in placed if p.first <= piece.last and piece.first <= p.last)
        for other in sorted(beside, key=lambda p: p.offset):
            if at + piece.bytes <= other.offset:
                break
            at = max(at, -(-(other.offset + other.bytes) // _APART) * _APART)
        piece.offset = at
        placed.append(piece)
        most = max(most, at + piece.bytes)
    return most


def _is_seen_otherwise(function: Any, given: Tensor, found: Any) -> bool:
    """Whether what came is what was given, and nothing was written. `contiguous` and `to` may be
    declared as views and still have copied."""
    returns = function._schema.returns
    alias = returns[0].alias_info if len(returns) == 1 else None
    if alias is None or alias.is_write:
        return False
    there = found.untyped_storage().data_ptr()
    return bool(there == given.untyped_storage().data_ptr())


def _tensors(value: Any) -> list[Tensor]:
    return list(_walk(value))


def _walk(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _walk(one)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _walk(one)
