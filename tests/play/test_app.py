"""Every address of the page that plays, asked as its browser asks."""

from __future__ import annotations

import json

import numpy as np
import pytest
from starlette.testclient import TestClient

import regard
from play.tiny import TEXT, make_session
from regard.play.app import POSTS, build_play
from regard.play.requests import MOST_BYTES
from regard.viewer.work import Pool

PORT, TOKEN = 8124, "p" * 32
OWN = f"http://127.0.0.1:{PORT}"
KEY = {"x-regard-token": TOKEN}


@pytest.fixture(scope="module")
def client():
    pool = Pool(2)
    app = build_play(make_session(), TOKEN, PORT, pool, [{"do": "next", "words": []}])
    yield TestClient(app, base_url=OWN, headers=KEY)
    pool.close()


def _post(client, path, body, **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    own = {"origin": OWN, "content-type": "application/json"} | headers
    return client.post(path, content=content, headers=own)


def _lines(answer):
    assert answer.status_code == 200
    return [json.loads(line) for line in answer.text.splitlines()]


def _reading(client, **asked):
    return _lines(_post(client, "/api/play/read", {"text": TEXT, **asked}))[-1]["reading"]


def test_a_prompt_is_read_layer_by_layer(client):
    *progress, last = _lines(_post(client, "/api/play/read", {"text": f"{TEXT} dog"}))
    assert progress == [{"done": n, "of": 3} for n in (1, 2, 3)]
    made = last["reading"]
    assert made["texts"] == [*TEXT.split(), "dog"]
    assert [(one["layers"], one["heads"]) for one in made["stacks"]] == [(3, 4)]
    assert made["next"][0].keys() == {"id", "text"}


def test_its_weights_and_logits(client):
    made = _reading(client)
    answer = client.get("/api/play/weights", params={"id": made["id"], "row": 0, "row_count": 12})
    sizes = [
        int(answer.headers[f"x-regard-{name}"]) for name in ("layers", "heads", "rows", "keys")
    ]
    weights = np.frombuffer(answer.content, "<f4").reshape(sizes)
    assert sizes == [3, 4, 12, 12]
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    one = client.get(
        "/api/play/weights", params={"id": made["id"], "row": 7, "layer": 2, "head": 3}
    )
    assert one.content == weights[2, 3, 7].tobytes()
    logits = np.frombuffer(client.get("/api/play/logits", params={"id": made["id"]}).content, "<f4")
    assert made["next"][0]["id"] == int(logits.argmax())


def test_a_knock_out_moves_the_logits(client):
    made, less = _reading(client), _reading(client, heads=["L0H0"], edges=[[5, 2, ""]])
    assert made["id"] != less["id"]
    both = [
        client.get("/api/play/logits", params={"id": one["id"]}).content for one in (made, less)
    ]
    assert both[0] != both[1]


def test_its_heads_its_rollout_and_its_lesson(client):
    made = _reading(client)
    found = client.get("/api/play/heads", params={"id": made["id"]}).json()
    assert len(found["map"]) == 12 and found["cards"]
    assert {card["label"] for card in found["cards"]} <= {one["label"] for one in found["map"]}
    cards = client.get("/api/play/effects", params={"id": made["id"]}).json()["cards"]
    assert len(cards) == 4 and all("→" in card["note"] for card in cards)
    shares = client.get("/api/play/rollout", params={"id": made["id"], "row": 5}).content
    assert np.frombuffer(shares, "<f4").sum() == pytest.approx(1, abs=1e-5)
    asked = {"id": made["id"], "head": "L1H2", "row": 5, "key": 2}
    real = client.get("/api/play/lesson", params=asked).json()["real"]
    scores = np.array(real["queries"]) @ np.array(real["keys"]).T * real["scale"]
    scores[~np.tri(12, dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    own = client.get(
        "/api/play/weights", params={"id": made["id"], "row": 5, "layer": 1, "head": 2}
    )
    np.testing.assert_allclose(weights[5], np.frombuffer(own.content, "<f4"), atol=1e-4)
    assert (real["row"], real["causal"]) == (5, True)
    assert f"{weights[5, 2]:.3f}"[:4] in real["words"]["values"]["weight"]


def test_it_can_be_saved_and_opened(client, tmp_path):
    made = _reading(client, more=[5])
    answer = client.get("/api/play/file", params={"id": made["id"]})
    assert "attachment" in answer.headers["content-disposition"]
    (tmp_path / "x.regard").write_bytes(answer.content)
    with regard.open(tmp_path / "x.regard") as recording:
        assert recording.tokens == made["texts"]
        own = client.get(
            "/api/play/weights", params={"id": made["id"], "row": 12, "layer": 0, "head": 1}
        )
        row = np.frombuffer(own.content, "<f4")
        np.testing.assert_allclose(recording["L0H1"].rows(12), row, atol=1e-5)
    numbers = [_post(client, "/api/play/open", {"id": made["id"]}).json()["number"] for _ in "ab"]
    assert numbers[0] == numbers[1]
    overview = client.get(f"/api/{numbers[0]}/overview").json()
    assert (len(overview["heads"]), overview["name"]) == (12, "".join(made["texts"])[:40])
    assert client.get(f"/api/{numbers[0]}/page?head=L0H1").status_code == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"x", 400), ({"text": " "}, 422), ({"text": "cat " * 99}, 422), ({"path": "/"}, 400),
     ({"text": "cat", "heads": ["L9H9"]}, 422)],
)  # fmt: skip
def test_what_cannot_be_read_is_one_sentence(client, body, status):
    last = _lines(_post(client, "/api/play/read", body))[-1]
    assert last["status"] == status and last["error"] and "\n" not in last["error"]


def test_a_reading_that_is_not_here(client):
    for path in ("weights?id=x&row=0", "heads?id=x", "logits?id=x", "file?id=x", "lesson?id=x"):
        assert client.get(f"/api/play/{path}").status_code == 410
    assert _post(client, "/api/play/open", {"id": "x"}).status_code == 410
    assert _post(client, "/api/play/open", b"[]").status_code == 400


def test_too_much_is_not_read(client):
    assert _post(client, "/api/play/read", b" " * (MOST_BYTES + 1)).status_code == 413


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": ""}, 403),
        ({"host": "evil.example:8124"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"content-type": "text/plain"}, 403),
        ({"content-type": "multipart/form-data; boundary=x"}, 403),
        ({"x-regard-token": "q" * 32}, 401),
    ],
)
def test_whoever_else_posts_is_refused(client, path, headers, status):
    assert _post(client, path, {"text": "cat"}, **headers).status_code == status


def test_a_post_without_an_origin_is_refused(client):
    body = {"content": b"{}", "headers": {"content-type": "application/json"}}
    assert client.post("/api/play/read", **body).status_code == 403


def test_nothing_else_takes_a_post(client):
    for path in ("/", "/api/recordings", "/api/play/about", "/api/play/heads", "/api/play/read/"):
        assert _post(client, path, {}).status_code == 405
    assert client.get("/api/play/read").status_code == 405


def test_the_page_says_which_room_it_is(client):
    about = client.get("/api/play/about").json()
    assert (about["kind"], about["positions"]) == ("text", 64)
    assert about["script"] == [{"do": "next", "words": []}]
    assert '{"kind":"play"}' in client.get("/").text


def test_a_row_that_is_not_there_is_named(client):
    made = _reading(client)
    count = len(made["texts"])
    for row, key in ((count, 0), (999, 0), (0, count), (10**11, 0)):
        asked = {"id": made["id"], "head": "L0H0", "row": row, "key": key}
        answer = client.get("/api/play/lesson", params=asked)
        assert answer.status_code == 404
        assert f"does not exist; there are 0–{count - 1}" in answer.json()["error"]


@pytest.mark.parametrize("deep", [b"[" * 100_000, b'{"id":' * 50_000, b'{"text":' * 50_000])
def test_what_is_nested_too_deeply_is_refused(client, deep):
    for body in (deep, deep + (b"]" if deep[:1] == b"[" else b"}") * 100_000):
        last = _lines(_post(client, "/api/play/read", body))[-1]
        assert last["status"] == 400 and "nested too deeply" in last["error"]
        answer = _post(client, "/api/play/open", body)
        assert answer.status_code == 400 and "nested too deeply" in answer.json()["error"]


def test_an_encoder_has_no_generation_config_and_every_answer():
    pool = Pool(2)
    app = build_play(make_session("pair"), TOKEN, PORT, pool)
    client = TestClient(app, base_url=OWN, headers=KEY, raise_server_exceptions=False)
    about = client.get("/api/play/about")
    assert about.status_code == 200 and about.json()["start"] is None
    asked = {"text": "the cat", "pair": "a dog"}
    last = _lines(_post(client, "/api/play/read", asked | {"more": [3]}))[-1]
    assert last["status"] == 422 and "writes no text" in last["error"]
    made = _lines(_post(client, "/api/play/read", asked))[-1]
    key = made["reading"]["id"]
    for name in ("heads", "effects", "weights", "logits", "rollout", "lesson", "file"):
        asked = {"id": key, "row": 1, "key": 1, "head": "L0H0"}
        if name == "weights":
            del asked["head"]
        assert client.get(f"/api/play/{name}", params=asked).status_code == 200, name
    pool.close()


def test_what_fails_unforeseen_is_still_an_answer_in_words(monkeypatch):
    session, pool = make_session(), Pool(2)
    monkeypatch.setattr(session, "about", lambda: 1 / 0)
    app = build_play(session, TOKEN, PORT, pool)
    client = TestClient(app, base_url=OWN, headers=KEY, raise_server_exceptions=False)
    answer = client.get("/api/play/about")
    assert answer.status_code == 500 and "something went wrong" in answer.json()["error"]
    pool.close()
