"""What is answered: JSON for facts, little-endian float32 for weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.colour import TIMES_UNIFORM
from regard.draw.pages.picture import Look
from regard.draw.pages.row import make_row
from regard.draw.pages.words import CAVEAT, as_json, facts_for_json
from regard.errors import FileError, InputError
from regard.recording import Head, PromptView
from regard.recording.layer import StoredOf
from regard.recording.visibility import Sight, seen_cells
from regard.viewer.opened import Opened
from regard.viewer.pixels import TILE
from regard.viewer.thumbnails import Thumbnails, thumbnails_of
from regard.viewer.tiles import levels_of
from regard.viewer.tracks import tracks_of

MOST_TOKENS: Final = 8192  # in one answer
MOST_CELLS: Final = 2**16
MOST_TOP: Final = 256
_HEAD_BYTES: Final = 2048  # of a head's numbers in the overview, about
_Array: TypeAlias = NDArray[Any]


def as_text(value: Any) -> bytes:
    """JSON in ASCII, so that a token that is no valid Unicode passes; null for NaN."""
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        fine = json.loads(json.dumps(value), parse_constant=lambda _: None)
        text = json.dumps(fine, separators=(",", ":"))
    return text.encode("ascii")


# ── a recording ──────────────────────────────────────────────────────────────────────────────


def listing(opened: Opened) -> dict[str, Any]:
    """Which recording this is, and how it is."""
    recording = opened.recording
    with opened.lock:
        return {
            "recording": opened.number,
            "name": opened.name,
            "revision": opened.revision,
            "live": recording.is_live,
            "damage": [{"offset": one.offset, "reason": one.reason} for one in recording.damage],
            "model": facts_for_json(recording.model),
            "prompts": len(recording.prompts),
        }


def overview(opened: Opened, prompt: int = 0) -> dict[str, Any]:
    """Everything the first page needs; what was written since is looked at first."""
    with opened.lock:
        opened.refresh()
        recording = opened.recording
        found = listing(opened) | {
            "made": facts_for_json(recording.made),
            "plan": facts_for_json(recording.plan),
            "check": facts_for_json(recording.check),
            "prompts": [_prompt_facts(one) for one in recording.prompts],
            "prompt": prompt,
            "statistics": {name: one._asdict() for name, one in recording.statistic_kinds.items()},
            "scale": _scale(),
            "caveat": CAVEAT,
        }
        if not recording.prompts:
            return found | {"stacks": [], "heads": [], "problems": []}
        view = opened.prompt(prompt)
        size = _HEAD_BYTES * len(view)
        return found | opened.remembered("heads", prompt, lambda: _heads_of(view), size)


def _prompt_facts(prompt: PromptView) -> dict[str, Any]:
    streams = {name: _tried([], len, stream) for name, stream in prompt.streams.items()}
    return {
        "title": prompt.title,
        "tokens": prompt.note.tokens,
        "generated": prompt.generated,
        "finished": prompt.finished,
        "next": [{"token": text, "probability": as_json(share)} for text, share in prompt.next],
        "streams": streams,
    }


def _heads_of(prompt: PromptView) -> dict[str, Any]:
    """Grids of every statistic; what cannot be read is left out, and named."""
    problems: list[str] = []
    stacks, known = [], []
    for name, (layers, heads) in prompt.stacks.items():
        grids = {
            statistic: _tried(
                problems, lambda *which: as_json(prompt.grid(*which)), statistic, name
            )
            for statistic in prompt.statistic_kinds
        }
        stacks.append({"name": name, "layers": layers, "heads": heads, "grids": grids})
    for label in prompt.labels():
        facts = _tried(problems, lambda one: _short_facts(prompt[one]), label)
        known += [facts] if facts else []
    return {"stacks": stacks, "heads": known, "problems": list(dict.fromkeys(problems))}


def _tried(problems: list[str], make: Callable[..., Any], *given: Any) -> Any:
    """make(*given); None where the file is damaged just there, which is added to the problems."""
    try:
        return make(*given)
    except FileError as error:
        problems.append(str(error))
        return None


def _short_facts(head: Head) -> dict[str, Any]:
    return {
        "label": head.label,
        "stack": head.stack,
        "layer": head.layer,
        "head": head.head,
        "shape": list(head.shape),
        "recorded": [head.recorded.start, head.recorded.stop],
        "exact": head.exact,
    }


def _scale() -> dict[str, Any]:
    """What the codes of a tile stand for."""
    one = TIMES_UNIFORM
    return {"name": one.name, "low": one.low, "high": one.high, "log": one.is_log, "hidden": 0,
            "first": 1, "last": 255}  # fmt: skip


def thumbnails(
    opened: Opened,
    prompt: int = 0,
    stack: str = "",
    side: int = 32,
    go_on: Callable[[], None] = lambda: None,
) -> Thumbnails:
    """Small pictures of a stack's heads, made once; others are answered meanwhile."""
    with opened.lock:
        view, key = opened.prompt(prompt), opened.key(prompt, f"thumbnails {side} {stack}")
        layers, heads = view.stacks.get(stack, (0, 0))

    def make() -> Thumbnails:
        return thumbnails_of(opened.snapshot().prompts[prompt], stack, side, go_on)

    return opened.shared(key, make, layers * heads * (side * side + 1))


def tokens(
    opened: Opened, prompt: int = 0, stream: str = "", start: int = 0, count: int = 1024
) -> dict[str, Any]:
    """A page of a stream's tokens; without a name, of the first stream."""
    if not 0 < count <= MOST_TOKENS:
        raise InputError(f"count={count}; give 1 to {MOST_TOKENS}")
    with opened.lock:
        view = opened.prompt(prompt)
        name = stream or next(iter(view.streams), "")
        if name not in view.streams:
            have = ", ".join(view.streams) or "none"
            raise InputError(f"there is no stream {stream!r}; this prompt has {have}")
        one = view.streams[name]
        total = len(one)
        if not 0 <= start <= total:
            raise InputError(f"token {start} does not exist; there are {total}")
        part = slice(start, start + count)
        return {
            "stream": name, "start": start, "total": total, "tokens": one.tokens[part],
            "ids": one.ids[part].tolist(), "flags": one.flags[part].tolist(),
        }  # fmt: skip


# ── a head ───────────────────────────────────────────────────────────────────────────────────


def head_facts(opened: Opened, prompt: int, label: str) -> dict[str, Any]:
    """Its numbers, the levels of its map, and the tracks beside it."""
    with opened.lock:
        view = opened.prompt(prompt)
        head = view[label]
        place, slot = head.place, head.place.heads.index(head.head)
        statistics, problems = view.statistics(place.label), list[str]()
        numbers = {
            name: _tried(problems, lambda n: as_json(statistics[n][slot]), name)
            for name in view.statistic_kinds
        }
        tracks = _tried(problems, tracks_of, head) or {}
        held = view.held(place.label)
        measures = StoredOf(held, head.head).measures  # without a look at the numbers
        return _short_facts(head) | {
            "prompt": prompt,
            "revision": opened.revision,
            "place": place.name,
            "kind": place.kind,
            "why_not": head.why_not or None,
            "streams": {"queries": place.query_tokens, "keys": place.key_tokens},
            "statistics": numbers,
            "stored": {name: str(one) for name, one in measures.items()},
            "tile": TILE,
            "levels": {"mean": levels_of(head), "max": levels_of(head, "max")},
            "sight": Sight(held, head.head).is_complete,
            "scale": _scale(),
            "tracks": {name: one and one.as_dict() for name, one in tracks.items()},
            "problems": list(dict.fromkeys(problems)),
            "caveat": CAVEAT,
        }


def row_facts(opened: Opened, prompt: int, label: str, row: int, top: int = 32) -> dict[str, Any]:
    """What a row may see, and its heaviest keys."""
    if not 0 < top <= MOST_TOP:
        raise InputError(f"top={top}; give 1 to {MOST_TOP}")
    with opened.lock:
        view, head = opened.prompt(prompt), opened.head(prompt, label)
        _check_row(head, row)
        page = make_row(view, head, Look(), row=row, keys=range(head.shape[1]), top=top)
        return page.as_dict() | {"exact": head.exact, "why_not": head.why_not or None}


def weights(opened: Opened, prompt: int, label: str, row: int) -> bytes:
    """(keys,) float32: a whole row; NaN where it may not look, ∞ where a weight is no number."""
    with opened.lock:
        head = opened.head(prompt, label)
        _check_row(head, row)
        found = _known(opened, prompt, head, range(row, row + 1), range(head.shape[1]))
        return bytes(found.tobytes())


def cells(opened: Opened, prompt: int, label: str, rows: range, keys: range) -> bytes:
    """A rectangle of weights (rows, keys) float32, then how many keys each row may see (rows,)
    float32. NaN where a row may not look, ∞ where a weight is no number; both NaN in rows that
    were not recorded."""
    with opened.lock:
        head = opened.head(prompt, label)
        for what, span, count in zip(("rows", "keys"), (rows, keys), head.shape, strict=True):
            if not (0 <= span.start < span.stop <= count):
                raise InputError(
                    f"{what} {span.start} to {span.stop} are not all there; {head.label} has "
                    f"{count}"
                )
        if len(rows) * len(keys) > MOST_CELLS:
            raise InputError(f"{len(rows)} × {len(keys)} cells; at most {MOST_CELLS} at once")
        found = _known(opened, prompt, head, rows, keys)
        own = _numbers(rows)
        is_here = (own >= head.recorded.start) & (own < head.recorded.stop)
        counts = np.full(len(rows), np.nan, "<f4")
        counts[is_here] = head.visible()[own[is_here] - head.recorded.start]
        return bytes(found.tobytes() + counts.tobytes())


def _known(opened: Opened, prompt: int, head: Head, rows: range, keys: range) -> _Array:
    """(rows, keys) float32: NaN where nothing can be seen, ∞ where q and k give no number."""
    found = np.full((len(rows), len(keys)), np.nan, "<f4")
    recorded = range(max(rows.start, head.recorded.start), min(rows.stop, head.recorded.stop))
    if recorded:
        sight = Sight(opened.prompt(prompt).held(head.place.label), head.head)
        part = np.asarray(head[recorded.start : recorded.stop, keys.start : keys.stop])
        seen = seen_cells(sight, _numbers(recorded), _numbers(keys))
        first = recorded.start - rows.start
        told = np.where(np.isnan(part), np.inf, part)
        found[first : first + len(recorded)] = np.where(seen, told, np.nan)
    return found


def _numbers(span: range) -> NDArray[np.int64]:
    """An array of a range; np.array would ask it for every number."""
    return np.arange(span.start, span.stop)


def _check_row(head: Head, row: int) -> None:
    if row not in head.recorded:
        first, last = head.recorded.start, head.recorded.stop - 1
        have = f"rows {first}–{last} were" if head.recorded else "no row was"
        raise InputError(f"row {row} of {head.label} was not recorded; {have}")
