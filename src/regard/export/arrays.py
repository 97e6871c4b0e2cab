"""Arrays by name, written one after the other as .npz or as one safetensors document."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.errors import FileError
from regard.recording.format.layout import DTYPES, Tensor, encode_head

_KINDS: Final = {dtype: name for name, dtype in DTYPES.items() if name != "BF16"}


@dataclass(frozen=True)
class Named:
    """An array whose size is known before it is made."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    make: Callable[[], NDArray[Any]]

    @property
    def nbytes(self) -> int:
        """Of its data."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def array(self) -> NDArray[Any]:
        """Made now, and checked to be what was said."""
        made = np.ascontiguousarray(self.make(), dtype=self.dtype.newbyteorder("<"))
        if made.shape != self.shape:
            raise FileError(f"{self.name}: {made.shape} instead of {self.shape}")
        return made


_Done: TypeAlias = Callable[[int], None]


def write_npz(
    arrays: Sequence[Named], path: Path, facts: Mapping[str, str], done: _Done = lambda _: None
) -> None:
    """As `np.load` reads it; the facts are arrays of one text each, under `about/`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, text in facts.items():
            _add(archive, f"about/{name}", np.array(text))
        for one in arrays:
            _add(archive, one.name, one.array())
            done(1)


def write_safetensors(
    arrays: Sequence[Named], path: Path, facts: Mapping[str, str], done: _Done = lambda _: None
) -> None:
    """One document, the facts as its metadata."""
    tensors, at = [], 0
    for one in arrays:
        kind = _KINDS[one.dtype.newbyteorder("<")]
        tensors.append(Tensor(one.name, kind, one.shape, at, at + one.nbytes))
        at += one.nbytes
    with path.open("wb") as file:
        file.write(encode_head(tensors, facts))
        for one in arrays:
            file.write(one.array().reshape(-1).view(np.uint8).data)
            done(1)


def _add(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array(file, array, allow_pickle=False)
