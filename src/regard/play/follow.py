"""What is seen of a model while it runs: its layers, one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.engine.observers import Request
from regard.recording.stores import Array

_HEAVY: Final = 24


@dataclass(frozen=True)
class Progress:
    """A layer that is done, of so many; of a long prompt also its words, and the heaviest keys of
    the last one in this layer, as a mean over heads."""

    done: int
    of: int
    texts: Sequence[str] | None = None  # with the first layer
    heavy: Sequence[tuple[int, float]] = ()


Advanced: TypeAlias = Callable[[Progress], None]


def nothing(*_: Progress) -> None:
    """Nobody follows."""


class LayerFollower:
    """Follows the layers of a running model; between two of them it can be given up."""

    def __init__(self, places: int, go_on: Callable[[], None], advanced: Advanced) -> None:
        self._places, self._go_on, self._advanced = places, go_on, advanced
        self._done = 0
        self.keeps_weights = False
        self.weights: list[Array] = []  # (heads, rows, keys) of each layer, of a short prompt
        self.texts: Sequence[str] | None = None

    def wants(self, call: Call) -> Request[None]:
        """Nothing more than what is recorded."""
        return Request()

    def heard(self, attention: Attention, request: Request[None]) -> None:
        """One more layer."""
        self._go_on()
        self._done += 1
        if self.keeps_weights:
            self.weights.append(attention.dense()[0].float().cpu().numpy())
        first = self._done == 1
        heavy = self._heavy(attention) if self.texts is not None else ()
        texts = self.texts if first else None
        self._advanced(Progress(self._done, self._places, texts, heavy))

    def _heavy(self, attention: Attention) -> Sequence[tuple[int, float]]:
        """The keys of the last row with the largest mean weight."""
        last = attention.shape[-2] - 1
        mean = attention.rows([last]).float().flatten(0, -2).mean(0)
        best = mean.topk(min(_HEAVY, len(mean)))
        return list(zip(best.indices.tolist(), best.values.tolist(), strict=True))
