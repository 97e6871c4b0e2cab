"""The stamp tells a whole folder from a damaged one, by sizes or by every byte."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from regard.models.cache import STAMP, damage, write_stamp


@pytest.fixture
def folder(toy, tmp_path):
    """A folder with two files and its stamp."""
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "deep" / "weights").write_bytes(b"12345")
    write_stamp(folder, toy.model)
    return folder


def test_a_whole_folder(toy, folder):
    assert damage(folder, toy.model) == damage(folder, toy.model, deep=True) == []
    stamp = json.loads((folder / STAMP).read_text())
    assert list(stamp) == ["name", "conversion", "wheels", "licence", "files"]
    assert stamp["files"]["deep/weights"]["size"] == 5


def test_changed_files_are_named(toy, folder):
    (folder / "config.json").unlink()
    (folder / "deep" / "weights").write_bytes(b"1234")
    found = ["config.json: is missing", "deep/weights: 4 bytes, not 5"]
    assert damage(folder, toy.model) == found


def test_changed_bytes_are_found_by_looking_deep(toy, folder):
    (folder / "deep" / "weights").write_bytes(b"12346")
    assert damage(folder, toy.model) == []
    assert damage(folder, toy.model, deep=True) == ["deep/weights: its bytes have changed"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": 3}', "\x00"])
def test_a_stamp_that_says_nothing(toy, folder, text):
    (folder / STAMP).write_text(text)
    assert damage(folder, toy.model) == ["regard.json cannot be understood"]


def test_no_stamp(toy, folder):
    (folder / STAMP).unlink()
    assert damage(folder, toy.model) == ["regard.json is missing"]
    (folder / STAMP).mkdir()
    assert damage(folder, toy.model) == ["regard.json cannot be read (Is a directory)"]


def test_what_another_version_made_does_not_count(toy, folder):
    newer = replace(toy.model, conversion=2)
    assert damage(folder, newer) == ["it was converted by another version of regard"]
