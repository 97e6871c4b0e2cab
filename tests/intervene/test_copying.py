"""On sequences told twice, SmolLM2 copies, and by the heads that look back."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
import torch

from real_models import smollm2
from regard.errors import InputError
from regard.intervene import copying_probe, prefix_matching, told_twice
from regard.recorder import record

COMMON = range(256, 8192)  # of SmolLM2's vocabulary
ENDOFTEXT = 0  # its texts begin with it


def test_a_sequence_told_twice() -> None:
    ids = told_twice(range(5, 40), 8, seeds=(0, 1, 2), first=1)
    assert ids.shape == (3, 17)
    assert torch.all(ids[:, 0] == 1)
    assert torch.equal(ids[:, 1:9], ids[:, 9:])
    for row in ids[:, 1:9].tolist():
        assert len(set(row)) == 8
        assert all(n in range(5, 40) for n in row)
    assert not torch.equal(ids[0], ids[1])
    assert torch.equal(told_twice(40, 8, seeds=(1,)), told_twice(range(40), 8, seeds=(1,)))
    with pytest.raises(InputError, match="give 2 to 35"):
        told_twice(range(5, 40), 36)


@pytest.fixture(scope="module")
def ids() -> torch.Tensor:
    """Two sequences of 2 × 24 tokens."""
    return told_twice(COMMON, 24, seeds=(0, 1), first=ENDOFTEXT)


@pytest.fixture(scope="module")
def looking(ids: torch.Tensor) -> dict[str, float]:
    """All heads by how much they look at what followed the earlier copy."""
    return prefix_matching(smollm2().model, ids)


def test_prefix_matching_is_a_mass(ids: torch.Tensor, looking: dict[str, float]) -> None:
    assert len(looking) == 30 * 9
    assert list(looking.values()) == sorted(looking.values(), reverse=True)
    first = next(iter(looking))
    with torch.no_grad(), record(smollm2().model) as rec:
        smollm2().model(ids[:1])
    weights = rec[first].dense()
    mass = [weights[i, i - 23] for i in range(25, 49)]
    assert looking[first] == pytest.approx(np.mean(mass), abs=0.05)
    assert looking[first] > 0.8


def test_without_them_the_copied_token_is_lost(
    ids: torch.Tensor, looking: dict[str, float]
) -> None:
    """Four heads of 270, against four drawn by lot among those that do not look back."""
    probe = copying_probe(smollm2().model, ids)
    assert probe.targets.tolist() == ids[:, 26:].tolist()
    labels = list(looking)
    found = probe.effect(labels[:4])
    rest = [label for label in labels if looking[label] < 0.1]
    drawn = [np.random.default_rng(seed).choice(rest, 4, replace=False) for seed in range(5)]
    by_lot = [probe.effect(some.tolist()) for some in drawn]
    assert found.delta_logprob < -3
    assert found.delta_logprob < 10 * statistics.median(one.delta_logprob for one in by_lot)
    assert found.delta_logit < -2
    assert found.delta_logit < 4 * statistics.median(one.delta_logit for one in by_lot)
    assert found.kl > 10 * statistics.median(one.kl for one in by_lot)
