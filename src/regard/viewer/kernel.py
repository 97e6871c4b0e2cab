"""The page's questions as messages of a notebook's widget, answered by the running kernel.

    page → kernel   {id, address}   an address as the server has it: "/api/0/tile?head=L0H0&…"
                    {id, stop}      nobody waits for it any more
    kernel → page   {id, heard}     at once: a slow answer is no kernel that is gone
                    {id, status, headers}, and the body as a buffer

An id is any text that the page chose. Answers are computed in threads: cells run meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from regard.viewer.opened import Opened
from regard.viewer.replies import Asking, Reply, listed, questions, refusal, said
from regard.viewer.work import Job, Pool

Send: TypeAlias = Callable[[dict[str, Any], list[bytes]], None]

_ABOUT_ONE: Final = re.compile(r"/api/([^/]+)/([^/]+)")
_NOTHING: Final = refusal(404, "there is nothing here")


class Kernel:
    """Answers the messages of one widget, in whatever order answers are ready.

    page   the page itself, made when it is asked for
    send   a message, and its buffers; called by several threads
    """

    def __init__(
        self, opened: Sequence[Opened], page: Callable[[], str], send: Send, pool: Pool
    ) -> None:
        self._opened, self._page, self._send, self._pool = opened, page, send, pool
        self._jobs: dict[str, Job] = {}

    def receive(self, message: Any) -> None:
        """One message of the page; what is no such message is left alone."""
        if not isinstance(message, dict) or not isinstance(key := message.get("id"), str):
            return
        if "stop" in message:
            if job := self._jobs.pop(key, None):
                job.give_up()
        elif isinstance(address := message.get("address"), str):
            self._send({"id": key, "heard": True}, [])
            self._ask(key, address)

    def _ask(self, key: str, address: str) -> None:
        job = self._jobs[key] = Job()
        try:
            path, query = urlsplit(address)[2:4]
        except ValueError:  # such as "//["
            self._reply(key, _NOTHING)
            return
        if path in ("/", "/api/recordings"):
            make = self._whole_page if path == "/" else lambda _: listed(self._opened)
            self._pool.submit(lambda: self._reply(key, said(make, job)), "quick")
            return
        named = _ABOUT_ONE.fullmatch(path)
        question = named and questions().get(named[2])
        if not named or not question:
            self._reply(key, _NOTHING)
            return
        asked = Asking(question, named[1], dict(parse_qsl(query)), self._opened)

        def compute() -> None:
            self._reply(key, said(asked.answer, job))

        def look() -> None:
            found = said(asked.ready, job)
            if found is None:
                self._pool.submit(compute, question.lane)
            else:
                self._reply(key, found)

        self._pool.submit(look if question.ready else compute,
                          "quick" if question.ready else question.lane)  # fmt: skip

    def _whole_page(self, _: Job) -> Reply:
        return Reply(self._page().encode(), kind="text/html")

    def _reply(self, key: str, reply: Reply) -> None:
        if self._jobs.pop(key, None) is None:
            return  # it was stopped
        headers = {"content-type": reply.kind, **reply.headers}
        self._send({"id": key, "status": reply.status, "headers": headers}, [reply.body])
