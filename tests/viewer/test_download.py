"""A page to keep, made by the server."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from regard.viewer.app import build_app
from regard.viewer.guard import TOKEN_HEADER
from viewer.served import TOKEN, make_opened
from viewer.shell import Elements, use_small_page


@pytest.fixture
def client(tmp_path, monkeypatch):
    use_small_page(monkeypatch)
    app = build_app([make_opened(tmp_path)], TOKEN, 80, page={})
    return TestClient(app, base_url="http://127.0.0.1:80", headers={TOKEN_HEADER: TOKEN,
                      "host": "127.0.0.1:80"})  # fmt: skip


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
