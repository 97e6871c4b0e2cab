"""Bytes are bounded, and what is asked for again stays."""

from __future__ import annotations

import threading

from regard.viewer.cache import Cache


def _ask(cache: Cache, key: str, made: list[str]) -> str:
    def make() -> str:
        made.append(key)
        return key * 4

    return cache.get(key, make, len)


def test_a_value_is_made_once():
    cache, made = Cache(100), []
    assert [_ask(cache, "a", made) for _ in range(3)] == ["aaaa"] * 3
    assert made == ["a"]


def test_what_was_not_asked_for_longest_goes_first():
    cache, made = Cache(8), []
    for key in "abacab":
        _ask(cache, key, made)
    assert "".join(made) == "abcb"
    assert len(cache) == 2
    assert cache.used == 8


def test_what_is_larger_than_the_cache_is_not_kept():
    cache, made = Cache(3), []
    assert [_ask(cache, "a", made) for _ in range(2)] == ["aaaa"] * 2
    assert made == ["a", "a"]
    assert cache.used == 0


def test_two_that_make_the_same_count_once():
    cache, both = Cache(100), threading.Barrier(2)

    def make() -> str:
        both.wait(5)
        return "value"

    threads = [threading.Thread(target=lambda: cache.get("k", make, lambda _: 5)) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (len(cache), cache.used) == (1, 5)
