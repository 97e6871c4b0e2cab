"""What holds of every drawing, whatever is drawn."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from regard.colour import Scale
from regard.draw import (
    Axis,
    Column,
    Paper,
    Passage,
    finished,
    head_grid,
    heat_map,
    plain,
    scale_lines,
    shaded_text,
    spark,
    value_table,
    weight_table,
    widest_side,
)
from regard.draw.spelling import cells, flowing, label, safe, visible

papers = st.builds(
    Paper,
    width=st.integers(20, 120),
    height=st.integers(10, 60),
    colours=st.sampled_from(["none", "256", "true"]),
) | st.builds(Paper, width=st.integers(20, 120), is_ascii=st.just(True))
shares = st.floats(0, 1) | st.just(np.nan)
tokens = st.lists(st.text(max_size=12), max_size=40)
matrices = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=18), elements=shares
)
numbers = st.floats(-1e6, 1e6, allow_subnormal=False) | st.just(np.nan)


def fits(lines, paper: Paper) -> None:
    """No line is too wide, none holds what a terminal obeys, and ASCII stays ASCII."""
    for line in plain(lines):
        assert cells(line) <= paper.width
        assert line.isprintable()
        assert line.isascii() or not paper.is_ascii


@given(matrices, papers)
def test_maps_fit(matrix, paper):
    part = matrix[:, : widest_side(paper)]
    fits(heat_map(part, Axis(), Axis(), paper), paper)


@given(matrices, papers, st.data())
def test_labelled_maps_fit(matrix, paper, data):
    texts = st.text(max_size=15)
    part = matrix[:, : widest_side(paper)]
    rows, keys = (data.draw(st.lists(texts, min_size=n, max_size=n)) for n in part.shape)
    fits(heat_map(part, Axis(tokens=rows), Axis(tokens=keys), paper), paper)


@given(matrices)
def test_a_map_shows_exactly_the_masked_cells_as_masked(matrix):
    lines = plain(heat_map(matrix, Axis(), Axis(), Paper(120, 15)))
    *picture, _ = lines
    zoom = len(picture) // len(matrix)
    shown = sum(line.count("·") for line in picture)
    assert shown == zoom * zoom * int(np.isnan(matrix).sum())


@given(matrices, papers)
def test_figures_fit(matrix, paper):
    fits(value_table(matrix, matrix, Axis(7), Axis(), paper), paper)


@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=40),
                  elements=numbers), papers, st.booleans())  # fmt: skip
def test_grids_fit(values, paper, is_share):
    shown = np.clip(np.abs(values), 0, 1) if is_share else values
    fits(finished(head_grid(shown, "stat", paper, is_share=is_share), paper), paper)


@given(hnp.arrays(np.float64, (3, 5), elements=st.floats(0, 1)))
def test_the_figures_of_a_grid_are_its_numbers(values):
    lines = plain(head_grid(values, "stat", Paper(80), is_share=True))
    found = [[float(text) for text in line.split()[1:]] for line in lines[1:4]]
    np.testing.assert_allclose(found, values, atol=0.0051)


@given(tokens, papers, st.data())
def test_passages_fit_and_lose_nothing(texts, paper, data):
    weights = np.array(
        data.draw(st.lists(st.floats(0, 1), min_size=len(texts), max_size=len(texts)))
    )
    lines = shaded_text(Passage(texts, weights, weights), paper, marks=0)
    fits(lines, paper)
    shown = "".join(plain(lines)).replace(" ", "")
    assert shown == "".join(flowing(text, paper) for text in texts).replace(" ", "")


@settings(deadline=None)
@given(st.integers(801, 3000), st.integers(0, 2**32 - 1))
def test_of_long_passages_every_token_is_shown_or_counted(count, seed):
    weights = np.random.default_rng(seed).dirichlet(np.full(count, 0.01))
    lines = shaded_text(Passage(["x "] * count, weights, weights), Paper(60), marks=5)
    text = " ".join(plain(lines))
    gaps = re.findall(r"\[… ([0-9,]+) tokens?, ", text)
    rest = re.sub(r"\[…[^\]]*…\]|\([0-9.]+\)", " ", text)
    assert sum(int(gap.replace(",", "")) for gap in gaps) + rest.count("x") == count


@given(st.lists(st.tuples(st.text(max_size=30), st.floats(0, 1)), max_size=10), papers)
def test_tables_fit(rows, paper):
    texts = [label(text, 12, paper) for text, _ in rows]
    columns = [Column("key", [str(n) for n in range(len(rows))], True), Column("token", texts)]
    fits(weight_table(columns, [share for _, share in rows], paper), paper)


@given(hnp.arrays(np.float64, st.integers(0, 50), elements=numbers), papers)
def test_profiles_have_one_sign_a_value(values, paper):
    assert cells(spark(values, paper)) == values.size


@given(st.text(), papers)
def test_spelling_twice_changes_nothing(text, paper):
    for spell in (safe, flowing):
        once = spell(text, paper)
        assert spell(once, paper) == once or len(text) > 190
    assert visible(text, paper)
    short = label(text, 9, paper)
    assert short.isprintable() and cells(short) <= 9
    assert short.isascii() or not paper.is_ascii


@given(papers, st.lists(st.text("abc ", min_size=1, max_size=18), max_size=4))
def test_scale_lines_fit_where_their_parts_do(paper, remarks):
    lines = scale_lines(Scale("w", 0.0, 1.0), paper, *remarks)
    assert max(map(cells, plain(lines))) <= max(paper.width, 21)


@pytest.mark.parametrize("paper", [Paper(20), Paper(20, 10, "true"), Paper(20, is_ascii=True)])
def test_the_narrowest_paper_holds_everything(paper):
    fits(heat_map(np.ones((13, 13)), Axis(10**5, 64), Axis(10**5, 64), paper), paper)
    fits(finished(head_grid(np.ones((40, 32)), "stat", paper, is_share=True), paper), paper)
    fits(shaded_text(Passage(["word "] * 9, np.ones(9), np.ones(9)), paper), paper)
