"""Attention on the CPU: regard, torch's SDPA and eager with weights, in one process.

bare          output only                                   against SDPA's forward
row stats     output, lse, max score, entropy, pooled map
everything    … and the mass each key received, and each query's top 8 keys
afterwards    a bare forward, then all of that asked of it
backward      gradients of q, k and v                       against SDPA's backward
eager         softmax(QKᵀ)V with the weights kept: what one falls back to without regard
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import regard
from regard.bench.results import Result, WrongResultError, timed
from regard.bench.timing import Samples, take_turns

_LARGEST_EAGER = 2**30  # bytes of weights


@dataclass(frozen=True)
class Configuration:
    """One problem size."""

    tokens: int
    dim: int
    causal: bool
    heads: int = 4
    dtype: torch.dtype = torch.float32

    def inputs(self) -> list[Tensor]:
        """Random q, k, v of unit variance."""
        dice = torch.Generator().manual_seed(self.tokens)
        shape = (1, self.heads, self.tokens, self.dim)
        return [torch.randn(shape, generator=dice).to(self.dtype) for _ in range(3)]

    @property
    def mask(self) -> regard.Causal | None:
        """Causal, or none."""
        return regard.Causal() if self.causal else None


def configurations(
    tokens: list[int], dims: list[int], dtype: torch.dtype = torch.float32
) -> Iterator[Configuration]:
    """Every size, with and without a causal mask."""
    for dim in dims:
        for n in tokens:
            for causal in (False, True):
                yield Configuration(n, dim, causal, dtype=dtype)


def measure(at: Configuration, seconds: float = 2.0) -> list[Result]:
    """Check every contender's answer, then let them take turns."""
    q, k, v = at.inputs()
    with torch.no_grad():
        contenders = _contenders(at, q, k, v)
        _check(at, q, k, v)
        forward = take_turns(contenders, seconds=seconds)
    backward = take_turns(_backward(at, q, k, v), seconds=seconds / 2)
    made = regard.attend(q, k, v, mask=at.mask).implementation
    names = {"sdpa": "torch", "eager with weights": "torch", "sdpa backward": "torch"}
    found = []
    for peer, taken in (("sdpa", forward), ("sdpa backward", backward)):
        for what, samples in taken.items():
            found.append(_result(at, what, names.get(what, made), samples, peer, taken[peer]))
    return found


def _summaries() -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    row = (regard.MaxScore(), regard.Entropy(), regard.Pooled())
    return row, (*row, regard.Received(), regard.Top(8))


def _contenders(
    at: Configuration, q: Tensor, k: Tensor, v: Tensor
) -> dict[str, Callable[[], object]]:
    row, everything = _summaries()

    def attend(**options: Any) -> regard.Attention:
        return regard.attend(q, k, v, mask=at.mask, **options)

    made: dict[str, Callable[[], object]] = {
        "sdpa": lambda: F.scaled_dot_product_attention(q, k, v, is_causal=at.causal),
        "bare": attend,
        "bare (cpu)": lambda: attend(implementation="cpu"),
        "row stats": lambda: attend(summaries=row),
        "everything": lambda: attend(summaries=everything),
        "afterwards": lambda: attend().summarize(*everything),
    }
    if at.heads * at.tokens**2 * 4 <= _LARGEST_EAGER:
        made["eager with weights"] = lambda: _eager(at, q, k, v)
    return made


def _eager(at: Configuration, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = (q @ k.mT) * at.dim**-0.5
    if at.causal:
        hidden = torch.ones(at.tokens, at.tokens, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
    weights = scores.softmax(-1)
    return weights @ v, weights


def _backward(
    at: Configuration, q: Tensor, k: Tensor, v: Tensor
) -> dict[str, Callable[[], object]]:
    leaves = [t.clone().requires_grad_() for t in (q, k, v)]
    x, y, z = leaves
    theirs = F.scaled_dot_product_attention(x, y, z, is_causal=at.causal)
    ours = regard.attend(x, y, z, mask=at.mask).output
    gradient = torch.randn(theirs.shape, generator=torch.Generator().manual_seed(1)).to(at.dtype)

    def back(output: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(output, leaves, gradient, retain_graph=True)

    for mine, right in zip(back(ours), back(theirs), strict=True):
        _near(mine, right, at, "backward")
    return {"sdpa backward": lambda: back(theirs), "backward": lambda: back(ours)}


def _check(at: Configuration, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Outputs against SDPA; statistics against eager rows of the first, middle and last tokens."""
    theirs = F.scaled_dot_product_attention(q, k, v, is_causal=at.causal)
    a = regard.attend(q, k, v, mask=at.mask, summaries=_summaries()[1])
    _near(a.output, theirs, at, "output")
    some = torch.tensor([0, at.tokens // 2, at.tokens - 1])
    scores = (q[..., some, :].float() @ k.float().mT) * at.dim**-0.5
    if at.causal:
        hidden = torch.arange(at.tokens) > some[:, None]
        scores = scores.masked_fill(hidden, -torch.inf)
    weights = scores.softmax(-1)
    entropy = -(weights * weights.clamp(min=1e-38).log()).sum(-1)
    _near(a.entropy()[..., some], entropy, at, "entropy")
    _near(a.max_score()[..., some], scores.amax(-1), at, "max score")
    _near(a.top(8).weights[..., some, 0], weights.amax(-1), at, "top weight")
    _near(a.received().sum(-1), torch.full((1, at.heads), float(at.tokens)), at, "mass")


def _near(found: Tensor, right: Tensor, at: Configuration, what: str) -> None:
    allowed = 2e-2 if at.dtype != torch.float32 else 2e-4
    scale = float(right.abs().max()) + 1.0
    gap = float((found.float() - right.float()).abs().max()) / scale
    if not gap < allowed:
        raise WrongResultError(f"{what} of {at} is off by {gap:.2g}; no time is reported for it")


def _result(
    at: Configuration, what: str, made_by: str, taken: Samples, peer: str, against: Samples
) -> Result:
    return timed(
        taken, 3, taken.ratio_to(against), suite="cpu", what=what, implementation=made_by,
        tokens=at.tokens, dim=at.dim, heads=at.heads, causal=at.causal,
        dtype=str(at.dtype).removeprefix("torch."), peer=peer,
    )  # fmt: skip
