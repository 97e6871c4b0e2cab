"""The process: a model loaded once, a page on loopback, until Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote_plus

from regard.errors import InputError, UnavailableError
from regard.models import load
from regard.play.session import Session
from regard.viewer.guard import Guard
from regard.viewer.loopback import bound
from regard.viewer.serve import check_server, run_app
from regard.viewer.work import Pool

PORT: Final = 7437


def prepare(model: str, device: str | None = None) -> Session:
    """The model, loaded; MissingExtraError where the page could not be served."""
    check_server("`regard play`")
    return Session(load(model, device=device))


def play(
    session: Session,
    port: int | None = None,
    open_browser: bool = False,
    say: Callable[[str], None] = print,
    *,
    text: str = "",
    script: Sequence[Any] = (),
) -> None:
    """Serve a model's page to a browser on this machine, opened at a prompt where `text` gives
    one; port 0 picks a free one, and without one it is the same as last time where that is free,
    so that a page that is still open finds a server that was started again."""
    if text and session.kind == "sound":
        raise InputError(f"{session.name} reads sound; choose a file on the page, without --text")

    def build(token: str, own: int, pool: Pool) -> Guard:
        from regard.play.app import build_play

        pool.submit(session.warm_up, "long")
        return build_play(session, token, own, pool, script)

    own = port if port is not None else PORT if _is_free(PORT) else 0
    try:
        run_app(build, own, open_browser, say, fragment=f"&p={quote_plus(text)}" if text else "")
    finally:
        session.close()


def _is_free(port: int) -> bool:
    try:
        bound(port).close()
    except UnavailableError:
        return False
    return True
