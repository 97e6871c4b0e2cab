"""Makes the virtual environment that every `make` target uses. Standard library only.

torch comes first and by exact pin on machines without an NVIDIA GPU, because a bare `torch`
would pull gigabytes of CUDA libraries that nothing here could use. A torch that is already
there and new enough (a cluster's own build, say) is kept and seen from inside the environment.

    python3 tools/environment.py .venv
    python3 tools/environment.py .venv/peers peers   one to run tests with another extra's packages
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from build_page import NODE_PACKAGE, has_node

OLDEST_PYTHON = (3, 11)
OLDEST_TORCH = (2, 7)
CPU_TORCH = "torch==2.13.0"
EVERYTHING = "torch,gpu,huggingface,parquet,plot,audio,tensorboard,view,dev"
TESTING = ("pytest>=8", "pytest-xdist>=3.6", "hypothesis>=6.100")

TORCH_VERSION = "import importlib.metadata as m; print(m.version('torch'))"


def torch_is_suitable(python: str) -> bool:
    """Whether this interpreter already has a torch that is new enough."""
    probe = subprocess.run([python, "-c", TORCH_VERSION], capture_output=True, text=True)
    if probe.returncode != 0:
        return False
    major, minor = probe.stdout.split(".")[:2]
    return (int(major), int(minor)) >= OLDEST_TORCH


def install(python: Path, *what: str) -> None:
    """pip install, with its own words on failure and few of them otherwise."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, *what], check=True)


def overlay(folder: Path) -> Path:
    """An environment without pip that sees the packages of this one behind its own; returns the
    folder of its own packages."""
    venv.EnvBuilder(symlinks=True).create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    borrowed = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (packages / "borrowed.pth").write_text("\n".join(borrowed) + "\n")
    return packages


def main(folder: Path, extra: str = "") -> None:
    """Create the environment in `folder`, install regard editable, leave the stamp `.ready`. With
    an `extra`, what its packages are tested with instead of everything."""
    if sys.version_info < OLDEST_PYTHON:
        found, needed = sys.version.split()[0], ".".join(map(str, OLDEST_PYTHON))
        sys.exit(f"regard needs Python {needed} or newer; {sys.executable} is {found}")
    python = folder / "bin" / "python"
    if not python.exists():
        keep = torch_is_suitable(sys.executable)
        print(f"setting up {folder} (once; a few minutes at most)", file=sys.stderr)
        venv.EnvBuilder(with_pip=True, system_site_packages=keep).create(folder)
    if not torch_is_suitable(str(python)):
        has_gpu = shutil.which("nvidia-smi") is not None
        install(python, f"torch>={'.'.join(map(str, OLDEST_TORCH))}" if has_gpu else CPU_TORCH)
    if extra:
        install(python, *TESTING, "--editable", f".[torch,huggingface,view,{extra}]")
    else:
        if not has_node():
            install(python, NODE_PACKAGE)
        install(python, "--editable", f".[{EVERYTHING}]")
    (folder / ".ready").touch()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), *sys.argv[2:3])
    except subprocess.CalledProcessError as error:
        sys.exit(f"set-up failed: {' '.join(map(str, error.cmd))}")
