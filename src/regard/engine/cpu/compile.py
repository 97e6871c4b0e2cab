"""Turns `kernel/` into a shared library with whatever C compiler there is. Standard library only,
because the build backend runs this file as well as the package."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["BuildError", "cached", "compile_library", "find_compiler", "packaged", "source_key"]

_SOURCES = Path(__file__).parent / "kernel"
# -O3 for the unrolling; no -ffast-math: NaN and −∞ mean something here
_FLAGS = ("-O3", "-std=gnu11", "-Wno-psabi", "-shared", "-fPIC", "-pthread")


class BuildError(RuntimeError):
    """The library cannot be built here; the message says why."""


def source_key() -> str:
    """Names what the sources say, so that a library built from others is never loaded."""
    machine = (sys.platform, platform.machine())
    digest = hashlib.sha256(" ".join([*_FLAGS, *machine]).encode())
    for path in sorted(_SOURCES.glob("*.[ch]")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def packaged() -> Path:
    """Where the build backend puts the library, beside this file."""
    return Path(__file__).parent / f"regard_cpu-{source_key()}.so"


def cached() -> Path:
    """Where a library compiled on first use goes."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "regard" / f"regard_cpu-{source_key()}.so"


def find_compiler() -> str | None:
    """The C compiler of this machine: $CC, or the first of cc, gcc, clang on the path."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name.split()[0]):
            return name
    return None


def compile_library(target: Path) -> None:
    """Compile into `target`, which appears whole or not at all."""
    if sys.platform == "win32":
        raise BuildError("the kernels need POSIX threads, which Windows does not have")
    compiler = find_compiler()
    if compiler is None:
        raise BuildError("no C compiler found: none of $CC, cc, gcc, clang is on the path")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            made = Path(folder) / target.name
            source = str(_SOURCES / "regard_cpu.c")
            command = [*compiler.split(), *_FLAGS, source, "-o", str(made), "-lm"]
            done = _run(command)
            if done.returncode != 0:
                raise BuildError(f"{compiler} failed: {_first_error(done.stderr)}")
            made.replace(target)
    except OSError as error:
        raise BuildError(f"cannot write {target}: {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{compiler} took longer than {error.timeout:.0f} s") from error


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=300)
    except OSError as error:
        raise BuildError(f"cannot run {command[0]}: {error.strerror or error}") from error


def _first_error(said: str) -> str:
    lines = said.splitlines()
    return next((line for line in lines if "error" in line), lines[0] if lines else "no message")
