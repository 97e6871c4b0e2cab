"""The repository's sources, read and parsed once for all checks, and small planted ones."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from house.checks.source import Sources

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def sources() -> Sources:
    """What the checks read."""
    return Sources.read(REPOSITORY)


@pytest.fixture(scope="session")
def clean() -> Callable[[list[str]], None]:
    """Fail with every violation on a line of its own, none cut off."""

    def expect_none(violations: list[str]) -> None:
        if violations:
            pytest.fail("\n".join([f"{len(violations)} violations:", *violations]), pytrace=False)

    return expect_none


@pytest.fixture
def plant(tmp_path: Path) -> Callable[..., Path]:
    """Write files below a temporary folder, tracked by git if asked, and give the folder back."""

    def write(files: dict[str, str], git: bool = False) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for command in (["init", "--quiet"], ["add", "--all"]) if git else ():
            subprocess.run(["git", *command], cwd=tmp_path, check=True)
        return tmp_path

    return write
