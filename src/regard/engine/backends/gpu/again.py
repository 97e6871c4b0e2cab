"""A row sweep that is launched again as it was before: the calls of a model are alike.

What a sweep prepares (the rule, strides, which kernel is meant, its arguments) depends on sizes,
strides, dtypes, the mask's value and the questions, not on the numbers. So of a sweep that was one
launch, its arguments are kept, with the places of q, k, v and of what is written; the next call
alike allocates what is written, fills the places in, and launches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.engine.backend import RowAnswers
from regard.engine.backends.gpu.launch import Launch, interpreting, launches, start
from regard.engine.call import Call, RowState
from regard.summary import Summary

_MANY = 1024  # kinds of calls
_ALIGNED = 16  # bytes; kernels are compiled for pointers that are so, and for others

_KEPT: dict[Any, Kept | None] = {}  # None: a sweep that cannot be repeated so
_NEW = object()


class Written(NamedTuple):
    """A tensor that the sweep writes."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class Kept(NamedTuple):
    """One launch. Places of tensors count q, k and v first, then what is written."""

    launch: Launch
    places: tuple[tuple[int, Callable[[Sequence[Tensor]], Any]], ...]  # argument, from tensors
    written: tuple[Written, ...]  # output where there is one, peak, log, then the measures'
    output: bool
    measures: tuple[Summary, ...]

    def again(self, call: Call) -> RowAnswers:
        """The same launch over the tensors of another call."""
        device = call.query.device
        made = [torch.empty(s, dtype=kind, device=device) for s, kind in self.written]
        tensors = (call.query, call.key, call.value, *made)
        args = list(self.launch.args)
        for place, fill in self.places:
            args[place] = fill(tensors)
        start(self.launch.compiled, self.launch.grid, args)
        output = made.pop(0) if self.output else None
        numbers = dict(zip(self.measures, made[2:], strict=True))
        return RowAnswers(output, RowState(made[0], made[1]), {**numbers})


def rows_again(
    name: str,
    call: Call,
    output: bool,
    measures: tuple[Summary, ...],
    sweep: Callable[[], RowAnswers],
) -> RowAnswers:
    """The sweep, by what was kept of one alike where there is such."""
    key = _key(name, call, output, measures)
    kept = None if key is None else _KEPT.get(key, _NEW)
    if isinstance(kept, Kept):
        return kept.again(call)
    # a tensor given twice would not tell which of its places is meant
    if kept is None or len({id(call.query), id(call.key), id(call.value)}) < 3:
        return sweep()
    with launches() as seen:
        found = sweep()
    if len(_KEPT) >= _MANY:
        _KEPT.clear()  # others may do so at any time too
    _KEPT[key] = _kept(seen, call, found, measures)
    return found


def _key(name: str, call: Call, output: bool, measures: tuple[Summary, ...]) -> Any:
    """Everything a launch depends on but the numbers in q, k and v; None where that is more."""
    mask, score, query = call.mask, call.score, call.query
    if not (mask is None or mask.is_flat) or score.bias is not None or score.sink is not None:
        return None
    if query.ndim != 4 or query.dtype == torch.float64 or interpreting():
        return None
    tensors = (query, call.key, call.value)
    if any(t.requires_grad for t in tensors):
        return None
    return (
        name, call.shape, mask, score.scale, score.softcap, call.place, query.device,
        output, measures,
        *[(t.dtype, t.stride(), t.data_ptr() % _ALIGNED == 0) for t in tensors],
    )  # fmt: skip


def _kept(
    seen: Sequence[Launch], call: Call, found: RowAnswers, measures: tuple[Summary, ...]
) -> Kept | None:
    """None where it was not one launch of q, k, v and what it wrote."""
    made = [*([] if found.output is None else [found.output]), *found.state]
    numbers = [found.measured.get(m) for m in measures]
    if len(seen) != 1 or not all(isinstance(number, Tensor) for number in numbers):
        return None
    made += numbers  # type: ignore[arg-type]
    where = {id(t): n for n, t in enumerate((call.query, call.key, call.value, *made))}
    launch, places = seen[0], []
    for n, arg in enumerate(launch.args):
        if _holds_tensors(arg):
            fill = _filler(arg, where)
            if fill is None:
                return None
            places.append((n, fill))
    args = tuple(None if _holds_tensors(arg) else arg for arg in launch.args)
    written = tuple(Written(tuple(t.shape), t.dtype) for t in made)
    launch = launch._replace(args=args)
    return Kept(launch, tuple(places), written, found.output is not None, measures)


def _holds_tensors(arg: Any) -> bool:
    return isinstance(arg, Tensor) or (isinstance(arg, tuple) and any(map(_holds_tensors, arg)))


def _filler(arg: Any, where: dict[int, int]) -> Callable[[Sequence[Tensor]], Any] | None:
    """From a call's tensors to an argument; None where it holds another tensor."""
    if isinstance(arg, Tensor):
        at = where.get(id(arg))
        return None if at is None else lambda tensors: tensors[at]
    fills: list[Any] = []
    for part in arg:
        fill = _filler(part, where) if _holds_tensors(part) else _constant(part)
        if fill is None:
            return None
        fills.append(fill)
    make = getattr(type(arg), "_make", tuple)
    return lambda tensors: make([fill(tensors) for fill in fills])


def _constant(value: Any) -> Callable[[Sequence[Tensor]], Any]:
    return lambda _: value
