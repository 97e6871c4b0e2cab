"""A widget's messages: the kernel answers what the server would."""

from __future__ import annotations

from queue import Queue
from threading import Event

import pytest

from regard.viewer.kernel import Kernel
from regard.viewer.opened import Opened
from regard.viewer.questions import QUESTIONS, Question
from regard.viewer.work import Pool
from support.recordings import in_memory
from viewer.served import client_of

GIVEN = "head=L0H0&row=3&other=0&other_prompt=1&key=0&level=1&y=0&x=0"


class Line:
    """A kernel, and what it sends."""

    def __init__(self, opened):
        self.sent = Queue()
        self.pool = Pool(1)
        send = lambda *message: self.sent.put(message)  # noqa: E731
        self.kernel = Kernel([opened], lambda: "<p>the page", send, self.pool)

    def ask(self, address, key="1"):
        """Status, headers and body of the answer, after it was heard."""
        self.kernel.receive({"id": key, "address": address})
        assert self.sent.get(timeout=120) == ({"id": key, "heard": True}, [])
        message, (body,) = self.sent.get(timeout=120)
        assert message.pop("id") == key
        return message["status"], message["headers"], body


@pytest.fixture
def opened():
    return Opened(in_memory(layers=2, prompts=2)[0])


@pytest.fixture
def line(opened):
    made = Line(opened)
    yield made
    made.pool.close()


def test_every_question_has_the_servers_answer_to_the_byte(line, opened):
    client = client_of(opened, pool=line.pool)
    asked = [f"/api/0/{name}?{GIVEN}" for name in (*QUESTIONS, "page")]
    wrong = ["/api/1/overview", "/api/x/overview", "/api/0/tile", "/api/0/head?head=L9H9"]
    for address in ["/api/recordings", *asked, *wrong]:
        served = client.get(address)
        status, headers, body = line.ask(address)
        assert (status, body) == (served.status_code, served.content), address
        for name in ("x-regard-nan", "x-regard-layers", "content-disposition"):
            assert headers.get(name) == served.headers.get(name)


def test_the_page_is_at_the_root_and_nothing_elsewhere(line):
    assert line.ask("/")[2] == b"<p>the page"
    for address in (
        "/api/",
        "/api/0/",
        "/api/0/nothing",
        "/etc/passwd",
        "../..",
        "",
        "//[",
        "//[x",
    ):
        assert line.ask(address)[0] == 404


@pytest.mark.parametrize(
    "message", [None, [], "x", {}, {"id": 3}, {"id": "1"}, {"id": "1", "address": 7}]
)
def test_what_is_no_question_is_left_alone(line, message):
    line.kernel.receive(message)
    line.kernel.receive({"id": "2", "stop": True})
    assert line.ask("/api/recordings")[0] == 200


def test_a_slow_answer_is_heard_at_once_and_given_up_when_it_is_stopped(line, monkeypatch):
    begun, over = Event(), Event()

    def slow(_, asked):
        begun.set()
        try:
            while True:
                asked.go_on()
        finally:
            over.set()

    monkeypatch.setitem(QUESTIONS, "slow", Question(dict, slow, "long"))
    line.kernel.receive({"id": "1", "address": "/api/0/slow"})
    assert line.sent.get(timeout=120) == ({"id": "1", "heard": True}, [])
    assert begun.wait(120)
    assert line.ask("/api/recordings", "2")[0] == 200  # meanwhile
    line.kernel.receive({"id": "1", "stop": True})
    assert over.wait(120)
    assert line.ask("/api/recordings", "3")[0] == 200
    assert line.sent.empty()


def test_a_mistake_of_ours_is_one_line(line, monkeypatch, caplog):
    monkeypatch.setitem(QUESTIONS, "broken", Question(dict, lambda *_: 1 / 0))
    status, _, body = line.ask("/api/0/broken")
    assert status == 500 and b"something went wrong" in body
    assert "ZeroDivisionError" in caplog.text
