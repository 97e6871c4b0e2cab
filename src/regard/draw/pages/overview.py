"""The first look at a recording: what it is about, one number a head, and which heads stand out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.draw.finish import wrapped
from regard.draw.grid import head_grid
from regard.draw.pages.about import (
    kept_lines,
    model_lines,
    prompt_dict,
    prompt_lines,
    stack_dict,
)
from regard.draw.pages.run import RunPage, make_run
from regard.draw.pages.words import as_json, facts_for_json, sentence_of, why_unknown
from regard.draw.paper import Paper, StyledLine
from regard.recording import Finding, PromptView, Recording, Statistic, most_surprising
from regard.recording.statistics import check_statistic

_FINDINGS = 3


@dataclass(frozen=True)
class Overview:
    """The overview of one prompt; of none where nothing was recorded yet, or a training run
    alone."""

    recording: Recording
    prompt: PromptView | None
    statistic: str
    kind: Statistic
    grids: dict[str, NDArray[np.float64]]  # by stack
    findings: Sequence[Finding]
    run: RunPage | None = None
    why_unknown: str = ""  # why recorded heads lack the number

    def as_dict(self) -> dict[str, Any]:
        """For JSON; what is not known is null."""
        rec, prompt = self.recording, self.prompt
        return {
            "file": rec.name,
            "model": facts_for_json(rec.model),
            "made": facts_for_json(rec.made),
            "live": rec.is_live,
            "damage": [{"offset": d.offset, "reason": d.reason} for d in rec.damage],
            "prompts": [prompt_dict(one) for one in rec.prompts],
            "prompt": None if prompt is None else prompt.number,
            "stacks": [stack_dict(prompt, name) for name in prompt.stacks] if prompt else [],
            "statistic": self.statistic,
            "meaning": self.kind.words,
            "why_unknown": self.why_unknown or None,
            "grid": {name: as_json(grid) for name, grid in self.grids.items()},
            "surprising": [one._asdict() | {"sentence": sentence_of(one)} for one in self.findings],
            "training": None if self.run is None else self.run.as_dict(),
            "next": [{"token": t, "probability": p} for t, p in (prompt.next if prompt else ())],
        }

    def lines(self, paper: Paper) -> list[StyledLine]:
        """For a terminal."""
        lines = model_lines(self.recording, paper)
        about_run = [] if self.run is None else [[], *self.run.lines(paper)]
        if self.prompt is None:
            return lines + about_run
        lines += [[], *prompt_lines(self.recording, self.prompt, paper)]
        lines += [[], *kept_lines(self.prompt, paper)]
        for name, grid in self.grids.items():
            lines += [[], *grid_lines(self.statistic, self.kind, name, grid, paper)]
        if self.why_unknown:
            lines += wrapped(self.why_unknown, paper, "dim", indent=2)
        if self.findings:
            lines += [[], [("heads that stand out in their layer", "bold")]]
        lines += [line for one in self.findings for line in finding_lines(one, paper)]
        return lines + about_run


def make_overview(recording: Recording, prompt: int, statistic: str) -> Overview:
    """The numbers of the overview."""
    run, kinds = make_run(recording), recording.statistic_kinds
    check_statistic(statistic, kinds)
    if not recording.prompts:
        return Overview(recording, None, statistic, kinds[statistic], {}, [], run)
    one = recording.prompts[prompt]
    grids = {name: recording.grid(statistic, name, prompt) for name in one.stacks}
    found = most_surprising(recording, _FINDINGS, prompt)
    why = why_unknown(one, statistic)
    return Overview(recording, one, statistic, kinds[statistic], grids, found, run, why)


def grid_lines(
    statistic: str, kind: Statistic, stack: str, grid: NDArray[np.float64], paper: Paper
) -> list[StyledLine]:
    """A statistic of all heads of a stack, under its meaning."""
    title = f"{statistic}: {kind.words}"
    heading = wrapped(f"{stack}, {title}" if stack else title, paper, "bold", indent=2)
    # a norm compared with its layer's is called a share as well, and ranges beyond 1
    is_share = kind.span == "one" and not np.any(grid > 1.001)
    return [*heading, *head_grid(grid, statistic, paper, is_share=is_share)]


def finding_lines(one: Finding, paper: Paper) -> list[StyledLine]:
    """A head that stands out, in a sentence."""
    return wrapped(f"{one.label} {sentence_of(one)}", paper, indent=len(one.label) + 1)
