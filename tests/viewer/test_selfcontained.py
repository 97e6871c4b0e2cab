"""One HTML file: what is in it, what it lets happen, and the same made by the server."""

from __future__ import annotations

import base64
import json

import pytest

from regard.errors import UnavailableError
from regard.viewer import selfcontained
from regard.viewer.selfcontained import DATA, make_page, room_in
from viewer.served import client_of, make_opened
from viewer.shell import SCRIPT, Elements, use_small_page

EVIL = '</script><script>alert(1)</script><!-- & "quoted" \u2028 \ud800'


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    use_small_page(monkeypatch)


def test_script_and_style_are_in_the_page_whole():
    page = Elements(make_page({"kind": "lesson"}, title="a title"))
    script = page.text("script", type="module")
    assert script == SCRIPT.replace("</", r"<\/")
    assert page.text("style").count("content") == 1
    assert [a for t, a, _ in page.found if t == "script" and "src" in a] == []
    assert ("link", {"rel": "icon", "href": "data:,"}, "") in page.found


def test_the_policy_names_what_is_there_and_nothing_else():
    page = Elements(make_page({}, title=""))
    policy = page.policy()
    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == [page.hashed(page.text("script", type="module"))]
    assert policy["style-src"] == [page.hashed(page.text("style"))]
    assert policy["img-src"] == ["data:", "blob:"]
    assert "connect-src" not in policy


def test_no_text_leaves_its_element():
    page = Elements(make_page({"token": EVIL}, title=EVIL.replace("\ud800", "")))
    assert json.loads(page.text("script", id=DATA)) == {"token": EVIL}
    assert page.text("title") == EVIL.replace("\ud800", "")
    assert [t for t, _, _ in page.found].count("script") == 2


def test_blobs_are_text_that_the_page_decodes():
    blobs = [b"\x00\xff" * 100, b""]
    page = Elements(make_page({}, title="", blobs=blobs))
    texts = [page.text("script", id=f"regard-blob-{n}") for n in range(2)]
    assert [base64.b64decode(text) for text in texts] == blobs


def test_room_is_what_the_page_itself_leaves():
    page = make_page({}, title="", blobs=[])
    assert 10_000 - room_in(10_000) == pytest.approx(len(page.encode()), abs=64)


def test_without_the_built_page_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(selfcontained, "load_page", dict)
    with pytest.raises(UnavailableError, match=r"make page.*wheel"):
        make_page({}, title="")


@pytest.fixture
def client(tmp_path, monkeypatch):
    use_small_page(monkeypatch)
    return client_of(make_opened(tmp_path), page={})


def test_one_head_is_a_file_of_its_own_name(client):
    got = client.get("/api/0/page?head=L0H1")
    assert got.status_code == 200
    assert got.headers["content-type"].startswith("text/html")
    assert got.headers["content-disposition"] == 'attachment; filename="run-L0H1.html"'
    data = Elements(got.text).text("script", id="regard-data")
    assert '"heads":["L0H1"]' in data


def test_without_a_head_it_is_the_recording(client):
    got = client.get("/api/0/page")
    assert got.headers["content-disposition"] == 'attachment; filename="run.html"'


def test_what_is_not_there_is_not_found(client):
    assert client.get("/api/0/page?head=L9H9").status_code == 404
    assert client.get("/api/0/page?prompt=7").status_code == 404
