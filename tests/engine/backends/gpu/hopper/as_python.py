"""Gluon's words over torch tensors, so that a kernel's own lines run as Python on the CPU. Layouts
mean nothing here; a product and a sum are rounded once where the code says so."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from triton.runtime.jit import JITFunction

__all__ = ["Array", "Memory", "array", "run_as_python"]


class Array(torch.Tensor):
    """A tensor whose type has a layout."""

    type = SimpleNamespace(layout=None)  # type: ignore[assignment]


def array(tensor: Tensor) -> Array:
    """The same numbers."""
    return tensor.as_subclass(Array)


class Memory:
    """A pointer into numbers."""

    def __init__(self, numbers: Tensor, at: Any = 0) -> None:
        self.numbers, self.at = numbers, at

    def __add__(self, ahead: Any) -> Memory:
        return Memory(self.numbers, self.at + ahead)


def _load(place: Memory, mask: Any = None, other: float = 0.0) -> Any:
    at = torch.as_tensor(place.at).as_subclass(Tensor)
    if mask is None:
        return array(place.numbers[at])
    inside = mask.as_subclass(Tensor)
    return array(torch.where(inside, place.numbers[torch.where(inside, at, 0)], other))


def _store(place: Memory, value: Tensor, mask: Tensor) -> None:
    inside, at = mask.as_subclass(Tensor), place.at.as_subclass(Tensor)
    place.numbers[at[inside]] = value.as_subclass(Tensor)[inside].to(place.numbers.dtype)


def _fma(x: Tensor, y: Any, z: Any) -> Any:
    return (x.double() * y.double() + z.double()).float()


def _max(x: Tensor, axis: int) -> Tensor:
    return torch.where(x.isnan(), -torch.inf, x).amax(axis)  # as the hardware: no NaN is larger


def _full(shape: list[int], value: float, dtype: torch.dtype, layout: Any = None) -> Array:
    return array(torch.full(shape, value, dtype=dtype))


WORDS = SimpleNamespace(
    abs=torch.abs, arange=lambda a, b, layout=None: array(torch.arange(a, b)),
    convert_layout=lambda x, _: x, exp2=torch.exp2, float32=torch.float32, fma=_fma, full=_full,
    int64=torch.int64, load=_load, log2=torch.log2, max=_max,
    maximum=lambda a, b: torch.fmax(a, torch.as_tensor(b)),
    minimum=lambda a, b: torch.minimum(torch.as_tensor(a), torch.as_tensor(b)),
    permute=torch.permute, reshape=torch.reshape, SliceLayout=lambda *_: None,
    split=lambda x: (x[..., 0], x[..., 1]), store=_store, sum=torch.sum, where=torch.where,
    zeros=lambda shape, dtype, layout=None: _full(shape, 0.0, dtype),
    zeros_like=torch.zeros_like,
)  # fmt: skip


def run_as_python(monkeypatch: pytest.MonkeyPatch, *pages: ModuleType) -> None:
    """Every kernel function of these pages calls the others as Python, with the words above."""
    for page in pages:
        for name, value in list(vars(page).items()):
            if isinstance(value, JITFunction):
                monkeypatch.setattr(page, name, value.fn)
            elif type(value).__name__ == "constexpr":
                monkeypatch.setattr(page, name, value.value)
        monkeypatch.setattr(page, "gl", WORDS)
