"""One page on loopback: who gets it, and how it ends."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys

import httpx
import pytest

from regard.errors import InputError, UnavailableError
from regard.viewer import loopback
from regard.viewer.one_page import serve_page

_SCRIPT = """
from regard.viewer.one_page import serve_page
serve_page("<p>lesson √</p>", say=lambda line: print(line, flush=True))
print("ended well", flush=True)
"""


@pytest.fixture
def process():
    """The process and the address it printed."""
    child = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        ready, _, _ = select.select([child.stdout], [], [], 60)
        assert ready, "the server did not start"
        yield child, child.stdout.readline().strip()
    finally:
        child.kill()
        child.communicate()


def test_the_address_that_was_printed_opens_the_page(process):
    child, address = process
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
