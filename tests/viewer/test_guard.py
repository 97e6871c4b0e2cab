"""The threat table, against an app that says yes to everything."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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

    pairs = [
        tuple(s if isinstance(s, bytes) else s.encode("latin-1") for s in pair) for pair in headers
    ]
    scope = {"type": kind, "method": method, "path": path, "headers": pairs}
    asyncio.run(Guard(_yes, TOKEN, PORT, posts=posts)(scope, None, send))
    if kind != "http":
        return sent
    head, body = sent
    found = {key.decode().lower(): value.decode() for key, value in head["headers"]}
    assert len(found) == len(head["headers"])
    return head["status"], found, body["body"]


NAMES = st.sampled_from([b"host", b"Host", b"origin", b"sec-fetch-site", b"x-regard-token",
                         b"x-forwarded-host", b"cookie"])  # fmt: skip
VALUES = st.sampled_from([
    b"127.0.0.1:4321", b"localhost:4321", b"LOCALHOST:4321", b"[::1]:4321", b"evil.example:4321",
    b"127.0.0.1", b"127.0.0.1:4322", b"127.0.0.1:4321.evil.example", b"0.0.0.0:4321", b"127.1:4321",
    b"user@127.0.0.1:4321", b"::1:4321", b"127.0.0.1:4321 ", b"http://127.0.0.1:4321",
    b"https://127.0.0.1:4321", b"http://localhost:4321", b"http://127.0.0.1:1", b"null", b"",
    b"http://127.0.0.1:4321.evil.example", b"same-origin", b"none", b"same-site", b"cross-site",
    TOKEN.encode(), b"a" * 31, b"a" * 33, b"b" * 32, b"\xff\xfe",
])  # fmt: skip
OURS = (b"127.0.0.1:4321", b"localhost:4321", b"localhost:4321", b"[::1]:4321")


@settings(max_examples=400)
@given(
    st.sampled_from([[], [(b"host", b"127.0.0.1:4321"), (b"x-regard-token", TOKEN.encode())]]),
    st.lists(st.tuples(NAMES, VALUES), max_size=3),
    st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "get"]),
    st.sampled_from(["/", "/api/recordings", "/api/", "/API/x", "//api/x"]),
)
def test_no_headers_in_any_company_get_at_an_answer(
    right: list[tuple[bytes, bytes]], more: list[tuple[bytes, bytes]], method: str, path: str
) -> None:
    """A right request, or nothing at all, with any headers behind it."""
    headers = right + more
    status, answered, body = _ask(*headers, method=method, path=path)
    by_name: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        by_name.setdefault(name.lower(), []).append(value)
    hosts = by_name.get(b"host", [])
    ours = len(hosts) == 1 and hosts[0].lower() in OURS
    origins = ours and all(o == b"http://" + hosts[0] for o in by_name.get(b"origin", []))
    sites = set(by_name.get(b"sec-fetch-site", [])) <= {b"same-origin", b"none"}
    token = by_name.get(b"x-regard-token") == [TOKEN.encode()] or not path.startswith("/api/")
    allowed = ours and origins and sites and method in ("GET", "HEAD") and token
    assert (status == 200) == allowed
    if not allowed:
        assert b"yes" not in body and TOKEN.encode() not in body
        assert method == "HEAD" or set(json.loads(body)) == {"error"}
        right_host = ours and origins and sites
        assert status == (403 if not right_host else 405 if method not in ("GET", "HEAD") else 401)
    else:
        assert body == (b"" if method == "HEAD" else b"yes")
    assert HEADERS.items() <= answered.items()
    assert not [name for name in answered if name.startswith("access-control")]


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


def test_the_policy_lets_nothing_in_from_elsewhere():
    policy = dict(one.split(" ", 1) for one in HEADERS["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    allowed = {word for words in policy.values() for word in words.split()}
    assert allowed == {"'none'", "'self'", "data:", "blob:"}
    assert policy["script-src"] == policy["connect-src"] == "'self'"


def test_a_server_that_starts_and_stops_is_let_through() -> None:
    scopes = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope["type"])

    asyncio.run(Guard(app, TOKEN, PORT)({"type": "lifespan"}, None, None))
    assert scopes == ["lifespan"]


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
