"""The first look at a recording on a terminal: what it is about, one number a head, and which
heads stand out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.draw.finish import wrapped
from regard.draw.grid import head_grid
from regard.draw.pages.about import kept_lines, model_lines, prompt_lines
from regard.draw.pages.findings import finding_lines
from regard.draw.pages.run import run_lines
from regard.draw.paper import Paper, StyledLine
from regard.recording import Merged, Recording, Statistic
from regard.recording.statistics import find_statistic
from regard.study.outliers import outliers
from regard.views.defaults import telling_statistic
from regard.views.findings import STAND_OUT, first_findings
from regard.views.overview import is_share, tried
from regard.views.text import count, why_unknown

_Grid: TypeAlias = NDArray[np.float64]


def overview_lines(
    recording: Recording, prompt: int, chosen: str | None, paper: Paper
) -> list[StyledLine]:
    """One prompt; none where nothing was recorded yet, or a training run alone."""
    kinds = recording.statistic_kinds
    chosen = None if chosen is None else find_statistic(chosen, kinds)
    lines, run = model_lines(recording, paper), run_lines(recording.training, paper)
    about_run = [[], *run] if run else []
    if not recording.prompts:
        return lines + about_run
    view = recording.prompts[prompt]
    statistic = chosen or telling_statistic(view)
    lines += [[], *prompt_lines(recording, view, paper)]
    lines += [[], *kept_lines(view, paper)]
    for name in view.stacks:
        grid = recording.grid(statistic, name, prompt)
        lines += [[], *_grid_lines(statistic, kinds[statistic], name, grid, paper)]
    lines += wrapped(why_unknown(view, statistic), paper, "dim", indent=2)
    problems: list[str] = []
    found, why = tried(problems, first_findings, recording, prompt) or ([], "")
    lines += _apart([line for one in found for line in finding_lines(one, paper)])
    lines += [[], *wrapped(why, paper, "dim")] if why else []
    for one in problems:
        lines += wrapped(f"which heads stand out is not known: {one}", paper, "dim", indent=2)
    return lines + about_run


def many_lines(
    recording: Recording, merged: Merged, chosen: str | None, paper: Paper
) -> list[StyledLine]:
    """The documents of a folder, taken together."""
    statistic = find_statistic(chosen or telling_statistic(merged), merged.statistic_kinds)
    files = len(recording.files)
    about = f"{count(merged.documents, 'document')} in {count(files, 'file')}"
    words = f"{about}, {count(merged.tokens, 'token')}; every row counts alike"
    lines = [*model_lines(recording, paper), [], *wrapped(words, paper)]
    kind = merged.statistic_kinds[statistic]
    for stack in merged.stacks:
        grid = merged.grid(statistic, stack)
        lines += [[], *_grid_lines(statistic, kind, stack, grid, paper)]
    found = outliers(merged, STAND_OUT)
    said = [wrapped(one.sentence, paper, indent=len(one.label) + 1) for one in found]
    return lines + _apart([line for one in said for line in one])


def _grid_lines(
    statistic: str, kind: Statistic, stack: str, grid: _Grid, paper: Paper
) -> list[StyledLine]:
    """A statistic of all heads of a stack, under its meaning."""
    named = statistic if kind.title == statistic else f"{kind.title} ({statistic})"
    title = f"{named}: {kind.words}"
    heading = wrapped(f"{stack}, {title}" if stack else title, paper, "bold", indent=2)
    return [*heading, *head_grid(grid, kind.title, paper, is_share=is_share(kind, grid))]


def _apart(lines: Sequence[StyledLine]) -> list[StyledLine]:
    return [[], [("heads that stand out in their layer", "bold")], *lines] if lines else []
