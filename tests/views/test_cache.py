"""Bytes are bounded, and what is asked for again stays."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regard.views.cache import Cache


def _ask(cache: Cache, key: str, made: list[str]) -> str:
    def make() -> str:
        made.append(key)
        return key * 4

    return cache.get(key, make, len)


def test_what_was_not_asked_for_longest_goes_first():
    cache, made = Cache(8), []
    for key in "abacab":
        _ask(cache, key, made)
    assert "".join(made) == "abcb"
    assert len(cache) == 2
    assert cache.used == 8


@given(
    st.integers(1, 30),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 12)), max_size=40),
)
@example(limit=10, asked=[(0, 6), (1, 6), (0, 6)])
def test_no_more_is_kept_than_fits(limit: int, asked: list[tuple[int, int]]) -> None:
    cache, sizes = Cache(limit), {}
    for key, size in asked:
        value = cache.get(key, lambda size=size: size, lambda made: made)
        assert value == sizes.get(key, size) or value == size
        sizes[key] = value
        assert 0 <= cache.used <= limit
        if value <= limit:  # what was asked for last is there still
            assert cache.get(key, lambda: pytest.fail("made again"), lambda made: made) == value
    assert len(cache) <= len(sizes)


def test_what_is_kept_is_had_without_waiting():
    cache, made = Cache(8), []
    assert cache.kept("a") is None
    _ask(cache, "a", made)
    _ask(cache, "b", made)
    assert cache.kept("a") == "aaaa"
    _ask(cache, "c", made)  # "a" was asked for later than "b"
    assert (cache.kept("a"), cache.kept("b"), made) == ("aaaa", None, ["a", "b", "c"])

    def ask_meanwhile() -> str:
        return str(cache.kept("slow"))

    assert cache.get("slow", ask_meanwhile, len) == "None"


def ask_at_once(cache, make, count=4):
    """Threads that all ask for one key; what each got, or why not."""
    found, begin = [], threading.Barrier(count)

    def ask() -> None:
        begin.wait(60)
        try:
            found.append(cache.get("k", make, lambda _: 5))
        except ValueError as error:
            found.append(error)

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return found


def test_of_those_who_ask_at_once_one_makes_it():
    cache, made = Cache(100), []

    def make() -> str:
        made.append(1)
        time.sleep(0.05)
        return "value"

    assert ask_at_once(cache, make) == ["value"] * 4
    assert (len(made), len(cache), cache.used) == (1, 1, 5)


def test_if_that_fails_the_next_one_tries():
    cache, tries = Cache(100), []

    def make() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("given up")
        return "value"

    found = ask_at_once(cache, make)
    assert sum(one == "value" for one in found) == 3 and len(tries) == 2
