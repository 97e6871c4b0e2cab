"""Contributions: what each key adds to an output, measured along a direction.

    C_ij = p_ij · ⟨x_i, y_j⟩        Σ_j C_ij = ⟨x_i, Σ_j p_ij y_j⟩, with y = v exactly ⟨x_i, o_i⟩

where p says how much of a key is taken and x what of it counts: the direction of an answer's logit,
or the gradient at the output. As lazy as the weights: C is never stored. Sums over rows and over
columns are products with A; everything else walks over strips of rows, which autograd computes
again when it needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.engine.call import Place
from regard.engine.indexing import read_cells
from regard.errors import DTypeError, InputError, ShapeError, StaleError
from regard.summary.base import TopKeys

if TYPE_CHECKING:
    from regard.engine.attention import Attention

_CELLS, _CELLS_OF_GPU = 2**22, 2**25  # of a strip; a GPU fills with many
_MOST_SQUARES = 512  # a side of a map, unless a size is given


class Contributions:
    """(…, Hq, L, S) signed numbers, one for each query and key, computed on request.

    Sums over queries leave out rows that do not count, as those of weights do.
    """

    def __init__(self, attention: Attention, x: Any, values: Any = None) -> None:
        shape = attention._call.shape
        self._attention = attention
        x, y = attention._factor(x), _values(attention, values)
        if attention._headless:
            x, y = (t.unsqueeze(-3) if t.ndim == 2 else t for t in (x, y))
        heads = shape.query_heads if y.shape[-3] == shape.query_heads else shape.key_heads
        self._y = _spread(y, (*shape.batch, heads), (shape.keys,), "values")
        self._x = _spread(x, (*shape.batch, shape.query_heads), (shape.queries, 1), "x")
        if self._x.shape[-1] != self._y.shape[-1]:
            raise ShapeError(
                f"x has {self._x.shape[-1]} numbers a row, values have {self._y.shape[-1]}; a "
                "direction has one for each number of a value"
            )
        self._group = shape.query_heads // max(heads, 1)
        self._given, self._versions = (x, y), _versions(x, y)

    @property
    def shape(self) -> tuple[int, ...]:
        """(…, Hq, L, S)."""
        return self._attention.shape

    @property
    def dtype(self) -> torch.dtype:
        """Of every answer: float32, or float64 for float64 inputs."""
        return self._attention.dtype

    def __getitem__(self, index: Any) -> Tensor:
        """Contributions of any slice, indexed as a tensor of this shape would be."""
        self._fresh()
        a = self._attention
        return read_cells(index, a.shape, a.device, lambda place: self._cells(a, place))

    def total(self) -> Tensor:
        """(…, Hq, L): the sum of each row, ⟨x, output⟩ where the values are the attention's."""
        self._fresh()
        exact = self._y.to(self.dtype).repeat_interleave(self._group, -3)
        a = self._attention._counting()
        product = a._implementation.apply(a._call, a._rows(), exact)
        return a._public((product * self._x.to(self.dtype)).sum(-1))

    def received(self) -> Tensor:
        """(…, Hq, S): what each key adds to all rows together."""
        self._fresh()
        a, x = self._attention._counting(), self._x.to(self.dtype)
        exact = self._y.to(self.dtype).repeat_interleave(self._group, -3)
        if x.shape[-2] == 1:  # one direction for all rows
            ones = x.new_ones(()).expand(*x.shape[:-2], a._call.shape.queries, 1)
            mass = a._implementation.apply_transposed(a._call, a._rows(), ones)
            return a._public((exact * x).sum(-1) * mass.squeeze(-1))
        product = a._implementation.apply_transposed(a._call, a._rows(), x)
        return a._public((product * exact).sum(-1))

    def top(self, k: int) -> TopKeys:
        """(…, Hq, L, k): .weights and .keys of the k contributions of each row that are largest in
        size, signed; equal sizes go to the smaller key."""
        if type(k) is not int or k < 1:
            raise InputError(f"top({k!r}): give a whole number ≥ 1")
        a = self._attention._counting()
        kept = min(k, a._call.shape.keys)

        def best(place: Place) -> tuple[Tensor, Tensor]:
            cells = self._cells(a, place)
            with torch.no_grad():
                scores = a._implementation.block(a._call, a._rows(), place, "scores")
                sizes = cells.detach().abs().masked_fill(scores == -torch.inf, -1.0)
                keys = _largest(sizes, kept)
                gone = sizes.gather(-1, keys) < 0
            return cells.gather(-1, keys).masked_fill(gone, 0.0), keys.masked_fill(gone, -1)

        weights, keys = self._by_strips(best, kept, kept)
        more = (0, k - kept)
        pad = torch.nn.functional.pad
        return TopKeys(a._public(pad(weights, more)), a._public(pad(keys, more, value=-1)))

    def map(self, rows: int | None = None, cols: int | None = None) -> Tensor:
        """(…, Hq, ⌈L/rows⌉, ⌈S/cols⌉): sums over squares of so many queries and keys; by default as
        many as make at most 512 squares a side."""
        a = self._attention._counting()
        sizes = []
        for given, n in ((rows, a._call.shape.queries), (cols, a._call.shape.keys)):
            if given is not None and (type(given) is not int or given < 1):
                raise InputError(f"map({rows!r}, {cols!r}): give whole numbers ≥ 1, or None")
            sizes.append(given or max(1, -(-n // _MOST_SQUARES)))
        tall, wide = sizes
        across = -(-a._call.shape.keys // wide)
        (sums,) = self._by_strips(lambda place: (_pooled(self._cells(a, place), wide),), across)
        return a._public(_pooled(sums.mT, tall).mT)

    def by(self, groups: Any) -> Tensor:
        """(…, Hq, L, G): sums over groups of keys, such as passages or turns; as in `mass`."""
        a = self._attention._counting()
        members = members_of(groups, a)
        of_units = members.expand(*a._call.shape.batch, a._call.shape.query_heads, -1, -1)
        flat = of_units.flatten(0, -3) if members.ndim > 2 else None

        def summed(place: Place) -> tuple[Tensor]:
            return (self._cells(a, place) @ (members if flat is None else flat[place.units]),)

        return a._public(self._by_strips(summed, members.shape[-1])[0])

    # ── cells and strips of them ─────────────────────────────────────────────────────────────

    def _cells(self, a: Attention, place: Place) -> Tensor:
        """(units, rows, cols)."""
        units, rows, cols = place
        x, y = self._x.flatten(0, -3)[units], self._y.flatten(0, -3)[units // self._group]
        x = x if x.shape[-2] == 1 else x[:, rows]
        along = x.to(self.dtype) @ y[:, cols].to(self.dtype).mT
        return a._implementation.block(a._call, a._rows(), place, "weights") * along

    def _by_strips(
        self, reduce: Callable[[Place], tuple[Tensor, ...]], *widths: int
    ) -> tuple[Tensor, ...]:
        """What `reduce` makes of whole rows, (units, rows, width) each, put together."""
        self._fresh()
        shape = self._attention._call.shape
        lead = (*shape.batch, shape.query_heads)
        tensors = [*self._attention._call.tensors(), *self._given]
        inputs = {id(t): t for t in tensors}.values()  # v, and whatever else is there twice, once
        learns = torch.is_grad_enabled() and any(t.requires_grad for t in inputs)
        again: Callable[..., tuple[Tensor, ...]] = _Again.apply

        def strip(place: Place) -> tuple[Tensor, ...]:
            return again(reduce, place, *inputs) if learns else reduce(place)

        made = []
        for places in self._places():
            parts = zip(*map(strip, places), strict=True)
            made.append([torch.cat(rows, 1) for rows in parts])
        whole = zip(*made, widths, strict=True)
        return tuple(
            torch.cat(units).reshape(*lead, shape.queries, width) for *units, width in whole
        )

    def _places(self) -> Iterator[list[Place]]:
        """Rows of some heads, strip by strip."""
        shape, device = self._attention._call.shape, self._attention.device
        sizes = prod(shape.batch) * shape.query_heads, shape.queries, shape.keys
        units, rows, cols = (torch.arange(n, device=device) for n in sizes)
        most = (_CELLS_OF_GPU if device.type == "cuda" else _CELLS) // max(shape.keys, 1)
        tall = min(max(most, 1), max(shape.queries, 1))
        for some in torch.split(units, max(most // tall, 1)):
            yield [Place(some, part, cols) for part in torch.split(rows, tall)]

    def _fresh(self) -> None:
        self._attention._fresh()
        if self._versions != _versions(*self._given):
            raise StaleError(
                "x or the values were changed in place after contributions(); ask before the "
                "change, or give clones"
            )

    def __repr__(self) -> str:
        return f"Contributions(shape={self.shape}, of {self._attention!r})"


class _Again(torch.autograd.Function):
    """A strip whose cells are not kept for the backward, but computed again in it."""

    @staticmethod
    def forward(ctx: Any, reduce: Callable[[Place], Any], place: Place, *inputs: Tensor) -> Any:
        made = reduce(place)
        ctx.reduce, ctx.place = reduce, place
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(*(t for t in made if not t.is_floating_point()))
        return made

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        learnt = [t for t in ctx.saved_tensors if t.requires_grad]
        with torch.enable_grad():
            made = zip(ctx.reduce(ctx.place), grads, strict=True)
        outputs, given = zip(*((t, grad) for t, grad in made if t.requires_grad), strict=True)
        of = iter(torch.autograd.grad(outputs, learnt, given, allow_unused=True))
        return None, None, *(next(of) if t.requires_grad else None for t in ctx.saved_tensors)


def members_of(groups: Any, attention: Attention) -> Tensor:
    """(S, G) or (*batch, 1, S, G): 1 where a key belongs to a group. `groups` are whole numbers,
    one a key, −1 for none; or ranges, slices or pairs (start, stop) of keys."""
    shape, device = attention._call.shape, attention.device
    if _are_spans(groups):
        inside = torch.zeros(len(groups), shape.keys, device=device, dtype=attention.dtype)
        for row, span in zip(inside, groups, strict=True):
            places = _range_of(span, shape.keys)
            if places and not 0 <= min(places) <= max(places) < shape.keys:
                raise InputError(f"{span!r} reaches past the keys; there are {shape.keys}")
            row[list(places)] = 1
        return inside.mT
    try:
        number = torch.as_tensor(groups, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise DTypeError(f"groups is a {type(groups).__name__}; give one number a key") from None
    if number.is_floating_point() or number.is_complex() or number.dtype == torch.bool:
        raise DTypeError(f"groups has dtype {number.dtype}; give whole numbers, −1 for no group")
    sizes = {(shape.keys,), (*shape.batch, shape.keys)}
    if tuple(number.shape) not in sizes:
        raise ShapeError(
            f"groups has shape {tuple(number.shape)}; give {' or '.join(map(str, sorted(sizes)))}"
        )
    many = int(number.max()) + 1 if number.numel() else 0
    members = number[..., None] == torch.arange(many, device=device)
    return (members if number.ndim == 1 else members.unsqueeze(-3)).to(attention.dtype)


def _are_spans(groups: Any) -> bool:
    kinds = (range, slice, tuple)
    return isinstance(groups, (list, tuple)) and all(isinstance(g, kinds) for g in groups)


def _range_of(span: Any, count: int) -> range:
    if isinstance(span, range):
        return span
    return range(*(span.indices(count) if isinstance(span, slice) else span))


def _values(attention: Attention, values: Any) -> Tensor:
    if values is not None:
        return attention._factor(values)
    call = attention._call
    if call.value.shape[-1] == 0:
        raise InputError("replay has no values; give them: contributions(x, values=v)")
    return call.value


def _spread(t: Tensor, lead: tuple[int, ...], counts: tuple[int, ...], name: str) -> Tensor:
    """(*lead, rows, M), where rows is one of the counts."""
    try:
        if t.ndim < 2 or t.shape[-2] not in counts:
            raise RuntimeError
        return t.expand(*lead, *t.shape[-2:])
    except RuntimeError:
        rows = " or ".join(map(str, dict.fromkeys(counts)))
        raise ShapeError(
            f"{name} has shape {tuple(t.shape)}; give {(*lead, '…', 'M')} with {rows} rows"
        ) from None


def _versions(*tensors: Tensor) -> tuple[int, ...]:
    if torch.compiler.is_compiling():
        return ()
    return tuple(-1 if t.is_inference() else t._version for t in tensors)


def _pooled(cells: Tensor, size: int) -> Tensor:
    """(…, C) → (…, ⌈C/size⌉)."""
    whole = torch.nn.functional.pad(cells, (0, -cells.shape[-1] % size))
    return whole.reshape(*whole.shape[:-1], whole.shape[-1] // size, size).sum(-1)


def _largest(sizes: Tensor, k: int) -> Tensor:
    """(…, k): places of the k largest, the largest first and the first of equals."""
    sizes = sizes.nan_to_num(nan=torch.inf, posinf=torch.inf)
    least = sizes.topk(k).values[..., -1:]
    above, level = sizes > least, sizes == least
    room = k - above.sum(-1, keepdim=True)
    chosen = above | (level & (level.cumsum(-1) <= room))
    places = chosen.nonzero()[:, -1].reshape(*sizes.shape[:-1], k)
    order = sizes.gather(-1, places).sort(dim=-1, descending=True, stable=True).indices
    return places.gather(-1, order)
