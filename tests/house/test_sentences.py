"""Every sentence of the lesson comes from the language tables; and the checks can fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from house.checks.sentences import (
    missing_names,
    unused_names,
    written_in_page,
    written_in_story,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def clone(tmp_path):
    """A lesson of one sentence, said once by the page and once by the terminal."""
    for folder in ("src/regard/learn/languages", "src/regard/learn/story", "web/src/learner"):
        (tmp_path / folder).mkdir(parents=True)
    table = {"story": {"title": "All of it"}, "page": {"title": "All of it"}}
    (tmp_path / "src/regard/learn/languages/en.json").write_text(json.dumps(table))
    (tmp_path / "src/regard/learn/story/told.py").write_text(
        '"""A doc string."""\nsay("story.title")\n'
    )
    room = '<p class="one two">{say("page.title")}</p>; // a comment of words\n'
    (tmp_path / "web/src/learner/Room.tsx").write_text(room)
    return tmp_path


def add(clone, line, where="web/src/learner/Room.tsx"):
    path = clone / where
    path.write_text(path.read_text() + line + "\n")


@pytest.mark.parametrize("check", [missing_names, unused_names, written_in_page, written_in_story])
def test_the_lesson_passes(check, clone):
    assert check(ROOT) == []
    assert check(clone) == []


def test_a_name_without_a_sentence_is_seen(clone):
    add(clone, '<Say name="page.nothing" />')
    assert missing_names(clone) == ["web/src/learner/Room.tsx: page.nothing"]
    add(clone, 'say("story.nothing", count=1)', "src/regard/learn/story/told.py")
    assert len(missing_names(clone)) == 2


def test_a_sentence_that_nobody_says_is_seen(clone):
    (clone / "src/regard/learn/story/told.py").write_text("")
    assert unused_names(clone) == ["story.title"]


@pytest.mark.parametrize(
    "line",
    [
        "<p>Rows are tokens; columns are not.</p>",
        "<p>\n  The row of <b>{name}</b> sums to 1.\n</p>",
        "<p>{count} numbers changed</p>",
        '<button title="Dark or light" />',
        '<nav aria-label="All steps" />',
        '<input placeholder="Type a number" />',
        "<svg aria-label={`The query of ${name}`} />",
        'const WORDS = ["what a token asks"];',
    ],
)
def test_words_in_the_page_are_seen(clone, line):
    add(clone, line)
    (found,) = written_in_page(clone)[:1]
    assert found.startswith("web/src/learner/Room.tsx: ")


@pytest.mark.parametrize(
    "line",
    [
        "<p>softmax(Q Kᵀ / √d_k)</p>",
        "const d = { w_q: 1 } as const;",
        'throw new Error("no such sentence");',
        "<code>{COMMAND}</code>",
        'const COMMAND = "regard learn";',
        'import { one } from "../some where";',
    ],
)
def test_symbols_and_code_are_no_words(clone, line):
    add(clone, line)
    assert written_in_page(clone) == []


@pytest.mark.parametrize("line", ['why = "Scores become shares."', 'why = f"the row of {name}"'])
def test_words_in_the_story_are_seen(clone, line):
    add(clone, line, "src/regard/learn/story/told.py")
    (found,) = written_in_story(clone)
    assert found.startswith("src/regard/learn/story/told.py: ")
