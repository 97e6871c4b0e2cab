"""`regard play`: what is started, and what is refused in one line."""

from __future__ import annotations

import pytest

from regard.cli import play as module
from regard.errors import InputError
from regard.play import serve as server


@pytest.fixture
def played(monkeypatch):
    """What the server is asked for, instead of a model and a server."""
    calls = []

    class Session:
        name = "tiny"

    def serve(session, port, open_browser, say, *, text, script):
        calls.append((session.name, port, open_browser, *([text] if text else []), script))
        say("http://127.0.0.1:1/#token=t")

    monkeypatch.setattr(server, "prepare", lambda model, device: calls.append(model) or Session())
    monkeypatch.setattr(server, "play", serve)
    return calls


def test_smollm2_where_no_model_is_named(shell, played):
    status, out, err = shell("play", "--no-open")
    assert (status, out) == (0, "http://127.0.0.1:1/#token=t\n")  # nothing else, for a pipe
    assert "tiny" in err and "Ctrl-C" in err
    assert played == ["smollm2", ("tiny", None, False, [])]


def test_the_page_opens_at_a_prompt(shell, played, monkeypatch):
    assert shell("play", "--text", "1 + 1 = é&?", "--no-open")[0] == 0
    assert played == ["smollm2", ("tiny", None, False, "1 + 1 = é&?", [])]


def test_the_address_of_a_page_carries_the_prompt(monkeypatch):
    monkeypatch.undo()
    given = []
    monkeypatch.setattr(
        server, "run_app", lambda *words, fragment: given.append((words[1], fragment))
    )

    class Session:
        name, kind = "tiny", "text"

        def close(self):
            given.append("closed")

    for text in ("", "1 + 1 = é&?#"):
        server.play(Session(), 5, False, text=text)
    assert given == [(5, ""), "closed", (5, "&p=1+%2B+1+%3D+%C3%A9%26%3F%23"), "closed"]
    Session.kind = "sound"
    with pytest.raises(InputError, match="tiny reads sound; choose a file on the page"):
        server.play(Session(), 5, False, text="a")


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
