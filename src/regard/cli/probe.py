"""What there is on this machine, as values: versions, CPU, torch, implementations, extras."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from regard.cli.hazard import Bf16, try_bf16

OLDEST_TORCH = (2, 7)
# Extras that regard uses by itself; others are for those who develop it.
USED = {
    "torch", "gpu", "huggingface", "parquet", "plot", "audio", "vision", "video", "lightning",
    "tensorboard", "view", "notebook", "examples",
}  # fmt: skip

# What the kernels can make use of, and the words by which systems say that it is there.
_FEATURES = {
    "avx2": ("avx2",),
    "avx512": ("avx512f",),
    "amx": ("amx_tile", "amx_bf16"),
    "neon": ("neon", "asimd"),
}


@dataclass(frozen=True)
class Cpu:
    """The processor."""

    name: str
    count: int
    features: list[str]


@dataclass(frozen=True)
class Torch:
    """The torch that regard would use; without one, `problem` says why there is none."""

    version: str | None = None
    new_enough: bool = False
    threads: int = 0
    devices: list[str] = field(default_factory=list)
    problem: str | None = None


@dataclass(frozen=True)
class Extra:
    """An optional part of regard: the packages it wants, with their versions where installed."""

    present: dict[str, str]
    missing: list[str]
    too_old: dict[str, str] = field(default_factory=dict)  # by package: the oldest that works


@dataclass(frozen=True)
class Machine:
    """Everything that `regard doctor` says."""

    regard: str
    python: str
    platform: str
    cpu: Cpu
    numpy: str | None
    torch: Torch
    implementations: dict[str, list[str]]  # name → why not; empty where it is available
    remarks: dict[str, str]  # on those that are
    extras: dict[str, Extra]
    compiler: str | None
    bf16: Bf16 | None  # None without torch

    @property
    def findings(self) -> list[str]:
        """What the user should do something about."""
        found = []
        if self.torch.version and not self.torch.new_enough:
            found.append(
                f"torch {self.torch.version} is too old; regard needs "
                f"{'.'.join(map(str, OLDEST_TORCH))} or newer: pip install -U torch"
            )
        elif self.torch.version and self.torch.problem:
            found.append(f"torch {self.torch.version} cannot be imported: {self.torch.problem}")
        elif self.bf16 and self.bf16.needs_action:
            found.append(f"bf16 matmul on this CPU {self.bf16.sentence}")
        return found + list(dict.fromkeys(self._outdated()))

    def _outdated(self) -> Iterator[str]:
        for name in sorted(USED & self.extras.keys()):
            for package, oldest in self.extras[name].too_old.items():
                if package != "torch":  # of which the line above tells
                    yield (
                        f"{package} {self.extras[name].present[package]} is too old; regard needs "
                        f"{oldest} or newer: pip install -U 'regard[{name}]'"
                    )


def probe() -> Machine:
    """Look at everything; torch is imported if it is there."""
    import regard

    torch = probe_torch()
    usable = torch.version is not None and torch.problem is None
    return Machine(
        regard=regard.__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        cpu=probe_cpu(),
        numpy=_version("numpy"),
        torch=torch,
        implementations=survey_engine() if usable else {},
        remarks=engine_remarks() if usable else {},
        extras=probe_extras(),
        compiler=find_compiler(),
        bf16=try_bf16() if usable else None,
    )


def probe_cpu() -> Cpu:
    """Name, cores this process may use, and the vector units among _FEATURES."""
    described = _describe_cpu()
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return Cpu(cpu_name(described), count, cpu_features(described, platform.machine()))


def cpu_name(described: str) -> str:
    """Linux has a line for it, macOS puts it first, others leave it to Python."""
    labelled = re.search(r"model name\s*:\s*(.+)", described)
    if labelled:
        return labelled[1]
    first = described.partition("\n")[0]
    return first if first and ":" not in first else platform.processor() or platform.machine()


def cpu_features(described: str, machine: str) -> list[str]:
    """The _FEATURES that a system's own description of its CPU speaks of."""
    words = set(described.lower().split())
    found = [name for name, signs in _FEATURES.items() if words & set(signs)]
    if machine.lower() in ("arm64", "aarch64") and "neon" not in found:
        found.append("neon")  # part of the architecture, so some systems do not mention it
    return found


def probe_torch() -> Torch:
    """Version, threads and devices of the installed torch."""
    version = _version("torch")
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: its shared libraries do not load
        return Torch(version, _is_new_enough(version or "0"), problem=str(error))
    return Torch(
        version=str(torch.__version__),
        new_enough=_is_new_enough(str(torch.__version__)),
        threads=torch.get_num_threads(),
        devices=[
            *(
                f"cuda:{n} {torch.cuda.get_device_name(n)}"
                for n in range(torch.cuda.device_count())
            ),
            *(["mps"] if torch.backends.mps.is_available() else []),
        ],
    )


def survey_engine() -> dict[str, list[str]]:
    """The engine's own word on its implementations; one that does not load is its own reason."""
    try:
        from regard.engine.plan import survey
    except ImportError as error:
        return {"engine": [f"does not load: {error}"]}
    return survey()


def engine_remarks() -> dict[str, str]:
    """What the engine says about those that are available."""
    try:
        from regard.engine.plan import remarks
    except ImportError:
        return {}  # survey_engine tells why
    return remarks()


def probe_extras(distribution: str = "regard") -> dict[str, Extra]:
    """The optional parts that the installed metadata names, and which packages are there."""
    try:
        metadata = importlib.metadata.metadata(distribution)
    except importlib.metadata.PackageNotFoundError:
        return {}  # run from a source folder that was never installed
    wanted: dict[str, dict[str, str]] = {
        name: {} for name in metadata.get_all("Provides-Extra") or ()
    }
    for requirement in importlib.metadata.requires(distribution) or ():
        package = re.match(r"[\w.-]+", requirement)
        oldest = re.search(r">=\s*([\d.]+)", requirement.partition(";")[0])
        for extra in re.findall(r"extra\s*==\s*['\"]([^'\"]+)['\"]", requirement):
            if package and package[0] != distribution:
                wanted.setdefault(extra, {})[package[0]] = oldest[1] if oldest else "0"
    return {name: _extra(packages) for name, packages in sorted(wanted.items())}


def find_compiler() -> str | None:
    """A C compiler, the one that $CC names first."""
    names = (os.environ.get("CC", ""), "cc", "gcc", "clang")
    return next((path for name in names if name and (path := shutil.which(name))), None)


def _extra(packages: dict[str, str]) -> Extra:
    versions = {package: _version(package) for package in packages}
    present = {package: version for package, version in versions.items() if version}
    return Extra(
        present=present,
        missing=[package for package, version in versions.items() if not version],
        too_old={
            package: packages[package]
            for package, version in present.items()
            if _numbers(version) < _numbers(packages[package])
        },
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _is_new_enough(version: str) -> bool:
    return _numbers(version)[:2] >= OLDEST_TORCH


def _numbers(version: str) -> tuple[int, ...]:
    """The release, 2.13.0 of 2.13.0+cpu; 5.0 is no older than 5.0.0."""
    release = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(number) for number in release[0].split(".")] if release else [0]
    return tuple([*numbers, 0, 0, 0][:3])


def _describe_cpu() -> str:
    """What the system itself says of the CPU: Linux in a file, macOS through a command."""
    if (file := Path("/proc/cpuinfo")).exists():
        return file.read_text(encoding="utf-8", errors="replace")
    if not shutil.which("sysctl"):
        return ""
    keys = ("brand_string", "features", "leaf7_features")
    command = ["sysctl", "-n", *(f"machdep.cpu.{key}" for key in keys)]
    return subprocess.run(command, capture_output=True, text=True).stdout
