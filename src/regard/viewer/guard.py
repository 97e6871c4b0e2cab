"""Who may ask: the browser that was given the token, and no other page that runs in it.

a name that points at this machine (DNS rebinding)   Host must be ours, port included
another page's requests                              Origin and Sec-Fetch-Site must be ours
another user of this machine                         the token
a page that frames, guesses types, or calls out      headers on every answer
anything that writes                                 GET and HEAD only; POST of JSON or of a file,
                                                     to the addresses that are named at the start
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, Final, TypeAlias

_Scope: TypeAlias = MutableMapping[str, Any]
_Message: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[_Message]]
_Send: TypeAlias = Callable[[_Message], Awaitable[None]]
_App: TypeAlias = Callable[[_Scope, _Receive, _Send], Awaitable[None]]

TOKEN_HEADER: Final = "x-regard-token"
_TOKEN_BYTES: Final = 24
_API: Final = "/api/"
# Kinds of bodies that a form of another page cannot send without asking first.
_BODIES: Final = (b"application/json", b"application/octet-stream")

_CSP: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final = {
    "content-security-policy": _CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def make_token() -> str:
    """192 bits, fit for an address."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


class Guard:
    """Stands before an ASGI app and refuses what is not ours, in one line of JSON."""

    def __init__(
        self, app: _App, token: str, port: int, *, posts: Collection[str] = frozenset()
    ) -> None:
        self._app, self._token = app, token.encode("ascii")
        self._posts = frozenset(posts)  # addresses below /api/ that take a POST
        names = ("127.0.0.1", "localhost", "[::1]")
        self._hosts = {f"{name}:{port}".encode("ascii") for name in names}

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Refused, or passed on with headers added to the answer."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        send = _guarded(send, scope["method"] == "HEAD")
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await _refuse(send, *refusal)

    def _refusal(self, scope: _Scope) -> tuple[int, str] | None:
        """Status and reason, where it is refused."""
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 403, "this server answers to its own address only"
        if any(not self._is_own(one, hosts[0]) for one in _values(scope, b"origin")):
            return 403, "asked by another origin"
        sites = _values(scope, b"sec-fetch-site")
        if any(one not in (b"same-origin", b"none") for one in sites):
            return 403, "asked by another site"
        if scope["method"] == "POST" and scope["path"] in self._posts:
            if not self._is_own_post(scope):
                return 403, "a POST needs this page's origin, and a body of JSON or bytes"
        elif scope["method"] not in ("GET", "HEAD"):
            return 405, "GET and HEAD only"
        if scope["path"].startswith(_API) and not self._has_token(scope):
            return 401, "no token, or a wrong one; open the address that `regard view` printed"
        return None

    def _is_own_post(self, scope: _Scope) -> bool:
        """A browser names the origin of every POST; whoever has none is no page of ours."""
        kinds = [one.split(b";")[0].strip().lower() for one in _values(scope, b"content-type")]
        is_named = len(_values(scope, b"origin")) == 1
        return is_named and len(kinds) == 1 and kinds[0] in _BODIES

    def _is_own(self, origin: bytes, host: bytes) -> bool:
        return origin.lower() == b"http://" + host.lower()

    def _has_token(self, scope: _Scope) -> bool:
        given = _values(scope, TOKEN_HEADER.encode("ascii"))
        return len(given) == 1 and hmac.compare_digest(given[0], self._token)


def _values(scope: _Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key.lower() == name]


def _guarded(send: _Send, is_head: bool) -> _Send:
    """Adds the headers; leaves out the body of an answer to HEAD."""

    async def guarded(message: _Message) -> None:
        if message["type"] == "http.response.start":
            own = {name.encode("ascii") for name in HEADERS}
            kept = [pair for pair in message.get("headers", ()) if pair[0].lower() not in own]
            added = [(name.encode("ascii"), text.encode("ascii")) for name, text in HEADERS.items()]
            message = {**message, "headers": [*kept, *added]}
        elif message["type"] == "http.response.body" and is_head:
            message = {**message, "body": b""}
        await send(message)

    return guarded


async def _refuse(send: _Send, status: int, reason: str) -> None:
    body = json.dumps({"error": reason}).encode("ascii")
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode("ascii")),
    ]
    if status == 405:
        headers.append((b"allow", b"GET, HEAD"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
