"""The process: a model loaded once, a page on loopback, until Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from regard.models import load
from regard.play.session import Session
from regard.viewer.guard import Guard
from regard.viewer.serve import check_server, run_app
from regard.viewer.work import Pool


def prepare(model: str, device: str | None = None) -> Session:
    """The model, loaded; MissingExtraError where the page could not be served."""
    check_server("`regard play`")
    return Session(load(model, device=device))


def play(
    session: Session,
    port: int = 0,
    open_browser: bool = False,
    say: Callable[[str], None] = print,
    *,
    script: Sequence[Any] = (),
) -> None:
    """Serve a model's page to a browser on this machine; port 0 picks a free one."""

    def build(token: str, own: int, pool: Pool) -> Guard:
        from regard.play.app import build_play

        pool.submit(session.warm_up, "long")
        return build_play(session, token, own, pool, script)

    run_app(build, port, open_browser, say)
