"""One row of a head: the text shaded by where it looks, and the heaviest keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.draw.finish import wrapped
from regard.draw.pages.head import head_line
from regard.draw.pages.picture import Look, sight_of
from regard.draw.pages.words import CAVEAT
from regard.draw.paper import Paper, StyledLine
from regard.draw.passage import Passage, shaded_text, shown_keys
from regard.draw.scale import scale_lines
from regard.draw.spelling import count, label, number
from regard.draw.table import Column, weight_table
from regard.errors import InputError, UnavailableError
from regard.recording import Head, PromptView
from regard.recording.visibility import seen_cells


@dataclass(frozen=True)
class RowPage:
    """Weights of one row over `keys`; without single cells only those of the heaviest keys."""

    head: Head
    prompt: PromptView
    row: int
    keys: range
    weights: NDArray[np.float64] | None  # (keys,): 0 where masked
    seen: NDArray[np.bool_]  # (keys of the head,)
    top: list[tuple[int, float]]  # key and weight, heaviest first
    look: Look

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        tokens = self.head.key_tokens or []
        return {
            "head": self.head.label,
            "prompt": self.prompt.number,
            "row": self.row,
            "token": _token(self.head.query_tokens, self.row),
            "visible": int(self.seen.sum()),
            "keys": [self.keys.start, self.keys.stop],
            "top": [
                {"key": key, "token": _token(tokens, key), "weight": weight}
                for key, weight in self.top
            ],
            "caveat": CAVEAT,
        }

    def lines(self, paper: Paper) -> list[StyledLine]:
        """For a terminal."""
        lines = [*head_line(self.prompt, self.head, paper), _row_line(self, paper), []]
        if self.weights is None:
            why = f"only the heaviest keys are known: {self.head.why_not}"
            lines += wrapped(why, paper, "dim", indent=2)
        elif self.head.key_tokens is not None:
            lines += [*_text_lines(self, self.weights, paper), []]
        return [*lines, *_top_lines(self, paper), [], [(CAVEAT, "dim")]]


def find_row(head: Head, token: str) -> int:
    """The last recorded row whose token is this text, or else holds it."""
    tokens = head.query_tokens
    if tokens is None:
        raise InputError(f"--token: {head.label} has no tokens; give --row N")
    rows = [n for n in head.recorded if n < len(tokens)]
    for fits in (
        lambda text: text == token,
        lambda text: text.strip() == token.strip() != "",
        lambda text: token != "" and token in text,
    ):
        found = [n for n in rows if fits(tokens[n])]
        if found:
            return found[-1]
    raise InputError(f"--token {token!r}: no recorded row has this token; give --row N")


def make_row(
    prompt: PromptView, head: Head, look: Look, *, row: int, keys: range, top: int
) -> RowPage:
    """The row, exactly; or its heaviest keys where only those were kept."""
    every = np.arange(head.shape[1])
    seen = seen_cells(sight_of(prompt, head), np.array([row]), every)[0]
    if not head.exact:
        kept = _stored_top(head, row, keys, top)
        return RowPage(head, prompt, row, keys, None, seen, kept, look)
    weights = np.asarray(head[row, keys.start : keys.stop], np.float64)
    best = shown_keys(weights, top)
    pairs = [(keys.start + int(n), float(weights[n])) for n in best]
    return RowPage(head, prompt, row, keys, weights, seen, pairs, look)


def _stored_top(head: Head, row: int, keys: range, top: int) -> list[tuple[int, float]]:
    """The kept heaviest keys of the row; UnavailableError where none were kept."""
    weights, places = head.stored.get("top_weights"), head.stored.get("top_keys")
    if weights is None or places is None or weights.edges is None:
        head[row, 0]  # says why not
        raise UnavailableError(f"{head.label}: {head.why_not}")
    at = np.flatnonzero(weights.edges[:-1] == row)
    if not at.size:
        near, step = int(weights.edges[weights.edges <= row][-1]), weights.measure.bin
        raise UnavailableError(
            f"{head.label}: {head.why_not}, and the heaviest keys were kept of one row in {step} "
            f"only; give --row {near}"
        )
    pairs = zip(places.values[at[0]].tolist(), weights.values[at[0]].tolist(), strict=True)
    return [(int(key), float(weight)) for key, weight in pairs if key in keys][:top]


def _row_line(page: RowPage, paper: Paper) -> StyledLine:
    text = _token(page.head.query_tokens, page.row)
    name = f"row {page.row}" + ("" if text is None else f" {label(text, 24, paper)}")
    facts = [f"sees {count(int(page.seen.sum()), 'key')}"]
    if page.weights is not None:
        facts += _measures(page.weights, len(page.keys) == page.head.shape[1])
    return [(name, "bold"), (paper.dot + paper.dot.join(facts), "")]


def _measures(weights: NDArray[np.float64], is_whole: bool) -> list[str]:
    if not is_whole:
        return [f"{weights.sum():.3f} of its weight on the keys shown"]
    some = weights[weights > 0]
    return [f"entropy {number(float(-(some * np.log(some)).sum()) + 0.0)} nats"]


def _text_lines(page: RowPage, weights: NDArray[np.float64], paper: Paper) -> list[StyledLine]:
    tokens = (page.head.key_tokens or [])[page.keys.start : page.keys.stop]
    known = len(tokens)
    scale = page.look.scale(weights)
    values = weights if page.look.raw else weights * page.seen.sum()
    shares = np.where(page.seen[page.keys.start : page.keys.stop], scale.shares(values), np.nan)
    at = page.row - page.keys.start
    query = at if page.head.place.kind == "self" and 0 <= at < known else None
    passage = Passage(tokens, weights[:known], shares[:known], query, page.keys.start)
    marked = "heaviest keys are marked" if paper.colours == "none" else "dim: not visible"
    lines = shaded_text(passage, paper)
    if paper.colours == "none":
        return [*lines, [(marked, "dim")]]
    return [*lines, *scale_lines(scale, paper, marked)]


def _top_lines(page: RowPage, paper: Paper) -> list[StyledLine]:
    tokens, total = page.head.key_tokens, 0.0
    shares, sums = [weight for _, weight in page.top], []
    for weight in shares:
        total += weight
        sums.append(f"{total:.3f}")
    columns = [Column("key", [str(key) for key, _ in page.top], True)]
    if tokens is not None:
        texts = [_token(tokens, key) for key, _ in page.top]
        columns.append(Column("token", ["" if t is None else label(t, 16, paper) for t in texts]))
    columns.append(Column("weight", [f"{weight:.3f}" for weight in shares], True))
    columns.append(Column("together", sums, True))
    return weight_table(columns, shares, paper)


def _token(tokens: list[str] | None, n: int) -> str | None:
    return tokens[n] if tokens is not None and n < len(tokens) else None
