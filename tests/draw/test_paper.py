"""What a console can show decides what is drawn."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from regard.draw import Paper, paper_of, plain


def console(**given) -> Console:
    """A console in memory, 90 by 30 unless told otherwise."""
    size = {"width": 90, "height": 30} | given
    return Console(file=io.StringIO(), _environ={}, **size)


@pytest.mark.parametrize(
    ("system", "colours"),
    [("truecolor", "true"), ("256", "256"), ("standard", "none"), (None, "none")],
)
def test_the_palette_needs_256_colours(system, colours):
    paper = paper_of(console(force_terminal=True, color_system=system), is_ascii=False)
    assert paper == Paper(width=90, height=30, colours=colours)


def test_no_colour_where_none_is_wanted():
    refused = console(force_terminal=True, color_system="truecolor", no_color=True)
    assert paper_of(refused, is_ascii=False).colours == "none"
    piped = console(color_system="truecolor")
    assert paper_of(piped, is_ascii=False).colours == "none"


def test_ascii_has_no_colours():
    paper = paper_of(console(force_terminal=True, color_system="truecolor"), is_ascii=True)
    assert paper.is_ascii and paper.colours == "none"


def test_a_pipe_has_no_lower_edge():
    assert paper_of(console(height=5), is_ascii=False).height == Paper().height


def test_paper_is_never_too_narrow_to_draw_on():
    assert paper_of(console(width=3), is_ascii=False).width == 20


def test_every_sign_has_a_twin_in_ascii():
    fancy, simple = Paper(), Paper(is_ascii=True)
    for name in ("hidden", "dash", "dot", "ellipsis", "times"):
        assert not getattr(fancy, name).isascii()
        assert getattr(simple, name).isascii()


def test_plain_forgets_styles_and_blanks_at_the_end():
    assert plain([[("a", "bold"), (" b  ", "")], []]) == ["a b", ""]
