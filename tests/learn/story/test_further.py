"""Where the notes go on: [6 4], several heads, the block, what to type next."""

from __future__ import annotations

import io
import json
import re
import shlex

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from learn.story.test_narration import lines_of, prose_of, story
from regard.cli.main import app
from regard.learn import Options, make_lesson
from regard.learn.languages import LANGUAGES, language
from regard.learn.render import html_body, markdown_page, print_document
from regard.learn.story.document import Prose
from regard.learn.story.lines import LINE_WIDTH
from regard.learn.text import bracketed as with_brackets
from regard.learn.text import cells, figures, wrapped

NOTE, HEADS, BLOCK = "The first note's [6 4]", "Several heads", "The attention block"


def section(title: str, text: str = "The cat sat", **options):
    (only,) = [s for s in story(text, **options).sections if s.title.startswith(title)]
    return only


def titles(text: str = "The cat sat", **options) -> list[str]:
    return [s.title for s in story(text, **options).sections]


def test_six_and_four_are_the_notes_numbers():
    assert lines_of(section(NOTE)) == [
        "q = [2 3 4 1]   k1 = [1 0 1 0]   k2 = [0 1 0 1]",
        "q·k1 = 2 + 4 = 6   q·k2 = 3 + 1 = 4",
        "undivided     [6 4] → [0.8808 0.1192]  gradient 0.8808·0.1192 = 0.105",
        "divided by 2  [3 2] → [0.7311 0.2689]  gradient 0.7311·0.2689 / 2 = 0.0983",
    ]
    prose = prose_of(story())
    assert "as a higher temperature does" in prose
    assert "this example alone does not show gradients vanishing" in prose


@pytest.mark.parametrize("divisor", [1.0, 2.0])
def test_the_gradients_are_those_of_autograd(divisor):
    raw = torch.tensor([6.0, 4.0], dtype=torch.float64, requires_grad=True)
    weight = torch.softmax(raw / divisor, 0)[0]
    (gradient,) = torch.autograd.grad(weight, raw)
    shown = lines_of(section(NOTE))[int(divisor) + 1]
    assert float(shown.rsplit("= ", 1)[1]) == pytest.approx(gradient[0].item(), abs=5e-5)


def test_it_is_shown_where_the_sentence_is_the_notes():
    assert any(title.startswith(NOTE) for title in titles("the CAT sat", heads=2, causal=True))
    assert not any(title.startswith(NOTE) for title in titles("The dog sat"))


@pytest.mark.parametrize(
    "options",
    [{}, {"token": "cat", "causal": True}, {"projections": "random:5"}, {"scaled": False},
     {"positions": True}, {"projections": "random:2", "d_k": 3}],
)  # fmt: skip
def test_two_heads_and_the_block_are_those_of_the_options(options):
    """What is shown at the end is what --heads 2 and --block show in full."""
    alone = {name: value for name, value in options.items() if name != "d_k"}
    two = make_lesson(Options("The cat sat", heads=2, **alone))
    i, lines = two.sentence.focus, "\n".join(lines_of(section(HEADS, **options)))
    for given_ in (two.heads[0].weights[i], two.heads[1].context[i], two.concat[i], two.output[i]):
        assert bracketed(given_) in lines
    block = make_lesson(Options("The cat sat", block=True, **options)).block
    lines = "\n".join(lines_of(section(BLOCK, **options)))
    for given_ in (block.residual[i], block.normed[i], block.mlp[i], block.output[i]):
        assert bracketed(given_) in lines


def bracketed(values) -> str:
    return with_brackets(figures(values))


def test_nothing_is_shown_again():
    full = titles(heads=2, block=True)
    assert HEADS not in full and BLOCK not in full
    assert BLOCK in titles(heads=2) and HEADS in titles(block=True)
    assert HEADS not in titles("bank", vectors="features", projections="by-hand")


def test_what_cannot_be_is_left_out(tmp_path):
    path = tmp_path / "e.json"
    path.write_text('{"a": [1, 2, 3], "b": [0, 1, 0]}')
    assert HEADS not in titles("a b", embeddings=path)  # a width of 3 is not two heads'
    assert BLOCK in titles("a b", embeddings=path)
    assert BLOCK not in titles("a b", embeddings=path, d_v=2)  # and 2 is not added to 3
    weights = {name: [[1, 0], [0, 1], [1, 1]] for name in ("w_q", "w_k", "w_v")}
    own = tmp_path / "w.json"
    own.write_text(json.dumps(weights))
    assert HEADS not in titles("a b", embeddings=path, projections=str(own))


def test_a_file_is_read_once(tmp_path):
    path = tmp_path / "e.json"
    path.write_text('{"a": [1, 2], "b": [0, 1]}')
    lesson = make_lesson(Options("a b", embeddings=path))
    path.unlink()
    assert lesson.in_two_heads is not None and lesson.as_dict()["further"]["heads"]


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize("options", [{}, {"projections": "random:3"}, {"positions": True}])
def test_each_is_about_ten_lines(code, options):
    parts = ("further.note_title", "further.heads_title", "further.block_title")
    for part in parts:
        only = section(language(code)(part), language=code, **options)
        prose = [only.why, *(p.text for p in only.parts if isinstance(p, Prose))]
        rows = lines_of(only) + [line for text in prose for line in wrapped(text, 76)]
        assert len(rows) <= 10, only.title
        assert all(cells(line) <= LINE_WIDTH for line in lines_of(only))


def test_the_whole_lesson_stays_short():
    out = io.StringIO()
    print_document(story(), Console(file=out, width=80, highlight=False, soft_wrap=True))
    assert len(out.getvalue().splitlines()) <= 140


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.sampled_from(["identity", "random:9"]), st.booleans())
def test_numbers_at_the_end_are_in_the_json(count, projections, causal):
    text = " ".join(f"w{n}" for n in range(count))
    lesson = make_lesson(Options(text, projections=projections, causal=causal))
    further = json.loads(json.dumps(lesson.as_dict(), allow_nan=False))["further"]
    two = make_lesson(Options(text, projections=projections, causal=causal, heads=2))
    np.testing.assert_array_equal(further["output"], two.output)
    np.testing.assert_array_equal(further["heads"][1]["weights"], two.heads[1].weights)
    block = make_lesson(Options(text, projections=projections, causal=causal, block=True)).block
    np.testing.assert_array_equal(further["block"]["output"], block.output)


def test_files_without_scripts_have_it_too():
    page, text = html_body(story()), markdown_page(story())
    for part in ("Several heads", "0.0983", "regard learn --exercise 7"):
        assert part in page and part in text


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_three_commands_work_as_they_are_printed(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = lines_of(story("Bees make honey", language=code).sections[-1])
    assert len(commands) == 3
    shown = []
    for command in commands:
        program, *words = shlex.split(command)
        done = CliRunner().invoke(app, words)
        assert (program, done.exit_code) == ("regard", 0), done.output
        shown.append(done.output)
    assert len(set(shown)) == 3
    if code == "zh":
        assert all(re.search("[\u4e00-\u9fff]", output) for output in shown)
