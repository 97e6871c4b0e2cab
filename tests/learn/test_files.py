"""Files read and written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from regard.errors import InputError
from regard.learn.files import read_text, write_text


def test_text_is_written_as_utf8_with_plain_line_ends(tmp_path):
    path = tmp_path / "a.md"
    write_text(path, "√×\nsecond\n", "--save")
    assert path.read_bytes() == "√×\nsecond\n".encode()


def test_an_older_file_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("old and longer than the new one")
    write_text(path, "new", "--save")
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.md"]


def test_the_mode_is_that_of_an_ordinary_file(tmp_path):
    before = os.umask(0o022)
    try:
        write_text(tmp_path / "a.md", "x", "--save")
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
        write_text(path, "new", "--save")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.md"]


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(InputError, match=r"^--csv .*gone/a\.md: cannot write there"):
        write_text(tmp_path / "gone" / "a.md", "x", "--csv")


def test_a_folder_cannot_be_written_over(tmp_path):
    (tmp_path / "a.md").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_text(tmp_path / "a.md", "x", "--save")
    assert [p.name for p in tmp_path.iterdir()] == ["a.md"]


def read(path):
    return read_text(path, mib=1, wanted="a page")


def test_text_is_read_with_or_without_a_byte_order_mark(tmp_path):
    path = tmp_path / "a.md"
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_text("√×", encoding=encoding)
        assert read(path) == "√×"


def test_the_limit_itself_may_be_read_and_one_byte_more_may_not(tmp_path):
    path = tmp_path / "a.md"
    path.write_bytes(b"x" * 2**20)
    assert len(read(path)) == 2**20
    path.write_bytes(b"x" * (2**20 + 1))
    with pytest.raises(InputError, match=r"a\.md: more than 1 MiB; give a page"):
        read(path)


@pytest.mark.parametrize(
    ("name", "problem"),
    [("gone", "no such file"), ("folder", "cannot be read"), ("latin", "not UTF-8 text")],
)
def test_what_cannot_be_read_is_named(tmp_path, name, problem):
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin").write_bytes("é".encode("latin-1"))
    with pytest.raises(InputError) as caught:
        read(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / name}: {problem}")
    assert str(caught.value).endswith("; give a page")
