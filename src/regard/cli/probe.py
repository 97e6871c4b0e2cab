"""What there is on this machine, as values: versions, CPU, torch, implementations, extras.

Whether bf16 on this CPU kills the process, found out in a child that may die of it.

Virtual machines exist that advertise AMX but leave CPUID leaf 0x1D, which describes its tiles,
empty. oneDNN believes the advertisement, and torch's bf16 matmul and attention end in SIGILL
without a word. `ONEDNN_MAX_CPU_ISA`, set before torch is imported, keeps oneDNN below AMX.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

VARIABLE = "ONEDNN_MAX_CPU_ISA"
LIMIT = "AVX512_CORE_BF16"
WORKS = "works"

# Large enough for oneDNN to take its fast path. A core file of the expected death helps nobody.
_PROGRAM = """
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except (ImportError, ValueError):
    pass
import torch
a = torch.ones(256, 256, dtype=torch.bfloat16)
assert (a @ a)[0, 0] == 256
q = torch.ones(1, 2, 256, 64, dtype=torch.bfloat16)
torch.nn.functional.scaled_dot_product_attention(q, q, q)
"""
COMMAND = (sys.executable, "-c", _PROGRAM)
_PATIENCE = 60.0  # seconds; importing torch from a slow disk takes most of it

_WINDOWS_SIGILL = 0xC000001D


@dataclass(frozen=True)
class Bf16:
    """How bf16 fared, without the variable and, where it died, with it."""

    plain: str
    value: str  # of the variable: the one that is set, else the one that helps
    is_set: bool
    limited: str | None = None

    @property
    def needs_action(self) -> bool:
        """Whether the user's own bf16 would die as things stand. No answer is no alarm."""
        if self.plain == WORKS or self.plain.startswith("gives no answer"):
            return False
        return not (self.is_set and self.limited == WORKS)

    @property
    def sentence(self) -> str:
        """What happened and what helps."""
        if self.limited is None:
            return self.plain
        if self.is_set:
            return (
                f"{self.plain} without {VARIABLE}; with {VARIABLE}={self.value}, "
                f"as it is set here: {self.limited}"
            )
        return (
            f"{self.plain}; set {VARIABLE}={self.value} before torch is imported; "
            f"with it: {self.limited}"
        )


def try_bf16(
    command: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    patience: float = _PATIENCE,
) -> Bf16:
    """Try it without the variable; where the child dies, once more with it."""
    command = COMMAND if command is None else command
    outer = dict(os.environ if environment is None else environment)
    given = outer.pop(VARIABLE, None)
    value = given or LIMIT
    plain = try_command(command, outer, patience)
    limited = None
    if plain.startswith("dies"):
        limited = try_command(command, outer | {VARIABLE: value}, patience)
    return Bf16(plain, value, is_set=bool(given), limited=limited)


def try_command(command: Sequence[str], environment: Mapping[str, str], patience: float) -> str:
    """How a command ends, in words."""
    try:
        done = subprocess.run(
            list(command), env=dict(environment), timeout=patience, capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        return f"gives no answer within {patience:g} s"
    except OSError as error:
        return f"fails: {error}"
    if done.returncode == 0:
        return WORKS
    if done.returncode < 0 or done.returncode == _WINDOWS_SIGILL:
        return f"dies with {_signal_name(done.returncode)}"
    words = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return f"fails: {words[-1]}"


def _signal_name(status: int) -> str:
    """The name of the signal that a negative exit status stands for."""
    if status == _WINDOWS_SIGILL:
        return "SIGILL"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


OLDEST_TORCH = (2, 7)
# Extras that regard uses by itself; others are for those who develop it.
USED = {
    "torch", "gpu", "huggingface", "parquet", "plot", "audio", "vision", "lightning",
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
