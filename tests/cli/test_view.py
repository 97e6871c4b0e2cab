"""`regard view`: what is served, and what cannot be."""

from __future__ import annotations

import pytest

from regard.cli import view as module
from regard.viewer import serve as server
from support.recordings import on_disk


@pytest.fixture
def served(monkeypatch):
    """What the server is asked for, instead of a server."""
    calls = []

    def serve(paths, port, open_browser, say):
        calls.append(([path.name for path in paths], port, open_browser))
        say("http://127.0.0.1:1/#token=t")

    monkeypatch.setattr(server, "serve", serve)
    return calls


def test_files_in_their_order(served, tmp_path, capsys):
    module.view([tmp_path / "b.regard", tmp_path / "a.regard"], 0, True)
    assert served == [(["b.regard", "a.regard"], 0, True)]
    out, err = capsys.readouterr()
    assert out == "http://127.0.0.1:1/#token=t\n"  # nothing else, for whoever pipes it
    assert "a.regard" in err and "Ctrl-C" in err


def test_a_folder_stands_for_its_recordings(served, tmp_path):
    for name in ("z.regard", "a.regard", "notes.txt"):
        (tmp_path / name).touch()
    module.view([tmp_path], 8080, False)
    assert served == [(["a.regard", "z.regard"], 8080, False)]


def test_a_folder_of_ranks_is_one_recording(served, tmp_path):
    for rank in (0, 1):
        (tmp_path / f"rank-000{rank}.regard").touch()
    module.view([tmp_path], 0, False)
    assert served == [([tmp_path.name], 0, False)]


def test_what_is_no_recording(shell, tmp_path):
    status, out, err = shell("view", "--no-open", tmp_path)
    assert (status, out) == (2, "") and "no recording is in this folder" in err
    status, out, err = shell("view", "--no-open", tmp_path / "none.regard")
    assert (status, out) == (3, "") and len(err.splitlines()) == 1
    (tmp_path / "bad.regard").write_bytes(b"not a recording")
    status, out, err = shell("view", "--no-open", tmp_path / "bad.regard")
    assert (status, out) == (3, "") and len(err.splitlines()) == 1


def test_a_port_that_is_none(shell, tmp_path):
    path = on_disk(tmp_path / "run.regard")
    status, out, err = shell("view", "--no-open", "--port", "70000", path)
    assert (status, out) == (2, "") and "port 70000" in err
