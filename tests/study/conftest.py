"""Heads that do one thing, and the recordings of them that several tests read."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard import study
from support.recordings.planted import (
    KINDS,
    causal,
    mixed,
    record_patches,
    record_planted,
    targets,
    text,
)


def record(weights: Any, ids: np.ndarray, path: Any = None, **options: Any) -> Any:
    """(N, N), (heads, N, N) or (layers, heads, N, N) weights over a text, recorded; `budget=None`
    is no option."""
    given = np.asarray(weights)
    given = given.reshape(1, *given.shape) if given.ndim == 3 else given
    given = given[None, None] if given.ndim == 2 else given
    options = {name: option for name, option in options.items() if option is not None}
    return record_planted(given, ids, path, **options)


def heads_of(
    weights: Any, ids: np.ndarray, evidence: Any = "labels", **options: Any
) -> list[study.HeadStudy]:
    """The same, studied."""
    return study.patterns(record(weights, ids, **options), evidence=evidence)


def head_of(weights: np.ndarray, ids: np.ndarray, **options: Any) -> study.HeadStudy:
    """The only one."""
    (head,) = heads_of(weights, ids, **options)
    return head


def head_of_patches(weights: np.ndarray, grid: Any, **options: Any) -> study.HeadStudy:
    """The only one over a grid."""
    (head,) = study.patterns(record_patches(weights[None, None], grid), **options)
    return head


def planted_head(kind: str, ids: np.ndarray, sink: float = 0.0, **more: Any) -> study.HeadStudy:
    """Of one kind, which half or less of its mass is not about."""
    return head_of(mixed(targets(ids)[kind], sink, **more), ids)


def on_first(n: int) -> np.ndarray:
    """(n, n): all of it on key 0."""
    weights = np.zeros((n, n))
    weights[:, 0] = 1
    return weights


def even(n: int) -> np.ndarray:
    """(n, n): every row spread over what it sees."""
    return causal(n) / np.arange(1, n + 1)[:, None]


@pytest.fixture(scope="session")
def words() -> np.ndarray:
    """A text of 160 tokens."""
    return text(160, seed=4)


@pytest.fixture(scope="session")
def layers(words: np.ndarray) -> np.ndarray:
    """(2, kinds, N, N): a head of each kind, without a sink and with half of its mass on one."""
    aims = targets(words, seed=4)
    return np.array(
        [[mixed(aims[kind], sink, 0.9, 0.2, n) for n, kind in enumerate(KINDS)]
         for sink in (0.0, 0.5)]
    )  # fmt: skip


@pytest.fixture(scope="session")
def planted(words: np.ndarray, layers: np.ndarray) -> Any:
    """These, with q and k."""
    return record(layers, words)


@pytest.fixture(scope="session")
def kept(words: np.ndarray, layers: np.ndarray) -> Any:
    """The same with statistics alone: q and k did not fit."""
    stored = record(layers, words, budget="1500kB")
    assert not any(stored[label].exact for label in stored.labels())
    return stored


def record_family(name: str) -> Any:
    """A small model of transformers that sees, recorded on one of its inputs."""
    from support.families.build import build
    from support.families.inputs import accepted

    model = build(name)
    inputs = {
        key: given[: 16 if key == "pixel_values" and given.ndim == 2 else 1]
        for key, given in accepted(model).items()
        if hasattr(given, "ndim")
    }
    with warnings.catch_warnings(), regard.record(model) as rec, torch.no_grad():
        warnings.simplefilter("ignore")
        model(**inputs)
    return rec
