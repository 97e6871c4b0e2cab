"""Numbers as few bytes, for a page that carries them: byte planes, then deflate.

exact     float32, all digits
rounded   whole multiples of a step, 24 bits each; the bits that are 0 deflate to nothing
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

_NAN: Final = 2**24 - 1
_MOST: Final = _NAN - 1  # the largest multiple that is told
_Array: TypeAlias = NDArray[Any]


def deflated(content: bytes) -> bytes:
    """Text as the page's DecompressionStream("deflate") reads it."""
    return zlib.compress(content, 9)


@dataclass
class Packed:
    """Arrays one behind the other, and the list by which the page finds them again."""

    parts: list[dict[str, Any]] = field(default_factory=list)
    _content: list[bytes] = field(default_factory=list)

    def exact(self, name: str, values: _Array) -> None:
        """Every digit."""
        flat = np.ascontiguousarray(values, "<f4").ravel()
        self._add(name, _planes(flat), {"form": "exact", "count": flat.size})

    def rounded(self, name: str, values: _Array, step: float) -> None:
        """To the nearest multiple of `step`; values are not negative."""
        flat = np.asarray(values, np.float64).ravel()
        broken = np.isnan(flat)
        codes = np.rint(np.where(broken, 0.0, flat) / step).clip(0, _MOST)
        codes[broken] = _NAN
        part = {"form": "rounded", "count": flat.size, "step": step}
        self._add(name, _planes(codes.astype("<u4"), 3), part)

    def codes(self, name: str, codes: NDArray[np.uint8]) -> None:
        """Bytes as they are: a picture's codes."""
        size = list(codes.shape)
        part = {"form": "codes", "count": codes.size, "size": size}
        self._add(name, np.ascontiguousarray(codes).tobytes(), part)

    def content(self) -> bytes:
        """All of it, deflated. Weights repeat nothing but zeros: to look for runs alone is smaller
        than to look for matches, and fifty times as fast."""
        run_lengths = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS, 9, zlib.Z_RLE)
        return run_lengths.compress(b"".join(self._content)) + run_lengths.flush()

    def _add(self, name: str, content: bytes, part: dict[str, Any]) -> None:
        self.parts.append({"name": name, **part})
        self._content.append(content)


def _planes(values: _Array, count: int = 4) -> bytes:
    """All first bytes, then all second ones …: exponents stand together, which deflates well."""
    if not values.size:
        return b""
    return values.view(np.uint8).reshape(-1, 4).T[:count].tobytes()
