"""Small things that are said in several places."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np

from regard.recording import PromptView
from regard.study.words import CAVEAT as CAVEAT
from regard.views.schema import Facts

_MOST_NESTED: Final = 64  # lists and objects in one fact
_SINKS: Final = ("sink", "non_sink")
_NO_SINKS: Final = (
    "sinks cannot be told where too many keys share a bin; the mass on the first token is known, "
    "and a larger budget keeps every key"
)


def count(n: int, word: str) -> str:
    """'1 token', '4,096 tokens'."""
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def bytes_in_words(size: int) -> str:
    """43 kB, 1.3 GB."""
    for power, unit in ((9, "GB"), (6, "MB"), (3, "kB")):
        if size >= 10**power:
            return f"{size / 10**power:.3g} {unit}"
    return f"{size} bytes"


def large_number(n: int) -> str:
    """134M, 7.2B."""
    for power, letter in ((9, "B"), (6, "M"), (3, "k")):
        if n >= 10**power:
            return f"{n / 10**power:.3g}{letter}"
    return str(n)


def why_unknown(prompt: PromptView, statistic: str) -> str:
    """Why recorded heads lack a number for want of single keys; "" where they do not."""
    if statistic not in _SINKS:
        return ""
    dark = (
        place.key_bin > 1
        and prompt.held(label).columns("received") is not None
        and np.isnan(prompt.statistics(label)[statistic]).any()
        for label, place in prompt.places.items()
    )
    return _NO_SINKS if any(dark) else ""


def facts_for_json(facts: Facts) -> dict[str, Any]:
    """Facts out of a file: NaN and infinities, which JSON does not have, as null; what is nested
    beyond all reason left out."""
    kept = {}
    for name, value in facts.items():
        try:
            text = json.dumps(value)
        except RecursionError:
            continue
        if text.count("[") + text.count("{") <= _MOST_NESTED:
            kept[name] = json.loads(text, parse_constant=lambda _: None)
    return kept
