"""GPU kernels compiled before they are needed: Triton compiles one when it is first launched, for
each head dim, dtype and kind of mask, and keeps it on disk for every process to come.

A kind is compiled by asking everything once: of a prompt, of a ragged one, and of one query over
a cache; with gradients where training is meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from regard.engine.api import attend
from regard.errors import InputError
from regard.mask import Causal, Mask, Padding, Window
from regard.summary import Concentration, Distance, Entropy, MaxScore, Pooled, Received, Top

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
MASKS = ("none", "causal", "window", "lengths")

_LENGTHS = (2048, 1999)  # kernels are compiled for sizes that 16 divides, and for others
_HEADS, _KEY_HEADS = 4, 2
_LARGEST_DIM = 256
_ROWS = (Entropy(), MaxScore())
_EVERYTHING = (*_ROWS, Concentration(), Distance(), Received(), Pooled(), Top(8))


class Kind(NamedTuple):
    """What kernels are compiled for."""

    dim: int
    dtype: str
    mask: str

    def __str__(self) -> str:
        return f"d{self.dim} {self.dtype}, {self.mask if self.mask != 'none' else 'no mask'}"


def kinds(dims: Sequence[int], dtypes: Sequence[str], masks: Sequence[str]) -> list[Kind]:
    """All combinations, checked."""
    for given, known in ((dtypes, tuple(DTYPES)), (masks, MASKS)):
        wrong = [name for name in given if name not in known]
        if wrong:
            raise InputError(f"{wrong[0]!r} is none of {', '.join(known)}")
    wide = [dim for dim in dims if dim > _LARGEST_DIM]
    if wide:
        raise InputError(f"head dim {wide[0]} is above {_LARGEST_DIM}, which the kernels serve")
    return [Kind(*kind) for kind in product(dims, dtypes, masks)]


def compile_kind(kind: Kind, training: bool = False, device: str = "cuda") -> None:
    """Every kernel that answers calls of this kind is there afterwards."""
    for q, k, v in _problems(kind, device):
        mask = _mask(kind.mask, q, k)
        with torch.no_grad():
            for summaries in ((), _ROWS, _EVERYTHING):
                found = attend(q, k, v, mask=mask, summaries=summaries)
            attend(q, k, v, mask=mask).received(min(64, q.shape[-2]))
            found[..., -1, :]
        if training:
            leaves = [t.clone().requires_grad_() for t in (q, k, v)]
            learned = attend(*leaves, mask=mask, summaries=(Entropy(),))
            total = learned.output.float().sum() + learned.entropy().sum()
            torch.autograd.grad(total, leaves)


def _problems(kind: Kind, device: str) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    for queries, keys in (*((n, n) for n in _LENGTHS), (1, _LENGTHS[0])):
        sizes = ((_HEADS, queries), (_KEY_HEADS, keys), (_KEY_HEADS, keys))
        q, k, v = (
            torch.randn(2, heads, count, kind.dim, device=device).to(DTYPES[kind.dtype])
            for heads, count in sizes
        )
        yield q, k, v


def _mask(name: str, q: Tensor, k: Tensor) -> Mask | None:
    if name == "lengths":
        lengths = torch.full((q.shape[0],), k.shape[-2] - 1, device=k.device)
        return Padding(lengths)
    masks: dict[str, Mask | None] = {"none": None, "causal": Causal(), "window": Window(256, 0)}
    return masks[name]
