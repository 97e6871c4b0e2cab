"""What a cache would lose: which keys of a recorded prompt an eviction drops, and how much of the
attention of its rows fell on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from regard.errors import UnavailableError
from regard.kv import Eviction, lost_mass
from regard.recording import Recording
from regard.recording.prompt import PromptView
from regard.recording.schema import Place
from regard.recording.stores import Array
from regard.study.finding import as_number
from regard.study.heads import prompt_of

LAST: Final = 64  # rows at the end, whose loss is told by itself


class RecordedLayer:
    """The heads of one recorded layer, as `regard.kv` asks an attention."""

    def __init__(self, prompt: PromptView, place: Place) -> None:
        self._heads = [prompt[f"{place.label}H{head}"] for head in range(place.total_heads)]
        self._group = place.total_heads // place.key_heads

    def received(
        self,
        queries: Any = None,
        *,
        groups: Literal["sum", "mean", "max"] | None = None,
        how: Literal["sum", "mean", "max"] = "sum",
    ) -> Array:
        """(Hq, keys), or (Hkv, keys) with `groups`."""
        asked = self._heads if groups is None else self._heads[:: self._group]
        return np.stack([head.received(queries, groups=groups, how=how) for head in asked])


@dataclass(frozen=True)
class LayerEviction:
    """One layer of a prompt."""

    label: str
    keys: int
    kept: Array  # (Hkv, n): the keys that stay, ascending
    lost: Array  # (Hq,): share of the attention of all recorded rows
    lost_last: Array  # (Hq,): of the last 64 of them

    @property
    def gone(self) -> list[list[tuple[int, int]]]:
        """Of each key head the keys that go, as ranges from … up to, but not including."""
        return [_ranges(np.setdiff1d(np.arange(self.keys), kept)) for kept in self.kept]

    @property
    def gone_everywhere(self) -> list[tuple[int, int]]:
        """The keys that no key head keeps, as ranges."""
        return _ranges(np.setdiff1d(np.arange(self.keys), self.kept))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "label": self.label, "keys": self.keys, "kept": int(self.kept.shape[-1]),
            "gone": [[list(ends) for ends in head] for head in self.gone],
            "lost": [as_number(share) for share in self.lost],
            "lost_last": [as_number(share) for share in self.lost_last],
        }  # fmt: skip


@dataclass(frozen=True)
class EvictionStudy:
    """All self-attention layers of a prompt; `refused` says of some why they cannot be told."""

    eviction: Eviction
    layers: tuple[LayerEviction, ...]
    refused: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        asked = self.eviction
        return {
            "by": asked.name, "budget": asked.budget, "sinks": asked.sinks,
            "recent": asked.recent, "layers": [one.as_dict() for one in self.layers],
            "refused": self.refused,
        }  # fmt: skip


def study_eviction(recording: Recording, eviction: Eviction, prompt: int = 0) -> EvictionStudy:
    """What every layer of a prompt would drop and lose."""
    view = prompt_of(recording, prompt)
    layers, refused = [], {}
    for label, place in view.places.items():
        if place.kind != "self":
            refused[label] = "cross-attention, whose keys are those of another sequence"
            continue
        try:
            layers.append(_layer(view, place, eviction))
        except UnavailableError as error:
            refused[label] = str(error)
    return EvictionStudy(eviction, tuple(layers), refused)


def _layer(view: PromptView, place: Place, eviction: Eviction) -> LayerEviction:
    layer = RecordedLayer(view, place)
    kept = eviction.keep(layer, place.keys)
    if kept is None:
        kept = np.tile(np.arange(place.keys), (place.key_heads, 1))
    last = min(LAST, place.rows[1] - place.rows[0])
    return LayerEviction(
        place.label, place.keys, kept, lost_mass(layer, kept), lost_mass(layer, kept, last)
    )


def _ranges(numbers: Array) -> list[tuple[int, int]]:
    """Ascending numbers as ranges."""
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return [(int(part[0]), int(part[-1]) + 1) for part in parts if part.size]
