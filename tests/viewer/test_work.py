"""Newest first, nothing for nobody, and errors to whoever asked."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from regard.viewer.work import Pool


@pytest.fixture
def pool():
    """One thread, so that the order shows."""
    one = Pool(1)
    yield one
    one.close()


def _busy(pool, lane="tiles"):
    """Work that keeps a thread until it is let go."""
    started, release = threading.Event(), threading.Event()

    def wait():
        started.set()
        return release.wait(120)

    future = pool.submit(wait, lane)
    assert started.wait(120)
    return future, release


def test_the_newest_comes_first(pool):
    first, release = _busy(pool)
    order = []
    waiting = [pool.submit(lambda n=n: order.append(n)) for n in range(4)]
    release.set()
    for one in (first, *waiting):
        one.result(120)
    assert order == [3, 2, 1, 0]


def test_what_was_cancelled_is_not_done(pool):
    _, release = _busy(pool)
    done = []
    one = pool.submit(lambda: done.append(1))
    assert one.cancel()
    release.set()
    assert pool.submit(lambda: 7).result(120) == 7
    assert done == []


def test_errors_are_handed_on_and_the_thread_lives(pool):
    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        pool.submit(fail).result(120)
    assert pool.submit(lambda: 1).result(120) == 1


def test_lanes_do_not_wait_for_each_other(pool):
    (_, tiles), (_, long) = _busy(pool), _busy(pool, "long")
    waiting = [pool.submit(lambda: 1, lane) for lane in ("tiles", "long")]
    assert pool.submit(lambda: 2, "quick").result(120) == 2
    long.set()
    assert waiting[1].result(120) == 1
    assert not waiting[0].done()
    tiles.set()
    assert waiting[0].result(120) == 1


def test_closing_ends_every_lane():
    pool = Pool(1)
    held = [_busy(pool, "long"), _busy(pool, "tiles"), *(_busy(pool, "quick") for _ in range(2))]
    waiting = [pool.submit(lambda: 1, lane) for lane in ("quick", "tiles", "long")]
    pool.close()
    for _, release in held:
        release.set()
    for one in waiting:
        with pytest.raises(CancelledError):
            one.result(120)


def test_so_many_work_at_once_and_no_more():
    pool, release = Pool(3), threading.Event()
    together = threading.Barrier(4)

    def wait():
        together.wait(120)
        return release.wait(120)

    three = [pool.submit(wait) for _ in range(3)]
    together.wait(120)
    fourth = pool.submit(lambda: 4)
    assert not fourth.running()
    release.set()
    assert fourth.result(120) == 4
    assert all(one.result(120) for one in three)
    pool.close()
