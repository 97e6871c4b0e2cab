"""A recording that grows while it is served, heads that many threads ask for, what the first page
asks for, and the page's own files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import regard.viewer
from regard.errors import InputError
from regard.recording import Writer, open
from regard.recording.schema import CONTENTS
from regard.viewer import answers
from regard.viewer.files import PAGE_FILES, load_page
from regard.viewer.opened import Opened
from regard.viewer.serve import warm_up
from regard.viewer.work import Pool
from support.recordings import WORDS, write
from viewer.served import make_empty, make_opened


def test_what_does_not_exist_is_said(tmp_path):
    one = make_opened(tmp_path)
    with pytest.raises(InputError, match=r"prompt 1 does not exist; run\.regard has 1"):
        one.prompt(1)
    with pytest.raises(InputError, match="head 9 does not exist"):
        one.head(0, "L0H9")


def test_what_grew_is_made_anew_and_what_did_not_is_remembered(tmp_path):
    path = tmp_path / "live.regard"
    with Writer(path) as writer:
        writer.note({"contents": CONTENTS})
        opened = Opened(open(path))
        assert opened.recording.is_live and len(opened.recording.prompts) == 0
        write(writer, WORDS, layers=1)
        assert opened.refresh() and not opened.refresh()
        assert (opened.revision, len(opened.recording.prompts)) == (1, 1)
        made = iter(range(9))

        def kept():
            number = opened.remembered("what", 0, lambda: next(made), 8)
            return opened.head_map(0, "L0H0"), opened.report(0), number

        before = kept()
        assert all(new is old for new, old in zip(kept(), before, strict=True))
        assert any("still being written" in doubt for doubt in before[1]["doubts"])
        writer.note({"made": "{}"})
        assert opened.refresh()
        assert not any(new is old for new, old in zip(kept(), before, strict=True))
    opened.refresh()
    assert not opened.recording.is_live
    opened.close()


def test_threads_share_a_report(tmp_path):
    opened = make_opened(tmp_path)
    with ThreadPoolExecutor(3) as threads:
        first, *others = threads.map(opened.report, [0] * 3)
    assert all(report is first for report in others) and first["tokens"] == len(WORDS)


def test_an_empty_recording_can_be_served():
    opened = make_empty()
    assert opened.refresh() is False
    with pytest.raises(InputError, match="has 0 prompts"):
        opened.report(0)


@pytest.fixture
def pool():
    one = Pool(1)
    yield one
    one.close()


def test_the_first_page_is_made_before_it_is_asked_for(tmp_path, pool, monkeypatch):
    one = make_opened(tmp_path)
    warm_up([one], pool).result(timeout=300)
    monkeypatch.setattr(answers, "thumbnails_of", None)  # nothing is computed any more
    assert answers.thumbnails(one).kinds.any()


def test_a_recording_without_a_prompt_is_no_trouble(pool):
    assert warm_up([make_empty()], pool).result(timeout=300) is None


STATIC = Path(regard.viewer.__file__).parent / "static"


def test_what_is_built_is_loaded_and_the_rest_left_out():
    built = {address for address, (name, _) in PAGE_FILES.items() if (STATIC / name).exists()}
    assert set(load_page()) == built


def test_names_stay_inside_their_folder():
    for name, kind in PAGE_FILES.values():
        assert "/" not in name
        assert ".." not in name
        assert kind.endswith("charset=utf-8")
