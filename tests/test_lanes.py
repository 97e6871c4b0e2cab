"""The fast lane leaves nothing out altogether, and its list names what is there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from lanes import RELEASED, SLOW, is_slow, is_unchanged, left_out

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "regard"


def test_every_name_is_there() -> None:
    assert [name for name in SLOW if not (TESTS / name).exists()] == []
    assert len(set(SLOW)) == len(SLOW)


def test_every_folder_of_the_package_has_fast_tests() -> None:
    missing = []
    for folder in sorted({path.relative_to(PACKAGE).parts[0] for path in PACKAGE.glob("*/*.py")}):
        files = [*(TESTS / folder).rglob("test_*.py"), *TESTS.glob(f"test_{folder}*.py")]
        if all(is_slow(path) for path in files):
            missing.append(folder)
    assert missing == []


def test_a_file_is_slow_by_its_name_or_its_folder() -> None:
    assert is_slow(TESTS / "browser") and is_slow(TESTS / "browser" / "test_lesson.py")
    assert is_slow(TESTS / "engine" / "test_bits.py")
    assert not is_slow(TESTS / "engine" / "test_plan.py") and not is_slow(TESTS)
    assert not is_slow(PACKAGE / "browser")


def test_what_is_released_is_there() -> None:
    for folder, tests in RELEASED.items():
        assert (TESTS.parent / folder).is_dir() and (TESTS / tests).exists()


def test_a_change_of_a_folder_brings_its_tests_back() -> None:
    path = TESTS / "tools" / "test_site.py"
    assert not is_unchanged(path, {}) and not is_unchanged(path, {"tools": "another"})
    assert not is_unchanged(TESTS / "mask" / "test_laws.py", {})


def _item(name: str, *marks: pytest.MarkDecorator) -> SimpleNamespace:
    marked = {mark.name: mark.mark for mark in marks}
    return SimpleNamespace(nodeid=name, path=TESTS / "mask", get_closest_marker=marked.get)


def test_products_are_sampled_and_commits_add_a_seventh() -> None:
    cases = [_item(f"test_a.py::test[{n}]", pytest.mark.sampled(3)) for n in range(50)]
    items = [*cases, _item("test_a.py::test_rest", pytest.mark.rest), _item("test_a.py::test_b")]
    out = left_out(items, None)
    assert len(out) == 48 and items[-1] not in out and items[-2] in out
    added = [item for commit in "0123456" for item in out if item not in left_out(items, commit)]
    assert sorted(item.nodeid for item in added) == sorted(item.nodeid for item in out)
