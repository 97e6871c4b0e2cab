"""The sheet: words above and below, sizes that make sense, ticks, the colour bar, surroundings that
can be told from colours, and matplotlib left as it was."""

from __future__ import annotations

import pickle
import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest
from matplotlib.colors import to_hex

from plot.pictures import ABOUT, axes_names, covered, image, outside, texts, ticks
from regard.colour.scale import TIMES_UNIFORM, Scale
from regard.colour.shades import palette
from regard.errors import InputError, MissingExtraError
from regard.plot.legend import bar_width, draw_bar
from regard.plot.sheet import DARK, LIGHT, About, Box, Sheet, Theme, opened, settings
from regard.plot.ticks import LABELLED, Ticks, place_ticks, tick_names, tick_positions, tick_tokens
from regard.views.text import CAVEAT


def lettered(about=ABOUT, what="L5H1", notes=("one token a cell",), style=None, size=(6.0, 5.0)):
    with opened(style or {}, size) as made:
        made.write_words(about, what, notes)
    return made


def test_words_above_and_below():
    found = axes_names(lettered().figure)
    assert found == ["tiny · L5H1", "The cat sat", CAVEAT, "one token a cell"]


def test_a_long_prompt_is_cut_and_another_prompt_numbered():
    about = About("tiny", [" word"] * 300, prompt=2)
    line = axes_names(lettered(about).figure)[1]
    assert line.startswith("prompt 2: word word") and line.endswith("…")


def test_without_tokens_the_title_of_the_prompt_stands_there():
    assert axes_names(lettered(About("tiny", (), "some audio")).figure)[1] == "some audio"
    assert axes_names(lettered(About("tiny")).figure) == ["tiny · L5H1", CAVEAT, "one token a cell"]


def test_hostile_names_are_spelt_out():
    found = texts(lettered(About("m\x1b[2J"), "a\nb", ["c\u202e"]).figure)
    assert found == ["m\\x1b[2J · a⏎b", CAVEAT, "c\\u202e"]


@pytest.mark.parametrize("size", [(2.5, 2.5), (3.3, 3.3), (8.0, 8.0), (20.0, 4.0)])
def test_words_never_leave_the_sheet_nor_cover_one_another(size):
    about = About("a-model-with-a-rather-long-name-indeed", [" token"] * 99)
    notes = ["mean of 16×16 tokens a cell; × even share, log 0.1–100", "and one more note"]
    made = lettered(about, "cross.L12H3 · row 1234 “␣internationalization”", notes, {"size": size})
    assert outside(made.figure) == [] and covered(made.figure) == []
    assert made.free.height > 0.3 and made.free.width < size[0]


@pytest.mark.parametrize(("dark", "theme"), [(False, LIGHT), (True, DARK)])
def test_colours(dark, theme):
    from matplotlib.colors import to_hex

    made = lettered(style={"dark": dark})
    axes = made.axes(Box(1, 1, 2, 2))
    assert to_hex(made.figure.get_facecolor()) == to_hex(axes.get_facecolor()) == theme.paper
    assert {text.get_color() for text in made.figure.texts} == {theme.ink, theme.dim}


def test_size_and_dpi():
    figure = lettered(style={"size": (5.0, 4.0), "dpi": 100}).figure
    assert figure.get_size_inches().tolist() == [5.0, 4.0] and figure.dpi == 100
    assert lettered().figure.get_size_inches().tolist() == [6.0, 5.0]


@pytest.mark.parametrize(
    ("style", "words"),
    [
        ({"size": (1.0, 5.0)}, "1 × 5 inches at 160 dpi; give sides of 2.5–60 inches"),
        ({"size": (8.0, float("nan"))}, "give sides"),
        ({"dpi": 5}, "give 30–1200 dpi"),
        ({"size": (50.0, 50.0), "dpi": 1200}, "give fewer dpi"),
    ],
)
def test_impossible_sizes(style, words):
    with pytest.raises(InputError, match=words):
        lettered(style=style)


def test_boxes_are_inches():
    made = lettered()
    box = made.axes(Box(1.5, 1.0, 3.0, 2.0)).get_position()
    assert [box.x0 * 6, box.y0 * 5, box.width * 6, box.height * 5] == pytest.approx([1.5, 1, 3, 2])


def test_names_of_axes_shrink_to_what_fits():
    made = lettered()
    made.name_axes(Box(2, 2, 0.5, 0.5), ["key: what is looked at", "key"], ["layer"], (0.2, 0.2))
    assert axes_names(made.figure)[-2:] == ["key", "layer"]


def test_matplotlib_is_left_as_it_was():
    import matplotlib

    with matplotlib.rc_context({"font.size": 23.0, "text.color": "red", "savefig.dpi": 7}):
        before = dict(matplotlib.rcParams)
        with settings():
            assert matplotlib.rcParams["font.size"] == 10.0
        lettered()
        assert dict(matplotlib.rcParams) == before


def test_no_pyplot_and_no_backend():
    code = (
        "import sys; import regard.plot; assert 'matplotlib' not in sys.modules;"
        "from regard.plot.sheet import opened\n"
        "with opened({}, (4, 4)) as s: s.write_words(regard.plot.About('m'), 'x', [])\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'regard\[plot\]'"):
        lettered()


def test_a_broken_matplotlib_is_not_taken_for_a_missing_one(monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "matplotlib", raising=False)
    (tmp_path / "matplotlib.py").write_text("import no_such_module_at_all")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        lettered()


def test_notebooks_show_it():
    from matplotlib.image import imread

    figure = lettered(style={"dpi": 50}).figure
    assert imread(BytesIO(figure._repr_png_())).shape == (250, 300, 4)
    again = pickle.loads(pickle.dumps(figure))
    assert again._repr_png_() == figure._repr_png_()


WORDS = ("times an even share: 1 is an even spread", "× even share")


def drawn(scale=TIMES_UNIFORM, hidden="masked", size=(6.0, 5.0), height=3.0):
    """A sheet with a bar beside a box, as far right as its width allows."""
    with opened({}, size) as sheet:
        wide = sheet.free.width - bar_width(sheet, scale, hidden)
        beside = Box(sheet.free.left, sheet.free.bottom, wide, height)
        draw_bar(sheet, scale, beside, WORDS, hidden)
    return sheet


def test_the_bar_is_the_palette_from_below():
    axes = drawn().figure.axes[0]
    np.testing.assert_array_equal(image(axes)[:, 0], palette())
    assert axes.get_images()[0].origin == "lower"


def test_ticks_are_the_scales():
    axes = drawn().figure.axes[0]
    assert ticks(axes, "y") == ["≤ 0.1", "1", "10", "≥ 100"]
    np.testing.assert_allclose(axes.get_yticks(), [0, 1 / 3, 2 / 3, 1])
    assert ticks(drawn(Scale("x", 0.0, 1.0)).figure.axes[0], "y")[-1] == "1"


def test_a_short_bar_has_its_ends_only():
    assert ticks(drawn(height=0.8).figure.axes[0], "y") == ["≤ 0.1", "≥ 100"]


def test_it_says_what_it_means():
    assert axes_names(drawn().figure) == [WORDS[0], "masked"]
    assert axes_names(drawn(height=1.2).figure) == [WORDS[1], "masked"]


def test_the_colour_of_hidden_cells_stands_below():
    sheet = drawn()
    bar, swatch = sheet.figure.axes
    assert to_hex(swatch.get_facecolor()) == sheet.theme.hidden
    assert swatch.get_position().y1 < bar.get_position().y0


def test_nothing_hidden_no_swatch():
    figure = drawn(hidden="").figure
    assert len(figure.axes) == 1 and "masked" not in texts(figure)
    assert figure.axes[0].get_position().height * 5 == pytest.approx(3.0)


@pytest.mark.parametrize("hidden", ["", "masked", "not recorded"])
@pytest.mark.parametrize("size", [(2.5, 2.5), (6.0, 5.0)])
def test_its_width_is_enough(hidden, size):
    figure = drawn(Scale("output_norm", 0.0, 123.456), hidden, size, 1.4).figure
    assert outside(figure) == [] and covered(figure) == []


TOKENS = [f" word{n}" for n in range(LABELLED)]


@pytest.fixture
def sheet():
    with settings():
        yield Sheet((8.0, 8.0), 100, False)


def test_tokens_stand_in_the_middle_of_their_cells(sheet):
    found = tick_tokens([" a", "\n", "c"], 5, 4.0, sheet)
    assert found == Ticks([5.5, 6.5, 7.5], ["␣a", "⏎", "c"], 8.0)


def test_they_become_smaller_and_then_fewer(sheet):
    roomy, tight, cramped = (tick_tokens(TOKENS, 0, side, sheet) for side in (8.0, 4.0, 2.0))
    assert [len(one.texts) for one in (roomy, tight, cramped)] == [40, 40, 20]
    assert roomy.size == 8.0 and 5.0 < tight.size < 8.0 and cramped.size == 5.0
    assert cramped.places[1] == 2.5 and cramped.texts[1] == "␣word2"


def test_a_long_token_is_cut(sheet):
    (text,) = tick_tokens([" internationalization" * 3], 0, 4.0, sheet).texts
    assert text.startswith("␣internat") and text.endswith("…")


@pytest.mark.parametrize("side", [0.6, 1.0, 2.2, 5.0])
def test_neighbours_never_touch(sheet, side):
    axes = sheet.axes(Box(2, 2, side, side))
    names = tick_names([f"L{n}" for n in range(30)], 0, side, sheet)
    place_ticks(axes, below=Ticks([], [], 5.0), left=names, turned=False)
    axes.set_ylim(30, 0)
    sheet.figure.draw_without_rendering()
    assert covered(sheet.figure) == []


@pytest.mark.parametrize(
    ("start", "stop", "length", "texts"),
    [
        (0, 226, 5.0, ["0", "50", "100", "150", "200"]),
        (0, 226, 1.0, ["0", "200"]),
        (190, 200, 2.0, ["190", "195"]),
        (0, 1, 3.0, ["0"]),
        (7, 8, 3.0, ["7"]),
    ],
)  # fmt: skip
def test_positions_are_round(sheet, start, stop, length, texts):
    found = tick_positions(start, stop, length, sheet)
    assert list(found.texts) == texts
    assert [place - 0.5 for place in found.places] == [float(text) for text in texts]


def test_there_is_no_position_between_tokens(sheet):
    assert list(tick_positions(0, 3, 8.0, sheet).texts) == ["0", "1", "2"]


def test_turned_ticks_read_upwards(sheet):
    axes = sheet.axes(Box(2, 2, 3, 3))
    names = Ticks([0.5, 1.5], ["a", "b$c$"], 6.0)
    place_ticks(axes, below=names, left=names, turned=True)
    axes.set(xlim=(0, 2), ylim=(2, 0))
    sheet.figure.draw_without_rendering()
    assert ticks(axes, "x") == ticks(axes, "y") == ["a", "b$c$"]
    assert {one.get_rotation() for one in axes.get_xticklabels()} == {90.0}
    assert {one.get_fontsize() for one in axes.get_yticklabels()} == {6.0}
    assert not any(one.get_parse_math() for one in axes.get_xticklabels())


THEMES = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])


def rgb(colour: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(colour[1:]), np.uint8).astype(float)


def contrast(a: str, b: str) -> float:
    """As WCAG counts it, 1 … 21."""

    def luminance(colour: str) -> float:
        share = rgb(colour) / 255
        linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@THEMES
def test_words_can_be_read(theme: Theme):
    assert contrast(theme.ink, theme.paper) > 10
    assert contrast(theme.dim, theme.paper) > 4.5
    for line in theme.lines:
        assert contrast(line, theme.paper) > 2.7


@THEMES
def test_what_is_hidden_is_no_colour_of_the_scale(theme: Theme):
    """It is grey, and every colour of the palette lies clearly away from it."""
    hidden = rgb(theme.hidden)
    assert np.ptp(hidden) < 12
    assert np.abs(palette() - hidden).max(axis=1).min() > 30
    assert contrast(theme.hidden, theme.paper) > 1.25
