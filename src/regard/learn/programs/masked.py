"""Masks."""

from __future__ import annotations

import math
from typing import Final

from regard.learn.programs.mistake import Mistake, mistake

_BOTH: Final = [False, True]
_CAUSAL: Final = "one token too few or too many is hidden"

MASKED: Final[tuple[Mistake, ...]] = (
    mistake(
        "mask",
        "mask missing",
        "the mask is not applied",
        "−∞ where a query may not see a key, before the softmax",
        mask="missing",
    ),
    mistake(
        "mask",
        "mask after softmax",
        "the mask is applied after the softmax, so the weights do not sum to 1",
        "mask the scores, before the softmax",
        mask="after",
        flip=_BOTH,
    ),
    mistake(
        "mask",
        "mask after softmax",
        "the mask is applied after the softmax",
        "mask the scores, before the softmax",
        mask="afterfill",
        flip=_BOTH,
        fill=[-math.inf, -1e9, -1e10, -1e20, -1e4, -1e5, -1e6, -1e8, -1e12, -1e30, -100.0, -1e3],
    ),
    mistake(
        "mask",
        "mask inverted",
        "the mask is inverted: it hides what may be seen",
        "hide the other positions",
        mask="inverted",
    ),
    mistake(
        "mask",
        "mask inverted",
        "the mask is inverted: it hides the past and shows the future",
        "hide the other positions",
        mask="inverted",
        causal=1,
    ),
    mistake(
        "mask",
        "masked with 0",
        "hidden scores are set to 0, so they keep weight",
        "−∞ in their place",
        mask=["before", "times"],
        fill=[0.0],
        flip=_BOTH,
    ),
    mistake(
        "mask",
        "masked with a small number",
        "hidden scores are set to a number that is not low enough",
        "−∞ in its place",
        mask="before",
        fill=[-1.0, -2.0, -5.0, -9.0, -10.0, -0.5, -3.0, -4.0, -8.0, -1e-3, 1.0, -0.1],
        flip=_BOTH,
    ),
    mistake(
        "mask",
        "masked with +∞",
        "hidden scores are set to a large number",
        "−∞ in its place",
        mask="before",
        fill=[math.inf, 1e9, 1e10, 1e20, 1e4, 1e5, 1e6, 100.0, 1e3],
        flip=_BOTH,
    ),
    mistake(
        "mask",
        "mask added as 0 and 1",
        "the mask is added as 0 and 1",
        "add 0 and −∞",
        mask=["added", "taken"],
    ),
    mistake("mask", "off by one", "the token's own position is hidden", _CAUSAL, causal=-1),
    mistake("mask", "off by one", "one later token is visible", _CAUSAL, causal=1),
    mistake("mask", "off by one", "the causal mask is shifted", _CAUSAL, causal=[-2, 2, 3]),
    mistake(
        "mask",
        "mask transposed",
        "the mask is transposed: the triangle is the upper one",
        "rows are queries, columns are keys",
        mask="transposed",
        flip=_BOTH,
    ),
    mistake(
        "mask",
        "mask transposed",
        "the mask hides the past and shows the future",
        "a query sees itself and what came before",
        mask="transposed",
        causal=[-1, 1],
    ),
)
