"""One row of a head: all its weights, or the heaviest of them where no more was kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.errors import InputError, UnavailableError
from regard.recording import Head, PromptView
from regard.recording.visibility import seen_cells
from regard.views.encoding import as_json
from regard.views.schema import RowFactsAnswer
from regard.views.text import CAVEAT
from regard.views.uniform import sight_of

MOST_TOP: Final = 256  # heaviest keys in one answer
MOST_CELLS: Final = 2**16  # of a rectangle
_Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class RowView:
    """Row `row` as the model counts it, over `keys`."""

    prompt: PromptView
    head: Head
    row: int
    keys: range
    weights: NDArray[np.float64] | None  # (keys,): 0 where masked; None: only the heaviest known
    seen: NDArray[np.bool_]  # (keys of the head,)
    top: list[tuple[int, float]]  # key and weight, heaviest first

    @property
    def token(self) -> str | None:
        """The row's."""
        return token_at(self.head.query_names, self.row)

    @property
    def visible(self) -> int:
        """How many keys it may see."""
        return int(self.seen.sum())

    def as_answer(self) -> RowFactsAnswer:
        """For JSON."""
        tokens = self.head.key_names
        return {
            "head": self.head.label,
            "prompt": self.prompt.number,
            "row": self.row,
            "token": self.token,
            "visible": self.visible,
            "keys": (self.keys.start, self.keys.stop),
            "top": [
                {"key": key, "token": token_at(tokens, key), "weight": as_json(weight)}
                for key, weight in self.top
            ],
            "caveat": CAVEAT,
            "exact": self.head.exact,
            "why_not": self.head.why_not or None,
        }


def heaviest(weights: ArrayLike, most: int) -> NDArray[np.int64]:
    """The heaviest keys, heaviest first; of equal ones the earlier. None without weight."""
    given = np.asarray(weights, np.float64)
    order = np.argsort(-given, kind="stable")[:most]
    return order[given[order] > 0]


def token_at(tokens: list[str] | None, n: int) -> str | None:
    """A token's text, where it is known."""
    return tokens[n] if tokens is not None and n < len(tokens) else None


def own_row(head: Head, row: int) -> int:
    """The row as the model counts it: a negative number counts from the last."""
    own = row + head.shape[0] if row < 0 else row
    if own in head.recorded:
        return own
    have = f"{head.recorded.start}–{head.recorded.stop - 1}" if head.recorded else "none"
    verb = "was not recorded" if 0 <= own < head.shape[0] else "does not exist"
    raise InputError(f"row {row} {verb}; {head.label} has {have}")


def find_row(head: Head, token: str) -> int:
    """The last recorded row whose token is this text, or else holds it."""
    tokens = head.query_names
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
    prompt: PromptView, head: Head, row: int, *, top: int, keys: range | None = None
) -> RowView:
    """The row, exactly; or its heaviest keys where only those were kept."""
    span = range(head.shape[1]) if keys is None else keys
    own = own_row(head, row)
    seen = seen_cells(sight_of(prompt, head), np.array([own]), np.arange(head.shape[1]))[0]
    if not head.exact:
        return RowView(prompt, head, own, span, None, seen, _kept_top(head, own, span, top))
    weights = np.asarray(head[own, span.start : span.stop], np.float64)
    best = heaviest(weights, top)
    pairs = [(span.start + int(n), float(weights[n])) for n in best]
    return RowView(prompt, head, own, span, weights, seen, pairs)


def _kept_top(head: Head, row: int, keys: range, top: int) -> list[tuple[int, float]]:
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
            f"only; the nearest is row {near}"
        )
    pairs = zip(places.values[at[0]].tolist(), weights.values[at[0]].tolist(), strict=True)
    return [(int(key), float(weight)) for key, weight in pairs if key in keys and weight > 0][:top]


# ── weights as plain numbers ─────────────────────────────────────────────────────────────────


def weights_of(prompt: PromptView, head: Head, rows: range, keys: range) -> _Array:
    """(rows, keys) float32: NaN where nothing can be seen, ∞ where q and k give no number."""
    found = np.full((len(rows), len(keys)), np.nan, "<f4")
    recorded = range(max(rows.start, head.recorded.start), min(rows.stop, head.recorded.stop))
    if recorded:
        part = np.asarray(head[recorded.start : recorded.stop, keys.start : keys.stop])
        seen = seen_cells(sight_of(prompt, head), _numbers(recorded), _numbers(keys))
        first = recorded.start - rows.start
        told = np.where(np.isnan(part), np.inf, part)
        found[first : first + len(recorded)] = np.where(seen, told, np.nan)
    return found


def cells_of(prompt: PromptView, head: Head, rows: range, keys: range) -> bytes:
    """A rectangle of weights (rows, keys) float32, then how many keys each row may see (rows,)
    float32. NaN where a row may not look, ∞ where a weight is no number; both NaN in rows that
    were not recorded."""
    for what, span, count in zip(("rows", "keys"), (rows, keys), head.shape, strict=True):
        if not (0 <= span.start < span.stop <= count):
            raise InputError(
                f"{what} {span.start} to {span.stop} are not all there; {head.label} has {count}"
            )
    if len(rows) * len(keys) > MOST_CELLS:
        raise InputError(f"{len(rows)} × {len(keys)} cells; at most {MOST_CELLS} at once")
    found = weights_of(prompt, head, rows, keys)
    own = _numbers(rows)
    is_here = (own >= head.recorded.start) & (own < head.recorded.stop)
    counts = np.full(len(rows), np.nan, "<f4")
    counts[is_here] = head.visible()[own[is_here] - head.recorded.start]
    return bytes(found.tobytes() + counts.tobytes())


def _numbers(span: range) -> NDArray[np.int64]:
    """An array of a range; np.array would ask it for every number."""
    return np.arange(span.start, span.stop)
