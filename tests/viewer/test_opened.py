"""A recording that grows while it is served, heads that many threads ask for, what the first page
asks for; in a pool newest first, nothing for nobody, and errors to whoever asked."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path

import pytest

import regard.viewer
from regard.errors import InputError
from regard.recording import Writer, open
from regard.recording.schema import CONTENTS
from regard.viewer import answers
from regard.viewer.files import PAGE_FILES, load_page
from regard.viewer.opened import Opened
from regard.viewer.serve import warm_up
from regard.viewer.work import Pool
from support.recordings import WORDS, write
from viewer.served import make_empty, make_opened


def test_what_does_not_exist_is_said(tmp_path):
    one = make_opened(tmp_path)
    with pytest.raises(InputError, match=r"prompt 1 does not exist; run\.regard has 1"):
        one.prompt(1)
    with pytest.raises(InputError, match="head 9 does not exist"):
        one.head(0, "L0H9")


def test_what_grew_is_made_anew_and_what_did_not_is_remembered(tmp_path):
    path = tmp_path / "live.regard"
    with Writer(path) as writer:
        writer.note({"contents": CONTENTS})
        opened = Opened(open(path))
        assert opened.recording.is_live and len(opened.recording.prompts) == 0
        write(writer, WORDS, layers=1)
        assert opened.refresh() and not opened.refresh()
        assert (opened.revision, len(opened.recording.prompts)) == (1, 1)
        made = iter(range(9))

        def kept():
            number = opened.remembered("what", 0, lambda: next(made), 8)
            return opened.head_map(0, "L0H0"), opened.report(0), number

        before = kept()
        assert all(new is old for new, old in zip(kept(), before, strict=True))
        assert any("still being written" in doubt for doubt in before[1]["doubts"])
        writer.note({"made": "{}"})
        assert opened.refresh()
        assert not any(new is old for new, old in zip(kept(), before, strict=True))
    opened.refresh()
    assert not opened.recording.is_live
    opened.close()


def test_threads_share_a_report(tmp_path):
    opened = make_opened(tmp_path)
    with ThreadPoolExecutor(3) as threads:
        first, *others = threads.map(opened.report, [0] * 3)
    assert all(report is first for report in others) and first["tokens"] == len(WORDS)


def test_an_empty_recording_can_be_served():
    opened = make_empty()
    assert opened.refresh() is False
    with pytest.raises(InputError, match="has 0 prompts"):
        opened.report(0)


@pytest.fixture
def pool():
    """One thread, so that the order shows."""
    one = Pool(1)
    yield one
    one.close()


def test_the_first_page_is_made_before_it_is_asked_for(tmp_path, pool, monkeypatch):
    one = make_opened(tmp_path)
    warm_up([one], pool).result(timeout=300)
    monkeypatch.setattr(answers, "thumbnails_of", None)  # nothing is computed any more
    assert answers.thumbnails(one).kinds.any()


def test_a_recording_without_a_prompt_is_no_trouble(pool):
    assert warm_up([make_empty()], pool).result(timeout=300) is None


STATIC = Path(regard.viewer.__file__).parent / "static"


def test_what_is_built_is_loaded_and_the_rest_left_out():
    built = {address for address, (name, _) in PAGE_FILES.items() if (STATIC / name).exists()}
    assert set(load_page()) == built


def test_names_stay_inside_their_folder():
    for name, kind in PAGE_FILES.values():
        assert "/" not in name
        assert ".." not in name
        assert kind.endswith("charset=utf-8")


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
