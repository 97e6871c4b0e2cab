"""One page about many documents."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import regard
from recorder.models import tiny, tokens
from regard.draw import Paper, plain
from regard.draw.pages import many_lines, overview_lines
from regard.recording import STATISTICS
from regard.views.findings import many_answer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three files of two documents."""
    folder = tmp_path_factory.mktemp("many")
    model = tiny("llama", num_key_value_heads=2)
    # a head that looks at one key alone is a surprise among its kin
    model.model.layers[1].self_attn.q_proj.weight.data[:8] *= 60
    for n in range(3):
        with torch.no_grad(), regard.record(model, folder / f"shard-0000{n}.regard"):
            model(tokens(40 + n, seed=n))
            model(tokens(5, seed=10 + n))
    return folder


def test_in_words(folder):
    with regard.open(folder) as rec:
        lines = plain(many_lines(rec, rec.merged(), "entropy", Paper(width=80)))
    text = "\n".join(lines)
    assert "6 documents in 3 files, 138 tokens; every row counts alike" in text
    assert "entropy: mean entropy of a row, in nats" in text
    assert "L0" in text and "L1" in text
    assert "heads that stand out in their layer" in text and "L1H0" in text
    assert max(map(len, lines)) <= 80


def test_as_json_with_every_statistic_of_every_head(folder):
    with regard.open(folder) as rec:
        merged = rec.merged()
        said = json.loads(json.dumps(many_answer(rec, merged), allow_nan=False))
    assert said["documents"] == 6 and said["tokens"] == 138 and len(said["files"]) == 3
    assert said["heads"] == [f"L{layer}H{head}" for layer in (0, 1) for head in range(4)]
    assert list(said["statistics"]) == list(STATISTICS)
    entropy = said["statistics"]["entropy"]
    np.testing.assert_allclose(entropy["values"], merged.grid("entropy").reshape(-1))
    assert entropy["rows"] == [138] * 8
    assert {one["label"] for one in said["surprising"]} >= {"L1H0"}


def test_a_single_document_has_its_own_page(folder):
    with regard.open(folder) as rec:
        text = "\n".join(plain(overview_lines(rec, 3, "entropy", Paper(width=80))))
    assert "prompt 3, 5 tokens" in text
