"""Heads that stand out on a prompt, with names; and a map of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from regard.intervene.names import read_heads
from regard.play.reading import Reading
from regard.recording import Recording
from regard.study import make_report
from regard.study.finding import HeadStudy
from regard.study.report import Ranked, Report

MOST: Final = 10
_MOVING, _PATTERNED = 4, 4
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


def heads_answer(
    reading: Reading, recording: Recording, aligned: Sequence[str] = ()
) -> dict[str, Any]:
    """The strip of heads, and every head with the pattern it shows. `aligned` heads follow a
    sound."""
    own = Recording(recording.store)  # heads of its own: words can be pointed at meanwhile
    report = make_report(own, 0, top=4 * MOST)
    kinds = _following(aligned), _patterned(reading, report), _reading_one(reading)
    cards: dict[str, dict[str, Any]] = {}
    for made, most in zip(kinds, (MOST, _PATTERNED, MOST), strict=True):
        stop = min(len(cards) + most, MOST)
        for card in made:
            if len(cards) >= stop:
                break
            cards.setdefault(card["label"], card)
    return {
        "cards": list(cards.values()),
        "map": [_cell(head) for head in report.heads],
        "names": NAMES,
    }


def effect_cards(measured: Sequence[tuple[str, float, float]], likeliest: str) -> list[Any]:
    """Heads whose knock-out changes the likeliest token most."""
    cards = []
    for label, before, after in measured[:_MOVING]:
        way = "for" if after < before else "against"
        words = (
            f"Without {label}, the probability of “{likeliest}” is {after:.2f}, not {before:.2f}."
        )
        card = _card(label, f"{way} “{likeliest}”", way, words, None)
        cards.append(card | {"note": f"{before:.2f} → {after:.2f}"})
    return cards


def _following(aligned: Sequence[str]) -> Iterator[dict[str, Any]]:
    for label in aligned:
        words = f"{label} follows the sound: each word attends to the moment it is spoken."
        yield _card(label, "follows the sound", "aligned", words, None)


def _patterned(reading: Reading, report: Report) -> Iterator[dict[str, Any]]:
    for ranked in report.told:
        if _is_telling(ranked) and ranked.head.stack in reading.stacks:
            name = ranked.finding.name
            yield _card(ranked.head.label, NAMES.get(name, name), name, ranked.sentence, ranked.row)


def _card(label: str, name: str, pattern: str, sentence: str, row: int | None) -> dict[str, Any]:
    (head,) = read_heads(label)
    return {
        "label": label, "stack": head.stack, "layer": head.layer, "head": head.head,
        "name": name, "pattern": pattern, "sentence": sentence, "row": row,
    }  # fmt: skip


def _is_telling(ranked: Ranked) -> bool:
    """Not of a head that rests on the first word: there it is sharp, and that is all."""
    is_shape = ranked.finding.name in ("sharp", "saturated", "uniform", "inactive")
    return ranked.finding.name != "sink" and not (is_shape and ranked.head.sink > 0.5)


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
        name = f"reads “{word}”" if reading.frames is None else f"hears {word}"
        words = f"{label}: the last word attends to “{word}” with weight {value:.2f}."
        yield _card(label, name, "word", words, rows - 1)


def _cell(head: HeadStudy) -> dict[str, Any]:
    held = {one.name: one for one in head.findings if one.holds}
    name = next((one for one in NAMES if one in held), "")
    score = held[name].score if name else head.non_sink
    return {
        "label": head.label, "stack": head.stack, "layer": head.layer, "head": head.head,
        "pattern": name, "score": round(float(np.nan_to_num(score)), 4),
        "sink": round(float(np.nan_to_num(head.sink)), 4),
    }  # fmt: skip
