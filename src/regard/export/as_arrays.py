"""Arrays of a recording by name: P0/L5H1/lse, P0/statistics/sink, P0/tokens/ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.export.arrays import Named
from regard.recording import PromptView
from regard.recording.pieces import Run
from regard.views.parts import HeadPart, check_exact, heaviest, known_rows, received

_Array: TypeAlias = NDArray[Any]

MOST_BYTES: Final = 8 << 30  # of weights
# What needs no computation, where a recording holds the tensor of that name.
KEPT: Final = {
    "statistics": "", "rows": "lse", "top": "top_weights", "received": "received",
    "pooled": "pooled",
}  # fmt: skip
_F32: Final = np.dtype(np.float32)


def make_arrays(what: Sequence[str] | None, chosen: Sequence[HeadPart], top: int) -> list[Named]:
    """Everything that was asked for, or all that was kept; ids of tokens come along."""
    found = [
        _array(f"P{prompt.number}/tokens/ids", partial(np.asarray, prompt.ids))
        for prompt in _prompts(chosen)
    ]
    for name in KEPT if what is None else what:
        heads = [one for one in chosen if what or not KEPT[name] or one.head.has(KEPT[name])]
        found += ARRAYS[name](heads, top)
    return list({one.name: one for one in found}.values())  # lse is among the rows' numbers too


def about(chosen: Sequence[HeadPart], model: dict[str, Any]) -> dict[str, str]:
    """The model, the tokens' texts and, where positions are not those of a text alone, the axes of
    each place (`regard.axes.Axis.from_json` reads them), as JSON."""
    tokens = {f"P{one.number}/tokens": json.dumps(one.tokens) for one in _prompts(chosen)}
    axes = {
        f"P{one.prompt.number}/{one.head.place.label}/axes": json.dumps(
            {"query": one.head.query_axis.to_json(), "key": one.head.key_axis.to_json()}
        )
        for one in chosen
        if not (one.head.query_axis.is_text and one.head.key_axis.is_text)
    }
    return {"model": json.dumps(model), **tokens, **axes}


def _prompts(chosen: Sequence[HeadPart]) -> list[PromptView]:
    return list({one.prompt.number: one.prompt for one in chosen}.values())


def _array(name: str, make: Callable[[], _Array]) -> Named:
    """Made once for its size and again when it is written: what is kept is mapped, not held."""
    made = make()
    return Named(name, made.shape, made.dtype, make)


def _statistics(chosen: Sequence[HeadPart], _: int) -> Iterator[Named]:
    for prompt in _prompts(chosen):
        for stack, shape in prompt.stacks.items():
            before = f"P{prompt.number}/{stack}/" if stack else f"P{prompt.number}/"
            for name in prompt.statistic_kinds:
                make = partial(prompt.grid, name, stack)
                yield Named(f"{before}statistics/{name}", shape, np.dtype(np.float64), make)


def _rows(chosen: Sequence[HeadPart], _: int) -> Iterator[Named]:
    for one in chosen:
        edges, known = known_rows(one)
        for name, make in known.items():
            yield _array(f"{one.name}/{name}", make)
        if _is_binned(edges, one.rows):
            yield _array(f"{one.name}/row_edges", partial(np.asarray, edges))


def _is_binned(edges: _Array, span: range) -> bool:
    return edges.size <= len(span) or edges[0] != span.start or edges[-1] != span.stop


def _lse(chosen: Sequence[HeadPart], _: int) -> Iterator[Named]:
    for one in chosen:
        yield _array(f"{one.name}/lse", partial(_lse_of, one))


def _lse_of(one: HeadPart) -> _Array:
    return np.asarray(one.head.lse)[one.own_rows]


def _top(chosen: Sequence[HeadPart], k: int) -> Iterator[Named]:
    for one in chosen:
        parts = ["keys", "weights"]
        if heaviest(one, k).rows.size < len(one.rows):
            parts.append("rows")
        for part in parts:
            yield _array(f"{one.name}/top_{part}", partial(_top_of, one, k, part))


def _top_of(one: HeadPart, k: int, part: str) -> _Array:
    return np.asarray(getattr(heaviest(one, k), part))


def _received(chosen: Sequence[HeadPart], _: int) -> Iterator[Named]:
    for one in chosen:
        edges, mass = received(one)
        yield _array(f"{one.name}/received", mass)
        if _is_binned(edges, one.keys):
            yield _array(f"{one.name}/received_edges", partial(np.asarray, edges))


def _pooled(chosen: Sequence[HeadPart], _: int) -> Iterator[Named]:
    for one in chosen:
        yield _array(f"{one.name}/pooled", partial(_pooled_of, one))


def _pooled_of(one: HeadPart) -> _Array:
    """The map that was kept; else one of at most 512 cells a side."""
    own = one.head.place.pool_cell
    return np.asarray(one.head.pooled(own if one.head.has("pooled") and own else None))


def _weights(chosen: Sequence[HeadPart], _: int) -> Iterator[Named]:
    size = sum(len(one.rows) * len(one.keys) for one in chosen) * _F32.itemsize
    if size > MOST_BYTES:
        raise InputError(
            f"weights: {size / 2**30:.1f} GiB, more than {MOST_BYTES >> 30}; name fewer heads, "
            "rows or keys"
        )
    for one in chosen:
        check_exact(one)
        shape = len(one.rows), len(one.keys)
        yield Named(f"{one.name}/weights", shape, _F32, partial(_weights_of, one))


def _weights_of(one: HeadPart) -> _Array:
    return np.asarray(one.head[one.rows.start : one.rows.stop, one.own_keys])


def _qk(chosen: Sequence[HeadPart], _: int) -> Iterator[Named]:
    """Queries of each head, and each key head once: P0/L5H1/q, P0/L5K0/k."""
    modules: dict[tuple[int, str], list[HeadPart]] = {}
    for one in chosen:
        modules.setdefault((one.prompt.number, one.head.place.label), []).append(one)
    for heads in modules.values():
        place = heads[0].head.place
        held = heads[0].prompt.held(place.label)
        for one in heads:
            check_exact(one)
            yield _taken(f"{one.name}/q", held.runs["q"], held.slot(one.head.head), one.rows)
        for at in sorted({held.key_head(one.head.head) for one in heads}):
            name = f"P{heads[0].prompt.number}/{place.label}K{at}/k"
            yield _taken(name, held.runs["k"], at, heads[0].keys)


def _taken(name: str, run: Run, at: int, span: range) -> Named:
    dim = run.take(at, span.start, span.start + 1).shape[-1]
    return Named(name, (len(span), dim), _F32, partial(run.take, at, span.start, span.stop))


ARRAYS: Final[dict[str, Callable[[Sequence[HeadPart], int], Iterator[Named]]]] = {
    "statistics": _statistics,
    "rows": _rows,
    "lse": _lse,
    "top": _top,
    "received": _received,
    "pooled": _pooled,
    "weights": _weights,
    "qk": _qk,
}
