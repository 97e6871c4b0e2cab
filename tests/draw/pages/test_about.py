"""What a recording says of itself."""

from __future__ import annotations

import json
import os

import pytest

from regard.draw import Paper, finished, plain
from regard.draw.pages.about import (
    kept_lines,
    model_lines,
    prompt_lines,
)
from regard.draw.spelling import cells
from regard.recording import Memory, Recording, Writer, open
from support.recordings import HOSTILE, in_memory, on_disk, write

PAPER = Paper()


def test_the_model_and_the_file(tmp_path):
    with open(on_disk(tmp_path / "a.regard")) as rec:
        model, file = plain(model_lines(rec, PAPER))
    assert model == "tiny · 2 × 4 heads · 1.23M parameters · float32"
    assert file.startswith("a.regard, ") and file.endswith(" kB")


def test_damage_is_said_first(tmp_path):
    path = on_disk(tmp_path / "a.regard")
    os.truncate(path, path.stat().st_size - 1)
    with open(path) as rec:
        lines = plain(model_lines(rec, PAPER))
    assert lines[2].startswith("damaged at byte ") and "the rest is shown" in " ".join(lines)


def test_a_live_recording_says_so(tmp_path):
    with Writer(tmp_path / "a.regard") as writer:
        write(writer)
        with open(tmp_path / "a.regard") as rec:
            assert "still being written" in plain(model_lines(rec, PAPER))[-1]


def test_nothing_yet():
    store = Memory()
    store.note({"contents": "attention/1"})
    assert plain(model_lines(Recording(store), PAPER))[-1] == "nothing was recorded yet"


def test_the_prompt_its_text_and_what_comes_next():
    rec, _ = in_memory()
    assert plain(prompt_lines(rec, rec.prompts[0], PAPER)) == [
        "prompt 0, 12 tokens, 2 of them generated: text 0",
        "<s>The cat sat on the mat.⏎",
        "It slept the",
        "next: ␣mat 0.50  ⏎ 0.25",
    ]


def test_long_texts_are_cut():
    rec, _ = in_memory([f" word{n}" for n in range(400)], layers=1, exact=())
    lines = plain(prompt_lines(rec, rec.prompts[0], PAPER))
    assert len(lines) == 5 and lines[3].endswith("…")
    assert max(map(cells, lines)) <= 80


def test_other_prompts_are_listed():
    rec, _ = in_memory(prompts=12, layers=1, heads=1, key_heads=1)
    lines = plain(prompt_lines(rec, rec.prompts[3], PAPER))
    assert lines[0].startswith("prompt 3, 12 tokens")
    assert lines[4].startswith("prompt 0") and lines[-1] == "and 4 prompts more"


@pytest.mark.parametrize(
    ("exact", "words"),
    [
        ((0, 1, 2), "every cell of every head can be computed"),
        ((0, 1), "every cell of layers 0–1 can be computed"),
        ((), "summaries are kept of every head, but no single cells"),
    ],
)
def test_what_was_kept(exact, words):
    rec, _ = in_memory(layers=3, exact=exact)
    assert plain(kept_lines(rec.prompts[0], PAPER))[0].startswith(words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "every cell of layer 0 can be computed; of the others summaries are kept"),
        (
            {"recorded": (0, 2), "rows": (3, 9), "exact": (0, 1, 2)},
            "every cell of rows 3–8 of heads 0, 2 can be computed; nothing else was recorded",
        ),
        (
            {"recorded": (0, 2), "exact": (1,), "said": 6},
            "every cell of heads 0, 2 of layer 1 can be computed; of layers 0, 2 summaries are "
            "kept; nothing else was recorded",
        ),
        (
            {"exact": (0, 1, 2), "said": 6},
            "every cell of layers 0–2 can be computed; nothing else was recorded",
        ),
        (
            {"exact": (), "said": 6},
            "summaries are kept of layers 0–2, but no single cells; nothing else was recorded",
        ),
    ],
)
def test_what_was_not_chosen_is_not_there(options, words):
    store, said = Memory(), options.pop("said", 3)
    write(store, layers=3, **options)
    store.note({"model": json.dumps({"name": "tiny", "layers": said})})
    store.close()
    lines = plain(kept_lines(Recording(store).prompts[0], PAPER))
    assert " ".join(line.strip() for line in lines) == words


def test_hostile_words_are_spelt_out():
    store = Memory()
    write(store, HOSTILE)
    store.note({"model": '{"name": "\\u001b[2J", "dtype": "\\u202e"}'})
    rec = Recording(store)
    lines = [*model_lines(rec, PAPER), *prompt_lines(rec, rec.prompts[0], PAPER)]
    for line in plain(finished(lines, PAPER)):
        assert line.isprintable()
