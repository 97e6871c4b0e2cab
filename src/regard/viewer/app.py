"""Addresses → answers. Recordings are named by their number, never by a path."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from regard.errors import InputError, RegardError, UnavailableError
from regard.viewer import answers
from regard.viewer.download import download
from regard.viewer.files import PageFile, load_page
from regard.viewer.guard import Guard
from regard.viewer.opened import Opened
from regard.viewer.questions import QUESTIONS, Asked, Binary, Question, UnreadableError
from regard.viewer.work import GivenUpError, Job, Lane, Pool
from regard.views.schema import as_text

_LOG: Final = logging.getLogger(__name__)
_JSON: Final = "application/json"
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
        for name, one in (QUESTIONS | {"page": _PAGE}).items()
    ]
    every = Route("/api/recordings", _listed(opened, workers), methods=["GET"])
    app = Starlette(
        routes=[*more, every, *of_one, *_page_routes(kept)],
        exception_handlers={HTTPException: _refused},
    )
    app.router.redirect_slashes = False
    return Guard(app, token, port, posts=posts)


# ── answers of one recording ─────────────────────────────────────────────────────────────────


_PAGE: Final = Question(Binary, download, "tiles")  # the recording itself, to keep or to send


def sent(made: Any) -> Response:
    """JSON; or bytes, whose sizes are headers."""
    if not isinstance(made, Binary):
        return Response(as_text(made), media_type=_JSON)
    sizes = {f"x-regard-{name}": str(size) for name, size in made.sizes.items()}
    return Response(made.content, media_type=made.kind, headers={**sizes, **made.headers})


def _endpoint(opened: Sequence[Opened], pool: Pool, question: Question[Any]) -> Callable[..., Any]:
    async def endpoint(request: Request) -> Response:
        one = said(lambda _: Asked(request.path_params, opened).recording("number"), Job())
        if isinstance(one, Response):
            return one

        def answer(job: Job) -> Response:
            return sent(question.answer(one, Asked(request.query_params, opened, job.go_on)))

        def ready(_: Job) -> Response | None:
            made = question.ready and question.ready(one, Asked(request.query_params, opened))
            return made and sent(made)

        return await answered(request, pool, question.lane, answer, question.ready and ready)

    return endpoint


def _listed(opened: Sequence[Opened], pool: Pool) -> Callable[..., Any]:
    async def endpoint(request: Request) -> Response:
        def answer(_: Job) -> Response:
            return sent([answers.listing(one) for one in opened])

        return await answered(request, pool, "quick", answer)

    return endpoint


# ── work ─────────────────────────────────────────────────────────────────────────────────────


async def answered(
    request: Request,
    pool: Pool,
    lane: Lane,
    answer: Callable[[Job], Response],
    ready: Callable[[Job], Response | None] | None = None,
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
    pool: Pool, lane: Lane, answer: Callable[[Job], _Found], job: Job
) -> _Found | Response:
    """The answer of a thread of that lane, or in one line why there is none."""
    return await asyncio.wrap_future(pool.submit(lambda: said(answer, job), lane))


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def said(answer: Callable[[Job], _Found], job: Job) -> _Found | Response:
    """The answer, or in one line why there is none."""
    try:
        job.go_on()
        return answer(job)
    except GivenUpError:
        return error_response(499, "given up")
    except UnavailableError as error:
        return error_response(409, error.message)
    except UnreadableError as error:
        return error_response(400, str(error))
    except InputError as error:
        return error_response(404, str(error))
    except RegardError as error:
        return error_response(500, str(error))
    except Exception:  # noqa: BLE001  a mistake of ours: told here, not to the page
        _LOG.exception("no answer to a request")
        return error_response(
            500, "something went wrong; the terminal that serves this page says what"
        )


def error_response(status: int, reason: str) -> Response:
    """{"error": one line}"""
    line = " ".join(reason.split())
    return Response(as_text({"error": line}), status, media_type=_JSON)


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
