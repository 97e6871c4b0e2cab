"""The route of vLLM's server (`vllm.endpoint_plugins`), there where VLLM_PLUGINS names regard:

    GET /regard/{request id}               the statistics of the request's own tokens, JSON
    GET /regard/{request id}?as=recording  a recording that `regard view` opens

another client's request       a header X-Regard-Secret that is the secret the request gave; a
                               wrong one is answered as an unknown request is
guessing secrets               16 characters at least, compared in constant time
the disk of the server         nothing is written by a name from a request; files are temporary
the memory of the server       limits of bytes and seconds (`shelf.ClientLimits`)

The statistics are read out of the recording:

    {"requests": [{"request": "cmpl-…", "tokens": […], "ids": […], "generated": 11, "cached": 0,
                   "layers": [{"layer": 5, "heads": [0, 1, …], "rows": [0, 16], "row_bin": 1,
                               "entropy": [[…], …], "top_keys": …, "top_weights": …, …}]}]}

Arrays are heads × rows, `top_…` heads × rows × top, `received` heads × keys.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from regard import recording
from regard.errors import RegardError, TooLargeError
from regard.recording import Recording
from regard.vllm.shelf import client_id

_MOST = 4_000_000  # numbers of one answer
_TENSORS = {"top": ("top_keys", "top_weights")}


def statistics_of(file: bytes) -> dict[str, Any]:
    """From a whole recording file; TooLargeError where JSON is no way to hand it over."""
    with TemporaryDirectory(prefix="regard-") as folder:
        path = Path(folder) / "request.regard"
        path.write_bytes(file)
        with recording.open(path) as found:
            return {"requests": [_of_prompt(found, number) for number in range(len(found.prompts))]}


def _of_prompt(found: Recording, number: int) -> dict[str, Any]:
    prompt = found.prompts[number]
    served = prompt.note.facts["served"]
    names = [one for name in served["statistics"] for one in _TENSORS.get(name, (name,))]
    layers = [_of_place(prompt, label, names) for label in prompt.places]
    count = sum(np.size(one[name]) for one in layers for name in names if name in one)
    if count > _MOST:
        raise TooLargeError(
            f"{count:,} numbers are too many for JSON; ask for fewer layers or statistics, or "
            "fetch the recording with ?as=recording"
        )
    return {
        "request": client_id(served["request"]),
        "tokens": prompt.tokens,
        "ids": prompt.ids.tolist(),
        "generated": prompt.generated,
        "cached": served["cached"],
        "layers": [
            {
                name: one.tolist() if isinstance(one, np.ndarray) else one
                for name, one in own.items()
            }
            for own in layers
        ],
    }


def _of_place(prompt: Any, label: str, names: list[str]) -> dict[str, Any]:
    place = prompt.places[label]
    heads = [prompt[place.layer, head].stored for head in place.heads]
    facts = {
        "layer": place.layer, "heads": list(place.heads), "rows": list(place.rows),
        "row_bin": place.row_bin, "key_bin": place.key_bin,
    }  # fmt: skip
    arrays = {
        name: np.stack([np.round(one[name].values, 7) for one in heads])
        for name in names
        if name in heads[0]
    }
    return facts | arrays


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
