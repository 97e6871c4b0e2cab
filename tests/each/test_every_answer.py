"""No silent zeros: every answer × every entry point has the definition's gradient, or refuses."""

from __future__ import annotations

import pytest

from fuzz._answers import ANSWERS, REFUSED, check_answer
from fuzz.packed import BACKENDS, ENTRIES, Draw

_EACH = [(entry, seed) for entry in ENTRIES for seed in range(8)]


@pytest.mark.parametrize(
    ("entry", "seed"), _EACH, ids=[f"{entry.__name__}-{seed}" for entry, seed in _EACH]
)
def test_every_answer(entry, seed):
    draw = Draw(seed)
    draw.sizes, draw.backend = (2, 3, 7), BACKENDS[seed % len(BACKENDS)]
    problem = entry(draw)
    for name in (*ANSWERS, *REFUSED):
        check_answer(name, problem.attention, problem.matrix, problem.leaves, problem.words)
