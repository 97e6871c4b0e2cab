"""Runs every GPU kernel once at small, ragged sizes, for compute-sanitizer to watch.

    make sanitize
    compute-sanitizer --tool memcheck  python tools/sanitize_gpu.py
    compute-sanitizer --tool racecheck python tools/sanitize_gpu.py --by triton forward top

Answers are not compared here (`make test-gpu` does that); what counts is where memory is read and
written. Every tensor gets an allocation of its own, so that reading past its end is seen. With
TRITON_INTERPRET=1 the same calls run on the CPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")

import torch
from torch import Tensor

import regard
from regard.engine.backends.gpu.launch import interpreting
from regard.engine.plan import CANDIDATES
from regard.errors import RegardError, UnavailableError
from regard.summary import Concentration, Distance, MaxLogit, Visible

DIM, QUERIES, KEYS, HEADS, KEY_HEADS = 64, 70, 197, 4, 2
MANY_KEYS = 2100  # from here on the heaviest keys are found by pruning
OURS = tuple(name for name in CANDIDATES if name in ("triton", "hopper"))


def device() -> str:
    """Where the kernels run."""
    if not interpreting() and not torch.cuda.is_available():
        raise UnavailableError("the kernels need a CUDA GPU, or TRITON_INTERPRET=1")
    return "cpu" if interpreting() else "cuda"


def tensors(queries: int = QUERIES, keys: int = KEYS, dim: int = DIM) -> list[Tensor]:
    """q, k, v in half precision, two query heads a key head."""
    dice = torch.Generator().manual_seed(0)
    sizes = ((HEADS, queries), (KEY_HEADS, keys), (KEY_HEADS, keys))
    return [
        torch.randn(1, heads, count, dim, generator=dice).to(device(), torch.bfloat16)
        for heads, count in sizes
    ]


def attend(name: str, *, size: tuple[int, ...] = (), **options: Any) -> regard.Attention:
    """A causal call of some size."""
    options = {"mask": regard.Causal(), **options}
    return regard.attend(*tensors(*size), implementation=name, **options)


# ── one step for each file of kernels ────────────────────────────────────────────────────────


def forward(name: str) -> None:
    """Output, lse and every number of a row; masks that are one interval a row; heads of 128."""
    numbers = (regard.Entropy(), regard.MaxScore(), MaxLogit(), Concentration(), Distance())
    attend(name, summaries=(*numbers, Visible()))
    for mask in (None, regard.Window(20), regard.Padding([KEYS - 9])):
        attend(name, mask=mask)
    attend(name, size=(QUERIES, KEYS, 128), summaries=(regard.Entropy(),))


def contents(name: str) -> None:
    """Masks that are no interval a row: documents, scattered padding."""
    ids = torch.arange(KEYS, device=device()) // 50
    attend(name, mask=regard.Documents(ids[-QUERIES:], ids))
    attend(name, mask=regard.Padding((ids % 2 == 0)[None]))


def columns(name: str) -> None:
    """Received mass, a product with the transpose."""
    a = attend(name)
    a.received()
    a.received(9, per="visible")
    a.T @ torch.linspace(-1, 1, QUERIES, device=a.device)


def cells(name: str) -> None:
    """Rows, a column, a grid."""
    a = attend(name)
    a.rows([0, -1]), a[..., KEYS // 2], a[..., ::3, 1::2], a.scores[..., -1, :]


def pooled(name: str) -> None:
    """Maps of sums and of maxima."""
    a = attend(name)
    a.pooled(16), a.pooled(40, "max")


def marks(name: str) -> None:
    """Mass on equal marks."""
    each = [torch.arange(count, device=device()) % 5 for count in (QUERIES, KEYS)]
    attend(name).summarize(regard.Matching(*each))


def diagonals(name: str) -> None:
    """Mass by distance."""
    attend(name).summarize(regard.Offsets())


def top(name: str) -> None:
    """The heaviest keys, of few keys."""
    attend(name).top(5)


def prune(name: str) -> None:
    """The heaviest keys, of many."""
    attend(name, size=(QUERIES, MANY_KEYS), summaries=(regard.Top(8),)).top(8)


def backward(name: str) -> None:
    """Gradients of the output alone, and of the entropy as well."""
    leaves = [t.requires_grad_() for t in tensors()]
    a = regard.attend(*leaves, mask=regard.Causal(), implementation=name)
    output = a.output.float().sum()
    torch.autograd.grad(output, leaves, retain_graph=True)
    torch.autograd.grad(output + a.entropy().sum(), leaves)


def decode(name: str) -> None:
    """One query over many keys."""
    asked = (regard.Entropy(), regard.Received(), regard.Pooled(), regard.Top(5))
    attend(name, size=(1, MANY_KEYS), summaries=asked)
    attend(name, size=(3, MANY_KEYS)).received(2)


def pairs(name: str) -> None:
    """The distance of two attentions: a head each and summed heads; gradients of the student."""
    teacher = attend(name)
    leaves = [t.requires_grad_() for t in tensors()]
    student = regard.attend(*leaves, mask=regard.Causal(), implementation=name)
    for heads in ("each", "sum"):
        regard.divergence(teacher, student, heads=heads).sum().backward(inputs=leaves[:2])


STEPS: dict[str, Callable[[str], None]] = {
    step.__name__: step
    for step in (
        forward, contents, columns, cells, pooled, marks, diagonals, top, prune, backward,
        decode, pairs,
    )
}  # fmt: skip


def run(step: str, implementations: Sequence[str] = OURS) -> str:
    """One step by each implementation that serves it; a line that says which did."""
    served, began = [], time.perf_counter()
    for name in implementations:
        try:
            STEPS[step](name)
            served.append(name)
        except UnavailableError:
            if name == "triton":  # the one that serves them all
                raise
    if device() == "cuda":
        torch.cuda.synchronize()
    return f"{step:10} {', '.join(served):16} {time.perf_counter() - began:6.1f} s"


def main(words: list[str]) -> int:
    """The steps that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("steps", nargs="*", metavar="step", help=", ".join(STEPS))
    parser.add_argument("--by", choices=OURS, help="one implementation; all where none is named")
    given = parser.parse_args(words)
    unknown = [step for step in given.steps if step not in STEPS]
    if unknown:
        print(f"there is no step {unknown[0]!r}; there are: {', '.join(STEPS)}", file=sys.stderr)
        return 2
    try:
        for step in given.steps or STEPS:
            print(run(step, [given.by] if given.by else OURS), flush=True)
    except RegardError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
