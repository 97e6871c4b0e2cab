"""Text files of a learner."""

from __future__ import annotations

import os

import pytest

from regard.errors import InputError
from regard.learn.text import read_text


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
    [
        ("gone", "no such file"),
        ("folder", "cannot be read (a folder, not a file)"),
        ("pipe", "cannot be read (a pipe, not a file)"),
        ("latin", "not UTF-8 text"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, problem):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "latin").write_bytes("é".encode("latin-1"))
    with pytest.raises(InputError) as caught:
        read(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / name}: {problem}")
    assert str(caught.value).endswith("; give a page")
