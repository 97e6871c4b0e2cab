"""The sheet: words above and below, sizes that make sense, and matplotlib left as it was."""

from __future__ import annotations

import pickle
import subprocess
import sys
from io import BytesIO

import pytest

from plot.pictures import ABOUT, axes_names, covered, outside, texts
from regard.errors import InputError, MissingExtraError
from regard.plot.sheet import DARK, LIGHT, About, Box, opened, settings
from regard.views.text import CAVEAT


def sheet(about=ABOUT, what="L5H1", notes=("one token a cell",), style=None, size=(6.0, 5.0)):
    with opened(style or {}, size) as made:
        made.write_words(about, what, notes)
    return made


def test_words_above_and_below():
    found = axes_names(sheet().figure)
    assert found == ["tiny · L5H1", "The cat sat", CAVEAT, "one token a cell"]


def test_a_long_prompt_is_cut_and_another_prompt_numbered():
    about = About("tiny", [" word"] * 300, prompt=2)
    line = axes_names(sheet(about).figure)[1]
    assert line.startswith("prompt 2: word word") and line.endswith("…")


def test_without_tokens_the_title_of_the_prompt_stands_there():
    assert axes_names(sheet(About("tiny", (), "some audio")).figure)[1] == "some audio"
    assert axes_names(sheet(About("tiny")).figure) == ["tiny · L5H1", CAVEAT, "one token a cell"]


def test_hostile_names_are_spelt_out():
    found = texts(sheet(About("m\x1b[2J"), "a\nb", ["c\u202e"]).figure)
    assert found == ["m\\x1b[2J · a⏎b", CAVEAT, "c\\u202e"]


@pytest.mark.parametrize("size", [(2.5, 2.5), (3.3, 3.3), (8.0, 8.0), (20.0, 4.0)])
def test_words_never_leave_the_sheet_nor_cover_one_another(size):
    about = About("a-model-with-a-rather-long-name-indeed", [" token"] * 99)
    notes = ["mean of 16×16 tokens a cell; × even share, log 0.1–100", "and one more note"]
    made = sheet(about, "cross.L12H3 · row 1234 “␣internationalization”", notes, {"size": size})
    assert outside(made.figure) == [] and covered(made.figure) == []
    assert made.free.height > 0.3 and made.free.width < size[0]


@pytest.mark.parametrize(("dark", "theme"), [(False, LIGHT), (True, DARK)])
def test_colours(dark, theme):
    from matplotlib.colors import to_hex

    made = sheet(style={"dark": dark})
    axes = made.axes(Box(1, 1, 2, 2))
    assert to_hex(made.figure.get_facecolor()) == to_hex(axes.get_facecolor()) == theme.paper
    assert {text.get_color() for text in made.figure.texts} == {theme.ink, theme.dim}


def test_size_and_dpi():
    figure = sheet(style={"size": (5.0, 4.0), "dpi": 100}).figure
    assert figure.get_size_inches().tolist() == [5.0, 4.0] and figure.dpi == 100
    assert sheet().figure.get_size_inches().tolist() == [6.0, 5.0]


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
        sheet(style=style)


def test_boxes_are_inches():
    made = sheet()
    box = made.axes(Box(1.5, 1.0, 3.0, 2.0)).get_position()
    assert [box.x0 * 6, box.y0 * 5, box.width * 6, box.height * 5] == pytest.approx([1.5, 1, 3, 2])


def test_names_of_axes_shrink_to_what_fits():
    made = sheet()
    made.name_axes(Box(2, 2, 0.5, 0.5), ["key: what is looked at", "key"], ["layer"], (0.2, 0.2))
    assert axes_names(made.figure)[-2:] == ["key", "layer"]


def test_matplotlib_is_left_as_it_was():
    import matplotlib

    with matplotlib.rc_context({"font.size": 23.0, "text.color": "red", "savefig.dpi": 7}):
        before = dict(matplotlib.rcParams)
        with settings():
            assert matplotlib.rcParams["font.size"] == 10.0
        sheet()
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
        sheet()


def test_a_broken_matplotlib_is_not_taken_for_a_missing_one(monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "matplotlib", raising=False)
    (tmp_path / "matplotlib.py").write_text("import no_such_module_at_all")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        sheet()


def test_notebooks_show_it():
    from matplotlib.image import imread

    figure = sheet(style={"dpi": 50}).figure
    assert imread(BytesIO(figure._repr_png_())).shape == (250, 300, 4)
    again = pickle.loads(pickle.dumps(figure))
    assert again._repr_png_() == figure._repr_png_()
