"""The route, in an application of the kind vLLM's is, over a stand-in engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

import regard
from regard.vllm import endpoint
from regard.vllm.endpoint import SECRET_HEADER, RegardEndpoint
from serving import Engine

SECRET = "a secret of this test"


class Client:
    """vLLM's EngineClient."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def collective_rpc(self, method: str, args: tuple[Any, ...]) -> list[Any]:
        return [getattr(self.engine.wrapper, method)(*args)]


@pytest.fixture
def engine() -> Engine:
    made = Engine()
    asked = {"secret": SECRET, "statistics": ["entropy", "top", "received"], "top": 2}
    made.add("cmpl-a-0-1a2b3c4d", list(range(20)), 21, json.dumps(asked))
    made.step(**{"cmpl-a-0-1a2b3c4d": 20})
    made.end("cmpl-a-0-1a2b3c4d")
    made.step()
    return made


@pytest.fixture
def web(engine: Engine) -> Iterator[TestClient]:
    import asyncio

    app, plugin = Starlette(), RegardEndpoint()
    plugin.attach_router(app)
    asyncio.run(plugin.init_state(Client(engine), app.state, None))
    with TestClient(app) as client:
        yield client


def get(web: TestClient, where: str, secret: str | None = SECRET) -> Any:
    return web.get(where, headers={} if secret is None else {SECRET_HEADER: secret})


def test_statistics(web: TestClient, engine: Engine) -> None:
    reply = get(web, "/regard/cmpl-a")
    assert reply.status_code == 200
    assert reply.headers["cache-control"] == "no-store"
    (own,) = reply.json()["requests"]
    assert own["ids"] == list(range(20))
    assert own["request"] == "cmpl-a-0"
    first = own["layers"][1]
    assert (first["layer"], first["rows"], first["heads"]) == (1, [0, 20], [0, 1, 2, 3])
    truth = engine.truth(1, own["ids"]).numpy()
    np.testing.assert_allclose(first["received"], truth.sum(1), atol=1e-5)
    np.testing.assert_allclose(first["top_weights"], -np.sort(-truth, -1)[..., :2], atol=1e-5)
    assert "peak" not in first


def test_a_recording(web: TestClient, tmp_path: Path) -> None:
    reply = get(web, "/regard/cmpl-a?as=recording")
    assert reply.headers["content-type"] == "application/octet-stream"
    (tmp_path / "mine.regard").write_bytes(reply.content)
    with regard.open(tmp_path / "mine.regard") as found:
        assert found["L0H0"].exact


def test_nobody_else_reads_it(web: TestClient) -> None:
    wrong = [
        ("/regard/cmpl-a", "another secret, too"),
        ("/regard/cmpl-a", None),
        ("/regard/cmpl-b", SECRET),
        ("/regard/..cmpl-a", SECRET),
    ]
    answers = {(one.status_code, one.content) for one in (get(web, *both) for both in wrong)}
    assert [status for status, _ in answers] == [404]
    assert web.post("/regard/cmpl-a").status_code == 405
    assert get(web, "/regard/cmpl-a?as=pickle").status_code == 400


def test_what_is_not_there_yet(web: TestClient, engine: Engine) -> None:
    engine.add("long", list(range(20)), 40, json.dumps({"secret": SECRET}))
    engine.step(long=20)
    assert get(web, "/regard/long").status_code == 202


UNREADABLE: list[Any] = [
    "", "no JSON", "{", "[]", "null", "[" * 5000, "x" * 20_000, 7, "{}", {"secret": 3},
    {"secret": "short"}, {"secret": "é" * 20}, {"secret": "\ud800" * 20}, {"secret": "x" * 257},
    {"secret": " " + "x" * 16}, {"secret": "x" * 16 + "\n"},
    '{"secret": "the secret words, mistyped',
]  # fmt: skip
MEANINGLESS = [
    ({"path": "/etc/passwd"}, "regard.path is unknown; there are secret, layers"),
    ({"layers": [-1]}, "layers"),
    ({"layers": {"a": 1}}, "regard.layers"),
    ({"layers": "zero"}, "layers 'zero'"),
    ({"layers": 7}, "layer 7 does not exist; this model has 0–1"),
    ({"heads": [True]}, "heads"),
    ({"top": 0}, "regard.top=0"),
    ({"top": True}, "regard.top=True"),
    ({"exact": "yes"}, "regard.exact='yes'; give true or false"),
    ({"statistics": ["entropy", "passwords"]}, "regard.statistics"),
    ({"statistics": "entropy"}, "regard.statistics"),
    ({"statistics": [[1]]}, "regard.statistics"),
]
REASONS = [(asked, "has no secret") for asked in UNREADABLE]
REASONS += [({"secret": SECRET} | asked, reason) for asked, reason in MEANINGLESS]


@pytest.mark.parametrize(("asked", "reason"), REASONS)
def test_an_ask_that_cannot_be_read_has_its_reason(
    web: TestClient, engine: Engine, asked: Any, reason: str
) -> None:
    """The completion itself is served; whoever fetches is told what the ask lacked, not the ask."""
    text = json.dumps(asked) if isinstance(asked, dict) else asked
    engine.add("cmpl-bad-0-1a2b3c4d", list(range(20)), 21, text)
    engine.step(**{"cmpl-bad-0-1a2b3c4d": 20})
    for secret in ("", SECRET, None) if reason == "has no secret" else (SECRET,):
        reply = get(web, "/regard/cmpl-bad", secret)
        assert reply.status_code == 422
        assert reason in reply.json()["message"] and "mistyped" not in reply.text
    assert get(web, "/regard/cmpl-worse").status_code == 404
    assert get(web, "/regard/cmpl-a").status_code == 200


def test_json_has_a_limit(web: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_MOST", 100)
    reply = get(web, "/regard/cmpl-a")
    assert reply.status_code == 413
    assert "?as=recording" in reply.json()["message"]
