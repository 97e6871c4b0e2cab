"""Questions about pictures: what is answered, in which type, and what is refused."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest

from regard.axes import Axis, Grid, Tokens
from regard.viewer.carried import carried_recording
from regard.viewer.opened import Opened
from support.recordings import in_memory
from support.recordings.sighted import png, scene, sighted
from viewer.served import client_of
from viewer.shell import facts_of

WORDS = ["<s>", *["<image>"] * 12, " red", " ball"]
AXIS = Axis((Tokens(1), Grid(3, 4), Tokens(2)))
VIT = Axis((Grid(4, 4, merge=2, prefix=1, names=("class",)),))


def asked(recording):
    return client_of(Opened(recording))


def test_rows_and_columns_of_many_heads_come_at_once():
    rec, made = sighted(AXIS, tokens=WORDS)
    client, truth = asked(rec), made[1].truth.weights()
    found = client.get("/api/0/overlay?heads=L1H0,L1H3&query=14")
    assert found.headers["content-type"] == "application/octet-stream"
    numbers = np.frombuffer(found.content, "<f4").reshape(2, 2, 15)
    assert numbers[:, 0] == pytest.approx(truth[[0, 3], 14], abs=1e-5)
    assert numbers[:, 1] == pytest.approx(15 * truth[[0, 3], 14], abs=1e-4)
    column = client.get("/api/0/overlay?heads=L1H2&key=4").content
    assert np.frombuffer(column, "<f4")[:15] == pytest.approx(truth[2, :, 4], abs=1e-5)


@pytest.mark.parametrize(
    ("question", "status"),
    [
        ("heads=L0H0", 400),
        ("heads=L0H0&query=1&key=1", 400),
        ("query=1", 400),
        ("heads=L0H0,&query=1", 400),
        (f"heads={','.join(['L0H0'] * 65)}&query=1", 400),
        ("heads=L0H0&query=-1", 400),
        ("heads=L0H0&query=15", 404),
        ("heads=L9H0&query=1", 404),
    ],
)
def test_questions_that_cannot_be_are_refused_in_one_line(question, status):
    found = asked(sighted(AXIS)[0]).get(f"/api/0/overlay?{question}")
    assert found.status_code == status
    assert "\n" not in found.json()["error"]


def test_a_picture_is_served_as_what_it_is():
    rec, _ = sighted(AXIS)
    found = asked(rec).get("/api/0/picture")
    assert found.content == rec.prompts[0].picture()
    assert found.headers["content-type"] == "image/png"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert "img-src 'self' data: blob:" in found.headers["content-security-policy"]
    assert asked(rec).get("/api/0/picture?number=1").status_code == 404
    assert asked(in_memory()[0]).get("/api/0/picture").status_code == 404


@pytest.mark.parametrize(
    "hostile", [b"<svg onload=alert(1)>", b"<!doctype html>", b"", b"\xff\xd8"]
)
def test_bytes_that_are_no_picture_are_not_handed_out(hostile):
    rec, _ = sighted(AXIS, pictures=[hostile or b"\0"])
    found = asked(rec).get("/api/0/picture")
    assert found.status_code == 500
    assert found.headers["content-type"] == "application/json"
    assert facts_of(carried_recording(rec)[1])["pictures"] == [None]


def test_sight_says_what_positions_are():
    rec, _ = sighted(VIT)
    told = asked(rec).get("/api/0/sight").json()
    (axis,) = told["axes"]
    assert axis[0]["grid"]["order"][:6] == [0, 1, 4, 5, 2, 3]
    assert axis[0]["grid"]["prefix"] == ["class"]
    assert told["places"]["L1"]["queries"] == told["places"]["L1"]["keys"] == 0
    assert told["pictures"] == [
        {"width": 96, "height": 96, "type": "image/png", "title": "scene 0", "seconds": None}
    ]
    text = asked(in_memory()[0]).get("/api/0/sight").json()
    assert text == {"pictures": [], "axes": [], "places": {}}


def test_a_page_that_is_one_file_carries_its_pictures():
    rec, _ = sighted(AXIS, tokens=WORDS)
    data, blobs = carried_recording(rec)
    facts = facts_of(blobs)
    (blob,) = facts["pictures"]
    assert zlib.decompress(blobs[blob]) == rec.prompts[0].picture()
    assert facts["heads"]["L0H0"]["carried"]["blob"] == 2
    assert data["carries"]["form"] == "exact"
    assert facts["sight"]["axes"][0][1]["grid"]["height"] == 3


def test_pictures_beyond_the_room_are_left_out_and_told():
    noise = np.random.default_rng(0).integers(0, 255, (200, 200, 3), np.uint8)
    two = Axis((Grid(3, 4), Grid(3, 4, picture=1)))
    rec, _ = sighted(two, pictures=[png(noise), png(scene(32, 32))])
    data, blobs = carried_recording(rec, limit=100_000)
    assert facts_of(blobs)["pictures"] == [None, 1]
    assert any("1 picture did not fit" in one for one in data["carries"]["words"])
    assert sum(len(base64.b64encode(one)) for one in blobs) <= 100_000
