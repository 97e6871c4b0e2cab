"""Finds the compiled kernels: beside the package, in the cache, or compiled now."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from contextlib import suppress
from ctypes import POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from regard.engine.backends.cpu.cache import cached, folders, stem, why_unsafe
from regard.engine.backends.cpu.compile import BuildError, compile_library, packaged
from regard.engine.backends.cpu.structures import KernelCall


class Kernels:
    """The four sweeps of a loaded library, on its best instruction set or a named one."""

    def __init__(self, path: Path, isa: str | None = None, made: str = "") -> None:
        self.path, self._made = path, made
        self._library = ctypes.CDLL(str(path))
        self._library.regard_best.restype = c_int64
        self._library.regard_name.restype = c_char_p
        self._library.regard_name.argtypes = [c_int64]
        names = self.instruction_sets()
        self.isa = names[-1] if isa is None else isa
        if self.isa not in names:
            raise ValueError(f"no kernels for {self.isa!r} here; there are {', '.join(names)}")
        self._isa = names.index(self.isa)
        self._sweeps: dict[str, Any] = {}  # looked up once: ctypes makes a new one every time
        for name in ("rows", "columns", "cells", "backward"):
            run = self._sweeps[name] = self._library[f"regard_{name}"]
            run.restype = c_int
            run.argtypes = [POINTER(KernelCall), c_void_p, c_int64, c_int64]

    @property
    def remark(self) -> str:
        """Which kernels these are, for people."""
        return f"{self.isa} kernels, {self._made}"

    def instruction_sets(self) -> list[str]:
        """Those this machine can run, slowest first."""
        best: int = self._library.regard_best()
        return [self._library.regard_name(n).decode() for n in range(best + 1)]

    def run(self, sweep: str, call: KernelCall, ask: Structure, wide: bool) -> None:
        """One sweep; the GIL is released meanwhile."""
        if self._sweeps[sweep](ctypes.byref(call), ctypes.byref(ask), self._isa, int(wide)):
            raise MemoryError("the attention kernels could not get their working memory")


@cache
def _find() -> Kernels | str:
    """The kernels, or why there are none. A library that does not load is compiled anew."""
    reasons: list[str] = []
    found = packaged()
    if found is not None:
        try:
            return Kernels(found, made="built with the package")
        except (OSError, AttributeError) as error:  # of another machine
            reasons.append(str(error))
    for folder in folders():
        reason = why_unsafe(folder)
        if reason is not None:
            reasons.append(reason)
            continue
        try:
            return _cached_or_compiled(folder, reasons)
        except (BuildError, OSError, AttributeError) as error:
            return "; ".join([*reasons, str(error)])
    return "; ".join(reasons)


def _cached_or_compiled(folder: Path, reasons: list[str]) -> Kernels:
    instead = f" in {folder} ({'; '.join(reasons)})" if reasons else ""
    made = f"compiled on first use{instead}"
    path = cached(folder)
    if path is not None:
        with suppress(OSError, AttributeError):  # made by a compiler that makes something else
            return Kernels(path, made=made)
    return Kernels(compile_library(folder, stem()), made=made)


@cache
def openmp() -> int | None:
    """The address of GOMP_parallel in the OpenMP library torch has loaded; None where it is not to
    be found. Sharing torch's threads keeps theirs, which spin while idle, off our cores."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    return parallel_of({line.split(maxsplit=5)[-1] for line in lines if "/" in line})


def parallel_of(loaded: Iterable[str]) -> int | None:
    """Of the libraries that a process has loaded. torch's own answers for what it depends on; other
    packages (sentencepiece) bring an OpenMP of their own, whose threads would be theirs."""
    names = {path: path.rpartition("/")[2] for path in loaded}
    torch_itself = [path for path, name in names.items() if name.startswith("libtorch_cpu.")]
    others = sorted(path for path, name in names.items() if "omp" in name)
    for path in (*torch_itself, *others):
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
