"""The pictures that a recording draws of itself: `rec.plot_head("L5H1")` and its like."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final, Unpack

from regard.display import Style
from regard.plot.curves import entropy
from regard.plot.grids import grid
from regard.plot.maps import head_map
from regard.plot.over import heads_over_picture, over_picture
from regard.plot.rows import row as draw_row
from regard.plot.sheet import About
from regard.recording import PromptView, Recording
from regard.recording.statistics import find_statistic
from regard.views.overview import is_share
from regard.views.parts import matching
from regard.views.picture import overlay
from regard.views.schema import How
from regard.views.uniform import Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_FOLDED: Final = 8  # equal tokens in a row


def plot_head(
    recording: Recording,
    label: str,
    *,
    prompt: int = 0,
    cell: int | None = None,
    how: How = "mean",
    raw: bool = False,
    **style: Unpack[Style],
) -> Figure:
    """A head's map."""
    view = recording.prompt(prompt)
    look, about = Look(how, raw), _about(recording, view)
    return head_map(view, view[label], about, look, cell=cell, style=style)


def plot_row(
    recording: Recording,
    label: str,
    row: int,
    *,
    prompt: int = 0,
    raw: bool = False,
    **style: Unpack[Style],
) -> Figure:
    """One row of a head."""
    view = recording.prompt(prompt)
    return draw_row(view, view[label], _about(recording, view), row, raw=raw, style=style)


def plot_grid(
    recording: Recording,
    statistic: str = "non_sink",
    *,
    stack: str | None = None,
    prompt: int = 0,
    **style: Unpack[Style],
) -> Figure:
    """One number a head."""
    values = recording.grid(statistic, stack, prompt)
    kinds = recording.statistic_kinds
    kind = kinds[find_statistic(statistic, kinds)]
    return grid(
        values, kind.title, _about(recording, recording.prompt(prompt)), words=kind.words,
        is_share=is_share(kind, values), stack=stack or "", style=style,
    )  # fmt: skip


def plot_entropy(recording: Recording, *, prompt: int = 0, **style: Unpack[Style]) -> Figure:
    """How evenly the heads of each layer look."""
    view = recording.prompt(prompt)
    grids = {name: view.grid("normalized_entropy", name) for name in view.stacks}
    return entropy(grids, _about(recording, view), style=style)


def plot_picture(
    recording: Recording,
    label: str,
    *,
    query: int | None = None,
    key: int | None = None,
    prompt: int = 0,
    raw: bool = False,
    **style: Unpack[Style],
) -> Figure:
    """A row or column over the pictures it looks at."""
    view = recording.prompt(prompt)
    over = overlay(view[label], query=query, key=key)
    return over_picture(view, over, _about(recording, view), look=Look(raw=raw), style=style)


def plot_heads_over_picture(
    recording: Recording,
    query: int,
    *,
    heads: str | Sequence[str] | None = None,
    prompt: int = 0,
    raw: bool = False,
    **style: Unpack[Style],
) -> Figure:
    """The same row of many heads over the first picture."""
    view = recording.prompt(prompt)
    chosen = [view[label] for label in matching(view.labels(), heads)]
    about = _about(recording, view)
    return heads_over_picture(view, chosen, query, about, look=Look(raw=raw), style=style)


def _about(recording: Recording, view: PromptView) -> About:
    model = str(recording.model.get("name", "a model"))
    return About(model, _folded(view.tokens), view.title, view.number)


def _folded(tokens: Sequence[str]) -> list[str]:
    """Runs of one token, such as those that stand for a picture, told once."""
    found: list[str] = []
    for token, run in groupby(tokens):
        count = len(list(run))
        found += [token] * count if count < _FOLDED else [f"{token}×{count}"]
    return found
