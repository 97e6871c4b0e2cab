"""What a recording is read from: a file, a folder of ranks, or memory. All answer alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from regard.recording.catalogue import Damage

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


class Shelf(ABC):
    """Tensors by name, in a block: what a file, a folder of ranks and memory have in common."""

    entries: Any  # name → one tensor, without its data

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held."""

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()


def decoded(words: Array, dtype: str) -> Array:
    """Words as numbers one can compute with: bf16 and fp16 as float32, others as they are."""
    if dtype == "BF16":
        wide = words.astype("<u4")
        wide <<= 16
        return wide.view("<f4")
    return words.astype(np.float32) if dtype == "F16" else words
