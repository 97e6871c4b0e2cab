"""Tables of a recording, tidy: one line a head, a row, a heaviest key, a key, or a weight."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.export.chosen import Chosen, by_place, check_exact
from regard.export.measures import (
    heaviest,
    known_numbers,
    received,
    row_edges,
    row_numbers,
)
from regard.export.tables import Chunk, Kind, Table

_Array: TypeAlias = NDArray[Any]

MOST_WEIGHTS: Final = 20_000_000  # lines
_AT_ONCE: Final = 1 << 20  # weights

_WHO: Final[dict[str, Kind]] = {
    "prompt": "whole",
    "stack": "text",
    "layer": "whole",
    "head": "whole",
}


def make_table(what: str, chosen: Sequence[Chosen], top: int) -> Table:
    """The table of that name."""
    return TABLES[what](chosen, top)


def _who(one: Chosen, count: int) -> dict[str, Any]:
    """The first columns of `count` lines."""
    place = one.head.place
    return {
        "prompt": np.full(count, one.prompt.number),
        "stack": [place.stack] * count,
        "layer": np.full(count, place.layer),
        "head": np.full(count, one.head.head),
    }


def _texts(tokens: list[str] | None, places: _Array) -> list[str]:
    """The tokens at these places; half of a character, which is no text, becomes a mark."""
    known = tokens or []
    found = [known[n] if 0 <= n < len(known) else "" for n in places.tolist()]
    return [token.encode("utf-8", "replace").decode() for token in found]


def _statistics(chosen: Sequence[Chosen], _: int) -> Table:
    names = list(dict.fromkeys(n for one in chosen for n in one.prompt.statistic_kinds))

    def chunks() -> Iterator[Chunk]:
        for heads in by_place(chosen).values():
            place = heads[0].head.place
            slots = [place.heads.index(one.head.head) for one in heads]
            numbers = heads[0].prompt.statistics(place.label)
            yield {
                **_who(heads[0], len(heads)),
                "head": np.array([one.head.head for one in heads]),
                **{name: np.asarray(numbers[name])[slots] for name in names},
            }

    return Table({**_WHO, **dict.fromkeys(names, "number")}, len(chosen), chunks)


def _rows(chosen: Sequence[Chosen], _: int) -> Table:
    columns: dict[str, Kind] = {**_WHO, "row": "whole", "rows": "whole", "token": "text"}
    names = list(dict.fromkeys(n for one in chosen for n in one.head.row_numbers))

    def chunks() -> Iterator[Chunk]:
        for one in chosen:
            edges = row_edges(one)
            unknown = np.full(edges.size - 1, np.nan)
            known = {name: row_numbers(one, name, edges) for name in known_numbers(one, edges)}
            yield {
                **_who(one, edges.size - 1),
                "row": edges[:-1],
                "rows": np.diff(edges),
                "token": _texts(one.head.query_tokens, edges[:-1]),
                **dict.fromkeys(names, unknown),
                **known,
            }

    count = sum(row_edges(one).size - 1 for one in chosen)
    return Table({**columns, **dict.fromkeys(names, "number")}, count, chunks)


def _top(chosen: Sequence[Chosen], k: int) -> Table:
    columns: dict[str, Kind] = {
        **_WHO, "row": "whole", "rank": "whole", "key": "whole", "weight": "number",
        "token": "text",
    }  # fmt: skip

    def chunks() -> Iterator[Chunk]:
        for one in chosen:
            found = heaviest(one, k)
            row, rank = np.nonzero(found.keys >= 0)
            keys = found.keys[row, rank]
            yield {
                **_who(one, keys.size),
                "row": found.rows[row],
                "rank": rank + 1,
                "key": keys,
                "weight": found.weights[row, rank],
                "token": _texts(one.head.key_tokens, keys),
            }

    return Table(columns, sum(k * len(one.rows) for one in chosen), chunks)


def _received(chosen: Sequence[Chosen], _: int) -> Table:
    columns: dict[str, Kind] = {
        **_WHO, "key": "whole", "keys": "whole", "received": "number", "token": "text"
    }  # fmt: skip

    def chunks() -> Iterator[Chunk]:
        for one in chosen:
            edges, mass = received(one)
            yield {
                **_who(one, mass.size),
                "key": edges[:-1],
                "keys": np.diff(edges),
                "received": mass,
                "token": _texts(one.head.key_tokens, edges[:-1]),
            }

    return Table(columns, sum(len(one.keys) for one in chosen), chunks)


def _weights(chosen: Sequence[Chosen], _: int) -> Table:
    count = sum(len(one.rows) * len(one.keys) for one in chosen)
    if count > MOST_WEIGHTS:
        raise InputError(
            f"--what weights: up to {count:,} lines, more than {MOST_WEIGHTS:,}; name fewer with "
            "--heads, --rows or --keys, or use --to npz"
        )
    for one in chosen:
        check_exact(one)

    def chunks() -> Iterator[Chunk]:
        for one in chosen:
            step = max(_AT_ONCE // max(len(one.keys), 1), 1)
            for first in range(one.rows.start, one.rows.stop, step):
                last = min(first + step, one.rows.stop)
                weights = one.head[first:last, one.own_keys]
                row, key = np.nonzero(weights)
                yield {
                    **_who(one, row.size),
                    "query": row + first,
                    "key": key + one.keys.start,
                    "weight": weights[row, key],
                }

    return Table({**_WHO, "query": "whole", "key": "whole", "weight": "number"}, count, chunks)


TABLES: Final[dict[str, Callable[[Sequence[Chosen], int], Table]]] = {
    "statistics": _statistics,
    "rows": _rows,
    "top": _top,
    "received": _received,
    "weights": _weights,
}
