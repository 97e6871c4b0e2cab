"""A calculation without headings, and rows whose cells are separated by semicolons."""

from __future__ import annotations

import pytest

from regard.learn.grading.markdown import read_markdown

NAMED = """tokens: I, see

x_I = (1, 0)
x_see = (0, 1)
w_q = [[1, 0], [1, 1]]
q_I = (1, 0)
q_see = (1, 1)
s_I = (1, 2)
s_see = (3, 4)
a_I = (0.4, 0.6)
a_see = (0.3, 0.7)
z_I = (1, 2)
z_see = (2, 1)
"""


def test_letters_name_steps_where_no_heading_does():
    draft = read_markdown(NAMED)
    steps = [block.step for block in draft.blocks]
    assert steps == ["embeddings", "w_q", "Q", "scores", "weights", "output"]
    assert draft.blocks[4].rows == [("I", ["0.4", "0.6"]), ("see", ["0.3", "0.7"])]
    assert not draft.unread


def test_below_a_heading_they_name_rows():
    draft = read_markdown("tokens: I, see\n\n## weights\n\na_I = (0.4, 0.6)\nq_see = (0.3, 0.7)\n")
    assert [block.step for block in draft.blocks] == ["weights"]
    assert [label for label, _ in draft.blocks[0].rows] == ["I", "see"]


@pytest.mark.parametrize("rows", [["1; 0", "0; 1"], ["0,4223; 0,5777", "1/√2; 3"]])
def test_semicolons_separate_cells_where_every_line_is_a_row(rows):
    text = "\n".join(f"[{row}]" for row in rows)
    block = read_markdown(f"## weights\n\n{text}\n").blocks[0]
    assert block.rows == [(None, row.split("; ")) for row in rows]


def test_one_such_line_is_a_column():
    block = read_markdown("## V\n\n[1; 0; 2]\n").blocks[0]
    assert block.rows == [(None, ["1"]), (None, ["0"]), (None, ["2"])]
