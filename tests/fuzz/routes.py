"""Hostile requests to every address of `regard view` and `regard play`: an answer, or a status of
4xx with a sentence; never 5xx, never a page of the server's own."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any
from urllib.parse import quote

from starlette.testclient import TestClient

from play.tiny import make_session
from regard.axes import Axis, Grid, Tokens
from regard.play.app import _ANSWERS, POSTS, build_play
from regard.recording import Memory, Recording
from regard.viewer.app import build_app
from regard.viewer.opened import Opened
from regard.viewer.replies import questions
from regard.viewer.work import Pool
from support.recordings import STATES, WORDS, sighted, write, write_training

_PORT, _TOKEN = 8124, "f" * 32
_OWN = f"http://127.0.0.1:{_PORT}"
_REQUESTS = 30

_ODD = (
    "", "0", "1", "2", "3", "4", "5", "7", "-1", "63", "64", "120", "999", "4294967296",
    "99999999999", "999999999999", "1" * 13, "nan", "NaN", "inf", "1e3", "1.5", "x", "L0H0", "L1H3",
    "L9H9", "L0H", "*", "L*H*", "cross.L0H0", "decoder.L0H0", "²", "١", "\x00", "a\nb", "é", "😀",
    " ", "null", "[]", "{}", "true", "L99999999999H0", "../..", "+1", "0x1", "L0H0,L9H9", "L0H0,",
    "max", "mean", "entropy", "decoder", "cross", "encoder", "x" * 300, "\ud800",
)  # fmt: skip
_FITTING = {
    "prompt": "0", "head": "L0H0", "row": "1", "row_count": "1", "key": "0", "key_count": "1",
    "level": "0", "x": "0", "y": "0", "side": "8", "start": "0", "count": "3", "stream": "",
    "top": "4", "query": "1", "number": "0", "statistic": "entropy", "bins": "4", "step": "0",
    "other": "0", "other_prompt": "0", "stack": "", "how": "mean", "heads": "L0H0", "layer": "0",
}  # fmt: skip


def check(seed: int) -> None:
    """Some requests to a model's page, or to recordings of every state."""
    dice = random.Random(seed)
    kind = dice.choice(["text", "pair", "view"])
    client, ids = _recordings() if kind == "view" else _playing(kind)
    for _ in range(_REQUESTS):
        if kind == "view" or dice.random() < 0.3:
            _ask_recording(client, dice)
        elif dice.random() < 0.6:
            _ask_reading(client, dice, ids)
        else:
            _post(client, dice, ids)


def _ask_recording(client: TestClient, dice: random.Random) -> None:
    name = dice.choice(list(questions()))
    number = str(dice.randrange(12)) if dice.random() < 0.9 else dice.choice(_ODD)
    path = f"/api/{quote(number.encode('utf-8', 'replace'), safe='')}/{name}"
    _is_fit(client.get(path, params=_given(dice, {})), path)


def _ask_reading(client: TestClient, dice: random.Random, ids: list[str]) -> None:
    name = dice.choice(list(_ANSWERS))
    own = {"id": dice.choice(ids)}
    if name != "lesson" and dice.random() < 0.8:
        own["head"] = "0"
    if dice.random() < 0.5:
        own["stack"] = dice.choice(["cross", "decoder"])
    path = f"/api/play/{name}"
    _is_fit(client.get(path, params=_given(dice, own)), path)


def _given(dice: random.Random, own: dict[str, str]) -> dict[str, str]:
    """Parameters that fit, a few of them replaced or left out."""
    given = _FITTING | own
    for name in dice.sample(list(given), dice.randrange(6)):
        if dice.random() < 0.3:
            del given[name]
        else:
            given[name] = dice.choice(_ODD).encode("utf-8", "replace").decode()
    if dice.random() < 0.5:
        given.pop(dice.choice(["query", "key", "layer"]), None)
    return given


def _post(client: TestClient, dice: random.Random, ids: list[str]) -> None:
    path, body = dice.choice(POSTS), _body(dice, ids)
    kind = dice.choice(["application/json", "application/octet-stream"])
    answer = client.post(path, content=body, headers={"origin": _OWN, "content-type": kind})
    asked = f"{path} {body[:200]!r}"
    if answer.status_code == 200 and path == "/api/play/read":
        last = json.loads(answer.text.splitlines()[-1])
        assert 400 <= last.get("status", 400) < 500, (asked, last)
    else:
        _is_fit(answer, asked)


def _is_fit(answer: Any, asked: str) -> None:
    assert answer.status_code < 500, (asked, str(answer.url), answer.text[:300])
    if answer.status_code >= 400:
        reason = answer.json()["error"]
        assert len(reason) > 5 and "\n" not in reason, (asked, reason)


def _body(dice: random.Random, ids: list[str]) -> bytes:
    if dice.random() < 0.3:
        asked = {name: _value(dice, 0) for name in dice.sample(_FIELDS, dice.randrange(4))}
    else:
        asked = {
            "text": dice.choice(["the", "the cat sat", "", " ", "\u200b", "<b>hi</b>", "\x00"])
        }
        asked |= {"id": dice.choice(ids)} if dice.random() < 0.2 else {}
        for name, make in _PLAUSIBLE.items():
            if dice.random() < 0.3:
                asked[name] = make(dice)
    text = json.dumps(asked)
    if dice.random() < 0.2:
        depth = dice.choice([10, 500, 5_000, 100_000])
        deep = dice.choice(["[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth])
        text = dice.choice([deep, f'{{"text":"the","heads":{deep}}}', f'{{"id":{deep}}}'])
    raw = text.encode(dice.choice(["utf-8"] * 6 + ["utf-16", "utf-32", "utf-8-sig"]))
    return raw[: dice.randrange(len(raw) + 1)] if dice.random() < 0.1 else raw


_FIELDS = ["text", "pair", "sound", "more", "heads", "edges", "id", "unknown"]


def _value(dice: random.Random, depth: int) -> Any:
    some = [None, True, -1, 0, 3, 2**31, 10**30, 1.5, float("nan"), "", "the", "\ud800", "L0H0"]
    if depth > 2 or dice.random() < 0.6:
        return dice.choice(some)
    return [_value(dice, depth + 1) for _ in range(dice.randrange(4))]


_NUMBERS = (0, 1, 2, 3, 7, 11, 63, 64, 999, 2**31 - 1, 2**31, -1)
_LABELS = ("L0H0", "L2H3", "L9H0", "L0H9", "cross.L0H0", "L*H0", "x", "L" + "9" * 40 + "H0", "L0H١")
_PLAUSIBLE = {
    "pair": lambda dice: dice.choice(["a dog", "", "\x00", "the " * 70]),
    "more": lambda dice: [dice.choice(_NUMBERS) for _ in range(dice.randrange(3))],
    "heads": lambda dice: [dice.choice(_LABELS) for _ in range(dice.randrange(3))],
    "edges": lambda dice: [
        [dice.choice(_NUMBERS), dice.choice(_NUMBERS), dice.choice(["", "", *_LABELS])]
        for _ in range(dice.randrange(3))
    ],
    "sound": lambda dice: dice.choice(["", "x", "0" * 24]),
}


@cache
def _playing(kind: str) -> tuple[TestClient, list[str]]:
    """A model's page, and readings of it: read at once, and grown by a token."""
    client = _client(build_play(make_session(kind), _TOKEN, _PORT, Pool(2)))
    ids = ["gone"]
    more = {"more": [3]} if kind == "text" else {"pair": "a dog"}
    for state in ({"text": "the cat sat"}, {"text": "the cat sat", **more}):
        answer = client.post(
            "/api/play/read", content=json.dumps(state),
            headers={"origin": _OWN, "content-type": "application/json"},
        )  # fmt: skip
        last = json.loads(answer.text.splitlines()[-1])
        ids.append(last["reading"]["id"])
    return client, ids


@cache
def _recordings() -> tuple[TestClient, list[str]]:
    """Recordings of every state that needs no file, of pictures, of a training run, and empty."""
    stores = []
    for name, make in STATES.items():
        if name != "damaged":
            stores.append(Memory())
            make(stores[-1])
    trained, worded = Memory(), Memory()
    write_training(trained)
    write(worded, list(WORDS))
    recordings = [
        sighted(Axis((Grid(4, 4), Tokens(2))))[0],
        *(Recording(store) for store in (*stores, trained, worded)),
    ]
    opened = [Opened(recording, number) for number, recording in enumerate(recordings)]
    return _client(build_app(opened, _TOKEN, _PORT, pool=Pool(2))), []


def _client(app: Any) -> TestClient:
    return TestClient(
        app, base_url=_OWN, headers={"x-regard-token": _TOKEN}, raise_server_exceptions=False
    )
