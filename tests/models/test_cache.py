"""Where models are kept, and that one process at a time works there."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from regard.errors import FileError
from regard.models import cache, check, folder, known, remove


def test_the_folder_can_be_chosen(monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", "/somewhere")
    assert cache.root() == Path("/somewhere/models")


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("linux", None, "/home/me/.cache/regard/models"),
        ("linux", "XDG_CACHE_HOME", "/chosen/regard/models"),
        ("darwin", None, "/home/me/Library/Caches/regard/models"),
        ("win32", "LOCALAPPDATA", "/chosen/regard/models"),
    ],
)
def test_otherwise_it_is_the_users_cache(monkeypatch, platform, variable, expected):
    for name in ("REGARD_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    monkeypatch.setattr(sys, "platform", platform)
    if variable:
        monkeypatch.setenv(variable, "/chosen")
    assert cache.root() == Path(expected)


def test_without_a_home_the_variable_is_named(monkeypatch):
    for name in ("REGARD_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def homeless():
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(FileError, match="REGARD_CACHE"):
        cache.root()


def test_the_home_of_nobody_is_refused(monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", "~no-such-user/models")
    with pytest.raises(FileError, match="REGARD_CACHE=~no-such-user/models: no such user"):
        cache.root()


def test_known_models_say_whether_they_are_there(toy):
    (before,) = known()
    assert (before.folder, before.is_cached) == (None, False)
    folder("toy")
    (after,) = known()
    assert (after.folder, after.is_cached, after.damage) == (toy.place, True, ())


def test_damage_is_seen_cheaply_or_deeply(toy):
    folder("toy")
    (toy.place / "config.json").write_text("[3, 2, 1]")
    assert known()[0].is_cached
    assert check("toy").damage == ("config.json: its bytes have changed",)
    (toy.place / "config.json").write_text("[]")
    assert known()[0].damage == ("config.json: 2 bytes, not 9",)
    assert not known()[0].is_cached


def test_removing(toy):
    assert not remove("toy")
    folder("toy")
    assert remove("toy")
    assert toy.left() == [] and not remove("toy")


def test_one_workplace_at_a_time(toy):
    """The second waits for the first, and says so."""
    order, entered = [], threading.Event()

    def waits():
        order.append("waits")
        entered.set()

    def second():
        with cache.workplace(toy.place, waits):
            order.append("second")

    thread = threading.Thread(target=second)
    with cache.workplace(toy.place) as work:
        assert work.parent == toy.root and list(work.iterdir()) == []
        thread.start()
        assert entered.wait(120)
        order.append("first")
    thread.join()
    assert order == ["waits", "first", "second"]
    assert toy.left() == []


def test_what_a_killed_process_left_is_cleared_away(toy):
    left = toy.root / ".toy-1.0-abc" / "made"
    left.mkdir(parents=True)
    (left / "config.json").write_text("half")
    (toy.root / ".other-1.0-abc").mkdir()
    with cache.workplace(toy.place):
        assert not left.exists()
    assert toy.left() == [".other-1.0-abc"]


def test_a_folder_takes_the_place_of_a_damaged_one(toy):
    toy.place.mkdir(parents=True)
    (toy.place / "old").touch()
    with cache.workplace(toy.place) as work:
        (work / "made").mkdir()
        (work / "made" / "new").touch()
        cache.publish(work / "made", toy.place)
    assert [p.name for p in toy.place.iterdir()] == ["new"]
    assert toy.left() == ["toy-1.0"]


def test_what_the_system_says_is_one_line(toy, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=r"file/models: Not a directory; models are kept in") as e:
        folder("toy")
    assert "\n" not in str(e.value)
    assert known()[0].folder is None
