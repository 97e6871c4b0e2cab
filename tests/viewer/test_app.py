"""Every address, asked as a browser asks; and what must not be found."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from regard.recording import Writer, open
from regard.recording.format.write import annotate
from regard.recording.schema import CONTENTS
from regard.viewer import answers
from regard.viewer.app import build_app
from regard.viewer.files import PageFile
from regard.viewer.opened import Opened
from regard.viewer.questions import QUESTIONS, Binary, Question
from regard.viewer.work import Pool
from support.recordings import HOSTILE, WORDS, Chunk, on_disk, tear, write
from viewer.served import PORT, TOKEN, client_of, make_opened

CHANGES = [f"{typical}{name}" for name in ("delta_logit", "delta_logprob", "kl")
           for typical in ("", "typical_")]  # fmt: skip
KNOCKED = {"L1H2": {"label": "L1H2", "copies": True}
           | dict.fromkeys(("text", "copying"), dict.fromkeys(CHANGES, 0.5))}  # fmt: skip
PAGE = {
    "/": PageFile("text/html; charset=utf-8", b"<!doctype html><title>regard</title>"),
    "/page.js": PageFile("text/javascript; charset=utf-8", b"void 0;"),
}
ADDRESSES = [
    "/api/recordings",
    "/api/0/overview",
    "/api/0/overview?prompt=0",
    "/api/0/tokens?start=2&count=3",
    "/api/0/head?head=L0H0",
    "/api/0/head?head=L1H3",
    "/api/0/tile?head=L0H0&level=1&y=0&x=0",
    "/api/0/tile?head=L0H0&level=1&y=0&x=0&how=max",
    "/api/0/tile?head=L1H0&level=16&y=0&x=0",
    "/api/0/row?head=L0H0&row=3&top=2",
    "/api/0/weights?head=L0H0&row=3",
    "/api/0/cells?head=L0H0&row=3&key=2&row_count=4&key_count=5",
    "/api/0/findings",
    "/api/0/thumbnails",
    "/api/0/thumbnails?prompt=0&stack=&side=8",
    "/api/0/compare?other=0&other_prompt=0",
]


@pytest.fixture(scope="module")
def pool():
    one = Pool(2)
    yield one
    one.close()


def _client(pool, *opened, page=PAGE):
    return client_of(*opened, page=page, pool=pool)


@pytest.fixture
def client(tmp_path, pool):
    return _client(pool, make_opened(tmp_path))


@pytest.mark.parametrize("address", ["/", "/page.js", *ADDRESSES])
def test_every_address_answers(client, address):
    answer = client.get(address)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers
    for word in (TOKEN.encode(), b"http://", b"https://"):
        assert word not in answer.content
    head = client.head(address)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(answer.content))


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_answer_needs_the_token(tmp_path, pool, address):
    client = _client(pool, make_opened(tmp_path))
    assert client.get(address, headers={"x-regard-token": "x"}).status_code == 401
    assert client.get(address, headers={"host": f"evil.example:{PORT}"}).status_code == 403
    assert client.get(address, headers={"origin": "http://evil.example"}).status_code == 403
    assert client.get(address, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert client.post(address).status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd", "/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/static/index.html",
        "/page.js/", "/page.css", "/api/", "/api/0/", "/api/1/overview", "/api/0/overview/",
        "/api/%2Fetc%2Fpasswd/overview/x", "//evil.example/", "/page.js%00",
        "/api/0/../../../etc/passwd",
    ],
)  # fmt: skip
def test_what_is_not_listed_is_not_found(client, path):
    answer = client.get(f"http://127.0.0.1:{PORT}{path}", follow_redirects=False)
    assert answer.status_code == 404
    assert set(answer.json()) == {"error"}


@pytest.mark.parametrize("number", ["-1", "x", "..", "1e3", "٣", "99999999999999"])
def test_recordings_are_named_by_number(client, number):
    assert client.get(f"/api/{number}/overview").status_code in (400, 404)


@pytest.mark.parametrize(
    ("address", "status"),
    [
        *((f"tile?head={tile}", status) for tile, status in (
            ("L0H0&level=1&y=1&x=0", 404), ("L0H0&level=1&y=0&x=99999", 404),
            ("L0H0&level=3&y=0&x=0", 404), ("L0H0&level=0&y=0&x=0", 404),
            ("L9H0&level=1&y=0&x=0", 404), ("L0H99&level=1&y=0&x=0", 404),
            ("../L0H0&level=1&y=0&x=0", 404), ("L0H0&level=1&y=0&x=0&prompt=5", 404),
            ("L0H0&level=1&y=-1&x=0", 400), ("L0H0&level=1&y=0", 400),
            ("L0H0&level=1&y=0&x=0&how=min", 400), ("L0H0&level=1&y=1_0&x=0", 400),
            (f"{'L' * 300}&level=1&y=0&x=0", 400), ("L1H0&level=1&y=0&x=0", 404),
            ("L1H0&level=16&y=0&x=0&how=max", 409),
        )),
        ("tile?level=1&y=0&x=0", 400), ("row?head=L0H0&row=99", 404), ("row?head=L0H0", 400),
        ("row?head=L0H0&row=1&top=0", 404), ("weights?head=L1H0&row=2", 409),
        ("cells?head=L0H0&row=0&key=0&row_count=13", 404), ("tokens?start=77", 404),
        ("tokens?count=0", 404), ("tokens?count=999999", 404), ("tokens?stream=x", 404),
        ("findings?prompt=3", 404), ("overview?prompt=3", 404), ("thumbnails?stack=cross", 404),
        ("thumbnails?side=99", 404), ("thumbnails?side=x", 400), ("compare", 400),
        ("compare?other=2", 404),
    ],
)  # fmt: skip
def test_what_is_not_there(client, address, status):
    answer = client.get(f"/api/0/{address}")
    assert (answer.status_code, set(answer.json())) == (status, {"error"})
    assert "\n" not in answer.json()["error"] and "Traceback" not in answer.text


def test_binary_answers_are_the_numbers(client, tmp_path):
    head = open(tmp_path / "run.regard")["L0H0"]
    tile = client.get("/api/0/tile?head=L0H0&level=1&y=0&x=0")
    codes = np.frombuffer(tile.content, np.uint8).reshape(256, 256)
    assert np.array_equal(codes[:12, :12] > 0, np.tri(12) > 0)
    assert tile.headers["x-regard-nan"] == "0"
    row = np.frombuffer(client.get("/api/0/weights?head=L0H0&row=4").content, "<f4")
    np.testing.assert_array_equal(row[:5], head[4, :5])
    found = client.get("/api/0/cells?head=L0H0&row=3&key=2&row_count=4&key_count=5").content
    assert len(found) == 4 * (4 * 5 + 4)


def test_hostile_tokens_pass_as_text(tmp_path, pool):
    client = _client(pool, make_opened(tmp_path, HOSTILE))
    answer = client.get("/api/0/tokens")
    assert answer.json()["tokens"] == HOSTILE
    assert answer.content.isascii()
    assert answer.headers["content-type"] == "application/json"


def test_a_missing_page_is_said(tmp_path, pool):
    answer = _client(pool, make_opened(tmp_path), page={}).get("/")
    assert answer.status_code == 503
    assert "built without it" in answer.text
    assert answer.headers["content-type"].startswith("text/plain")


def test_a_live_recording_grows(tmp_path, pool):
    path = tmp_path / "live.regard"
    with Writer(path) as writer:
        writer.note({"contents": CONTENTS})
        client = _client(pool, Opened(open(path)))
        first = client.get("/api/0/overview").json()
        assert (first["live"], first["heads"], first["revision"]) == (True, [], 0)
        write(writer, WORDS, layers=1)
        then = client.get("/api/0/overview").json()
        assert (then["live"], len(then["heads"]), then["revision"]) == (True, 4, 1)
        assert client.get("/api/0/tile?head=L0H0&level=1&y=0&x=0").status_code == 200
    assert client.get("/api/0/overview").json()["live"] is False


def test_a_mistake_of_ours_is_one_line(client, monkeypatch, caplog):
    def fail(*_):
        raise ZeroDivisionError("secret place in the source")

    monkeypatch.setattr(answers, "overview", fail)
    answer = client.get("/api/0/overview")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "secret place" in caplog.text


def _ask_and_go(served, leave):
    """A tile is asked for; its asker goes when `leave` is set. What was sent."""
    headers = [(b"host", f"127.0.0.1:{PORT}".encode()), (b"x-regard-token", TOKEN.encode())]
    scope = {
        "type": "http", "method": "GET", "path": "/api/0/tile", "raw_path": b"/api/0/tile",
        "query_string": b"head=L0H0&level=1&y=0&x=0", "headers": headers, "root_path": "",
        "scheme": "http", "server": ("127.0.0.1", PORT), "http_version": "1.1",
    }  # fmt: skip
    sent = []

    async def receive():
        while not leave.is_set():
            await asyncio.sleep(0.005)
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    asyncio.run(asyncio.wait_for(served(scope, receive, send), 5))
    return sent


def test_work_is_given_up_when_its_asker_goes(tmp_path, pool, monkeypatch):
    started, ended = threading.Event(), threading.Event()

    def slow(one, asked):
        started.set()
        try:
            while not ended.wait(0.01):
                asked.go_on()
        finally:
            ended.set()

    monkeypatch.setitem(QUESTIONS, "tile", Question(Binary, slow, "tiles"))
    served = build_app([make_opened(tmp_path)], TOKEN, PORT, page=PAGE, pool=pool)
    sent = _ask_and_go(served, started)
    assert ended.wait(120)
    assert sent[0]["status"] == 499


@pytest.fixture
def busy():
    """A pool whose threads for tiles and for what is long are held until the event is set."""
    pool, release = Pool(1), threading.Event()
    held = [threading.Event() for _ in range(2)]

    def hold(here):
        here.set()
        release.wait(120)

    for lane, here in zip(("tiles", "long"), held, strict=True):
        pool.submit(lambda here=here: hold(here), lane)
        assert here.wait(120)
    yield pool, release
    release.set()
    pool.close()


def test_work_whose_asker_went_before_its_turn_is_never_begun(tmp_path, busy, monkeypatch):
    (pool, release), begun, gone = busy, [], threading.Event()
    not_ready = lambda *_: gone.set()  # noqa: E731  and off they go
    one = Question(Binary, lambda *_: begun.append(1), "tiles", ready=not_ready)
    monkeypatch.setitem(QUESTIONS, "tile", one)
    served = build_app([make_opened(tmp_path)], TOKEN, PORT, page=PAGE, pool=pool)
    assert _ask_and_go(served, gone)[0]["status"] == 499
    release.set()
    assert pool.submit(lambda: 7).result(120) == 7
    assert begun == []


def test_what_is_there_is_answered_while_every_thread_computes(tmp_path, busy):
    pool, release = busy
    client = _client(pool, make_opened(tmp_path))
    computed = "/api/0/tile?head=L0H0&level=1&y=0&x=0"
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(client.get, one) for one in (computed, "/api/0/findings")]
        for address in (
            "recordings", "0/overview", "0/tokens", "0/head?head=L0H0", "0/row?head=L0H0&row=3",
            "0/tile?head=L1H0&level=16&y=0&x=0", "0/cells?head=L0H0&row=3&key=2",
        ):  # fmt: skip
            assert client.get(f"/api/{address}").status_code == 200
        assert not any(one.done() for one in waiting)
        release.set()
        assert [one.result(120).status_code for one in waiting] == [200, 200]


def test_a_tile_that_was_computed_is_there(tmp_path, busy):
    pool, _ = busy
    opened = make_opened(tmp_path)
    want = opened.head_map(0, "L0H0").tile(1, 0, 0).codes
    answer = _client(pool, opened).get("/api/0/tile?head=L0H0&level=1&y=0&x=0")
    assert answer.content == want.tobytes()


def test_cross_attention_is_served_by_the_name_of_its_stack(tmp_path, pool):
    chunks = [Chunk((0, 60), (0, 130))]
    one = make_opened(tmp_path, chunks=chunks, stack="cross ü", kind="cross", layers=1)
    client, name = _client(pool, one), {"head": "cross ü.L0H0"}
    facts = client.get("/api/0/head", params=name).json()
    assert (facts["shape"], facts["kind"], facts["stack"]) == ([60, 130], "cross", "cross ü")
    tile = client.get("/api/0/tile", params={**name, "level": 1, "y": 0, "x": 0})
    codes = np.frombuffer(tile.content, np.uint8).reshape(256, 256)
    assert (codes[:60, :130] > 0).all()
    assert not codes[60:].any()
    assert not codes[:, 130:].any()
    row = np.frombuffer(client.get("/api/0/weights", params={**name, "row": 59}).content, "<f4")
    assert row.size == 130
    assert row.sum() == pytest.approx(1, abs=1e-5)
    stacks = client.get("/api/0/overview").json()["stacks"]
    assert [(each["name"], each["layers"]) for each in stacks] == [("cross ü", 1)]


def test_many_ask_at_once(client):
    want = {address: client.get(address).content for address in ADDRESSES}
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda one: (one, client.get(one).content), ADDRESSES * 3))
    assert all(content == want[address] for address, content in found)


def test_thumbnails_say_their_size(client):
    answer = client.get("/api/0/thumbnails?side=8")
    sizes = [int(answer.headers[f"x-regard-{name}"]) for name in ("layers", "heads", "side")]
    layers, heads, side = sizes
    assert sizes == [2, 4, 8]
    assert len(answer.content) == layers * heads * (1 + side * side)


def test_several_recordings_keep_apart_one_of_them_damaged(tmp_path, pool):
    paths = [on_disk(tmp_path / f"{n}.regard", layers=n + 1) for n in range(3)]
    tear(paths[2], 2 / 3)
    client = _client(pool, *(Opened(open(path), n) for n, path in enumerate(paths)))
    listed = client.get("/api/recordings").json()
    assert [each["name"] for each in listed] == ["0.regard", "1.regard", "2.regard"]
    shown = [client.get(f"/api/{n}/overview").json() for n in range(3)]
    assert [len(each["heads"]) for each in shown[:2]] == [4, 8]
    for each in (listed, shown):
        assert [bool(one["damage"]) for one in each] == [False, False, True]
        assert each[2]["damage"][0]["reason"]
    compared = client.get("/api/0/compare?other=1").json()
    assert (compared["a"]["name"], compared["b"]["name"]) == ("0.regard", "1.regard")
    assert len(compared["heads"]) == 4
    assert client.get("/api/0/compare?other=1&other_prompt=7").status_code == 404


def test_knock_outs_that_are_kept_later_are_shown(tmp_path, pool):
    path = on_disk(tmp_path / "run.regard")
    client = _client(pool, Opened(open(path)))
    before = client.get("/api/0/overview").json()["revision"]
    assert client.get("/api/0/findings").json()["knocked"] == {}
    annotate(path, {"knocked/0": json.dumps(KNOCKED)})
    assert client.get("/api/0/overview").json()["revision"] == before + 1
    assert client.get("/api/0/findings").json()["knocked"] == KNOCKED
