"""`regard view` and `regard play`: what is served; the servers have tests of their own."""

from __future__ import annotations

import pytest

from regard.errors import InputError
from regard.play import serve as player
from regard.viewer import serve as viewer

ADDRESS = "http://127.0.0.1:1/#token=t"


@pytest.fixture
def viewed(monkeypatch):
    """What the server of recordings is asked for, instead of a server."""
    calls = []

    def serve(paths, port, open_browser, say):
        calls.append(([path.name for path in paths], port, open_browser))
        say(ADDRESS)

    monkeypatch.setattr(viewer, "serve", serve)
    return calls


@pytest.fixture
def played(monkeypatch):
    """What the server of a model is asked for, instead of a model and a server."""
    calls = []

    class Session:
        name = "tiny"

    def serve(session, port, open_browser, say, *, text, script):
        calls.append((session.name, port, open_browser, text, script))
        say(ADDRESS)

    def prepare(model, device):
        calls.append((model, device))
        return Session()

    monkeypatch.setattr(player, "prepare", prepare)
    monkeypatch.setattr(player, "play", serve)
    return calls


def test_recordings_in_their_order_and_the_address_alone_on_stdout(shell, viewed):
    status, out, err = shell("view", "b.regard", "a.regard")
    assert (status, out) == (0, f"{ADDRESS}\n") and "b.regard, a.regard; Ctrl-C" in err
    assert viewed == [(["b.regard", "a.regard"], 0, True)]


@pytest.mark.parametrize(
    ("there", "shown"),
    [(["z.regard", "a.regard", "notes.txt"], ["a.regard", "z.regard"]),
     (["rank-0000.regard", "rank-0001.regard"], ["run"])],
)  # fmt: skip
def test_a_folder_is_its_recordings_and_one_of_ranks_is_one(shell, viewed, tmp_path, there, shown):
    (tmp_path / "run").mkdir()
    for name in there:
        (tmp_path / "run" / name).touch()
    assert shell("view", tmp_path / "run", "--port", 8080, "--no-open")[0] == 0
    assert viewed == [(shown, 8080, False)]


def test_smollm2_where_no_model_is_named(shell, played):
    status, out, err = shell("play", "--no-open")
    assert (status, out) == (0, f"{ADDRESS}\n") and "tiny" in err and "Ctrl-C" in err
    assert played == [("smollm2", None), ("tiny", None, False, "", [])]


def test_a_prompt_and_a_script_read_before_the_model(shell, refused, played, tmp_path):
    script = tmp_path / "talk.txt"
    script.write_text("prompt The cat\nnext\n")
    words = ("--port", 0, "--device", "cpu", "--text", "1 + 1 = é&?", "--script", script)
    assert shell("play", "minilm", *words)[0] == 0
    steps = [{"do": "prompt", "words": ["The cat"]}, {"do": "next", "words": []}]
    assert played == [("minilm", "cpu"), ("tiny", 0, True, "1 + 1 = é&?", steps)]
    script.write_text("jump\n")
    assert "talk.txt:1: 'jump' is no step" in refused("play", "--script", script)
    assert len(played) == 2


def test_the_address_of_a_page_carries_the_prompt(monkeypatch):
    given = []
    monkeypatch.setattr(
        player, "run_app", lambda *words, fragment: given.append((words[1], fragment))
    )

    class Session:
        name, kind = "tiny", "text"

        def close(self):
            given.append("closed")

    for text in ("", "1 + 1 = é&?#"):
        player.play(Session(), 5, False, text=text)
    assert given == [(5, ""), "closed", (5, "&p=1+%2B+1+%3D+%C3%A9%26%3F%23"), "closed"]
    Session.kind = "sound"
    with pytest.raises(InputError, match="tiny reads sound; choose a file on the page"):
        player.play(Session(), 5, False, text="a")
