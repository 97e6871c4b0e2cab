"""What an eviction would drop of a recorded prompt, against the dense truth."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from regard import kv
from regard.recording import Recording
from regard.study import study_eviction
from support.recordings import write_recording
from support.recordings.synthetic import Chunk

SOME = kv.Eviction("snapkv", 90, sinks=4, recent=8)


@pytest.mark.parametrize("method", kv.METHODS)
def test_as_of_the_attention_that_was_recorded(method: str) -> None:
    """Keys and losses are those of the same q, k and v under `regard.attend`."""
    model = regard.nn.LanguageModel(
        regard.nn.LanguageModelConfig(
            vocabulary=50, layers=2, dim=16, heads=4, kv_heads=2, longest=200
        )
    ).eval()
    ids = torch.randint(0, 50, (1, 120), generator=torch.Generator().manual_seed(0))
    looked: list[regard.Attention] = []
    for block in model.decoder.blocks:
        block.attention._attend = _listened(block.attention._attend, looked)
    with regard.record(model) as rec, torch.no_grad():
        model(ids)
    asked = kv.Eviction(method, 90, sinks=4, recent=8)
    found = study_eviction(rec, asked)
    assert [one.label for one in found.layers] == ["L0", "L1"] and not found.refused
    for one, a in zip(found.layers, looked, strict=True):
        keep = asked.keep(a, 120)[0]
        assert np.array_equal(one.kept, keep.numpy())
        np.testing.assert_allclose(one.lost, kv.lost_mass(a, keep[None])[0], atol=1e-6)
        np.testing.assert_allclose(one.lost_last, kv.lost_mass(a, keep[None], 64)[0], atol=1e-6)
        for head, ranges in enumerate(one.gone):
            gone = [j for start, stop in ranges for j in range(start, stop)]
            assert sorted([*gone, *one.kept[head].tolist()]) == list(range(120))


def _listened(attend, looked):
    def run(*given, **options):
        looked.append(attend(*given, **options))
        return looked[-1]

    return run


def test_a_prompt_within_the_budget_loses_nothing() -> None:
    store, _ = write_recording(chunks=[Chunk((0, 50), (0, 50), regard.Causal())])
    found = study_eviction(Recording(store), kv.Eviction())
    assert all(one.kept.shape[-1] == one.keys for one in found.layers)
    assert all(not one.lost.any() and not one.gone_everywhere for one in found.layers)


def test_layers_that_cannot_be_told_say_why() -> None:
    store, _ = write_recording(chunks=[Chunk((0, 150), (0, 150), regard.Causal())], exact=False)
    found = study_eviction(Recording(store), SOME)
    assert not found.layers and len(found.refused) >= 1
    assert all("cannot be computed" in why for why in found.refused.values())
