"""Small things said on several pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from regard.draw.spelling import number
from regard.recording import STATISTICS, Finding, PromptView

CAVEAT = "weights show where a head looks, not why the model answers"

_SINKS: Final = ("sink", "non_sink")
_NO_SINKS: Final = (
    "sinks cannot be told where too many keys share a bin; the number `first`, the mass on key 0, "
    "is known, and a larger budget keeps every key"
)
_MOST_NESTED: Final = 64  # lists and objects in one fact
_SENTENCES: Final = {
    "first": "gives {} of its attention to the first token",
    "previous": "gives {} of its attention to the token before",
    "self": "gives {} of its attention to the token itself",
    "duplicate": "gives {} to earlier copies of the token, where there are any",
    "prefix": "gives {} to what followed earlier copies of the token, where there are any",
    "delimiter": "gives {} of its attention to punctuation and line breaks",
    "entropy": "spreads its rows to {} nats of entropy",
    "sharp": "looks at a single key in {} of its rows",
    "max_score": "reaches a score of {}",
    "output_norm": "writes {} times what its layer's heads write on average",
}


def as_json(values: ArrayLike) -> Any:
    """Numbers as JSON has them; what is no finite number is null."""
    given = np.asarray(values)
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        numbers = given.astype(np.object_)
        numbers[~np.isfinite(given)] = None
        return numbers.tolist()
    return given.tolist()


def facts_for_json(facts: Mapping[str, Any]) -> dict[str, Any]:
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


def sentence_of(one: Finding) -> str:
    """What the head does, and what is usual in its layer."""
    words = _SENTENCES.get(one.statistic, f"has {one.statistic} {{}}")
    is_share = STATISTICS[one.statistic].span == "one"
    value, usual = (f"{x:.3f}" if is_share else number(x) for x in (one.value, one.median))
    return f"{words.format(value)}; its layer's median is {usual}"


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
