"""What a recording is read from: a file, a folder of ranks, or memory. All answer alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from regard.recording.catalogue import Damage

__all__ = ["Array", "Listed", "Store", "decoded"]

Array: TypeAlias = npt.NDArray[Any]


class Listed(Protocol):
    """One tensor, known without its data."""

    @property
    def name(self) -> str:
        """Unique in its store."""
        ...

    @property
    def dtype(self) -> str:
        """As SPEC.md names it."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        ...

    @property
    def metadata(self) -> Mapping[str, str]:
        """What was said about it."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of data as stored."""
        ...


class Store(Protocol):
    """Tensors by name, and notes."""

    @property
    def entries(self) -> Mapping[str, Listed]:
        """Every tensor, without its data."""
        ...

    @property
    def metadata(self) -> Mapping[str, str]:
        """The notes."""
        ...

    @property
    def damage(self) -> tuple[Damage, ...]:
        """What could not be read."""
        ...

    @property
    def is_live(self) -> bool:
        """Whether somebody is still writing."""
        ...

    def array(self, which: str) -> Array:
        """The tensor, read-only; bf16 as float32."""
        ...

    def words(self, which: str) -> Array:
        """The tensor as it is stored, read-only; bf16 as its 16-bit words."""
        ...

    def refresh(self) -> Sequence[Listed]:
        """Look at what was added since; the new entries."""
        ...

    def close(self) -> None:
        """Let go of what is held."""
        ...


def decoded(words: Array, dtype: str) -> Array:
    """Words as numbers one can compute with: bf16 and fp16 as float32, others as they are."""
    if dtype == "BF16":
        wide = words.astype("<u4")
        wide <<= 16
        return wide.view("<f4")
    return words.astype(np.float32) if dtype == "F16" else words
