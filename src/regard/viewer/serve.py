"""The process: recordings opened once, a socket on loopback, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final

from regard.errors import InputError, MissingExtraError
from regard.recording import open as open_recording
from regard.viewer import answers
from regard.viewer.guard import Guard, make_token
from regard.viewer.loopback import LOOPBACK, bound, open_in_browser
from regard.viewer.opened import CACHE_BYTES, Opened
from regard.viewer.work import Pool
from regard.views.cache import Cache


def warm_up(opened: Sequence[Opened], pool: Pool) -> Future[None]:
    """The overview and the small pictures of the first recording's first prompt. What goes wrong
    is said when it is asked for."""
    return pool.submit(lambda: _first_page(opened[0]), "long")  # whoever asks may wait for it


def _first_page(one: Opened) -> None:
    for stack in answers.overview(one)["stacks"]:
        answers.thumbnails(one, 0, stack["name"])


_PATIENCE: Final = 1  # seconds for answers under way at the end


def serve(
    paths: Sequence[str | os.PathLike[str]],
    port: int = 0,
    open_browser: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Serve recordings to a browser on this machine until Ctrl-C; port 0 picks a free one.

    What is said is the address, with the token that opens it behind the #, which a browser keeps to
    itself.
    """
    if not paths:
        raise InputError("no recording to serve; give a .regard file")
    check_server("serving a recording")
    opened = _opened(paths)

    def build(token: str, own: int, pool: Pool) -> Guard:
        from regard.viewer.app import build_app

        warm_up(opened, pool)
        return build_app(opened, token, own, pool=pool)

    try:
        run_app(build, port, open_browser, say)
    finally:
        for one in opened:
            one.close()


def run_app(
    build: Callable[[str, int, Pool], Guard],
    port: int,
    open_browser: bool,
    say: Callable[[str], None],
    *,
    fragment: str = "",
) -> None:
    """An app on loopback until Ctrl-C. It is built from the token, the port and a pool; `fragment`
    stands behind the token in the address."""
    pool = Pool()
    try:
        with bound(port) as listener:
            own, token = listener.getsockname()[1], make_token()
            server = _make_server(build(token, own, pool))
            address = f"http://{LOOPBACK}:{own}/#token={token}{fragment}"
            with _ended_by_ctrl_c(server):
                say(address)
                if open_browser:
                    open_in_browser(address)
                _run(server, listener)
    finally:
        pool.close()


@contextmanager
def _ended_by_ctrl_c(server: Any) -> Iterator[None]:
    """From here on Ctrl-C is the ordinary end. A flag, where KeyboardInterrupt could be lost: one
    that is raised in a finalizer or a callback, as often while a server starts, ends nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        server.should_exit = True

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def check_server(what: str) -> Any:
    """uvicorn, with starlette there too; MissingExtraError where they are not."""
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise MissingExtraError(what, error.name or "uvicorn", "view") from None
    return uvicorn


def _make_server(app: Guard) -> Any:
    import uvicorn

    from regard.viewer.protocol import AT_ONCE, BoundedProtocol

    config = uvicorn.Config(
        app, log_level="error", access_log=False, lifespan="off", server_header=False,
        date_header=False, proxy_headers=False, ws="none", http=BoundedProtocol, backlog=AT_ONCE,
        timeout_graceful_shutdown=_PATIENCE,
    )  # fmt: skip
    return uvicorn.Server(config)


def _run(server: Any, listener: socket.socket) -> None:
    server.run(sockets=[listener])


def _opened(paths: Sequence[str | os.PathLike[str]]) -> list[Opened]:
    """All of them or none."""
    cache, found = Cache(CACHE_BYTES), list[Opened]()
    try:
        for number, path in enumerate(paths):
            found.append(Opened(open_recording(path), number, cache))
    except BaseException:
        for one in found:
            one.close()
        raise
    return found
