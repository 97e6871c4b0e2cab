"""A file appears whole or not at all."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from regard.errors import FileError, InputError
from regard.export.files import appearing, check_free


def names(folder: Path) -> list[str]:
    """What is in it."""
    return [path.name for path in folder.iterdir()]


def test_it_appears_at_the_end(tmp_path):
    path = tmp_path / "a.csv"
    with appearing(path, overwrite=False) as part:
        part.write_text("x")
        assert not path.exists() and part.parent == tmp_path
    assert path.read_text() == "x" and names(tmp_path) == ["a.csv"]


def test_it_can_be_read_by_whom_the_umask_lets(tmp_path):
    with appearing(tmp_path / "a", overwrite=False):
        pass
    plain = tmp_path / "b"
    plain.touch()
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, InputError])
def test_after_an_error_nothing_is_left(tmp_path, error):
    with pytest.raises(error), appearing(tmp_path / "a", overwrite=False) as part:
        part.write_text("half")
        raise error("stopped")
    assert names(tmp_path) == []


def test_an_old_file_is_kept_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(RuntimeError), appearing(path, overwrite=True) as part:
        part.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old" and names(tmp_path) == ["a"]
    with appearing(path, overwrite=True) as part:
        part.write_text("new")
    assert path.read_text() == "new"


def test_what_exists_is_refused(tmp_path):
    path = tmp_path / "a"
    path.touch()
    with pytest.raises(InputError, match="exists already; give another name, or --overwrite"):
        check_free(path, overwrite=False)
    check_free(path, overwrite=True)
    with pytest.raises(InputError, match="a folder; give the name of a file"):
        check_free(tmp_path, overwrite=True)


def test_who_comes_later_does_not_overwrite(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(InputError, match="exists already"), appearing(path, overwrite=False):
        path.write_text("another's")
    assert path.read_text() == "another's" and names(tmp_path) == ["a"]


def test_a_folder_that_is_not_there(tmp_path):
    with (
        pytest.raises(FileError, match=r"none/a: cannot be written there .*; give a folder"),
        appearing(tmp_path / "none" / "a", overwrite=False),
    ):
        pass


def test_a_disk_that_fails_is_one_line(tmp_path):
    with (
        pytest.raises(FileError, match="cannot be written"),
        appearing(tmp_path / "a", overwrite=False),
    ):
        raise OSError(28, "No space left on device")
    assert names(tmp_path) == []
