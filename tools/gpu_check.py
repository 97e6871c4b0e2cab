"""Checks and times the GPU kernels on a CUDA machine: correctness before numbers.

    PYTHONPATH=src python tools/gpu_check.py                  everything
    PYTHONPATH=src python tools/gpu_check.py check plain sink  these cases only
    PYTHONPATH=src python tools/gpu_check.py time             figures only

`check` compares every question of implementation "triton" with the definition in float64, over
the cases all implementations share, in several processes because compiling takes longest. `time`
runs each variant in turn, many rounds, and gives medians; with $OUT set it writes a CSV there.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import regard
from regard.engine import api
from regard.engine.problem import Call
from regard.mask import Causal
from regard.shapes import AttentionShape
from regard.summary import (
    Concentration,
    Distance,
    Entropy,
    Matching,
    MaxLogit,
    MaxScore,
    Offsets,
    Pooled,
    Received,
    Summary,
    Top,
    Visible,
)
from regard.testing import CASES, Case, Inputs, Yardstick

NUMBERS = (Entropy(), MaxScore(), MaxLogit(), Concentration(), Distance(), Visible())
REGIONS = (Pooled(7), Pooled(16), Pooled(80), Pooled(40, "max"), Received(), Received(9, "visible"))
HALF = (torch.bfloat16, torch.float16)
# what only a GPU can fail at, beside the cases everybody shares: room, and numbers of other widths
OWN = (
    Case("head dim 80", dim=80, value_dim=80),
    Case("head dim 256", dim=256, value_dim=256, mask=lambda _: Causal()),
    Case("values of 300", dim=64, value_dim=300),
    Case("narrow bias", options=lambda c, dice, _: {"bias": _narrow(c, dice)}),
)
EVERY = (*OWN, *CASES)


# ── right ────────────────────────────────────────────────────────────────────────────────────


def _narrow(case: Case, dice: torch.Generator) -> Tensor:
    table = torch.randn(case.heads, case.queries, case.keys, generator=dice)
    return table.to(torch.bfloat16)


def attend(inputs: Inputs, implementation: str | None) -> regard.Attention:
    """By the named implementation, or the one a caller gets."""
    return regard.attend(
        inputs.query, inputs.key, inputs.value, implementation=implementation, **inputs.options
    )


def call_of(inputs: Inputs) -> Call:
    """The call that attend makes of these inputs."""
    options: dict[str, Any] = dict.fromkeys(("mask", "scale", "bias", "softcap", "sink"))
    options |= inputs.options
    return api._call(inputs.query, inputs.key, inputs.value, dropout=0.0, **options)


def check_statistics(
    case: Case, dtype: torch.dtype, implementation: str | None = "triton"
) -> Iterator[str]:
    """Output, lse, every statistic and both products; yields what is wrong."""
    inputs = case.inputs(dtype, device="cuda")
    right = Yardstick(call_of(inputs))
    shape, device = right.call.shape, inputs.query.device
    a = attend(inputs, implementation)
    i, j = (torch.arange(n, device=device) for n in (case.queries, case.keys))
    matching = Matching(i % 5, j % 7 % 5)
    asked: tuple[Summary, ...] = (*NUMBERS, *REGIONS, Offsets(), matching)
    x = torch.linspace(-1, 1, case.keys, dtype=a.dtype, device=device)
    y = torch.linspace(-1, 1, case.queries, dtype=a.dtype, device=device)
    found: dict[str, tuple[Tensor, Callable[[Any], Tensor]]] = {
        "output": (a.output, lambda s: s.context),
        "lse": (a.lse, lambda s: s.lse),
        "a @ x": (a @ x, lambda s: s.weights @ x.to(s.weights.dtype)),
        "a.T @ y": (a.T @ y, lambda s: s.weights.mT @ y.to(s.weights.dtype)),
        "dense": (a.dense(), lambda s: s.weights),
    }
    for summary, value in a.summarize(*asked).items():
        found[type(summary).__name__ + str(len(found))] = value, _defined(summary, shape)
    for name, (value, measure) in found.items():
        try:
            right.budget(measure).check(value, name)
        except AssertionError as wrong:
            yield str(wrong)


def _defined(summary: Summary, shape: AttentionShape) -> Callable[[Any], Tensor]:
    return lambda steps: summary.define(steps, shape)


def check_keys(case: Case) -> Iterator[str]:
    """Top keys in float64, cells of any rectangle to the bit, the same bits twice."""
    inputs = case.inputs(torch.float64, device="cuda")
    right = Yardstick(call_of(inputs))
    a = attend(inputs, "triton")
    for k in (5, 40):
        best = Top(k).define(right.exact, right.call.shape)
        found = a.top(k)
        if not torch.equal(found.keys, best.keys):
            yield f"top({k}): other keys"
    inputs = case.inputs(torch.bfloat16, device="cuda")
    a, again = attend(inputs, "triton"), attend(inputs, "triton")
    every = a.dense()
    if 0 in every.shape:
        return
    last, middle = case.queries - 1, case.keys // 2
    same = {
        "a row": (a[..., last, :], every[..., last, :]),
        "a column": (a[..., middle], every[..., middle]),
        "a grid": (a[..., ::3, 1::2], every[..., ::3, 1::2]),
        "received again": (a.received(), again.received()),
        "entropy again": (a.entropy(), again.entropy()),
        "output again": (a.output, again.output),
    }
    for name, (one, other) in same.items():
        if not torch.equal(one, other):
            yield f"{name}: other bits"


def check_gradients(case: Case) -> Iterator[str]:
    """Of every question that has them, against autograd through the definition."""
    questions: dict[str, Callable[[regard.Attention], Tensor]] = {
        "output": lambda a: a.output,
        "lse": lambda a: a.lse.masked_fill(a.lse == -torch.inf, 0.0),
        "entropy": lambda a: a.entropy() + a.output.sum(-1),
        "top": lambda a: a.top(3).weights,
        "rows": lambda a: a.rows([0, -1]),
        "received": lambda a: a.received(),
        "product": lambda a: a @ torch.linspace(-1, 1, a.shape[-1], dtype=a.dtype, device="cuda"),
    }
    inputs = case.inputs(torch.float64, device="cuda")
    for name, question in questions.items():
        mine, exact = (_gradients(inputs, who, question) for who in ("triton", "dense"))
        for letter, one, other in zip("qkv", mine, exact, strict=True):
            scale = max(float(other.abs().max()), 1.0) * max(case.spread, 1.0)
            worst = float((one - other).abs().max()) / scale
            if not worst < 1e-10:
                yield f"d {name} / d {letter}: {worst:.2e}"


def _gradients(
    inputs: Inputs, implementation: str, question: Callable[[regard.Attention], Tensor]
) -> list[Tensor]:
    leaves = [t.detach().clone().requires_grad_() for t in (inputs.query, inputs.key, inputs.value)]
    moved = Inputs(leaves[0], leaves[1], leaves[2], inputs.options)
    found = question(attend(moved, implementation))
    weights = torch.linspace(0.5, 1.5, found.numel(), dtype=found.dtype, device="cuda")
    loss = (found * weights.reshape(found.shape)).sum()
    grads = torch.autograd.grad(loss, leaves, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for t, g in zip(leaves, grads, strict=True)]


def check_case(job: tuple[str, str]) -> tuple[str, str, list[str], float]:
    """One case in one precision, or its keys, or its gradients."""
    name, what = job
    case = next(c for c in EVERY if c.name == name)
    start = time.perf_counter()
    try:
        if what.startswith("default "):
            wrong = list(check_statistics(case, getattr(torch, what.split()[1]), None))
        elif what == "keys":
            wrong = list(check_keys(case))
        elif what == "gradients":
            wrong = list(check_gradients(case))
        else:
            wrong = list(check_statistics(case, getattr(torch, what)))
    except regard.errors.UnavailableError as error:
        wrong = [] if "Rule" in str(error) and "default" not in what else [str(error)]
    except Exception as error:  # noqa: BLE001 - the rest of the cases still has to run
        wrong = [f"{type(error).__name__}: {' '.join(str(error).split())[:900]}"]
    return name, what, wrong, time.perf_counter() - start


def check(names: list[str], kinds: list[str], workers: int, seconds: float) -> int:
    """Every case in every way, as far as the time goes; the number of wrong or unfinished ones."""
    chosen = [c for c in EVERY if not names or c.name in names]
    left = [
        (c.name, kind)
        for kind in kinds
        for c in chosen
        if kind != "gradients" or (c.queries and c.keys and c.queries < 300)
    ]
    total, wrong, until = len(left), 0, time.monotonic() + seconds
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        found = pool.imap_unordered(check_case, list(left))
        while left:
            try:
                name, what, faults, taken = found.next(max(0.0, until - time.monotonic()))
            except multiprocessing.TimeoutError:
                print("NOT FINISHED " + "; ".join(f"{n} [{w}]" for n, w in left), flush=True)
                break
            left.remove((name, what))
            wrong += bool(faults)
            for fault in faults:
                print(f"WRONG {name} [{what}] {fault}  ({taken:.0f} s)", flush=True)
            if not len(left) % 20:
                print(f"{total - len(left)} done, {wrong} wrong", flush=True)
    done = total - len(left)
    print(f"{done - wrong} of {done} checks are right; {len(left)} not finished", flush=True)
    return wrong + len(left)


# ── fast ─────────────────────────────────────────────────────────────────────────────────────


class Size(NamedTuple):
    """One problem to time."""

    dim: int
    batch: int
    heads: int
    tokens: int
    causal: bool

    @property
    def work(self) -> float:
        """Floating-point operations of a forward."""
        full = 4 * self.batch * self.heads * self.tokens**2 * self.dim
        return full / 2 if self.causal else full


SIZES = [
    Size(dim, batch, heads, tokens, causal)
    for dim, batch, heads, tokens in ((128, 4, 16, 4096), (128, 1, 16, 16384), (64, 1, 16, 16384))
    for causal in (False, True)
]
_CALLS = 4
LONG = Size(128, 1, 8, 131072, True)


def variants(size: Size) -> dict[str, Callable[[], Any]]:
    """What is timed, by name; the peers first."""
    shape = (size.batch, size.heads, size.tokens, size.dim)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    mask = Causal() if size.causal else None

    def peer(backend: SDPBackend) -> Callable[[], Tensor]:
        def run() -> Tensor:
            with sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=size.causal)

        return run

    def ours(*summaries: Summary) -> Callable[[], Any]:
        return lambda: regard.attend(
            q, k, v, mask=mask, summaries=summaries, implementation="triton"
        )

    known = regard.attend(q, k, v, mask=mask, implementation="triton")
    cell = max(64, size.tokens // 512)

    def ask(summary: Summary) -> Callable[[], Any]:
        def run() -> Any:
            known._known.clear()
            return known.summarize(summary)

        return run

    return {
        "cudnn": peer(SDPBackend.CUDNN_ATTENTION),
        "flash": peer(SDPBackend.FLASH_ATTENTION),
        "regard, bare": lambda: regard.attend(q, k, v, mask=mask),
        "triton, bare": ours(),
        "triton, entropy + max": ours(Entropy(), MaxScore()),
        "received": ask(Received()),
        "pooled": ask(Pooled(cell)),
        "top 8": ask(Top(8)),
        "everything": ours(Entropy(), MaxScore(), Received(), Pooled(cell), Top(8)),
    }


def backward_variants(size: Size) -> dict[str, Callable[[], Any]]:
    """Gradients of the output, and of output and entropy."""
    shape = (size.batch, size.heads, size.tokens, size.dim)
    leaves = [
        torch.randn(shape, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(3)
    ]
    q, k, v = leaves
    mask = Causal() if size.causal else None
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        theirs = functional.scaled_dot_product_attention(q, k, v, is_causal=size.causal)
    bare = regard.attend(q, k, v, mask=mask).output
    own = regard.attend(q, k, v, mask=mask, summaries=(Entropy(),), implementation="triton")
    g = torch.randn_like(theirs)

    def gradient(results: list[Tensor], outer: list[Tensor]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(results, leaves, outer, retain_graph=True)

    entropy = own.entropy()
    return {
        "cudnn": gradient([theirs], [g]),
        "backward, bare": gradient([bare], [g]),
        "backward, triton": gradient([own.output], [g]),
        "backward, triton + entropy": gradient(
            [own.output, entropy], [g, torch.ones_like(entropy)]
        ),
    }


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def timed(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each, taken in turns; several calls in a row, as a model makes them,
    so that the host works ahead."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 2):
        for name, run in runs.items():
            start, end = _event(), _event()
            start.record()
            for _ in range(_CALLS):
                run()
            end.record()
            torch.cuda.synchronize()
            if turn >= 2:  # the first ones compile and warm up
                taken[name].append(start.elapsed_time(end) / _CALLS)
    return {name: median(times) for name, times in taken.items()}


def measure(sizes: list[Size], rounds: int) -> list[dict[str, Any]]:
    """Rows of the table, printed as they come."""
    rows = []
    for size in sizes:
        for kind, make in (("forward", variants), ("backward", backward_variants)):
            try:
                found = timed(make(size), rounds)
            except (RuntimeError, torch.OutOfMemoryError) as error:
                print(f"{size} {kind}: {str(error)[:300]}", flush=True)
                continue
            work = size.work * (1 if kind == "forward" else 2.5)
            print(
                f"d{size.dim} {size.batch}×{size.heads}×{size.tokens} causal={size.causal} {kind}"
            )
            for name, ms in found.items():
                ratio = ms / found["cudnn"]
                print(f"    {name:28s} {ms:8.3f} ms  {ratio:5.2f}×  {work / ms / 1e9:5.0f} TFLOP/s")
                rows.append({**size._asdict(), "kind": kind, "what": name, "ms": round(ms, 4),
                             "to_cudnn": round(ratio, 4)})  # fmt: skip
            sys.stdout.flush()
    return rows


def long_row() -> None:
    """Time and memory of everything at 131,072 tokens × 8 heads."""
    size = LONG
    shape = (size.batch, size.heads, size.tokens, size.dim)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    asked = (Entropy(), MaxScore(), Received(), Pooled(), Top(8))
    for turn in ("first", "second"):
        torch.cuda.reset_peak_memory_stats()
        before, start = torch.cuda.memory_allocated(), time.perf_counter()
        a = regard.attend(q, k, v, mask=Causal(), summaries=asked, implementation="triton")
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        held = sum(t.nbytes for t in (a.output, a.lse))
        extra = torch.cuda.max_memory_allocated() - before - held
        print(f"131,072 × 8, everything, {turn}: {seconds:.3f} s, {extra / 2**20:.0f} MiB extra")


def main() -> int:
    """Exit status 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", nargs="?", choices=["all", "check", "time", "long"], default="all")
    parser.add_argument("cases", nargs="*", help="names of cases to check")
    kinds = "float64,keys,gradients,float32,bfloat16,float16,default bfloat16,default float32"
    parser.add_argument("--kinds", default=kinds)
    parser.add_argument("--seconds", type=float, default=3600.0, help="for the checks")
    parser.add_argument("--workers", type=int, default=min(14, os.cpu_count() or 1))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sizes", type=int, default=len(SIZES))
    given = parser.parse_args()
    wrong = 0
    if given.what in ("all", "check"):
        wrong = check(given.cases, given.kinds.split(","), given.workers, given.seconds)
    if given.what in ("all", "time"):
        rows = measure(SIZES[: given.sizes], given.rounds)
        if os.environ.get("OUT") and rows:
            with (Path(os.environ["OUT"]) / "gpu.csv").open("w", newline="") as file:
                table = csv.DictWriter(file, list(rows[0]))
                table.writeheader()
                table.writerows(rows)
    if given.what in ("all", "long"):
        long_row()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
