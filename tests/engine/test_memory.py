"""Memory grows with the number of tokens, not with its square: measured in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

MEGABYTE = 2**20

START = """
import json, resource, sys
import torch, regard

def peak():
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most * (1 if sys.platform == "darwin" else 1024)

def tensors(tokens, grad=False):
    torch.manual_seed(0)
    return [torch.randn(1, 4, tokens, 64).requires_grad_(grad) for _ in range(3)]

ASKED = (regard.Entropy(), regard.MaxScore(), regard.Top(8), regard.Received(), regard.Pooled())

def ask(q, k, v):
    a = regard.attend(q, k, v, mask=regard.Causal(), summaries=ASKED, implementation="cpu")
    found = a.summarize(*ASKED)
    flat = [a.output, a.lse]
    for value in found.values():
        flat += list(value) if isinstance(value, tuple) else [value]
    return flat

def pack(q, k, v):
    q, k, v = (t[0].transpose(0, 1) for t in (q, k, v))
    starts = torch.arange(0, len(q) + 1, max(len(q) // 64, 1))
    starts[-1] = len(q)
    a = regard.attend(q, k, v, mask=regard.Causal(), summaries=ASKED, cu_seqlens_q=starts)
    return [a.output, a.lse, *a.top(8), a.received(), a.entropy()]

def learn(q, k, v):
    a = regard.attend(q, k, v, mask=regard.Causal(), summaries=(regard.Entropy(),),
                      implementation="cpu")
    loss = a.output.square().sum() + a.entropy().sum() + a.received()[..., 0].sum()
    return torch.autograd.grad(loss, [q, k, v])

def measure(function, tokens, grad=False):
    function(*tensors(70, grad))  # libraries and code are loaded before the measurement
    given = tensors(tokens, grad)
    before = peak()
    answers = function(*given)
    kept = sum(t.numel() * t.element_size() for t in answers)
    print(json.dumps({"extra": peak() - before - kept, "kept": kept}))
"""


def _measure(call: str) -> dict[str, int]:
    """What a call took beyond what it was given and what it gave back, in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", f"{START}\nmeasure({call})"],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_summary_of_16384_tokens_takes_less_than_100_megabytes():
    """The matrix itself would take 4 GiB."""
    found = _measure("ask, 16384")
    assert found["kept"] > 20 * MEGABYTE, "there was something to measure"
    assert found["extra"] < 100 * MEGABYTE


def test_packed_sequences_of_16384_tokens_take_less_than_100_megabytes():
    assert _measure("pack, 16384")["extra"] < 100 * MEGABYTE


def test_the_backward_of_8192_tokens_is_far_below_one_matrix():
    """The matrix of one head alone would take 256 MiB; q, k and v take 24."""
    found = _measure("learn, 8192, True")
    assert found["extra"] < 130 * MEGABYTE
