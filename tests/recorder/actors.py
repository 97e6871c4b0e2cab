"""What Ray Data's `map_batches` does with a class, in this process: the class is made once per
actor, and called with batches that are dicts of numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

__all__ = ["map_batches"]


def map_batches(
    rows: Sequence[Mapping[str, Any]],
    actor: Callable[..., Any],
    *,
    batch_size: int,
    concurrency: int,
    fn_constructor_args: tuple[Any, ...] = (),
    fn_constructor_kwargs: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """The rows of all answers; columns that are not of one length are an error, as there."""
    made = [
        actor(*fn_constructor_args, **(fn_constructor_kwargs or {})) for _ in range(concurrency)
    ]
    turns = cycle(made)
    found: list[dict[str, Any]] = []
    for start in range(0, len(rows), batch_size):
        part = rows[start : start + batch_size]
        batch = {name: np.array([row[name] for row in part]) for name in part[0]}
        answer = next(turns)(batch)
        assert isinstance(answer, dict)
        assert len({len(column) for column in answer.values()}) == 1
        count = len(next(iter(answer.values())))
        found += [{name: column[n] for name, column in answer.items()} for n in range(count)]
    return found
