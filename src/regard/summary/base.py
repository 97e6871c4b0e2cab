"""What every summary is: a frozen value with a definition on the dense matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from torch import Tensor

from regard.shapes import AttentionShape

__all__ = ["Matrix", "Summary"]


class Matrix(Protocol):
    """The dense intermediates a definition may speak of (`regard.engine.dense.Steps`)."""

    @property
    def scaled(self) -> Tensor: ...  # (…, Hq, L, S)
    @property
    def visible(self) -> Tensor: ...  # (…, Hq, L, S)
    @property
    def masked(self) -> Tensor: ...  # (…, Hq, L, S)
    @property
    def weights(self) -> Tensor: ...  # (…, Hq, L, S)
    @property
    def lse(self) -> Tensor: ...  # (…, Hq, L)
    @property
    def sink(self) -> Tensor | None: ...  # (Hq,)


class Summary(ABC):
    """Something measured on an attention matrix. Equal parameters make equal summaries."""

    @abstractmethod
    def define(self, matrix: Matrix, shape: AttentionShape) -> Any:
        """What it means, on the dense matrix: the oracle of every faster way."""

    def check(self, shape: AttentionShape) -> None:  # noqa: B027
        """Raise InputError where the parameters make no sense for this problem."""
