"""The route of vLLM's server (`vllm.endpoint_plugins`), there where VLLM_PLUGINS names regard:

    GET /regard/{request id}               the statistics of the request's own tokens, JSON
    GET /regard/{request id}?as=recording  a recording that `regard view` opens

another client's request       a header X-Regard-Secret that is the secret the request gave; a
                               wrong one is answered as an unknown request is
guessing secrets               16 characters at least, compared in constant time
the disk of the server         nothing is written by a name from a request; files are temporary
the memory of the server       limits of bytes and seconds (`shelf.ClientLimits`)
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

from regard.errors import RegardError, TooLargeError
from regard.vllm.answer import statistics_of

SECRET_HEADER = "x-regard-secret"
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_UNKNOWN = (
    "there is no recording of this request for this secret: it did not ask, has been dropped, or "
    "gave another secret"
)


class RegardEndpoint:
    """vLLM's EndpointPlugin."""

    name = "regard"
    required_tasks = ("generate",)

    def __init__(self) -> None:
        self._engine: Any = None

    def attach_router(self, app: Any) -> None:
        """Add the route to vLLM's FastAPI application."""
        from starlette.requests import Request
        from starlette.responses import Response

        async def fetch(request: Request) -> Response:
            status, kind, body = await self.answer(
                request.path_params["request_id"],
                request.headers.get(SECRET_HEADER, ""),
                request.query_params.get("as", "statistics"),
            )
            return Response(body, status, _HEADERS, kind)

        app.add_route("/regard/{request_id}", fetch, methods=["GET"])

    async def init_state(self, engine_client: Any, state: Any, args: Any) -> None:
        """vLLM's way to its engine."""
        self._engine = engine_client

    async def answer(self, request: str, secret: str, form: str) -> tuple[int, str, bytes]:
        """Status, media type and body."""
        if form not in ("statistics", "recording"):
            return _told(HTTPStatus.BAD_REQUEST, f"as={form!r:.40}; give statistics or recording")
        answers = await self._engine.collective_rpc("regard_fetch", args=(request, secret))
        unknown: dict[str, Any] = {"state": "unknown"}
        told = next((one for one in answers if one.get("state") != "unknown"), unknown)
        state = told.get("state")
        if state == "unknown":
            return _told(HTTPStatus.NOT_FOUND, _UNKNOWN)
        if state == "running":
            return _told(HTTPStatus.ACCEPTED, "the request is running; fetch again")
        if state != "ready":
            return _told(HTTPStatus.UNPROCESSABLE_ENTITY, told.get("reason") or told["error"])
        if form == "recording":
            return HTTPStatus.OK, "application/octet-stream", told["file"]
        try:
            found = await asyncio.to_thread(statistics_of, told["file"])
        except TooLargeError as error:
            return _told(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error))
        except RegardError as error:
            return _told(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        return HTTPStatus.OK, "application/json", _json(found)


def _told(status: HTTPStatus, message: str) -> tuple[int, str, bytes]:
    return status, "application/json", _json({"state": status.phrase, "message": message})


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
