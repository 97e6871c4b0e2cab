"""The tests' tree is the package's tree."""

from __future__ import annotations

from pathlib import Path


def unmirrored(package: Path, tests: Path) -> list[str]:
    """Folders and top modules of the package that have no tests of their own name."""
    wrong = []
    for folder in sorted({path.parent for path in package.rglob("*.py")} - {package}):
        inside = folder.relative_to(package)
        beside = len(inside.parts) > 1 and _has_files_beside(tests / inside)
        if not any((tests / inside).glob("test_*.py")) and not beside:
            wrong.append(f"{package.name}/{inside} has no tests in {tests.name}/{inside}")
    for module in sorted(package.glob("*.py")):
        wanted = tests / f"test_{module.stem}.py"
        if not module.stem.startswith("__") and not wanted.exists():
            wrong.append(f"{package.name}/{module.name} has no {tests.name}/{wanted.name}")
    return wrong


def _has_files_beside(folder: Path) -> bool:
    """A small inner folder may be tested by files next to it: engine/cpu by test_cpu….py."""
    return any(folder.parent.glob(f"test_{folder.name}*.py"))
