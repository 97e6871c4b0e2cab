"""A server on loopback answers an honest request whatever other clients leave unfinished."""

from __future__ import annotations

import asyncio
import random
import resource
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager

import httpx
import pytest
import uvicorn

from regard.viewer import protocol
from regard.viewer.protocol import BoundedProtocol
from support.recordings import on_disk

_SCRIPT = """
import sys
from regard.viewer.serve import serve
serve(sys.argv[1:], say=lambda line: print(line, flush=True))
"""
_FILES = 256  # that a process may have open, as on macOS


def _pieces(port: int) -> list[bytes]:
    """What a client may send and then leave."""
    host = f"Host: 127.0.0.1:{port}\r\n"
    return [
        b"",
        b"GET",
        f"GET / HTTP/1.1\r\n{host}".encode(),
        f"POST /api/play/read HTTP/1.1\r\n{host}Content-Length: 9999\r\n\r\n{{".encode(),
        f"GET / HTTP/1.1\r\n{host}\r\n".encode(),  # whole; its connection is kept
        b"GET / HTTP/1.1\r\nx: " + b"y" * 30_000,
    ]


def _left(port: int, piece: bytes) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", port), timeout=120)
    line.sendall(piece)
    return line


def test_many_unfinished_requests_silence_no_server(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(on_disk(tmp_path / "run.regard"))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES)),
    )  # fmt: skip
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
        base, token = child.stdout.readline().strip().split("/#token=")
        port = int(base.rpartition(":")[2])
        dice = random.Random(0)
        with ExitStack() as lines, httpx.Client(trust_env=False, timeout=120) as client:
            for count in range(1, 401):
                lines.enter_context(_left(port, dice.choice(_pieces(port))))
                if count % 100 == 0:
                    answer = client.get(f"{base}/api/recordings", headers={"x-regard-token": token})
                    assert answer.status_code == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        child.kill()
        _, errors = child.communicate()
    assert errors == ""


@contextmanager
def _served():
    """The port of an app that takes half a second for an answer."""

    async def app(scope, receive, send):
        await asyncio.sleep(0.5)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"late"})

    config = uvicorn.Config(
        app, lifespan="off", log_level="error", http=BoundedProtocol, backlog=protocol.AT_ONCE
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            thread.join()


def test_an_answer_under_way_outlives_those_who_wait():
    with _served() as port, ExitStack() as lines:
        asking = lines.enter_context(_left(port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
        for _ in range(3 * protocol.MOST):
            lines.enter_context(_left(port, b"GET / HTTP/1.1\r\n"))
        assert asking.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize("rest", ["nothing", "trickle", "second"])
def test_a_request_must_be_whole_in_time(monkeypatch, rest):
    # the first request of two has to be whole in time, on a busy machine too
    monkeypatch.setattr(protocol, "PATIENCE", 2.5 if rest == "second" else 0.5)
    with _served() as port, _left(port, b"GET / HTTP/1.1\r\nHost: a\r\n") as line:
        if rest == "second":  # the first is answered, the one behind it never ends
            line.sendall(b"\r\n")
            assert line.recv(10) == b"HTTP/1.1 2"
            time.sleep(0.2)
            line.sendall(b"GET / HTTP")
        begun = time.monotonic()
        with pytest.raises(OSError) if rest == "trickle" else ExitStack():
            while time.monotonic() - begun < 120:
                if rest == "trickle":
                    line.sendall(b"x: y\r\n")
                    time.sleep(0.1)
                else:
                    assert _is_over(line)
                    break
        assert time.monotonic() - begun < 110


def _is_over(line: socket.socket) -> bool:
    """Reads until the server has closed it."""
    try:
        while line.recv(4096):
            pass
    except ConnectionError:
        pass
    return True
