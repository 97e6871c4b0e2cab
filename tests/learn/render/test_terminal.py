"""What is printed: plain in a pipe, coloured on a terminal, never broken inside a number."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from regard.learn import Options, make_lesson
from regard.learn.languages import language
from regard.learn.render.terminal import STYLES, print_document, side_by_side
from regard.learn.story.document import Grid
from regard.learn.story.narration import narrate
from regard.learn.text import cells


def shown(text: str = "The cat sat", *, width: int = 80, colour: bool = False, **options) -> str:
    out = io.StringIO()
    console = Console(
        file=out, width=width, highlight=False, force_terminal=colour, soft_wrap=not colour,
        color_system="truecolor" if colour else None,
    )  # fmt: skip
    print_document(narrate(make_lesson(Options(text, **options))), console)
    return out.getvalue()


def test_the_answer_is_there():
    text = shown()
    assert "sum, the output for The = [0.8446 0.5777 0.8446 0.5777]" in text
    assert "The  0.8446  0.5777  0.8446  0.5777" in text


def test_plain_text_has_no_escapes_and_no_boxes():
    text = shown(causal=True, heads=2, block=True)
    assert "\x1b" not in text
    assert not re.search("[\u2500-\u257f]", text)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"projections": "random:2", "heads": 2, "block": True},
        {"text": "The quick brown fox jumps over the extraordinarily lazy dog", "causal": True},
        {"text": " ".join(f"word{n}" for n in range(40)), "positions": True},
    ],
)
def test_nothing_is_wider_than_eighty_columns(options):
    for line in shown(**options).splitlines():
        assert cells(line) <= 80, line
        assert line == line.rstrip()


def test_small_matrices_stand_side_by_side():
    assert re.search(r"Q = X @ w_q +K = X @ w_k +V = X @ w_v", shown())
    assert re.search(r"scores = Q @ Kᵀ +scaled = scores / √d_k +weights = softmax", shown())


def test_a_wide_matrix_is_cut_between_columns():
    text = shown(" ".join(f"word{n}" for n in range(12)))
    assert re.search(r"weights = softmax\(…\), columns 1 to \d", text)
    for number in re.findall(r"\d+\.\d+", text):
        assert len(number.partition(".")[2]) <= 4


def test_a_wide_terminal_needs_no_cuts():
    assert "columns 1 to" not in shown(" ".join(f"word{n}" for n in range(12)), width=250)


def test_a_narrow_terminal_still_works():
    assert "0.8446" in shown(width=20)


def test_colour_is_role_on_a_terminal():
    text = shown(colour=True)
    assert "\x1b[38;2;46;143;208m" in text  # queries, blue
    assert "\x1b[38;2;208;122;0m" in text  # keys, orange
    assert "\x1b[38;2;0;158;115m" in text  # values, green
    assert "\x1b[38;2;0;0;0;48;2;" in text  # a bright cell of the weights


def test_colours_do_not_change_the_words():
    bare = re.sub(r"\x1b\[[0-9;]*m", "", shown(colour=True))
    assert [line.rstrip() for line in bare.splitlines()] == shown().splitlines()


@pytest.mark.parametrize("role", ["q", "k", "v", "weight"])
@pytest.mark.parametrize("ground", [0.0, 1.0])
def test_colours_read_on_black_and_on_white(role, ground):
    triplet = STYLES[role].color.get_truecolor()
    linear = [(c / 255 / 12.92) if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in triplet]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    high, low = max(light, ground) + 0.05, min(light, ground) + 0.05
    assert high / low >= 3


def grid(rows: int, columns: int, cell: str = "0.1234") -> Grid:
    return Grid(
        "t", "plain", tuple(f"r{n}" for n in range(rows)), tuple(f"c{n}" for n in range(columns)),
        ((cell,) * columns,) * rows, remark="shown: some",
    )  # fmt: skip


@given(st.integers(1, 5), st.integers(1, 60), st.integers(15, 120))
def test_every_cell_is_shown_once_whatever_the_width(rows, columns, width):
    printed = [row.plain for row in side_by_side([grid(rows, columns)], width, language("en"))]
    assert sum(row.count("0.1234") for row in printed) == rows * columns
    assert sum(row.split().count(f"c{columns - 1}") for row in printed) == 1


def test_grids_of_unequal_height_stand_beside_one_another():
    printed = [row.plain for row in side_by_side([grid(1, 1), grid(3, 1)], 80, language("en"))]
    assert printed[0] == ""
    assert printed[1].split() == ["t", "t"]
    assert printed[-2].split() == ["r2", "0.1234"]
    assert printed[4].startswith("shown: some")


def test_markup_in_a_sentence_is_text():
    text = shown("[bold]x[/bold] :smile: [/]")
    assert "[bold]x[/bold] :smile: [/]" in text


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.text(alphabet=st.characters(exclude_categories=("Cs",)), min_size=1, max_size=15),
        min_size=1,
        max_size=45,
    )
    .map(" ".join)
    .filter(lambda text: text.split()),
    st.integers(20, 200),
    st.booleans(),
)
def test_any_sentence_can_be_printed(text, width, causal):
    printed = shown(text, width=width, causal=causal)
    assert "Worth knowing" in printed
    assert "\x1b" not in printed


@pytest.mark.parametrize("code", ["de", "zh"])
def test_other_languages_stay_inside_the_terminal(code):
    told = narrate(make_lesson(Options("The cat sat", language=code, heads=2, block=True)))
    written = io.StringIO()
    print_document(told, Console(file=written, width=80))
    assert max(map(cells, written.getvalue().splitlines())) <= 80
