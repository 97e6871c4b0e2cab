"""Whoever waits for a reading does not wait for what is measured in the background."""

from __future__ import annotations

import threading

import pytest

from play.tiny import TEXT, make_session
from regard.play.requests import ReadRequest
from regard.play.session import nothing
from regard.viewer.work import GivenUpError


def test_a_reading_goes_before_what_is_not_urgent():
    session, order = make_session(), []

    def later():
        with session._running(nothing, urgent=False):
            order.append("later")

    def now():  # noted while it runs: what waits may run before this thread goes on
        session.read(session.state_of(ReadRequest(text="the dog")), lambda: order.append("now"))

    with session._running(nothing):
        threads = [threading.Thread(target=one) for one in (now, later)]
        threads[0].start()
        while not session._waiting:
            pass
        threads[1].start()
    for one in threads:
        one.join(120)
    assert order[0] == "now" and order.index("later") == len(order) - 1


def test_what_is_given_up_while_it_waits_is_not_run():
    session = make_session()
    reading = session.read(session.state_of(ReadRequest(text=TEXT)))
    with pytest.raises(RuntimeError, match="given up"):
        session.effects(reading, _stop)
    assert session.read(session.state_of(ReadRequest(text="the cat"))).logits is not None


def test_a_recording_in_the_background_begins_anew_when_somebody_waits():
    session, layers = make_session(), []
    session.read(session.state_of(ReadRequest(text="the dog")))
    reading = session.read(session.state_of(ReadRequest(text=TEXT)))
    urgent = threading.Thread(
        target=lambda: session.read(session.state_of(ReadRequest(text="the cat")))
    )

    def go_on():
        layers.append(session._run_lock.locked())
        if layers.count(True) == 2 and urgent.ident is None:  # in the midst of the recorded run
            urgent.start()
            while not session._waiting:
                pass

    made = session.recording(reading, go_on, urgent=False)
    urgent.join(120)
    assert layers.count(True) > 4  # more than one run of its layers
    assert made["L0H0"].shape == (12, 12)


def _stop():
    raise RuntimeError("given up")


def test_a_session_that_is_closed_runs_nothing_and_is_at_rest():
    session = make_session()
    started, ended = threading.Event(), []

    def go_on():
        started.set()

    def run():
        try:
            for n in range(1000):
                session.read(session.state_of(ReadRequest(text=TEXT, more=(n % 5,) * 20)), go_on)
                session._kept.clear()
        except GivenUpError:
            ended.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(120)
    session.close()
    thread.join(120)
    assert ended == [True]
