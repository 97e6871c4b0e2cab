"""One head: its map, its numbers, how far it looks, and who is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from regard.errors import UnavailableError
from regard.recording import Head, PromptView
from regard.recording.layer import StoredOf
from regard.views import profiles
from regard.views.encoding import as_json
from regard.views.overview import short_answer, tried
from regard.views.pixels import TILE
from regard.views.profiles import Bins, Track, tracks_answer, tracks_of
from regard.views.row import heaviest
from regard.views.schema import HeadFactsAnswer, KeysAnswer, Known
from regard.views.text import CAVEAT
from regard.views.tiles import levels_of
from regard.views.uniform import Look, MapCells, make_cells, scale_answer, sight_of

_BESIDE: Final = "delimiter_chance"  # of use beside its statistic alone


@dataclass(frozen=True)
class HeadView:
    """A head of a prompt."""

    prompt: PromptView
    head: Head

    @cached_property
    def numbers(self) -> dict[str, float]:
        """Its statistics; NaN where one is not known."""
        statistics = self.prompt.statistics(self.head.place.label)
        slot = self.head.place.heads.index(self.head.head)
        kinds = self.prompt.statistic_kinds
        return {name: float(statistics[name][slot]) for name in kinds if name != _BESIDE}

    @cached_property
    def received(self) -> Bins | None:
        """The share of all attention that each key, or bin of keys, received."""
        return self._shares(profiles.received(self.head))

    @cached_property
    def distances(self) -> Bins | None:
        """… that lies at each distance, in bins that widen."""
        bins = self._shares(profiles.distances(self.head))
        return bins and profiles.widening(bins)

    @cached_property
    def entropies(self) -> Bins | None:
        """Along the rows, in nats."""
        return profiles.entropies(self.head)

    def _shares(self, bins: Bins | None) -> Bins | None:
        return bins and Bins(bins.edges, bins.values / max(len(self.head.recorded), 1))

    def cells(self, cell: int | None, look: Look) -> tuple[MapCells | None, str]:
        """Its map; or why there is none. Without a cell size none is asked for."""
        try:
            found = None if cell is None else make_cells(self.prompt, self.head, cell, look.how)
            return found, ""
        except UnavailableError as error:
            return None, error.message

    def looked_at(self, most: int) -> list[KeysAnswer]:
        """The keys, or bins of keys, that got most."""
        bins, tokens = self.received, self.head.key_names or []
        if bins is None:
            return []
        found: list[KeysAnswer] = []
        for n in heaviest(bins.values, most).tolist():
            first, last = int(bins.edges[n]), int(bins.edges[n + 1])
            is_single = last - first == 1 and first < len(tokens)
            token, share = tokens[first] if is_single else None, float(bins.values[n])
            found.append({"keys": (first, last), "token": token, "share": share})
        return found


def head_answer(view: HeadView, revision: int = 0) -> HeadFactsAnswer:
    """Its numbers, the levels of its map, and the tracks beside it."""
    prompt, head = view.prompt, view.head
    place, slot = head.place, head.place.heads.index(head.head)
    statistics, problems = prompt.statistics(place.label), list[str]()
    numbers: dict[str, Known] = {
        name: tried(problems, lambda n: as_json(statistics[n][slot]), name)
        for name in prompt.statistic_kinds
    }
    tracks: dict[str, Track | None] = tried(problems, tracks_of, head) or {}
    measures = StoredOf(prompt.held(place.label), head.head).measures  # without their numbers
    return {
        **short_answer(head),  # type: ignore[typeddict-item]  # … none of which is left out
        "prompt": prompt.number,
        "revision": revision,
        "place": place.name,
        "why_not": head.why_not or None,
        "streams": {"queries": place.query_tokens, "keys": place.key_tokens},
        "statistics": numbers,
        "stored": {name: str(one) for name, one in measures.items()},
        "tile": TILE,
        "levels": {"mean": levels_of(head), "max": levels_of(head, "max")},
        "sight": sight_of(prompt, head).is_complete,
        "scale": scale_answer(head.shape[1]),
        "tracks": tracks_answer(tracks),
        "problems": list(dict.fromkeys(problems)),
        "caveat": CAVEAT,
    }


def known_numbers(view: HeadView) -> dict[str, float]:
    """Those that are finite."""
    return {name: value for name, value in view.numbers.items() if np.isfinite(value)}
