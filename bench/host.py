"""What a call costs beside its arithmetic: short inputs, one thread.

sdpa        torch's fused attention
bare        output alone
rows        with entropy and the largest score
everything  with every kind of statistic, received mass and a map
afterwards  a bare call, then the mass from the last queries
"""

from __future__ import annotations

from collections.abc import Callable

import torch

import regard
from regard.bench.results import Result, WrongResultError, timed
from regard.bench.timing import Samples, take_turns

_CALLS = 20  # a sample, so that the clock does not count
_HEADS, _DIM = 4, 64
_EVERYTHING = (
    regard.Entropy(), regard.MaxScore(), regard.Concentration(), regard.Distance(), regard.Top(8),
    regard.Pooled(4), regard.Received(),
)  # fmt: skip


def measure(tokens: int, seconds: float = 2.0) -> list[Result]:
    """One thread; the answers are compared with torch's before anything is timed."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            taken = take_turns(_contenders(tokens), seconds=seconds)
            return [_result(what, tokens, taken) for what in taken]
    finally:
        torch.set_num_threads(threads)


def _contenders(tokens: int) -> dict[str, Callable[[], object]]:
    dice = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, _HEADS, tokens, _DIM, generator=dice) for _ in range(3))
    sdpa = torch.nn.functional.scaled_dot_product_attention
    last = max(tokens // 2, 1)

    def attend(*summaries: regard.Summary) -> regard.Attention:
        return regard.attend(q, k, v, mask=regard.Causal(), summaries=summaries)

    right = sdpa(q, k, v, is_causal=True)
    if not torch.allclose(attend(*_EVERYTHING).output, right, rtol=1e-4, atol=1e-5):
        raise WrongResultError("the output is not torch's; no time is reported")
    each: dict[str, Callable[[], object]] = {
        "sdpa": lambda: sdpa(q, k, v, is_causal=True),
        "bare": attend,
        "rows": lambda: attend(regard.Entropy(), regard.MaxScore()),
        "everything": lambda: attend(*_EVERYTHING),
        "afterwards": lambda: attend().received(queries=last),
    }
    return {name: _often(run) for name, run in each.items()}


def _often(run: Callable[[], object]) -> Callable[[], None]:
    def many() -> None:
        for _ in range(_CALLS):
            run()

    return many


def _result(what: str, tokens: int, taken: dict[str, Samples]) -> Result:
    each = Samples([seconds / _CALLS for seconds in taken[what].seconds])
    return timed(
        each, 4, taken[what].ratio_to(taken["sdpa"]), suite="host", what=what,
        implementation="torch" if what == "sdpa" else "cpu", tokens=tokens, dim=_DIM,
        heads=_HEADS, causal=True, dtype="float32", peer="sdpa",
    )  # fmt: skip
