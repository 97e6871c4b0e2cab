"""Turns `kernel/` into a shared library with whatever C compiler there is. Standard library only,
because the build backend runs this file as well as the package."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_SOURCES = Path(__file__).parent / "kernel"
_DIGITS = 32  # of a library's digest, in its name
# -O3 for the unrolling; no -ffast-math: NaN and −∞ mean something here
_FLAGS = ("-O3", "-std=gnu11", "-Wno-psabi", "-shared", "-fPIC", "-pthread")


class BuildError(RuntimeError):
    """The library cannot be built here; the message says why."""


def source_key(machine: str | None = None) -> str:
    """Names what the sources say, so that a library built from others is never loaded. `machine` is
    the one that the library is for, by default this one."""
    system = (sys.platform, machine or platform.machine())
    digest = hashlib.sha256(" ".join([*_FLAGS, *system]).encode())
    for path in sorted(_SOURCES.glob("*.[ch]")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def machine_key() -> str:
    """Names the processor and the compiler: a library of the cache is of this machine alone.
    Where there is no compiler any will do, as `?` says in a pattern."""
    compiler = find_compiler()
    if compiler is None:
        return f"{_digest(_processor())[:8]}-{'?' * 8}"
    file = Path(os.path.realpath(shutil.which(shlex.split(compiler)[0]) or compiler))
    facts = file.stat()
    built = f"{compiler} {file} {facts.st_size} {facts.st_mtime_ns}"
    return f"{_digest(_processor())[:8]}-{_digest(built.encode())[:8]}"


def packaged(machine: str | None = None) -> Path | None:
    """The library that the build backend put beside this file; None where there is none."""
    return intact(Path(__file__).parent, f"regard_cpu-{source_key(machine)}")


def intact(folder: Path, stem: str) -> Path | None:
    """A library in the folder whose name ends in the digest of its bytes; None where there is
    none. `stem` is a pattern."""
    for path in sorted(folder.glob(f"{stem}-{'[0-9a-f]' * _DIGITS}.so")):
        try:
            if path.stem.endswith(_digest(path.read_bytes())):
                return path
        except OSError:
            continue  # removed meanwhile, or not ours to read
    return None


def find_compiler() -> str | None:
    """The C compiler of this machine: $CC, or the first of cc, gcc, clang on the path."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(shlex.split(name)[0]):
            return name
    return None


def compile_library(folder: Path, stem: str) -> Path:
    """Compile into the folder. The library appears whole, under a name that ends in the digest of
    its bytes, so that processes that compile at once do not disturb each other."""
    if sys.platform == "win32":
        raise BuildError("the kernels need POSIX threads, which Windows does not have")
    compiler = find_compiler()
    if compiler is None:
        raise BuildError(
            "no C compiler found: none of $CC, cc, gcc, clang is on the path; with one of them, or "
            "in a wheel of regard that carries kernels for this machine, there would be kernels"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            made = Path(work) / "regard_cpu.so"
            source = str(_SOURCES / "regard_cpu.c")
            command = [*shlex.split(compiler), *_FLAGS, source, "-o", str(made), "-lm"]
            done = _run(command)
            if done.returncode != 0:
                raise BuildError(f"{compiler} failed: {_first_error(done.stderr)}")
            made.chmod(0o755)  # whatever the umask is: nobody else may write to it
            return made.replace(folder / f"{stem}-{_digest(made.read_bytes())}.so")
    except OSError as error:
        raise BuildError(f"cannot write to {folder}: {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{compiler} took longer than {error.timeout:.0f} s") from error


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def _processor() -> bytes:
    """What the system says about the first one."""
    described = Path("/proc/cpuinfo")
    if not described.exists():
        return platform.processor().encode()
    facts = b""
    with described.open("rb") as file:
        for line in file:
            name = line.partition(b":")[0].strip()
            if name in (b"vendor_id", b"model name", b"flags", b"Features", b"CPU part"):
                facts += line
            if not line.strip():
                break
    return facts


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=300)
    except OSError as error:
        raise BuildError(f"cannot run {command[0]}: {error.strerror or error}") from error


def _first_error(said: str) -> str:
    lines = said.splitlines()
    return next((line for line in lines if "error" in line), lines[0] if lines else "no message")
