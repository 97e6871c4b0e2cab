"""Addresses → answers. Recordings are named by their number, never by a path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from regard.viewer.files import PageFile, load_page
from regard.viewer.guard import Guard
from regard.viewer.opened import Opened
from regard.viewer.questions import Question
from regard.viewer.replies import Asking, Reply, listed, questions, refusal, reply_of, said
from regard.viewer.work import Job, Lane, Pool

_NO_PAGE: Final = (
    "The page is not part of this installation: it was built without it. "
    "The answers under /api/ are there.\n"
)


_Found = TypeVar("_Found")


def build_app(
    opened: Sequence[Opened],
    token: str,
    port: int,
    *,
    page: Mapping[str, PageFile] | None = None,
    pool: Pool | None = None,
    more: Sequence[Route] = (),
    posts: Collection[str] = (),
) -> Guard:
    """The app behind its guard. `more` are routes of another room; `posts` those of them that take
    a POST. `opened` may grow while it is served."""
    kept, workers = load_page() if page is None else page, pool or Pool()
    of_one = [
        Route(f"/api/{{number}}/{name}", _endpoint(opened, workers, one), methods=["GET"])
        for name, one in questions().items()
    ]
    every = Route("/api/recordings", _listed(opened, workers), methods=["GET"])
    app = Starlette(
        routes=[*more, every, *of_one, *_page_routes(kept)],
        exception_handlers={HTTPException: _refused},
    )
    app.router.redirect_slashes = False
    return Guard(app, token, port, posts=posts)


# ── answers ──────────────────────────────────────────────────────────────────────────────────


def sent(made: Any) -> Response:
    """JSON; or bytes, whose sizes are headers."""
    return _response(reply_of(made))


def error_response(status: int, reason: str) -> Response:
    """{"error": one line}"""
    return _response(refusal(status, reason))


def _response(reply: Reply) -> Response:
    headers = dict(reply.headers)
    return Response(reply.body, reply.status, headers=headers, media_type=reply.kind)


def _endpoint(opened: Sequence[Opened], pool: Pool, question: Question[Any]) -> Callable[..., Any]:
    async def endpoint(request: Request) -> Response:
        number, given = request.path_params["number"], request.query_params
        asked = Asking(question, number, given, opened)
        ready = question.ready and asked.ready
        return await answered(request, pool, question.lane, asked.answer, ready)

    return endpoint


def _listed(opened: Sequence[Opened], pool: Pool) -> Callable[..., Any]:
    async def endpoint(request: Request) -> Response:
        return await answered(request, pool, "quick", lambda _: listed(opened))

    return endpoint


# ── work ─────────────────────────────────────────────────────────────────────────────────────


async def answered(
    request: Request,
    pool: Pool,
    lane: Lane,
    answer: Callable[[Job], Response | Reply],
    ready: Callable[[Job], Response | Reply | None] | None = None,
) -> Response:
    """In threads of the pool, as long as somebody waits: what is ready, else the answer."""
    job = Job()

    async def first() -> Response:
        found = None if ready is None else await said_in(pool, "quick", ready, job)
        return await said_in(pool, lane, answer, job) if found is None else found

    made = asyncio.ensure_future(first())
    gone = asyncio.ensure_future(_until_gone(request))
    try:
        await asyncio.wait((made, gone), return_when=asyncio.FIRST_COMPLETED)
        if made.done():
            return made.result()
        return error_response(499, "given up")
    finally:
        job.give_up()
        made.cancel()
        gone.cancel()


async def said_in(
    pool: Pool, lane: Lane, answer: Callable[[Job], _Found | Reply], job: Job
) -> _Found | Response:
    """The answer of a thread of that lane, or in one line why there is none."""
    found = await asyncio.wrap_future(pool.submit(lambda: said(answer, job), lane))
    return _response(found) if isinstance(found, Reply) else found


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _refused(_: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        reason = "there is nothing here" if error.detail == "Not Found" else error.detail
        return error_response(error.status_code, reason)
    raise error


# ── the page ─────────────────────────────────────────────────────────────────────────────────


def _page_routes(page: Mapping[str, PageFile]) -> list[Route]:
    def route(address: str, one: PageFile) -> Route:
        async def endpoint(_: Request) -> Response:
            return Response(one.body, headers={"content-type": one.kind})

        return Route(address, endpoint, methods=["GET"])

    async def missing(_: Request) -> Response:
        return Response(_NO_PAGE, 503, media_type="text/plain")

    routes = [route(address, one) for address, one in page.items()]
    return routes if "/" in page else [*routes, Route("/", missing, methods=["GET"])]
