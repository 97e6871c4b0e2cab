"""One head of a reading as the lesson reads it: its own q, k and scale."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from regard.errors import InputError, UnavailableError
from regard.learn import Options, make_lesson
from regard.learn.languages import Phrase
from regard.recording import Recording
from regard.viewer.lesson import lesson_data

MOST_TOKENS: Final = 256  # the lesson draws every weight
_DECIMALS: Final = 6
_SENTENCE: Final = "The cat sat"  # of the lesson's other steps
_AGREE: Final = 1e-3


def explained(recording: Recording, label: str, row: int, model: str, key: int) -> dict[str, Any]:
    """The lesson with this head as its real one (RealHead in web/src/learner/data.ts)."""
    head = recording.prompts[0][label]
    if head.why_not:
        raise UnavailableError(head.why_not)
    if head.shape[0] > MOST_TOKENS or head.place.kind != "self":
        raise UnavailableError(
            f"the lesson shows self-attention of at most {MOST_TOKENS} tokens; {label} has "
            f"{head.shape[0]} × {head.shape[1]}: open it in the engineer's room"
        )
    for name, number in {"row": row, "key": key}.items():
        if number >= head.shape[0]:
            raise InputError(f"{name} {number} does not exist; there are 0–{head.shape[0] - 1}")
    held = recording.prompts[0].held(head.place.label)
    q = held.runs["q"].numbers(held.slot(head.head), head.shape[0])
    k = held.runs["k"].numbers(held.key_head(head.head), head.shape[1])
    scale = float(held.rules(head.head, 0).score.scale)
    causal = bool(head.shape[0] > 1 and not np.any(head[0, 1:]))
    if not np.allclose(_weights(q, k, scale, causal)[row], head.rows(row), atol=_AGREE):
        raise UnavailableError(
            f"{label} does more than the lesson shows (an edge that is cut, a bias or a soft cap); "
            "restore it, or open it in the engineer's room"
        )
    tokens, weight = list(head.key_tokens or ()), float(head[row, key])
    words = {"query": tokens[row].strip(), "key": tokens[key].strip(), "weight": f"{weight:.4f}"}
    data = lesson_data(make_lesson(Options(_SENTENCE)))
    data["real"] = {
        "model": model, "label": label, "tokens": tokens, "row": row,
        "words": Phrase("real_head.attends", words).as_dict(),
        "queries": _rounded(q), "keys": _rounded(k), "values": [], "scale": scale,
        "causal": causal,
    }  # fmt: skip
    return data


def _weights(q: Any, k: Any, scale: float, causal: bool) -> Any:
    """As the lesson computes them."""
    scores = np.asarray(q, np.float64) @ np.asarray(k, np.float64).T * scale
    if causal:
        scores[np.tri(*scores.shape) == 0] = -np.inf
    shifted = np.exp(scores - scores.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def _rounded(numbers: Any) -> list[list[float]]:
    return np.round(np.asarray(numbers, np.float64), _DECIMALS).tolist()
