"""Memory grows with the tokens, not with their square: measured in processes of its own."""

from __future__ import annotations

import pytest

import warm

MEGABYTE = 2**20
SCRIPT = """
import resource, sys
import torch, regard
from regard.summary import Entropy, MaxScore, Pooled, Received, Top

ASKED = (Entropy(), MaxScore(), Top(8), Received(), Pooled())
CAUSAL = regard.Causal()

def peak():
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most * (1 if sys.platform == "darwin" else 1024)

def tensors(tokens, grad=False):
    return [torch.randn(1, 4, tokens, 64).requires_grad_(grad) for _ in range(3)]

def ask(q, k, v):
    a = regard.attend(q, k, v, mask=CAUSAL, summaries=ASKED, implementation="cpu")
    answers = a.summarize(*ASKED).values()
    return [a.output, a.lse, *(t for x in answers for t in (x if isinstance(x, tuple) else [x]))]

def pack(q, k, v):
    q, k, v = (t[0].transpose(0, 1) for t in (q, k, v))
    starts = torch.linspace(0, len(q), 65).long()
    a = regard.attend(q, k, v, mask=CAUSAL, summaries=ASKED, cu_seqlens_q=starts)
    return [a.output, a.lse, *a.top(8), a.received(), a.entropy()]

def learn(q, k, v):
    q, k, v = (t.requires_grad_() for t in (q, k, v))
    a = regard.attend(q, k, v, mask=CAUSAL, summaries=(Entropy(),), implementation="cpu")
    loss = a.output.square().sum() + a.entropy().sum() + a.received()[..., 0].sum()
    return torch.autograd.grad(loss, [q, k, v])

def page(length):
    pages = torch.arange(length // 16, dtype=torch.int32).flip(0)[None]
    a = regard.replay(torch.zeros(1, 4, 8, 128, dtype=CACHE.dtype), CACHE, pages=pages,
                      lengths=torch.tensor([length]), mask=CAUSAL)
    a.summarize(Entropy(), Top(4), Received())
    return [a[:, :2]]

what, size = sys.argv[1], int(sys.argv[2])
CACHE = torch.zeros(size // 16 if what == "page" else 8, 16, 8, 128, dtype=torch.bfloat16)
run, of = globals()[what], (lambda n: [n]) if what == "page" else tensors
run(*of(80))  # libraries and code are loaded before the measurement
given = of(size)
before = peak()
kept = sum(t.numel() * t.element_size() for t in run(*given))
print(peak() - before - kept)
"""


@pytest.mark.parametrize(
    ("what", "size", "most"),
    [
        ("ask", 8192, 50),  # the matrix itself would take 1 GiB, that of one head 256 MiB
        ("pack", 8192, 50),
        ("learn", 4096, 60),  # one head's matrix would take 64 MiB, q, k and v take 12
        # 16,384 keys of 8 heads: 32 MiB as they are, 64 MiB in the precision computed in, of which
        # the kernel holds one head at a time, 8 MiB, as it does of any keys
        ("page", 16384, 22),
    ],
)
def test_beyond_what_comes_in_and_goes_out_little_is_taken(what: str, size: int, most: int) -> None:
    done = warm.run(SCRIPT, what, str(size))
    assert not done.returncode, done.stderr
    assert int(done.stdout) < most * MEGABYTE
