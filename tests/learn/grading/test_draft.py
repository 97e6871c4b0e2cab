"""Both ways of writing a hand calculation end in the same rows of text."""

from __future__ import annotations

import json

import pytest

from regard.learn.grading.blocks import step_named
from regard.learn.grading.cells import bare, is_blank, is_number
from regard.learn.grading.submission import read_draft


@pytest.mark.parametrize(
    ("heading", "step"),
    [("W_Q", "w_q"), ("3. Attention scores (QKᵀ)", "scores"), ("Scaled: divided by √4", "scaled"),
     ("Step 6: Weighted sum of values", "output"), ("Softmax", "weights"), ("d_k", "d_k"),
     ("keys", "K"), ("Notes", None), ("", None)],
)  # fmt: skip
def test_headings_mean_steps(heading, step):
    assert step_named(heading) == step


def test_markdown_and_json_say_the_same():
    markdown = read_draft("tokens: The, cat\n## K\nThe = [0.50 1]\ncat = [? 2]\n")
    document = {"tokens": ["The", "cat"], "K": {"The": ["0.50", "1"], "cat": ["?", "2"]}}
    assert markdown == read_draft(json.dumps(document))


def test_cells_stay_as_they_were_printed():
    (block,) = read_draft('{"weights": [[0.50, 5e-1, null]]}').blocks
    assert block.rows == [(None, ["0.50", "5e-1", ""])]


def test_a_table_has_columns_and_rows_by_name():
    (block,) = read_draft("## scores\n|   | a | b |\n|---|---|---|\n| a | 1 | 2 |\n").blocks
    assert (block.columns, block.rows) == (["a", "b"], [("a", ["1", "2"])])


@pytest.mark.parametrize("text", ["1", "-0.5", ".5", "1e-3", "1/2", "+2."])
def test_numbers(text):
    assert is_number(text) and not is_blank(text)


@pytest.mark.parametrize("text", ["", "?", "__", "…", "–", " "])
def test_blanks(text):
    assert is_blank(text) and not is_number(text)


@pytest.mark.parametrize(("text", "plain"), [("**1**", "1"), ("`−2`", "-2"), ("$E_x$", "E_x")])
def test_marks_of_markdown_are_taken_off(text, plain):
    assert bare(text) == plain
