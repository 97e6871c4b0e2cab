"""What the positions of a prompt stand for, said once for all its heads."""

from __future__ import annotations

from typing import Literal

from regard.axes import Axis, Frames, Grid, Other, Part
from regard.recording import PromptView
from regard.views.schema_sight import (
    AxisPartAnswer,
    GridPlaceAnswer,
    PictureFactsAnswer,
    SightAnswer,
    SightedPlaceAnswer,
)


def sight_answer(prompt: PromptView) -> SightAnswer:
    """Its pictures, every axis once, and which of them each place has. A place whose queries and
    keys are both text has nothing to say."""
    axes: dict[Axis, int] = {}
    places: dict[str, SightedPlaceAnswer] = {}
    for label, place in prompt.places.items():
        pair = prompt.axes(label)
        if all(axis.is_text for axis in pair):
            continue
        queries, keys = (axes.setdefault(axis, len(axes)) for axis in pair)
        places[label] = {
            "queries": queries, "keys": keys, "query_tokens": place.query_tokens,
            "key_tokens": place.key_tokens, "heads": place.total_heads,
        }  # fmt: skip
    return {
        "pictures": [_picture(prompt, n) for n in range(len(prompt.pictures))],
        "axes": [[_part(start, part) for start, part in axis.starts()] for axis in axes],
        "places": places,
    }


def _picture(prompt: PromptView, number: int) -> PictureFactsAnswer:
    one = prompt.pictures[number]
    kinds: tuple[Literal["image/jpeg"], Literal["image/png"]] = ("image/jpeg", "image/png")
    return {
        "width": one.width, "height": one.height, "type": kinds[one.type == kinds[1]],
        "title": one.title, "seconds": one.seconds,
    }  # fmt: skip


def _part(start: int, part: Part) -> AxisPartAnswer:
    found: AxisPartAnswer = {
        "start": start, "count": part.count, "kind": "text", "what": "",
        "grid": None, "moments": None,
    }  # fmt: skip
    if isinstance(part, Grid):
        found["kind"], found["grid"] = "grid", _grid(part)
    if isinstance(part, Frames):
        found["kind"] = "frames"
        found["moments"] = {"seconds": part.seconds, "first": part.start}
    if isinstance(part, Other):
        found["kind"], found["what"] = "other", part.what
    return found


def _grid(grid: Grid) -> GridPlaceAnswer:
    plain = grid.merge == 1 and not grid.tile
    places: list[list[int]] = [] if plain else grid.places[: grid.height * grid.width].tolist()
    return {
        "prefix": [grid.name(n) for n in range(grid.prefix)],
        "frames": grid.frames, "height": grid.height, "width": grid.width,
        "picture": grid.picture, "windows": grid.windows, "shift": grid.shift,
        "size": grid.size, "apart": grid.apart,
        "order": None if plain else [r * grid.width + c for _, r, c in places],
    }  # fmt: skip
