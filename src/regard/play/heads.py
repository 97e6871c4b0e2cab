"""Heads that stand out on a prompt, with names; and a map of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from regard.play.reading import Reading
from regard.recording import Recording
from regard.study import make_report
from regard.study.finding import HeadStudy
from regard.study.report import Ranked, Report

MOST: Final = 10
_LEAST: Final = 0.15  # weight on one other word, for a head that is named after what it reads

# A short name for each pattern; the map shows the first that holds.
NAMES: Final[dict[str, str]] = {
    "induction": "induction",
    "prefix-matching": "after the same word",
    "duplicate-token": "the same word",
    "retrieval": "retrieval",
    "previous": "word before",
    "offset": "fixed distance",
    "delimiter": "punctuation",
    "self": "itself",
    "local-8": "nearby",
    "local-64": "local",
    "sharp": "one word",
    "saturated": "saturated",
    "uniform": "everything",
    "inactive": "inactive",
    "sink": "resting",
}


def heads_answer(reading: Reading, recording: Recording) -> dict[str, Any]:
    """The strip of heads, and every head with the pattern it shows."""
    own = Recording(recording.store)  # heads of its own: words can be pointed at meanwhile
    report = make_report(own, 0, top=4 * MOST)
    return {
        "cards": list(_cards(reading, report))[:MOST],
        "map": [_cell(head) for head in report.heads],
        "names": NAMES,
    }


def _cards(reading: Reading, report: Report) -> Iterator[dict[str, Any]]:
    """Findings, each head once; then heads of the last word that read one other word."""
    seen: set[str] = set()
    for ranked in report.told:
        if ranked.head.label not in seen and _is_telling(ranked):
            seen.add(ranked.head.label)
            yield _found(ranked)
        if len(seen) >= MOST - 3:
            break
    for card in _reading_one(reading):
        if card["label"] not in seen:
            seen.add(card["label"])
            yield card


def _is_telling(ranked: Ranked) -> bool:
    """Not of a head that rests on the first word: there it is sharp, and that is all."""
    is_shape = ranked.finding.name in ("sharp", "saturated", "uniform", "inactive")
    return ranked.finding.name != "sink" and not (is_shape and ranked.head.sink > 0.5)


def _found(ranked: Ranked) -> dict[str, Any]:
    name = ranked.finding.name
    return {
        "label": ranked.head.label, "stack": ranked.head.stack, "layer": ranked.head.layer,
        "head": ranked.head.head, "name": NAMES.get(name, name), "pattern": name,
        "sentence": ranked.sentence, "row": ranked.row,
    }  # fmt: skip


def _reading_one(reading: Reading) -> Iterator[dict[str, Any]]:
    """Heads in which the last word attends to one earlier word, the first one left out: most
    heads rest there."""
    stack = next(iter(reading.stacks))
    rows, keys = reading.size(stack)
    keys = min(keys, reading.frames or keys) if reading.is_over_sound(stack) else keys
    if keys < 3:
        return
    weights = reading.weights(stack, range(rows - 1, rows))[:, :, 0]  # (L, H, keys)
    inner = weights[:, :, 1 : max(keys - 1, 2)]
    best = inner.max(-1)
    for flat in np.argsort(-best, axis=None, kind="stable")[: 2 * MOST]:
        layer, head = (int(n) for n in np.unravel_index(flat, best.shape))
        value = float(best[layer, head])
        if value < _LEAST:
            return
        key = int(inner[layer, head].argmax()) + 1
        label = f"{stack}.L{layer}H{head}" if stack else f"L{layer}H{head}"
        word = reading.key_text(stack, key)
        yield {
            "label": label, "stack": stack, "layer": layer, "head": head,
            "name": f"reads “{word}”" if reading.frames is None else f"hears {word}",
            "pattern": "word",
            "sentence": f"{label}: the last word attends to “{word}” with weight {value:.2f}.",
            "row": rows - 1,
        }  # fmt: skip


def _cell(head: HeadStudy) -> dict[str, Any]:
    held = {one.name: one for one in head.findings if one.holds}
    name = next((one for one in NAMES if one in held), "")
    score = held[name].score if name else head.non_sink
    return {
        "label": head.label, "stack": head.stack, "layer": head.layer, "head": head.head,
        "pattern": name, "score": round(float(np.nan_to_num(score)), 4),
        "sink": round(float(np.nan_to_num(head.sink)), 4),
    }  # fmt: skip
