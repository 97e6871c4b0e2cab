"""Real processes on loopback, from the first line to Ctrl-C: recordings, and a page alone."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import httpx
import pytest

from regard.errors import FileError, InputError, MissingExtraError, UnavailableError
from regard.viewer import loopback
from regard.viewer import serve as module
from regard.viewer.loopback import bound
from regard.viewer.one_page import serve_page
from regard.viewer.serve import serve
from support.recordings import on_disk

_SCRIPT = """
import sys
from regard.viewer.loopback import bound
from regard.viewer.serve import serve
serve(sys.argv[1:], say=lambda line: print(line, flush=True))
print("ended well", flush=True)
"""


@contextmanager
def started(script, *arguments):
    """The process and the address it printed."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        ready, _, _ = select.select([child.stdout], [], [], 60)
        assert ready, "the server did not start"
        yield child, child.stdout.readline().strip()
    finally:
        child.kill()
        child.communicate()


@pytest.fixture
def process(tmp_path):
    with started(_SCRIPT, on_disk(tmp_path / "run.regard")) as child_and_address:
        yield child_and_address


def _raw(base, line, *headers):
    """The status of a request that no client would spell so."""
    host, port = base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=120) as line_out:
        text = "\r\n".join([line, *headers, "connection: close", "", ""])
        line_out.sendall(text.encode("latin-1"))
        return int(line_out.makefile("rb").readline().split()[1])


def assert_refused(base, token):
    """Requests that no browser would send."""
    own = (f"host: {base.removeprefix('http://')}", f"x-regard-token: {token}")
    for path in (
        "/../../../etc/passwd", "/api/../../etc/passwd", "/api/0/tile/../overview",
        "/..%2f..%2fetc/passwd", "/%2e%2e/etc/passwd", "/static/../files.py",
    ):  # fmt: skip
        assert _raw(base, f"GET {path} HTTP/1.1", *own) == 404, path
    assert _raw(base, "GET /api/recordings HTTP/1.1", *own) == 200
    assert _raw(base, "GET /api/recordings HTTP/1.1", "host: evil.example", own[1]) == 403
    assert _raw(base, "GET http://evil.example/api/recordings HTTP/1.1", *own) in (400, 403, 404)
    assert _raw(base, "GET /%61pi/recordings HTTP/1.1", own[0]) == 401
    assert _raw(base, "OPTIONS * HTTP/1.1", *own) in (400, 405)
    assert _raw(base, "GET /api/recordings HTTP/1.1", *own, "upgrade: websocket") in (200, 400, 426)


def test_a_process_serves_and_ends(process):
    child, address = process
    match = re.fullmatch(r"(http://127\.0\.0\.1:[0-9]+)/#token=([A-Za-z0-9_-]{32})", address)
    assert match
    base, token = match.groups()
    with httpx.Client(base_url=base, trust_env=False, timeout=120) as client:
        assert client.get("/api/recordings").status_code == 401
        client.headers["x-regard-token"] = token
        listed = client.get("/api/recordings")
        assert [one["name"] for one in listed.json()] == ["run.regard"]
        assert "server" not in listed.headers
        assert client.get("/").status_code in (200, 503)
        assert client.get("/api/recordings", headers={"host": "evil"}).status_code == 403
        assert client.post("/api/recordings").status_code == 405
        tile = client.get("/api/0/tile?head=L0H0&level=1&y=0&x=0")
        assert len(tile.content) == 256 * 256
        head = client.head("/api/0/tile?head=L0H0&level=1&y=0&x=0")
        assert (head.status_code, head.content) == (200, b"")
    assert_refused(base, token)
    child.send_signal(signal.SIGINT)
    rest, errors = child.communicate(timeout=120)
    assert (child.returncode, rest, errors) == (0, "ended well\n", "")


def test_it_listens_on_loopback_only_and_a_taken_port_is_said():
    with bound(0) as listener:
        where, port = listener.getsockname()
        assert where == "127.0.0.1" and port > 0
        with pytest.raises(UnavailableError, match=r"cannot be had .* give another, or 0"):
            bound(port)


def test_what_cannot_be_served(tmp_path):
    made = on_disk(tmp_path / "run.regard")
    for files, port, error, says in (
        ([made], -1, InputError, "give 0 for a free one"),
        ([made], 65536, InputError, "give 0 for a free one"),
        ([], 0, InputError, r"give a \.regard file"),
        ([made, tmp_path / "none.regard"], 0, FileError, "no such file"),
    ):
        with pytest.raises(error, match=says):
            serve(files, port)


@pytest.mark.parametrize("name", ["starlette", "uvicorn"])
def test_a_missing_extra_is_named(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=rf"'{name}'.*regard\[view\]"):
        serve([tmp_path / "run.regard"])


def test_the_browser_is_opened_at_the_address_that_is_said(tmp_path, monkeypatch):
    said, seen = [], []
    monkeypatch.setattr(module, "_run", lambda server, listener: None)
    monkeypatch.setattr(module, "open_in_browser", seen.append)
    serve([on_disk(tmp_path / "run.regard")], open_browser=True, say=said.append)
    assert said == seen
    assert len(said) == 1


def test_ctrl_c_before_the_first_request_ends_it_wherever_it_arrives(tmp_path, recwarn):
    class Finalized:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)  # where a KeyboardInterrupt would be ignored

    def say(_: str) -> None:
        Finalized()

    before = signal.getsignal(signal.SIGINT)
    serve([on_disk(tmp_path / "run.regard")], say=say)
    assert signal.getsignal(signal.SIGINT) is before
    assert not recwarn.list


def test_importing_the_viewer_needs_neither_server_nor_torch():
    code = (
        "import sys, regard.viewer.serve, regard.viewer.answers; "
        "print([n for n in ('starlette', 'uvicorn', 'torch') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.strip() == "[]"


_ONE_PAGE = """
from regard.viewer.one_page import serve_page
serve_page("<p>lesson √</p>", say=lambda line: print(line, flush=True))
print("ended well", flush=True)
"""


@pytest.fixture
def page_process():
    with started(_ONE_PAGE) as child_and_address:
        yield child_and_address


def test_the_address_that_was_printed_opens_the_page(page_process):
    child, address = page_process
    base, path = re.fullmatch(r"(http://127\.0\.0\.1:[0-9]+)(/[A-Za-z0-9_-]{32})", address).groups()
    with httpx.Client(base_url=base, trust_env=False, timeout=120) as client:
        page = client.get(path)
        assert (page.status_code, page.text) == (200, "<p>lesson √</p>")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["x-frame-options"] == "DENY"
        assert client.head(path).text == ""
        for other in ("/", "/wrong", f"{path}/..", f"{path}?x"):
            assert client.get(other).status_code == 404
        assert client.get(path, headers={"host": "evil.example"}).status_code == 403
        assert client.post(path).status_code == 501
    port = int(base.rpartition(":")[2])
    with pytest.raises(UnavailableError, match=f"port {port} cannot be had"):
        serve_page("", port)
    with pytest.raises(InputError, match="port 70000"):
        serve_page("", 70000)
    child.send_signal(signal.SIGINT)
    rest, errors = child.communicate(timeout=300)
    assert (rest, errors, child.returncode) == ("ended well\n", "", 0)


def test_no_desktop_no_browser(monkeypatch):
    opened = []
    monkeypatch.setattr(loopback.webbrowser, "open", lambda one: opened.append(one) or True)
    monkeypatch.setattr(loopback.sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not loopback.open_in_browser("http://127.0.0.1:1/") and not opened
    monkeypatch.setitem(os.environ, "DISPLAY", ":0")
    assert loopback.open_in_browser("http://127.0.0.1:1/") and len(opened) == 1
