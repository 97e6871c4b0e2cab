"""Contents `attention/1`, pinned: what was recorded once can always be read, with these numbers.

To write the file again (only together with new contents):

    python -c "import sys; sys.path.insert(0, 'tests'); from pathlib import Path
    from recording.test_golden_attention import record_attention, GOLDEN; record_attention(GOLDEN)"
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.mask import Causal
from regard.recording import Writer, check
from regard.recording.schema import Prompt
from regard.score import ALiBi, ScoreRule
from regard.study import make_report
from support.recordings import Chunk, write_recording

GOLDEN = Path(__file__).with_name("golden-attention-1.regard")
KNOWN = json.loads(GOLDEN.with_suffix(".json").read_text(encoding="utf-8"))


def record_attention(path: Path) -> None:
    """Twelve tokens in two chunks, two heads that share their keys, bf16."""
    score = ScoreRule(0.5, 30.0, ALiBi(torch.tensor([0.5, 0.25])), torch.tensor([0.0, -1.0]))
    chunks = [Chunk((0, 9), (0, 9), Causal(), score), Chunk((9, 12), (0, 12), Causal(), score)]
    with Writer(path, overwrite=True) as writer:
        write_recording(writer, chunks=chunks, heads=2, key_heads=1, dim=4, dtype=torch.bfloat16,
                        seed=11, pool_cell=4, pieces=12)  # fmt: skip
        said = Prompt(12, 3, "golden", "", ((" w3", 0.5), (" w1", 0.25)), finished=True)
        writer.note({"prompt/0": said.to_json(), "made": json.dumps({"regard": "0.1.0"})})


@pytest.fixture(scope="module")
def golden():
    """Open."""
    with regard.open(GOLDEN) as rec:
        yield rec


def test_the_file_is_whole_and_small():
    report = check(GOLDEN)
    assert report.is_whole and report.is_closed and report.size < 20_000


def test_what_it_says(golden):
    assert golden.labels() == ["L0H0", "L0H1"] and golden.stacks == {"": (1, 2)}
    prompt = golden.prompts[0]
    assert (prompt.title, prompt.generated, prompt.finished) == ("golden", 3, True)
    assert prompt.next == ((" w3", 0.5), (" w1", 0.25))
    assert prompt.tokens == KNOWN["tokens"] and prompt.ids.tolist() == KNOWN["ids"]
    assert golden["L0H1"].place.segments[1].rows == (9, 12) and golden["L0H1"].exact


def test_known_numbers(golden):
    for label, numbers in KNOWN["heads"].items():
        head = golden[label]
        found = {
            "last": head[11], "lse": head.lse, "entropy": head.entropy(), "sink": head.sink_mass(),
            "distance": head.distance(), "received": head.received(), "keys": head.peak().keys,
            "pooled": head.pooled(4).reshape(-1),
        }  # fmt: skip
        for name, wanted in numbers.items():
            np.testing.assert_allclose(found[name], wanted, atol=2e-5, err_msg=f"{label} {name}")


def test_computed_again_it_says_the_same(golden):
    for head in golden:
        dense = head.dense()
        np.testing.assert_allclose(dense.sum(-1) + head.sink_mass(), 1, atol=1e-5)
        np.testing.assert_allclose(dense.sum(0), head.received(), atol=1e-5)
        np.testing.assert_allclose(dense.max(-1), head.stored["peak"].values, atol=1e-6)


def test_statistics(golden):
    for name, wanted in KNOWN["statistics"].items():
        np.testing.assert_allclose(golden.grid(name)[0], wanted, atol=2e-5, err_msg=name)
    assert make_report(golden).told == []
