"""What the installed packages are: tests of what came with a version say which."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from packaging.version import Version

__all__ = ["is_at_least", "needs", "needs_one_graph"]


def is_at_least(package: str, oldest: str) -> bool:
    """Whether the installed package is this version or newer; a build before counts as it."""
    return Version(Version(version(package)).base_version) >= Version(oldest)


def needs(package: str, oldest: str, why: str) -> None:
    """Skip the test where the installed package is older."""
    if not is_at_least(package, oldest):
        pytest.skip(f"{why}: {package} {oldest} or newer; {version(package)} is installed")


def needs_one_graph() -> None:
    """Of masks that are joined, packed sequences or statistics; with breaks, older ones compile
    these too."""
    needs("torch", "2.9", "torch.compile takes them into one graph")
