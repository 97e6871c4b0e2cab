"""One table of questions: the server and a page that is one file answer what stands in it."""

from __future__ import annotations

from typing import TypedDict

import pytest

from regard.errors import InputError
from regard.recording import open as open_recording
from regard.viewer.carried import carried_recording
from regard.viewer.opened import Opened
from regard.viewer.questions import QUESTIONS, Asked, Binary, Question, UnreadableError
from support.recordings import in_memory, on_disk
from viewer.served import client_of
from views.test_schema import check, facts_of


class LongestAnswer(TypedDict):
    prompt: int
    token: str


def longest(one, asked) -> LongestAnswer:
    asked.go_on()
    tokens = one.prompt(asked.prompt).tokens
    return {"prompt": asked.prompt, "token": max(tokens, key=len)}


def test_a_strangers_question_is_served_and_carried(monkeypatch, tmp_path):
    """The whole of the plumbing below a tab with data: one line of the table."""
    monkeypatch.setitem(QUESTIONS, "longest", Question(LongestAnswer, longest, carried=True))
    with open_recording(on_disk(tmp_path / "run.regard")) as recording:
        client = client_of(Opened(recording))
        served = client.get("/api/0/longest").json()
        assert served == {"prompt": 0, "token": max(recording.prompts[0].tokens, key=len)}
        assert client.get("/api/0/longest?prompt=x").status_code == 400
        assert client.get("/api/0/longest?prompt=9").status_code == 404
        assert facts_of(carried_recording(recording)[1])["longest"] == served


def test_answers_are_of_the_type_the_table_names():
    opened = Opened(in_memory(layers=2, prompts=2)[0])
    given = {"head": "L0H0", "row": "3", "other": "0", "other_prompt": "1", "key": "0",
             "level": "1", "y": "0", "x": "0", "heads": "L0H0,L0H1"}  # fmt: skip
    asked = Asked(given, [opened])
    for name, one in QUESTIONS.items():
        if one.kind is not Binary:
            check(one.answer(opened, asked), one.kind)
        elif name not in ("strips", "snapshot", "picture"):  # of which this recording has none
            assert isinstance(one.answer(opened, asked), Binary)


def test_parameters_are_read_strictly():
    asked = Asked({"row": "-1", "how": "sum", "rec": "3"}, [Opened(in_memory()[0])])
    for read in (lambda: asked.whole("row"), lambda: asked.label, lambda: asked.how):
        with pytest.raises(UnreadableError, match="give"):
            read()
    with pytest.raises(InputError, match="recording 3 does not exist; there are 1"):
        asked.recording("rec")
