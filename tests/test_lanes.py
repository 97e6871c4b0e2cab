"""The fast lane leaves nothing out altogether, and its list names what is there."""

from __future__ import annotations

from pathlib import Path

from lanes import SLOW, is_slow

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "regard"


def test_every_name_is_there() -> None:
    assert [name for name in SLOW if not (TESTS / name).exists()] == []
    assert len(set(SLOW)) == len(SLOW)


def test_every_folder_of_the_package_has_fast_tests() -> None:
    missing = []
    for folder in sorted({path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE}):
        own = TESTS / folder.relative_to(PACKAGE)
        files = [*own.glob("test_*.py"), *own.parent.glob(f"test_{own.name}*.py")]
        if all(is_slow(path) for path in files):
            missing.append(str(folder.relative_to(PACKAGE)))
    assert missing == []


def test_a_file_is_slow_by_its_name_or_its_folder() -> None:
    assert is_slow(TESTS / "browser") and is_slow(TESTS / "browser" / "test_lesson.py")
    assert is_slow(TESTS / "engine" / "test_bits.py")
    assert not is_slow(TESTS / "engine" / "test_plan.py") and not is_slow(TESTS)
    assert not is_slow(PACKAGE / "browser")
