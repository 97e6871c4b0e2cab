"""Whether a commit can be released (archives, environments and their use: test_dist.py); whether
the sessions of the noxfile name tests and extras that there are, also without nox."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tools import environment
from tools import release_check as check

SOURCE = '"""Attention."""\n\n__version__ = "1.2.0"\n'
CHANGELOG = (
    "# Changelog\n\n## Unreleased\n\n"
    "## 1.2.0 (2026-01-31)\n\n- New.\n\n## 1.1.0 (2026-01-02)\n\n- Old.\n"
)
CITATION = "cff-version: 1.2.0\ntitle: regard\nversion: 1.2.0\n"


@pytest.mark.parametrize(
    ("old", "new", "tags", "fault"),
    [
        ("", "", [], None),
        ("", "", ["v1.2.0"], None),
        ("", "", ["v1.2.1"], "the tag v1.2.1 says 1.2.1, src/regard/__init__.py says 1.2.0"),
        ('"1.2.0"', '"1.3.0"', [], "CHANGELOG.md says 1.2.0, src/regard/__init__.py says 1.3.0"),
        (
            "## 1.2.0 ",
            "## 1.2.1 ",
            [],
            "CHANGELOG.md says 1.2.1, src/regard/__init__.py says 1.2.0",
        ),
        ("\nversion: 1.2.0", "\nversion: 1.1.0", [], "CITATION.cff says 1.1.0, src/"),
        ("Unreleased\n", "Unreleased\n\n- New.\n", [], None),
        ("Unreleased\n", "Unreleased\n\n- New.\n", ["v1.2.0"], "has changes under Unreleased"),
    ],
)
def test_every_place_says_the_same_version(old, new, tags, fault):
    given = [text.replace(old, new) if old else text for text in (SOURCE, CHANGELOG, CITATION)]
    faults = check.version_faults(*given, tags)
    assert fault in faults[0] if fault else faults == []


def test_a_place_without_a_version():
    with pytest.raises(check.ReleaseError, match="no section of a version"):
        check.newest_version("# Changelog\n\n## Unreleased\n\n- New.\n")
    with pytest.raises(check.ReleaseError, match="0 lines that match"):
        check.package_version("version = 1\n")


def test_tags_are_those_of_the_commit(tmp_path):
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    for version in ("1.1.0", "1.2.0"):
        git("commit", "--allow-empty", "-m", version)
        git("tag", "-m", version, f"v{version}")
    assert check.tags_of_head(tmp_path) == ["v1.2.0"]


def test_this_commit_has_one_version_and_the_tests_that_are_run():
    assert check.check_version(check.ROOT)
    assert all((check.ROOT / folder).is_dir() for folder in check.TESTS)


ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "noxfile.py").read_text(encoding="utf-8")


def test_every_session_names_tests_that_exist():
    named = re.findall(r"\btests/[\w/.]+", TEXT)
    assert len(named) > 8
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_extras_are_those_of_a_clone():
    """Without `gpu`, whose Triton comes with another torch than the oldest."""
    (extras,) = re.findall(r'^EXTRAS = "(.*)"', TEXT, re.MULTILINE)
    assert extras.split(",") == [
        name for name in environment.EVERYTHING.split(",") if name != "gpu"
    ]
