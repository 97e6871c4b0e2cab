"""Addresses of the page that plays, beside those of the viewer.

POST /api/play/read        a state → lines of JSON: progress, then the reading or one sentence
POST /api/play/sound       a sound file → its name
POST /api/play/open        a reading → its number among the recordings of the engineer's room
GET  /api/play/…           weights, logits, heads, rollout, lesson and file of a reading
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from regard.errors import RegardError
from regard.play.explain import explained
from regard.play.follow import Advanced, Progress
from regard.play.heads import effect_cards, heads_answer
from regard.play.reading import Reading
from regard.play.requests import MOST_BYTES, ReadRequest, read_json
from regard.play.saving import as_file
from regard.play.session import ForgottenError, Session
from regard.recorder.tokens import texts_of
from regard.study import roll_out_recording
from regard.viewer.app import answered, build_app, error_response, said_in, sent
from regard.viewer.files import PageFile, load_page
from regard.viewer.guard import Guard
from regard.viewer.opened import Opened
from regard.viewer.questions import Asked, Binary, UnreadableError
from regard.viewer.work import GivenUpError, Job, Lane, Pool

POSTS: Final = ("/api/play/read", "/api/play/sound", "/api/play/open")
_SHOWN: Final = 64  # likely tokens that are spelt
MOST_SOUND: Final = 2**25
_MOST_CELLS: Final = 2**24  # of one answer of weights
_MARK: Final = b'<script type="application/json" id="regard-data">'
_Answer = Callable[[Session, Reading, Asked], Any]


def build_play(
    session: Session, token: str, port: int, pool: Pool, script: Sequence[Any] = ()
) -> Guard:
    """The page, its model, and the engineer's room over what was read."""
    opened = _Room()
    routes = [
        Route("/api/play/about", _about(session, pool, script), methods=["GET"]),
        Route("/api/play/read", _read(session, pool), methods=["POST"]),
        Route("/api/play/sound", _sound(session, pool), methods=["POST"]),
        Route("/api/play/open", _open(session, opened, pool), methods=["POST"]),
        *(
            Route(f"/api/play/{name}", _answer(session, pool, one, lane), methods=["GET"])
            for name, (one, lane) in _ANSWERS.items()
        ),
    ]
    page = _marked(load_page())
    return build_app(
        opened, token, port, page=page, pool=pool, more=routes, posts=POSTS
    )  # fmt: skip


def _marked(page: dict[str, PageFile]) -> dict[str, PageFile]:
    """The page, told which room it is."""
    if "/" not in page:
        return page
    kind, body = page["/"]
    mark = _MARK + b'{"kind":"play"}</script></body>'
    return page | {"/": PageFile(kind, body.replace(b"</body>", mark, 1))}


class _Room(list[Opened]):
    """Readings that were opened in the engineer's room; the same one keeps its number."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[str, int] = {}

    def number(self, key: str, make: Callable[[], Opened]) -> int:
        """Where a reading stands, opened where it is new."""
        if key not in self._numbers:
            one = make()
            one.number = len(self)
            self.append(one)
            self._numbers[key] = one.number
        return self._numbers[key]


# ── reading ──────────────────────────────────────────────────────────────────────────────────


def _read(session: Session, pool: Pool) -> Callable[..., Any]:
    async def endpoint(request: Request) -> Response:
        body = await _body(request, MOST_BYTES)
        if isinstance(body, Response):
            return body
        return StreamingResponse(
            _lines(session, pool, body, request), media_type="application/x-ndjson"
        )

    return endpoint


async def _body(request: Request, most: int) -> bytes | Response:
    """What was sent, as long as it is not too much."""
    parts, size = [], 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > most:
            return error_response(413, f"too long: at most {most} bytes are read")
    return b"".join(parts)


async def _lines(
    session: Session, pool: Pool, body: bytes, request: Request
) -> AsyncIterator[bytes]:
    """Progress while the model runs; the last line is the reading, or why there is none."""
    loop, lines, job = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any]](), Job()

    def tell(line: dict[str, Any]) -> None:
        loop.call_soon_threadsafe(lines.put_nowait, line)

    def work() -> None:
        tell(_read_in_words(session, body, job, lambda one: tell(_progress(one))))

    future = pool.submit(work, "tiles")
    try:
        while True:
            line = await lines.get()
            yield json.dumps(line).encode() + b"\n"
            if "done" not in line:
                return
    finally:
        job.give_up()
        future.cancel()


def _progress(one: Progress) -> dict[str, Any]:
    line: dict[str, Any] = {"done": one.done, "of": one.of}
    if one.texts is not None:
        line["texts"] = list(one.texts)
    if one.heavy:
        line["heavy"] = [[key, round(weight, 5)] for key, weight in one.heavy]
    return line


def _read_in_words(session: Session, body: bytes, job: Job, advanced: Advanced) -> dict[str, Any]:
    """The last line."""
    try:
        state = session.state_of(ReadRequest.of(body))
        reading = session.read(state, job.go_on, advanced)
        return {"reading": reading_answer(session, reading)}
    except GivenUpError:
        return {"error": "given up", "status": 499}
    except ForgottenError as error:
        return {"error": str(error), "status": 410}
    except UnreadableError as error:
        return {"error": str(error), "status": 400}
    except RegardError as error:
        return {"error": str(error), "status": 422}
    except Exception as error:  # noqa: BLE001  whatever a model does, the page says so in place
        words = " ".join(str(error).split())[:300] or type(error).__name__
        return {"error": f"the model failed: {words}", "status": 500}


def reading_answer(session: Session, reading: Reading) -> dict[str, Any]:
    """What the page shows first: words, and what may come next."""
    stacks = []
    for name, (layers, heads) in reading.stacks.items():
        rows, keys = reading.size(name)
        frames = reading.frames if reading.is_over_sound(name) else None
        stacks.append({
            "name": name, "layers": layers, "heads": heads, "rows": rows, "keys": keys,
            "frames": frames,
        })  # fmt: skip
    return {
        "id": reading.key, "ids": list(reading.state.ids), "texts": list(reading.texts),
        "stacks": stacks, "next": _likely(session, reading), "similarity": reading.similarity,
        "pair": list(reading.state.pair), "heads": list(reading.state.heads),
        "edges": [list(edge) for edge in reading.state.edges],
    }  # fmt: skip


def _likely(session: Session, reading: Reading) -> list[dict[str, Any]] | None:
    """The tokens with the largest logits, spelt; the page has all logits for their shares."""
    if reading.logits is None:
        return None
    order = reading.logits.argsort()[::-1][:_SHOWN]
    texts = texts_of(session.tokenizer, order.tolist())
    return [{"id": int(n), "text": text} for n, text in zip(order, texts, strict=True)]


def _posted(pool: Pool, most: int, work: Callable[[bytes, Job], Response]) -> Callable[..., Any]:
    """An answer to what was sent, made in a thread."""

    async def endpoint(request: Request) -> Response:
        body = await _body(request, most)
        if isinstance(body, Response):
            return body
        return await said_in(pool, "tiles", lambda job: work(body, job), Job())

    return endpoint


def _sound(session: Session, pool: Pool) -> Callable[..., Any]:
    return _posted(pool, MOST_SOUND, lambda body, _: sent({"sound": session.add_sound(body)}))


# ── what a reading answers ───────────────────────────────────────────────────────────────────


def _answer(session: Session, pool: Pool, answer: _Answer, lane: Lane) -> Callable[..., Any]:
    async def endpoint(request: Request) -> Response:
        def work(job: Job) -> Response:
            asked = Asked(request.query_params, (), job.go_on)
            try:
                made = answer(session, session.get(asked.name("id")), asked)
            except ForgottenError as error:
                return error_response(410, error.message)
            return sent(made)

        return await answered(request, pool, lane, work)

    return endpoint


def _weights(session: Session, reading: Reading, asked: Asked) -> Binary:
    """(layers, heads, rows, keys) float32; `layer` and `head` leave the others out."""
    rows, stack = asked.span("row"), asked.name("stack")
    layers, heads = reading.stacks.get(stack, (1, 1))
    layer, head = (_maybe(asked, name) for name in ("layer", "head"))
    many = (1 if layer is not None else layers) * (1 if head is not None else heads)
    if many * len(rows) * reading.size(stack)[1] > _MOST_CELLS:
        raise UnreadableError("row_count: too many weights at once; ask for fewer rows")
    made = reading.weights(stack, rows, layer, head)
    sizes = dict(zip(("layers", "heads", "rows", "keys"), made.shape, strict=True))
    return Binary(made.tobytes(), sizes)


def _maybe(asked: Asked, name: str) -> int | None:
    return asked.whole(name) if name in asked.given else None


def _logits(session: Session, reading: Reading, asked: Asked) -> Binary:
    numbers = b"" if reading.logits is None else reading.logits.astype("<f4").tobytes()
    return Binary(numbers)


def _heads(session: Session, reading: Reading, asked: Asked) -> Any:
    recording = session.recording(reading, asked.go_on, urgent=False)
    return heads_answer(reading, recording, session.aligned)


def _effects(session: Session, reading: Reading, asked: Asked) -> Any:
    likely = _likely(session, reading)
    likeliest = likely[0]["text"].strip() if likely else ""
    return {"cards": effect_cards(session.effects(reading, asked.go_on), likeliest)}


def _rollout(session: Session, reading: Reading, asked: Asked) -> Binary:
    recording, row = session.recording(reading, asked.go_on), asked.whole("row")
    with reading.lock:
        found = roll_out_recording(recording, row, stack=asked.name("stack"))
    return Binary(found.shares.astype("<f4").tobytes())


def _lesson(session: Session, reading: Reading, asked: Asked) -> Any:
    recording = session.recording(reading, asked.go_on)
    with reading.lock:
        return explained(
            recording, asked.label, asked.whole("row"), session.name, asked.whole("key")
        )


def _file(session: Session, reading: Reading, asked: Asked) -> Binary:
    content = as_file(session.recording(reading, asked.go_on))
    name = f"{session.name}-{reading.key[:8]}.regard"
    return Binary(content, headers={"content-disposition": f'attachment; filename="{name}"'})


_ANSWERS: Final[dict[str, tuple[_Answer, Lane]]] = {
    "weights": (_weights, "quick"),
    "logits": (_logits, "quick"),
    "heads": (_heads, "long"),
    "effects": (_effects, "long"),  # readings, which are urgent, have the other threads
    "rollout": (_rollout, "tiles"),
    "lesson": (_lesson, "tiles"),
    "file": (_file, "tiles"),
}


# ── the model, and the engineer's room ───────────────────────────────────────────────────────


def _about(session: Session, pool: Pool, script: Sequence[Any]) -> Callable[..., Any]:
    async def endpoint(request: Request) -> Response:
        def work(_: Job) -> Response:
            return sent(session.about() | {"script": list(script)})

        return await answered(request, pool, "quick", work)

    return endpoint


def _open(session: Session, opened: _Room, pool: Pool) -> Callable[..., Any]:
    """The recording of a reading joins those of the engineer's room."""

    def work(body: bytes, job: Job) -> Response:
        given = read_json(body)
        if not isinstance(given, dict) or not isinstance(given.get("id"), str):
            raise UnreadableError("give an object with the id of a reading")
        try:
            reading = session.get(given["id"])
        except ForgottenError as error:
            return error_response(410, error.message)
        recording = session.recording(reading, job.go_on)
        recording.name = " ".join("".join(reading.texts).split())[:40] or session.name
        return sent({"number": opened.number(reading.key, lambda: Opened(recording))})

    return _posted(pool, MOST_BYTES, work)
