"""One head: its map, its numbers, how far it looks, and who is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from regard.draw.finish import wrapped
from regard.draw.pages import profile
from regard.draw.pages.picture import Look, Picture, draw_picture, make_picture
from regard.draw.pages.profile import Bins
from regard.draw.pages.words import CAVEAT, as_json
from regard.draw.paper import Paper, StyledLine
from regard.draw.passage import shown_keys
from regard.draw.spark import binned, spark
from regard.draw.spelling import label, number
from regard.draw.table import Column, weight_table
from regard.errors import UnavailableError
from regard.recording import Head, PromptView

_LEFT_OUT: Final = "delimiter_chance"  # of use beside its statistic alone
_SPARK: Final = 48


@dataclass(frozen=True)
class HeadPage:
    """Everything the page says."""

    head: Head
    prompt: PromptView
    picture: Picture | None
    problem: str  # why there is no map
    numbers: dict[str, float]
    distances: Bins | None
    entropies: Bins | None
    received: Bins | None
    top: int
    look: Look

    def as_dict(self) -> dict[str, Any]:
        """For JSON: never a whole matrix, at most the cells of the map."""
        return {
            "head": self.head.label,
            "prompt": self.prompt.number,
            "shape": list(self.head.shape),
            "recorded_rows": [self.head.recorded.start, self.head.recorded.stop],
            "exact": self.head.exact,
            "why_not": self.head.why_not or None,
            "statistics": {name: as_json(value) for name, value in self.numbers.items()},
            "distances": self.distances and self.distances.as_dict(),
            "entropy": self.entropies and self.entropies.as_dict(),
            "received": _received_list(self),
            "map": self.picture and self.picture.as_dict(),
            "caveat": CAVEAT,
        }

    def lines(self, paper: Paper) -> list[StyledLine]:
        """For a terminal."""
        lines = head_line(self.prompt, self.head, paper)
        if self.picture is not None:
            lines += draw_picture(self.picture, self.look, paper)
        elif self.problem:
            lines += wrapped(f"no map: {self.problem}", paper, "dim", indent=2)
        lines += [[], *_number_lines(self, paper), []]
        lines += [*_distance_lines(self.distances, paper), *_entropy_lines(self.entropies, paper)]
        lines += _received_lines(self, paper)
        return [*lines, [], [(CAVEAT, "dim")]]


def make_head(
    prompt: PromptView, head: Head, look: Look, *, cell: int | None, top: int
) -> HeadPage:
    """The numbers of the page; without a cell size there is no map."""
    picture, problem = None, ""
    try:
        picture = None if cell is None else make_picture(prompt, head, cell, look.how)
    except UnavailableError as error:
        problem = error.message
    statistics, slot = prompt.statistics(head.place.label), head.place.heads.index(head.head)
    numbers = {
        name: float(statistics[name][slot]) for name in prompt.statistic_kinds if name != _LEFT_OUT
    }
    return HeadPage(
        head, prompt, picture, problem, numbers,
        profile.distances(head), profile.entropies(head), profile.received(head), top, look,
    )  # fmt: skip


def head_line(prompt: PromptView, head: Head, paper: Paper) -> list[StyledLine]:
    """Which head this is, and how much of it is known."""
    queries, keys = head.shape
    facts = [f"{queries:,} {paper.times} {keys:,} tokens"]
    if len(head.recorded) < queries:
        facts.append(
            f"rows {head.recorded.start}{paper.dash}{head.recorded.stop - 1} recorded"
            if head.recorded
            else "no rows recorded"
        )
    if prompt.number:
        facts.append(f"prompt {prompt.number}")
    facts.append("every cell can be computed" if head.exact else "summaries only")
    return [[(head.label, "bold"), ("".join(paper.dot + fact for fact in facts), "")]]


def _number_lines(page: HeadPage, paper: Paper) -> list[StyledLine]:
    """Name and number, several to a line."""
    kinds = page.prompt.statistic_kinds
    known = [
        (name, f"{value:.3f}" if kinds[name].span == "one" else number(value))
        for name, value in page.numbers.items()
        if np.isfinite(value)
    ]
    width = max((len(name) + len(text) + 1 for name, text in known), default=1)
    across = max((paper.width + 3) // (width + 3), 1)
    lines: list[StyledLine] = []
    for at in range(0, len(known), across):
        line: StyledLine = []
        for name, text in known[at : at + across]:
            between = "   " if line else ""  # none behind the last: it would be cut off
            line += [(between + name, "dim"), (" " * (width - len(name) - len(text)) + text, "")]
        lines.append(line)
    return lines


def _distance_lines(bins: Bins | None, paper: Paper) -> list[StyledLine]:
    if bins is None:
        return []
    best, last = int(np.argmax(bins.values)), int(bins.edges[-1]) - 1
    words = f"most at {bins.span(best, paper.dash)} back: {bins.values[best]:.3f}"
    words += f"; {int(bins.edges[0])} to {last} shown"
    return [_profile_line("distance", spark(bins.values, paper), words)]


def _entropy_lines(bins: Bins | None, paper: Paper) -> list[StyledLine]:
    if bins is None or np.isnan(bins.values).all():
        return []
    values = binned(bins.values, min(_SPARK, max(paper.width - 44, 8)))
    low, high = (number(float(end(values)), 2) for end in (np.nanmin, np.nanmax))
    words = f"{low} to {high} nats along the rows"
    return [_profile_line("entropy", spark(values, paper), words)]


def _profile_line(name: str, picture: str, words: str) -> StyledLine:
    return [(f"{name:9}", "dim"), (picture, ""), (f"  {words}", "dim")]


def _received_lines(page: HeadPage, paper: Paper) -> list[StyledLine]:
    bins = page.received
    if bins is None:
        return []
    best = shown_keys(bins.values, page.top).tolist()
    columns = [Column("keys looked at most", [bins.span(n, paper.dash) for n in best], True)]
    texts = [_text(page.head, bins, n, paper) for n in best]
    if any(texts):
        columns.append(Column("token", texts))
    shares = bins.values[best].tolist()
    columns.append(Column("share", [f"{share:.3f}" for share in shares], True))
    return [[], *weight_table(columns, shares, paper)]


def _text(head: Head, bins: Bins, n: int, paper: Paper) -> str:
    """The token of a key; nothing for a bin of several."""
    tokens, key = head.key_tokens, int(bins.edges[n])
    is_one = bins.edges[n + 1] - key == 1
    return label(tokens[key], 16, paper) if is_one and tokens and key < len(tokens) else ""


def _received_list(page: HeadPage) -> list[dict[str, Any]] | None:
    bins, tokens = page.received, page.head.key_tokens or []
    if bins is None:
        return None
    return [
        {
            "keys": [int(bins.edges[n]), int(bins.edges[n + 1])],
            "token": tokens[int(bins.edges[n])] if _is_single(bins, n, tokens) else None,
            "share": float(bins.values[n]),
        }
        for n in shown_keys(bins.values, page.top).tolist()
    ]


def _is_single(bins: Bins, n: int, tokens: list[str]) -> bool:
    return int(bins.edges[n + 1] - bins.edges[n]) == 1 and int(bins.edges[n]) < len(tokens)
