"""What every check of the house needs: the repository, and a way to plant small wrong ones."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def package() -> Path:
    """The package's source folder."""
    return REPOSITORY / "src" / "regard"


@pytest.fixture(scope="session")
def clean() -> Callable[[list[str]], None]:
    """Fail with every violation on a line of its own, none cut off."""

    def expect_none(violations: list[str]) -> None:
        if violations:
            pytest.fail("\n".join([f"{len(violations)} violations:", *violations]), pytrace=False)

    return expect_none


@pytest.fixture
def plant(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Write files below a temporary folder and give the folder back."""

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return write


@pytest.fixture
def plant_in_git(plant: Callable[[dict[str, str]], Path]) -> Callable[[dict[str, str]], Path]:
    """The same, as a git repository in which the files are tracked."""

    def write(files: dict[str, str]) -> Path:
        root = plant(files)
        for command in (["init", "--quiet"], ["add", "--all"]):
            subprocess.run(["git", *command], cwd=root, check=True)
        return root

    return write
