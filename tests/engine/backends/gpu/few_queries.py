"""What is read from the kept scores of a few queries; checks that `interpreted.py` runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from disorder import disordered

import regard
from each import conftest
from regard.engine.backends.gpu import few as few_kernels
from regard.engine.backends.gpu.sweeps import TRITON
from regard.engine.call import map_parts, parts_of
from regard.summary import Entropy, Pooled, Received, Summary, Top
from regard.testing import Case, Yardstick, poisoned_memory

FEW = (
    "plain", "causal at the end", "window both sides", "lengths", "scattered padding", "documents",
    "not a window", "rule", "boolean table", "bias table", "relative bias", "sink",
    "cap, alibi, sink, causal", "wide values", "two batch axes", "saturated",
)  # fmt: skip
FEW_SIZES = ((1, 1024, torch.bfloat16), (3, 1025, torch.float32), (16, 2500, torch.float64))
FEW_MAPS = (Pooled(), Pooled(1, "max"), Pooled(7), Pooled(1500), Pooled(2501, "max"))


def few(case: Case) -> None:
    """What is read from the kept scores of a few queries: as defined, and of the same bits whatever
    else is asked, soon or later, in whatever company."""
    number = FEW.index(case.name)
    queries, keys, dtype = FEW_SIZES[number % 3]
    heads = 4 if queries < 16 else 2
    sizes = {"queries": queries, "keys": keys, "heads": heads, "key_heads": heads // 2}
    inputs = replace(case, **sizes).inputs(dtype)
    inputs.key[..., 600:900, :] = inputs.key[..., 100:400, :].clone()  # equal scores
    call = conftest.call_of(inputs)
    right, bare = Yardstick(call), {"implementation": "triton", **inputs.options}
    best = Top((1, 5, 16)[(number + number // 3) % 3])
    chosen = Received((queries - 1, 0), "visible")
    asked = (Entropy(), Received(), *FEW_MAPS[number % 2 :: 2], best, chosen)

    def ask(*soon: Summary) -> regard.Attention:
        with poisoned_memory(), disordered():
            return regard.attend(inputs.query, inputs.key, inputs.value, summaries=soon, **bare)

    a = ask(*asked)
    found = a.summarize(*asked)
    for summary in asked:
        value = found[summary]
        if summary == best:
            exact = Top(best.k).define(right.exact, call.shape)
            assert torch.equal(value.keys, exact.keys), "other keys"
            budget = right.budget(lambda steps: best.define(steps, call.shape).weights)
            budget.check(value.weights, repr(best))
        else:
            budget = right.budget(lambda steps, s=summary: s.define(steps, call.shape))
            budget.check(value, repr(summary))
    before, few_kernels._BUFFER = few_kernels._BUFFER, 1
    later = ask()
    for summary in asked[1:3] if number > 2 else asked:
        value = later.summarize(summary)[summary]
        expect_bits(value, found[summary], f"{summary!r} alone, a head at a time")
    few_kernels._BUFFER = before


def expect_bits(found: Any, right: Any, what: str) -> None:
    for mine, other in zip(parts_of(found), parts_of(right), strict=True):
        assert torch.equal(mine, other), f"{what}: other bits"


def few_more(case: Case) -> None:
    """Three rounds over best keys; one sequence alone or in a batch; somebody else's lse."""
    few_kernels._TILE, few_kernels._LARGE = 128, 256
    sizes = {"batch": (2,), "queries": 2, "keys": 1100, "heads": 2, "key_heads": 1}
    inputs = replace(case, **sizes).inputs(torch.float32)
    call = conftest.call_of(inputs)
    asked = (Top(16), Pooled(200), Top(33))
    own = TRITON.rows(call, False, asked)
    right = Yardstick(call)
    for top in (asked[0], asked[2]):
        exact = top.define(right.exact, call.shape)
        assert torch.equal(own.measured[top].keys, exact.keys)
        torch.testing.assert_close(own.measured[top].weights, exact.weights.float())
    scores = own.measured[asked[2]].scores[..., :16]
    torch.testing.assert_close(own.measured[asked[0]].scores, scores)
    less = TRITON.rows(call, False, asked, own.state._replace(log=own.state.log + 0.5))
    scale = float(torch.tensor(-0.5).exp())
    torch.testing.assert_close(
        less.measured[asked[0]].weights, own.measured[asked[0]].weights * scale
    )
    torch.testing.assert_close(less.measured[asked[1]], own.measured[asked[1]] * scale)
    one = replace(inputs, query=inputs.query[1:], key=inputs.key[1:], value=inputs.value[1:])
    alone = TRITON.rows(conftest.call_of(one), False, asked)
    for summary in asked[:2]:
        batch = map_parts(own.measured[summary], lambda part: part[1:])
        expect_bits(alone.measured[summary], batch, f"{summary!r} alone")
