"""Finds the compiled kernels: beside the package, in the cache, or compiled now."""

from __future__ import annotations

import ctypes
import struct
from ctypes import POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path

from regard.engine.cpu.compile import BuildError, cached, compile_library, packaged
from regard.engine.cpu.structures import Call

__all__ = ["Kernels", "load", "openmp", "why_not"]


class Kernels:
    """The four sweeps of a loaded library, on its best instruction set or a named one."""

    def __init__(self, path: Path, isa: str | None = None) -> None:
        self.path = path
        if not _is_whole(path):
            raise OSError(f"{path} is cut short")
        self._library = ctypes.CDLL(str(path))
        self._library.regard_best.restype = c_int64
        self._library.regard_name.restype = c_char_p
        self._library.regard_name.argtypes = [c_int64]
        names = self.instruction_sets()
        self.isa = names[-1] if isa is None else isa
        self._isa = names.index(self.isa)
        for name in ("rows", "columns", "cells", "backward"):
            run = self._library[f"regard_{name}"]
            run.restype = c_int
            run.argtypes = [POINTER(Call), c_void_p, c_int64, c_int64]

    @property
    def remark(self) -> str:
        """Which kernels these are, for people."""
        made = "built with the package" if self.path == packaged() else "compiled on first use"
        return f"{self.isa} kernels, {made}"

    def instruction_sets(self) -> list[str]:
        """Those this machine can run, slowest first."""
        best: int = self._library.regard_best()
        return [self._library.regard_name(n).decode() for n in range(best + 1)]

    def run(self, sweep: str, call: Call, ask: Structure, wide: bool) -> None:
        """One sweep; the GIL is released meanwhile."""
        run = self._library[f"regard_{sweep}"]
        if run(ctypes.byref(call), ctypes.byref(ask), self._isa, int(wide)):
            raise MemoryError("the attention kernels could not get their working memory")


def _is_whole(path: Path) -> bool:
    """Whether an ELF file reaches to its last table: loading one cut short ends the process."""
    with path.open("rb") as file:
        head = file.read(64)
    if head[:4] != b"\x7fELF" or head[4:5] == b"\x01":
        return True  # of another kind: the system's loader says what is wrong with it
    if len(head) < 64:
        return False
    order = "<" if head[5] == 1 else ">"
    (start,) = struct.unpack_from(f"{order}Q", head, 40)
    size, count = struct.unpack_from(f"{order}HH", head, 58)
    return bool(start + size * count <= path.stat().st_size)


@cache
def _find() -> Kernels | str:
    """The kernels, or why there are none. A library that does not load is compiled anew."""
    for path in (packaged(), cached()):
        if path.exists():
            try:
                return Kernels(path)
            except (OSError, AttributeError):  # damaged, or of another machine
                continue
    try:
        compile_library(cached())
        return Kernels(cached())
    except (BuildError, OSError, AttributeError) as error:
        return str(error)


@cache
def openmp() -> int | None:
    """The address of GOMP_parallel in the OpenMP library torch has loaded; None where it is not to
    be found. Sharing torch's threads keeps theirs, which spin while idle, off our cores."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    paths = {line.split(maxsplit=5)[-1] for line in lines if "omp" in line.rpartition("/")[2]}
    for path in sorted(paths):
        library = ctypes.CDLL(path)  # already loaded: this only finds it again
        if hasattr(library, "GOMP_parallel"):
            return ctypes.cast(library.GOMP_parallel, c_void_p).value
    return None


def load() -> Kernels:
    """The kernels; call `why_not` first."""
    found = _find()
    if isinstance(found, str):
        raise RuntimeError(found)
    return found


def why_not() -> str | None:
    """Why the kernels cannot be used here; None where they can."""
    found = _find()
    return found if isinstance(found, str) else None
