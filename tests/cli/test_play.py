"""`regard play`: what is started, and what is refused in one line."""

from __future__ import annotations

import pytest

from regard.cli import play as module
from regard.play import serve as server


@pytest.fixture
def played(monkeypatch):
    """What the server is asked for, instead of a model and a server."""
    calls = []

    class Session:
        name = "tiny"

    def serve(session, port, open_browser, say, *, script):
        calls.append((session.name, port, open_browser, script))
        say("http://127.0.0.1:1/#token=t")

    monkeypatch.setattr(server, "prepare", lambda model, device: calls.append(model) or Session())
    monkeypatch.setattr(server, "play", serve)
    return calls


def test_smollm2_where_no_model_is_named(shell, played):
    status, out, err = shell("play", "--no-open")
    assert (status, out) == (0, "http://127.0.0.1:1/#token=t\n")  # nothing else, for a pipe
    assert "tiny" in err and "Ctrl-C" in err
    assert played == ["smollm2", ("tiny", None, False, [])]


def test_a_script_is_read_before_the_model(shell, played, tmp_path):
    script = tmp_path / "talk.txt"
    script.write_text("prompt The cat\nnext\n")
    assert shell("play", "minilm", "--port", 0, "--script", script)[0] == 0
    steps = [{"do": "prompt", "words": ["The cat"]}, {"do": "next", "words": []}]
    assert played == ["minilm", ("tiny", 0, True, steps)]
    script.write_text("jump\n")
    played.clear()
    status, out, err = shell("play", "--script", script)
    assert (status, out, played) == (2, "", [])
    assert err.startswith("regard: ") and "talk.txt:1: 'jump' is no step" in err
    assert shell("play", "--script", tmp_path / "none.txt")[0] == 3


def test_the_usual_port_or_a_free_one():
    from regard.viewer.loopback import bound

    with bound(0) as taken:
        port = taken.getsockname()[1]
        assert not server._is_free(port)
    assert server._is_free(port)
    assert module.play.__doc__
