"""Only regular files are read or replaced; what is written appears whole or not at all."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from regard import files
from regard.errors import FileError, InputError
from regard.files import appearing, check_free, open_file, shown, write_text


def names(folder: Path) -> list[str]:
    """What is in it."""
    return [path.name for path in folder.iterdir()]


def test_it_appears_at_the_end(tmp_path):
    path = tmp_path / "a.csv"
    with appearing(path, overwrite=False) as part:
        part.write_text("x")
        assert not path.exists() and part.parent == tmp_path
    assert path.read_text() == "x" and names(tmp_path) == ["a.csv"]


def test_it_can_be_read_by_whom_the_umask_and_the_old_file_let(tmp_path):
    path, plain = tmp_path / "a", tmp_path / "b"
    plain.touch()
    for mode in (stat.S_IMODE(plain.stat().st_mode), 0o600):
        with appearing(path, overwrite=True):
            pass
        assert stat.S_IMODE(path.stat().st_mode) == mode
        path.chmod(0o600)


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


def test_a_large_old_file_is_replaced_as_any_other(tmp_path, monkeypatch):
    """What the system takes to free it is left to a thread."""
    monkeypatch.setattr(files, "_LARGE", 3)
    (path := tmp_path / "a").write_text("old")
    with appearing(path, overwrite=True) as part:
        part.write_text("new")
    assert path.read_text() == "new" and names(tmp_path) == ["a"]


def test_what_exists_is_refused(tmp_path):
    path = tmp_path / "a"
    path.touch()
    with pytest.raises(InputError, match="exists already; give another name, or --overwrite"):
        check_free(path, overwrite=False)
    check_free(path, overwrite=True)
    with pytest.raises(InputError, match="a folder, not a file; give the name of a file"):
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


@pytest.fixture
def special(tmp_path, monkeypatch):
    """Things in a folder that are no regular files, and links to them."""
    monkeypatch.chdir(tmp_path)  # the address of a socket is 107 characters at most
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
    (tmp_path / "to-a-pipe").symlink_to(tmp_path / "pipe")
    (tmp_path / "to-a-device").symlink_to("/dev/null")
    return [tmp_path / name for name in ("pipe", "socket", "to-a-pipe", "to-a-device")]


def test_what_is_no_regular_file_is_neither_read_nor_replaced(special):
    for path in [*special, Path("/dev/null"), Path("/dev/zero")]:
        before = path.stat()
        with pytest.raises(OSError, match=r"a (pipe|socket|device), not a file"):
            open_file(path)
        with (
            pytest.raises(InputError, match=r"a (pipe|socket|device), not a file; give the name"),
            appearing(path, overwrite=True) as part,
        ):
            part.write_text("new")
        assert (path.stat().st_ino, path.stat().st_mode) == (before.st_ino, before.st_mode)


def test_a_link_is_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    real, link = tmp_path / "elsewhere" / "a", tmp_path / "link"
    link.symlink_to(real)
    for text in ("new", "newer"):
        with appearing(link, overwrite=True) as part:
            part.write_text(text)
        assert link.is_symlink() and real.read_text() == text
    assert names(tmp_path / "elsewhere") == ["a"]


@pytest.mark.parametrize("name", ["x" * 5000, "zero\0", "x" * 300])
def test_names_that_no_system_takes_are_one_short_line(tmp_path, name):
    with (
        pytest.raises((InputError, FileError)) as caught,
        appearing(tmp_path / name, overwrite=False),
    ):
        pass
    assert len(str(caught.value)) < 600 and str(caught.value).isprintable()


def test_a_path_inside_a_message():
    assert shown("a\x1b[1m\n.md") == "a\ufffd[1m\ufffd.md"
    assert len(shown("x" * 5000)) < 500 and shown("x" * 300) == "x" * 300


def test_text_is_written_as_utf8_with_plain_line_ends(tmp_path):
    path = tmp_path / "a.md"
    write_text(path, "√×\nsecond\n", "--save", overwrite=False)
    assert path.read_bytes() == "√×\nsecond\n".encode()


def test_text_names_the_option(tmp_path):
    with pytest.raises(InputError, match=r"^--csv .*gone/a\.md: cannot be written there"):
        write_text(tmp_path / "gone" / "a.md", "x", "--csv", overwrite=False)
    (tmp_path / "a.md").write_text("old")
    with pytest.raises(InputError, match=r"^--csv .*a\.md: exists already; .* --overwrite"):
        write_text(tmp_path / "a.md", "x", "--csv", overwrite=False)
    assert (tmp_path / "a.md").read_text() == "old"


def test_a_link_to_itself_is_refused_and_not_resolved(tmp_path):
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    assert files.real(loop).name == "loop.csv"
    for path in (loop, loop / "a.csv"):
        with pytest.raises(InputError, match="symbolic links"):
            files.check_output(tmp_path / "run.regard", path, overwrite=True)


def test_paths_are_not_resolved_by_pathlib():
    """Up to Python 3.12 `Path.resolve` raises RuntimeError where links go in a circle."""
    root = Path(files.__file__).parent
    assert [path for path in root.rglob("*.py") if ".resolve()" in path.read_text()] == []
