"""A planted recording that several tests read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.recordings.planted import KINDS, mixed, record_planted, targets, text

HEADS = list(KINDS)


@pytest.fixture(scope="session")
def words() -> np.ndarray:
    """A text of 160 tokens."""
    return text(160, seed=4)


@pytest.fixture(scope="session")
def planted(words: np.ndarray) -> Any:
    """Two layers: one head of each kind, without a sink and with half of its mass on one."""
    aims = targets(words, seed=4)
    layers = [[mixed(aims[kind], sink, 0.9, 0.2, n) for n, kind in enumerate(HEADS)]
              for sink in (0.0, 0.5)]  # fmt: skip
    return record_planted(np.array(layers), words)


@pytest.fixture(scope="session")
def kept(words: np.ndarray) -> Any:
    """The same with statistics alone: q and k did not fit."""
    aims = targets(words, seed=4)
    layers = [[mixed(aims[kind], sink, 0.9, 0.2, n) for n, kind in enumerate(HEADS)]
              for sink in (0.0, 0.5)]  # fmt: skip
    found = record_planted(np.array(layers), words, budget="1500kB")
    assert not any(found[label].exact for label in found.labels())
    return found
