"""Addresses → answers. Recordings are named by their number, never by a path."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
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
from regard.viewer.work import GivenUpError, Job, Lane, Pool
from regard.views.run import MOST_BINS, Snapshot, Strips
from regard.views.schema import How, as_text
from regard.views.thumbnails import SIDE
from regard.views.uniform import Codes

_LOG: Final = logging.getLogger(__name__)
_WHOLE: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
_MOST_LABEL: Final = 256
_BINARY: Final = "application/octet-stream"
_JSON: Final = "application/json"
_NO_PAGE: Final = (
    "The page is not part of this installation: it was built without it. "
    "The answers under /api/ are there.\n"
)


class Asked:
    """The parameters of a request, read strictly."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def whole(self, name: str, default: int | None = None) -> int:
        """A whole number ≥ 0."""
        text = self._given.get(name)
        if text is None and default is not None:
            return default
        if text is None or _WHOLE.fullmatch(text) is None:
            raise HTTPException(400, f"{name}: give a whole number")
        return int(text)

    @property
    def prompt(self) -> int:
        """Which prompt; the first where none is named."""
        return self.whole("prompt", 0)

    @property
    def label(self) -> str:
        """Which head."""
        text = self._given.get("head", "")
        if not 0 < len(text) <= _MOST_LABEL:
            raise HTTPException(400, "head: give a label such as L0H0")
        return text

    def name(self, of: str) -> str:
        """A name that may be left out."""
        return self._given.get(of, "")[:_MOST_LABEL]

    @property
    def stream(self) -> str:
        """Which tokens; the first stream where none is named."""
        return self._given.get("stream", "")[:_MOST_LABEL]

    @property
    def stack(self) -> str:
        """Which stack of layers; the one without a name where none is named."""
        return self._given.get("stack", "")[:_MOST_LABEL]

    @property
    def how(self) -> How:
        """How cells are pooled."""
        text = self._given.get("how", "mean")
        if text == "mean":
            return "mean"
        if text == "max":
            return "max"
        raise HTTPException(400, "how: give mean or max")

    def span(self, name: str) -> range:
        """From `name` on, `name`_count of them."""
        start = self.whole(name)
        return range(start, start + self.whole(f"{name}_count", 1))


_Answer = Callable[[Opened, Asked, Job], Response]
_Found = TypeVar("_Found")


def build_app(
    opened: Sequence[Opened],
    token: str,
    port: int,
    *,
    page: Mapping[str, PageFile] | None = None,
    pool: Pool | None = None,
) -> Guard:
    """The app behind its guard."""
    kept, workers = load_page() if page is None else page, pool or Pool()
    of_one = [
        Route(f"/api/{{number}}/{name}", _endpoint(opened, workers, name), methods=["GET"])
        for name in _ANSWERS
    ]
    compared = _compared(opened, workers)
    of_one.append(Route("/api/{number}/compare", compared, methods=["GET"]))
    every = Route("/api/recordings", _listed(opened, workers), methods=["GET"])
    app = Starlette(
        routes=[every, *of_one, *_page_routes(kept)],
        exception_handlers={HTTPException: _refused},
    )
    app.router.redirect_slashes = False
    return Guard(app, token, port)


# ── answers of one recording ─────────────────────────────────────────────────────────────────


def _json(value: Any) -> Response:
    return Response(as_text(value), media_type=_JSON)


def _tile(one: Opened, asked: Asked, job: Job) -> Response:
    level, y, x = (asked.whole(name) for name in ("level", "y", "x"))
    head_map = one.head_map(asked.prompt, asked.label)
    return _codes(head_map.tile(level, y, x, asked.how, job.go_on))


def _ready_tile(one: Opened, asked: Asked) -> Response | None:
    """One that is stored, or was computed before."""
    level, y, x = (asked.whole(name) for name in ("level", "y", "x"))
    made = one.head_map(asked.prompt, asked.label).ready_tile(level, y, x, asked.how)
    return None if made is None else _codes(made)


def _codes(made: Codes) -> Response:
    return Response(
        made.codes.tobytes(), media_type=_BINARY, headers={"x-regard-nan": str(made.nan)}
    )


def _thumbnails(one: Opened, asked: Asked, job: Job) -> Response:
    made = answers.thumbnails(one, asked.prompt, asked.stack, asked.whole("side", SIDE), job.go_on)
    sizes = zip(("layers", "heads", "side"), made.codes.shape, strict=False)
    headers = {f"x-regard-{name}": str(size) for name, size in sizes}
    return Response(made.tobytes(), media_type=_BINARY, headers=headers)


def _numbers(made: Strips | Snapshot) -> Response:
    headers = {f"x-regard-{name}": str(size) for name, size in made.sizes().items()}
    return Response(made.tobytes(), media_type=_BINARY, headers=headers)


_ANSWERS: Final[dict[str, _Answer]] = {
    "overview": lambda one, asked, _: _json(answers.overview(one, asked.prompt)),
    "thumbnails": _thumbnails,
    "tokens": lambda one, asked, _: _json(
        answers.tokens(
            one, asked.prompt, asked.stream, asked.whole("start", 0), asked.whole("count", 1024)
        )
    ),
    "head": lambda one, asked, _: _json(answers.head_facts(one, asked.prompt, asked.label)),
    "tile": _tile,
    "row": lambda one, asked, _: _json(
        answers.row_facts(
            one, asked.prompt, asked.label, asked.whole("row"), asked.whole("top", 32)
        )
    ),
    "weights": lambda one, asked, _: Response(
        answers.weights(one, asked.prompt, asked.label, asked.whole("row")), media_type=_BINARY
    ),
    "cells": lambda one, asked, _: Response(
        answers.cells(one, asked.prompt, asked.label, asked.span("row"), asked.span("key")),
        media_type=_BINARY,
    ),
    "findings": lambda one, asked, _: _json(one.report(asked.prompt)),
    "training": lambda one, asked, _: _json(answers.training(one)),
    "strips": lambda one, asked, _: _numbers(
        answers.strips(one, asked.name("statistic"), asked.whole("bins", MOST_BINS))
    ),
    "snapshot": lambda one, asked, _: _numbers(
        answers.snapshot(one, asked.label, asked.whole("step"))
    ),
    "page": lambda one, asked, _: download(one, asked.prompt, asked.name("head")),
}

# what needs no computing, asked before the answer of the same name; None where there is no such
_READY: Final[dict[str, Callable[[Opened, Asked], Response | None]]] = {"tile": _ready_tile}
_LANES: Final[dict[str, Lane]] = {
    "overview": "quick", "tokens": "quick", "head": "quick", "row": "quick", "weights": "quick",
    "cells": "quick", "findings": "long",
}  # fmt: skip


def _endpoint(opened: Sequence[Opened], pool: Pool, name: str) -> Callable[..., Any]:
    answer, lane = _ANSWERS[name], _LANES.get(name, "tiles")

    async def endpoint(request: Request) -> Response:
        one = _named(opened, Asked(request.path_params).whole("number"))
        asked = Asked(request.query_params)
        ready = _READY.get(name)
        return await _work(
            request, pool, lane, lambda job: answer(one, asked, job),
            ready and (lambda _: ready(one, asked)),
        )  # fmt: skip

    return endpoint


def _compared(opened: Sequence[Opened], pool: Pool) -> Callable[..., Any]:
    async def endpoint(request: Request) -> Response:
        one, asked = Asked(request.path_params), Asked(request.query_params)
        a = _named(opened, one.whole("number")), asked.prompt
        b = _named(opened, asked.whole("other")), asked.whole("other_prompt", 0)
        answer = lambda job: _json(answers.comparison(a, b, job.go_on))  # noqa: E731
        return await _work(request, pool, "tiles", answer)

    return endpoint


def _named(opened: Sequence[Opened], number: int) -> Opened:
    if number >= len(opened):
        raise HTTPException(404, f"recording {number} does not exist; there are {len(opened)}")
    return opened[number]


def _listed(opened: Sequence[Opened], pool: Pool) -> Callable[..., Any]:
    async def endpoint(request: Request) -> Response:
        def answer(_: Job) -> Response:
            return _json([answers.listing(one) for one in opened])

        return await _work(request, pool, "quick", answer)

    return endpoint


# ── work ─────────────────────────────────────────────────────────────────────────────────────


async def _work(
    request: Request,
    pool: Pool,
    lane: Lane,
    answer: Callable[[Job], Response],
    ready: Callable[[Job], Response | None] | None = None,
) -> Response:
    """In threads of the pool, as long as somebody waits: what is ready, else the answer."""
    job = Job()

    async def first() -> Response:
        found = None if ready is None else await _said_in(pool, "quick", ready, job)
        return await _said_in(pool, lane, answer, job) if found is None else found

    made = asyncio.ensure_future(first())
    gone = asyncio.ensure_future(_until_gone(request))
    try:
        await asyncio.wait((made, gone), return_when=asyncio.FIRST_COMPLETED)
        if made.done():
            return made.result()
        return _error(499, "given up")
    finally:
        job.give_up()
        made.cancel()
        gone.cancel()


async def _said_in(
    pool: Pool, lane: Lane, answer: Callable[[Job], _Found], job: Job
) -> _Found | Response:
    return await asyncio.wrap_future(pool.submit(lambda: _said(answer, job), lane))


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _said(answer: Callable[[Job], _Found], job: Job) -> _Found | Response:
    """The answer, or in one line why there is none."""
    try:
        job.go_on()
        return answer(job)
    except HTTPException as error:
        return _error(error.status_code, error.detail)
    except GivenUpError:
        return _error(499, "given up")
    except UnavailableError as error:
        return _error(409, error.message)
    except InputError as error:
        return _error(404, str(error))
    except RegardError as error:
        return _error(500, str(error))
    except Exception:  # noqa: BLE001  a mistake of ours: told here, not to the page
        _LOG.exception("no answer to a request")
        return _error(500, "something went wrong; the terminal that serves this page says what")


def _error(status: int, reason: str) -> Response:
    line = " ".join(reason.split())
    return Response(as_text({"error": line}), status, media_type=_JSON)


async def _refused(_: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        reason = "there is nothing here" if error.detail == "Not Found" else error.detail
        return _error(error.status_code, reason)
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
