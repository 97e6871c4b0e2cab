"""The matrices of every row."""

from __future__ import annotations

import pytest

from regard.learn import Options, make_lesson
from regard.learn.story.document import Grid, Grids
from regard.learn.story.tables import table_sections


def grids(text: str = "The cat sat", **options) -> dict[str, Grid]:
    sections = table_sections(make_lesson(Options(text, **options)))
    parts = [part for section in sections for part in section.parts if isinstance(part, Grids)]
    return {grid.title: grid for part in parts for grid in part.grids}


def test_all_seven_matrices_of_the_notes_example():
    made = grids()
    assert list(made) == [
        "Q = X @ w_q",
        "K = X @ w_k",
        "V = X @ w_v",
        "scores = Q @ Kᵀ",
        "scaled = scores / √d_k",
        "weights = softmax(…)",
        "output = weights @ V",
    ]
    assert made["scores = Q @ Kᵀ"].cells == (("2", "0", "2"), ("0", "2", "2"), ("2", "2", "4"))
    assert made["output = weights @ V"].cells[0] == ("0.8446", "0.5777", "0.8446", "0.5777")


@pytest.mark.parametrize(
    ("title", "role"),
    [
        ("Q = X @ w_q", "q"),
        ("K = X @ w_k", "k"),
        ("V = X @ w_v", "v"),
        ("weights = softmax(…)", "weight"),
    ],
)
def test_matrices_carry_their_roles(title, role):
    assert grids()[title].role == role


def test_only_weights_are_shaded():
    assert [title for title, grid in grids().items() if grid.shades] == ["weights = softmax(…)"]


def test_tokens_label_rows_and_score_columns():
    made = grids("the cat the")
    assert made["scores = Q @ Kᵀ"].rows == made["scores = Q @ Kᵀ"].columns == ("the", "cat", "the₂")
    assert made["Q = X @ w_q"].columns == ("q1", "q2", "q3", "q4")


def test_hidden_cells_are_dots_in_scores_and_weights():
    made = grids(causal=True)
    assert made["weights = softmax(…)"].cells[0] == ("1.0000", "·", "·")
    assert made["scaled = scores / √d_k, later keys hidden"].cells[1][2] == "·"
    assert "·" not in str(made["scores = Q @ Kᵀ"].cells)


def test_without_scaling_there_is_no_second_copy_of_the_scores():
    assert not any("scaled" in title for title in grids(scaled=False))
    assert "not scaled, later keys hidden" in grids(scaled=False, causal=True)


def test_projections_are_shown_unless_they_are_the_identity():
    assert "w_q" not in grids()
    assert "w_q" in grids(projections="random:1")
    assert "w_v" in grids(d_v=2)


def test_positions_show_both_summands():
    assert {"words", "positions", "X = words + positions"} <= set(grids(positions=True))


def test_heads_are_joined():
    made = grids(heads=2)
    assert {"concat", "w_o", "output = concat @ w_o"} <= set(made)
    assert made["w_o"].rows == ("c1", "c2", "c3", "c4")


def test_the_block_shows_what_lies_between():
    made = grids(block=True)
    assert {"w_1", "w_2", "r = X + output", "n = norm(r)", "mlp = max(h, 0) @ w_2"} <= set(made)
    assert made["hidden state = norm(n + mlp)"].role == "output"


@pytest.mark.parametrize("count", [40, 41, 512])
def test_long_sentences(count):
    made = grids(" ".join(f"w{n}" for n in range(count)))
    weights = made["weights = softmax(…)"]
    assert len(weights.rows) == (40 if count == 40 else 10)
    assert bool(weights.remark) == (count > 40)
