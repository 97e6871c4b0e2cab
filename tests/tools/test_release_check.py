"""Whether a commit can be released. Archives, environments and their use: test_dist.py."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SOURCE = '"""Attention."""\n\n__version__ = "1.2.0"\n'
CHANGELOG = """# Changelog

## Unreleased

## 1.2.0 (2026-01-31)

- New.

## 1.1.0 (2026-01-02)

- Old.
"""
CITATION = "cff-version: 1.2.0\ntitle: regard\nversion: 1.2.0\n"


@pytest.fixture(scope="module")
def check(tool):
    return tool("release_check")


def test_a_version_that_everything_agrees_on(check):
    assert check.version_faults(SOURCE, CHANGELOG, CITATION, []) == []
    assert check.version_faults(SOURCE, CHANGELOG, CITATION, ["v1.2.0"]) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"1.2.0"', '"1.3.0"', "CHANGELOG.md says 1.2.0, src/regard/__init__.py says 1.3.0"),
        ("## 1.2.0 ", "## 1.2.1 ", "CHANGELOG.md says 1.2.1, src/regard/__init__.py says 1.2.0"),
        ("\nversion: 1.2.0", "\nversion: 1.1.0", "CITATION.cff says 1.1.0, src/"),
    ],
)
def test_each_place_is_compared(check, old, new, fault):
    given = [text.replace(old, new) for text in (SOURCE, CHANGELOG, CITATION)]
    assert fault in check.version_faults(*given, [])[0]


def test_the_tag_of_a_release(check):
    assert check.version_faults(SOURCE, CHANGELOG, CITATION, ["v1.2.1"]) == [
        "the tag v1.2.1 says 1.2.1, src/regard/__init__.py says 1.2.0"
    ]
    changed = CHANGELOG.replace("## Unreleased\n", "## Unreleased\n\n- Not yet in a version.\n")
    assert check.version_faults(SOURCE, changed, CITATION, []) == []
    (fault,) = check.version_faults(SOURCE, changed, CITATION, ["v1.2.0"])
    assert "changes under Unreleased" in fault


def test_a_changelog_without_a_version(check):
    with pytest.raises(check.ReleaseError, match="no section of a version"):
        check.newest_version("# Changelog\n\n## Unreleased\n\n- New.\n")


def test_a_package_without_a_version(check):
    with pytest.raises(check.ReleaseError, match="0 lines that match"):
        check.package_version("version = 1\n")


def test_tags_are_those_of_the_commit(check, tmp_path):
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    for version in ("1.1.0", "1.2.0"):
        git("commit", "--allow-empty", "-m", version)
        git("tag", "-m", version, f"v{version}")
    assert check.tags_of_head(tmp_path) == ["v1.2.0"]


def test_this_commit_has_one_version(check):
    assert check.check_version(check.ROOT)


def test_the_tests_that_are_run_exist(check):
    assert all((Path(check.ROOT) / folder).is_dir() for folder in check.TESTS)
