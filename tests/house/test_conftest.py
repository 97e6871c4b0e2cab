"""The fixtures of the house do what the checks rely on."""

from __future__ import annotations

import subprocess

import pytest


def test_clean_passes_nothing_but_an_empty_list(clean):
    clean([])
    with pytest.raises(pytest.fail.Exception, match="2 violations:\nfirst\nsecond"):
        clean(["first", "second"])


def test_planted_files_are_tracked(plant_in_git):
    root = plant_in_git({"a/b.txt": "x"})
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True)
    assert listed.stdout == "a/b.txt\n"


def test_the_repository_is_this_one(repository, package):
    assert (repository / "pyproject.toml").exists()
    assert (package / "errors.py").exists()
