"""Files written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from regard.errors import InputError
from regard.learn.save import write_whole


def test_text_is_written_as_utf8_with_plain_line_ends(tmp_path):
    path = tmp_path / "a.md"
    write_whole(path, "√×\nsecond\n")
    assert path.read_bytes() == "√×\nsecond\n".encode()


def test_an_older_file_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("old and longer than the new one")
    write_whole(path, "new")
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.md"]


def test_the_mode_is_that_of_an_ordinary_file(tmp_path):
    before = os.umask(0o022)
    try:
        write_whole(tmp_path / "a.md", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "a.md").stat().st_mode & 0o777 == 0o644


def test_a_failure_leaves_the_older_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "a.md"
    path.write_text("old")

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InputError, match="cannot be written"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.md"]


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(InputError, match=r"gone/a\.md: cannot write there"):
        write_whole(tmp_path / "gone" / "a.md", "x")


def test_a_folder_cannot_be_written_over(tmp_path):
    (tmp_path / "a.md").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_whole(tmp_path / "a.md", "x")
    assert [p.name for p in tmp_path.iterdir()] == ["a.md"]
