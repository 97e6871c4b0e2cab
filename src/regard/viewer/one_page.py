"""One self-contained page on loopback, until Ctrl-C. Standard library only.

A file on disk would do, but browsers that run in a sandbox of their own cannot open those of
temporary and hidden folders, and over ssh a forwarded port is all there is.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from regard.viewer.guard import HEADERS, make_token
from regard.viewer.loopback import LOOPBACK, bound, open_in_browser

_NAMES: Final = (LOOPBACK, "localhost")
_OWN_POLICY: Final = "content-security-policy"  # the page brings its own, with its hashes


def serve_page(
    html: str,
    port: int = 0,
    open_browser: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Serve one page to a browser on this machine; port 0 picks a free one.

    The last part of the address is a token: other users of this machine cannot guess it.
    """
    path = f"/{make_token()}"
    listener = bound(port)
    server = ThreadingHTTPServer(
        listener.getsockname(), _handler(html.encode(), path), bind_and_activate=False
    )
    server.socket.close()  # the one it made, and did not bind
    server.socket = listener
    with server, suppress(KeyboardInterrupt):
        address = f"http://{LOOPBACK}:{listener.getsockname()[1]}{path}"
        say(address)
        if open_browser:
            open_in_browser(address)
        server.serve_forever()


def _handler(body: bytes, path: str) -> type[BaseHTTPRequestHandler]:
    """Answers GET and HEAD of that one path, asked by our own name."""

    class Handler(BaseHTTPRequestHandler):
        server_version = "regard"
        sys_version = ""

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def _answer(self, *, with_body: bool) -> None:
            status, found = self._found()
            self.send_response(status)
            headers = {name: text for name, text in HEADERS.items() if name != _OWN_POLICY}
            for name, text in headers.items():
                self.send_header(name, text)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("content-length", str(len(found)))
            self.end_headers()
            if with_body:
                self.wfile.write(found)

        def _found(self) -> tuple[int, bytes]:
            own = {f"{name}:{self.connection.getsockname()[1]}" for name in _NAMES}
            if self.headers.get("host", "").lower() not in own:
                return 403, b"this server answers to its own address only"
            if not hmac.compare_digest(self.path.encode(), path.encode()):
                return 404, b"there is nothing here"
            return 200, body

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the terminal shows the address, and stays so."""

    return Handler
