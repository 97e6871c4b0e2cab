"""Actors of Ray Data. `map_batches` does in this process what Ray does with a class: it is made
once per actor, and called with batches that are dicts of numpy arrays. `Mortal` is an actor for a
real Ray: the first of its processes that is in the middle of a file is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from regard.recorder import BatchRecorder

__all__ = ["Mortal", "map_batches"]


class Mortal(BatchRecorder):
    """Leaves `actor-PID` beside the folder for each process, and `killed` by the one that dies."""

    def __init__(self, model: str, folder: str, **options: Any) -> None:
        super().__init__(model, folder, **options)
        self._signs = Path(folder).parent
        (self._signs / f"actor-{os.getpid()}").touch()
        self._recorder.write = partial(self._recorder.write, advanced=self._die_once)

    def _die_once(self, _: float) -> None:
        """At the first progress inside a file."""
        assert list(self._folder.glob(".shard-*.part"))
        try:
            with (self._signs / "killed").open("x") as sign:
                sign.write(str(os.getpid()))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


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
