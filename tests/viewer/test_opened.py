"""A recording that grows while it is served, and heads that many threads ask for."""

from __future__ import annotations

import threading

import pytest

from regard.errors import InputError
from regard.recording import Writer, open
from regard.recording.schema import CONTENTS
from regard.viewer import opened as module
from regard.viewer.opened import Opened
from support.recordings import WORDS, write
from viewer.served import make_empty, make_opened


def test_names_are_those_of_files_not_of_folders(tmp_path):
    one = make_opened(tmp_path)
    assert one.name == "run.regard"
    assert str(tmp_path) not in repr(one.report(0)["file"])


def test_what_does_not_exist_is_said(tmp_path):
    one = make_opened(tmp_path)
    with pytest.raises(InputError, match=r"prompt 1 does not exist; run\.regard has 1"):
        one.prompt(1)
    with pytest.raises(InputError, match="head 9 does not exist"):
        one.head(0, "L0H9")


def test_a_finished_recording_is_looked_at_once(tmp_path, monkeypatch):
    one, looks = make_opened(tmp_path), []
    look = one.recording.refresh
    monkeypatch.setattr(one.recording, "refresh", lambda: (looks.append(1), look())[1])
    assert [one.refresh() for _ in range(3)] == [False] * 3
    assert looks == [1]
    assert one.revision == 0


def test_a_growing_recording_is_taken_in(tmp_path):
    path = tmp_path / "live.regard"
    with Writer(path) as writer:
        writer.note({"contents": CONTENTS})
        one = Opened(open(path))
        assert one.recording.is_live
        assert len(one.recording.prompts) == 0
        write(writer, WORDS, layers=1)
        assert one.refresh()
        assert (one.revision, len(one.recording.prompts)) == (1, 1)
        before = one.head_map(0, "L0H0")
        assert one.head_map(0, "L0H0") is before
        assert not one.refresh()
    one.refresh()
    assert not one.recording.is_live
    one.close()


def test_maps_of_an_earlier_revision_are_not_given(tmp_path):
    path = tmp_path / "live.regard"
    with Writer(path) as writer:
        write(writer, WORDS, layers=1)
        one = Opened(open(path))
        first = one.head_map(0, "L0H0")
        writer.note({"made": "{}"})
        assert one.refresh()
        assert one.head_map(0, "L0H0") is not first


def test_the_report_is_made_once(tmp_path, monkeypatch):
    one, made = make_opened(tmp_path), []
    real = module.make_report
    monkeypatch.setattr(module, "make_report", lambda *a, **k: (made.append(1), real(*a, **k))[1])
    threads = [threading.Thread(target=one.report, args=(0,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    assert one.report(0)["tokens"] == len(WORDS)


def test_an_empty_recording_can_be_served():
    one = make_empty()
    assert one.refresh() is False
    with pytest.raises(InputError, match="has 0 prompts"):
        one.report(0)


def test_something_remembered_is_made_anew_when_the_recording_grows(tmp_path):
    path, made = tmp_path / "live.regard", []
    with Writer(path) as writer:
        write(writer, WORDS, layers=1)
        one = Opened(open(path))

        def ask():
            return one.remembered("what", 0, lambda: made.append(1) or len(made), 8)

        assert [ask(), ask()] == [1, 1]
        writer.note({"made": "{}"})
        one.refresh()
        assert ask() == 2


def test_a_report_of_what_grew_is_made_anew(tmp_path):
    path = tmp_path / "live.regard"
    with Writer(path) as writer:
        write(writer, WORDS, layers=1)
        one = Opened(open(path))
        first = one.report(0)
        assert any("still being written" in doubt for doubt in first["doubts"])
        writer.note({"made": "{}"})
        one.refresh()
        assert one.report(0) is not first
