"""Many documents at once: one number a head over all of them, and which heads stand out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.draw.finish import wrapped
from regard.draw.pages.about import model_lines
from regard.draw.pages.overview import finding_lines, grid_lines
from regard.draw.pages.words import as_json, facts_for_json, sentence_of
from regard.draw.paper import Paper, StyledLine
from regard.draw.spelling import count
from regard.recording import Finding, Merged, Recording
from regard.recording.findings import standing_out
from regard.recording.statistics import check_statistic

_FINDINGS = 3


@dataclass(frozen=True)
class ManyPage:
    """The documents of a folder, taken together."""

    recording: Recording
    merged: Merged
    statistic: str
    findings: Sequence[Finding]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: every statistic of every head, and over how many rows it was taken."""
        rec, merged = self.recording, self.merged
        return {
            "folder": rec.name,
            "model": facts_for_json(rec.model),
            "made": facts_for_json(rec.made),
            "files": [file.name for file in rec.files],
            "documents": merged.documents,
            "tokens": merged.tokens,
            "heads": merged.labels(),
            "statistics": {
                name: {
                    "meaning": merged.statistic_kinds[name].words,
                    "values": as_json(values),
                    "rows": as_json(merged.counted(name)),
                }
                for name, values in merged.numbers().items()
            },
            "surprising": [one._asdict() | {"sentence": sentence_of(one)} for one in self.findings],
        }

    def lines(self, paper: Paper) -> list[StyledLine]:
        """For a terminal."""
        merged, files = self.merged, len(self.recording.files)
        about = f"{count(merged.documents, 'document')} in {count(files, 'file')}"
        words = f"{about}, {count(merged.tokens, 'token')}; every row counts alike"
        lines = [*model_lines(self.recording, paper), [], *wrapped(words, paper)]
        kind = merged.statistic_kinds[self.statistic]
        for stack in merged.stacks:
            grid = merged.grid(self.statistic, stack)
            lines += [[], *grid_lines(self.statistic, kind, stack, grid, paper)]
        if self.findings:
            lines += [[], [("heads that stand out in their layer", "bold")]]
        return lines + [line for one in self.findings for line in finding_lines(one, paper)]


def make_many(recording: Recording, statistic: str) -> ManyPage:
    """The numbers of the page; a pass over all files."""
    merged = recording.merged()
    check_statistic(statistic, merged.statistic_kinds)
    return ManyPage(recording, merged, statistic, standing_out(merged, merged.keys, _FINDINGS))
