"""The threat table, against an app that says yes to everything."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest

from regard.viewer.guard import HEADERS, Guard, make_token

PORT, TOKEN = 4321, "a" * 32
OWN = ("host", f"127.0.0.1:{PORT}")
KEY = ("x-regard-token", TOKEN)


async def _yes(scope, receive, send):
    start = {"type": "http.response.start", "status": 200, "headers": [(b"Cache-Control", b"x")]}
    await send(start)
    await send({"type": "http.response.body", "body": b"yes"})


def _ask(*headers, method="GET", path="/api/x", kind="http", posts=()):
    """Status, headers and body."""
    sent = []

    async def send(message):
        sent.append(message)

    pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    scope = {"type": kind, "method": method, "path": path, "headers": pairs}
    asyncio.run(Guard(_yes, TOKEN, PORT, posts=posts)(scope, None, send))
    if kind != "http":
        return sent
    head, body = sent
    found = {key.decode().lower(): value.decode() for key, value in head["headers"]}
    assert len(found) == len(head["headers"])
    return head["status"], found, body["body"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_our_own_names_are_answered(host):
    assert _ask(("host", f"{host}:{PORT}"), KEY)[0] == 200


@pytest.mark.parametrize(
    "hosts",
    [
        [], ["evil.example"], ["evil.example:4321"], ["127.0.0.1"], ["127.0.0.1:4322"],
        ["127.0.0.1:4321.evil.example"], ["127.0.0.1.evil.example:4321"], ["0.0.0.0:4321"],
        ["127.1:4321"], ["user@127.0.0.1:4321"], ["::1:4321"], [""], ["127.0.0.1:4321 "],
        ["127.0.0.1:4321", "evil.example"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/x"])
def test_other_names_are_refused(hosts, path):
    status, _, body = _ask(*(("host", one) for one in hosts), KEY, path=path)
    assert status == 403
    assert json.loads(body)["error"]


@pytest.mark.parametrize(
    "tokens", [[], [""], ["b" * 32], ["a" * 31], ["a" * 33], ["ä" * 32], [TOKEN, TOKEN]]
)
def test_without_the_token_there_are_no_answers(tokens):
    status, _, body = _ask(OWN, *(("x-regard-token", one) for one in tokens))
    assert status == 401
    assert TOKEN.encode() not in body


def test_the_page_needs_no_token():
    assert _ask(OWN, path="/")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get"])
def test_nothing_is_written(method):
    status, headers, _ = _ask(OWN, KEY, method=method)
    assert (status, headers["allow"]) == (405, "GET, HEAD")


JSON = ("content-type", "application/json; charset=utf-8")
HERE = ("origin", f"http://127.0.0.1:{PORT}")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((OWN, KEY, HERE, JSON), 200),
        ((OWN, KEY, HERE, ("content-type", "application/octet-stream")), 200),
        ((OWN, HERE, JSON), 401),
        ((OWN, KEY, JSON), 403),
        ((OWN, KEY, HERE), 403),
        ((OWN, KEY, HERE, HERE, JSON), 403),
        ((OWN, KEY, HERE, JSON, JSON), 403),
        ((OWN, KEY, HERE, ("content-type", "application/x-www-form-urlencoded")), 403),
        ((OWN, KEY, HERE, ("content-type", "text/plain")), 403),
        ((OWN, KEY, ("origin", "http://evil.example"), JSON), 403),
        ((OWN, KEY, HERE, JSON, ("sec-fetch-site", "cross-site")), 403),
        ((("host", "evil.example"), KEY, HERE, JSON), 403),
    ],
)
def test_a_post_to_an_address_that_takes_one(headers, status):
    assert _ask(*headers, method="POST", posts=("/api/x",))[0] == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/", "/api/y", "/api/x/", "/api/x/y"])
def test_other_addresses_take_none(method, path):
    headers = OWN, KEY, HERE, JSON
    assert _ask(*headers, method=method, path=path, posts=("/api/x",))[0] == 405


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (f"http://127.0.0.1:{PORT}", 200), ("http://evil.example", 403), ("null", 403), ("", 403),
        (f"https://127.0.0.1:{PORT}", 403), (f"http://localhost:{PORT}", 403),
        ("http://127.0.0.1:1", 403), (f"http://127.0.0.1:{PORT}.evil.example", 403),
    ],
)  # fmt: skip
def test_origins(origin, status):
    assert _ask(OWN, KEY, ("origin", origin))[0] == status


@pytest.mark.parametrize(
    ("site", "status"),
    [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403), ("", 403)],
)
@pytest.mark.parametrize("path", ["/", "/api/x"])
def test_sites(site, status, path):
    assert _ask(OWN, KEY, ("sec-fetch-site", site), path=path)[0] == status


@pytest.mark.parametrize("given", [(OWN, KEY), (OWN,), (("host", "evil.example"),)])
def test_every_answer_has_the_headers(given):
    _, headers, _ = _ask(*given)
    assert HEADERS.items() <= headers.items()
    assert not [name for name in headers if name.startswith("access-control")]


def test_the_policy_lets_nothing_in_from_elsewhere():
    policy = dict(one.split(" ", 1) for one in HEADERS["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    allowed = {word for words in policy.values() for word in words.split()}
    assert allowed == {"'none'", "'self'", "data:", "blob:"}
    assert policy["script-src"] == policy["connect-src"] == "'self'"


def test_an_answer_to_head_has_no_body():
    status, _, body = _ask(OWN, KEY, method="HEAD")
    assert (status, body) == (200, b"")


def test_sockets_are_closed():
    assert _ask(OWN, KEY, kind="websocket") == [{"type": "websocket.close", "code": 1008}]


def test_tokens_have_192_bits_and_differ():
    tokens = {make_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(base64.urlsafe_b64decode(one)) == 24 for one in tokens)


def test_tokens_are_compared_in_constant_time(monkeypatch):
    from regard.viewer import guard

    seen = []
    real = guard.hmac.compare_digest
    monkeypatch.setattr(
        guard.hmac, "compare_digest", lambda a, b: (seen.append((a, b)), real(a, b))[1]
    )
    _ask(OWN, ("x-regard-token", "wrong"))
    assert seen == [(b"wrong", TOKEN.encode())]
