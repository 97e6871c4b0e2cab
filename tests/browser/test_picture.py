"""The picture tab in a real browser: patches, words, tiles, films, windows; one file offline."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import regard
from regard import study
from regard.axes import Axis, Frames, Grid, Tokens
from regard.mask import Causal
from regard.recording import Writer
from regard.recording import open as open_recording
from regard.viewer.notebook import recording_page
from support.families.build import build
from support.families.inputs import accepted
from support.recordings import on_disk
from support.recordings.sighted import write_heard, write_sighted

WORDS = ["<s>", *["<image>"] * 16, " red", " ball"]
TOLD = Axis((Tokens(1), Grid(4, 4), Tokens(2)))
VIT = Axis((Grid(6, 6, prefix=1, names=("class",)),))


@pytest.fixture
def shown(tab, view, tmp_path):
    """Opens the tab of a recording over an axis; the page and the recording."""
    opened = []

    def open_picture(axis, words="", **options):
        path, size = tmp_path / "run.regard", options.pop("size", {})
        with Writer(path) as writer:
            write_sighted(writer, axis, **options)
        page = tab(f"{view(path)}&view=picture&rec=0&prompt=0{words}", "picture", **size)
        opened.append(open_recording(path))
        return page, opened[-1]

    yield open_picture
    for one in opened:
        one.close()


def at_patch(page, row, column, board=0):
    """Where a patch lies on the screen."""
    canvas = page.locator("[data-part=board]").nth(board)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    rows, columns = (int(canvas.get_attribute(f"data-{n}")) for n in ("rows", "columns"))
    return (box["x"] + (column + 0.5) * box["width"] / columns,
            box["y"] + (row + 0.5) * box["height"] / rows)  # fmt: skip


def until_in_address(page, *words, without=""):
    """Waits until the address has these words."""
    page.wait_for_function(
        "([words, without]) => words.every((word) => location.hash.includes(word))"
        " && !(without && location.hash.includes(without))",
        arg=[words, without],
    )


def caption(page):
    return page.locator("[data-part=picture-caption]")


def read_weight(page, position):
    """The weight of a position that the caption tells, when it does."""
    found = page.locator(f"[data-part=picture-weight][data-position='{position}']").first
    found.wait_for()
    return float(found.get_attribute("data-value"))


def test_a_hovered_patch_shows_where_it_looks_and_who_looks_at_it(shown):
    page, rec = shown(VIT, "&head=L0H1")
    page.mouse.move(*at_patch(page, 2, 3))
    caption(page).get_by_text("patch (2, 3)").first.wait_for()
    own = 1 + 2 * 6 + 3
    row = np.asarray(rec["L0H1"][own])
    assert read_weight(page, int(row.argmax())) == pytest.approx(row.max(), abs=1e-7)
    page.keyboard.press("w")
    caption(page).get_by_text("is looked at by").wait_for()
    column = np.asarray(rec["L0H1"][:, own])
    assert read_weight(page, int(column.argmax())) == pytest.approx(column.max(), abs=1e-7)


def test_a_pinned_patch_is_read_weight_by_weight(shown):
    page, rec = shown(VIT, "&head=L1H0")
    page.mouse.click(*at_patch(page, 0, 0))
    page.mouse.move(*at_patch(page, 1, 2))
    row = np.asarray(rec["L1H0"][1])
    assert read_weight(page, 1 + 6 + 2) == pytest.approx(row[9], abs=1e-7)
    until_in_address(page, "pin=1", "at=1")
    page.keyboard.press("Escape")
    until_in_address(page, without="pin=")


def test_everything_is_reached_by_keyboard(shown):
    page, rec = shown(VIT, "&head=L0H1&at=1")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    caption(page).get_by_text("patch (1, 1)").first.wait_for()
    until_in_address(page, "at=8")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    assert read_weight(page, 9) == pytest.approx(float(rec["L0H1"][8, 9]), abs=1e-7)
    page.keyboard.press("Escape")
    for key, word in (("m", "draw=contour"), ("u", "by=weight"), ("]", "head=L0H2"),
                      ("g", "of=layers")):  # fmt: skip
        page.keyboard.press(key)
        until_in_address(page, word)
    labels = page.eval_on_selector_all("[data-head]", "all => all.map(e => e.dataset.head)")
    assert labels[1:] == ["L0H2", "L1H2"]
    for _ in range(8):
        page.keyboard.press("p")
    caption(page).get_by_text("class").first.wait_for()


def test_small_pictures_of_all_heads_lead_to_them(shown):
    page, _ = shown(VIT, "&head=L1H1")
    page.locator("[data-head=L1H3]").click()
    page.wait_for_selector("main[data-head=L1H3]")


def test_words_show_their_place_and_patches_their_words(shown):
    page, rec = shown(TOLD, "&head=L0H0", tokens=WORDS, mask=Causal())
    page.locator("[data-position='17']").hover()
    caption(page).get_by_text("␣red").first.wait_for()
    row = np.asarray(rec["L0H0"][17])
    assert read_weight(page, int(row.argmax())) == pytest.approx(row.max(), abs=1e-7)
    page.mouse.move(*at_patch(page, 1, 2))
    caption(page).get_by_text("is looked at by").wait_for()
    chip = page.locator("[data-part=words] [data-position='18']")
    column = np.asarray(rec["L0H0"][:, 1 + 6])
    page.wait_for_function(
        "([chip, weight]) => Math.abs(chip.dataset.value - weight) < 1e-7",
        arg=[chip.element_handle(), float(column[18])],
    )
    assert (
        page.locator("[data-part=words] [data-position='0']").get_attribute("data-value") == "NaN"
    )


def test_a_tiny_llava_from_its_recording(tab, view, tmp_path):
    model = build("llava")
    inputs = {k: v[:1] if isinstance(v, torch.Tensor) else v for k, v in accepted(model).items()}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        with regard.record(model, tmp_path / "llava.regard"):
            model(**inputs)
    page = tab(f"{view(tmp_path / 'llava.regard')}&view=picture", "picture")
    assert page.locator("main").get_attribute("data-head") == "L0H0"
    page.locator("[data-part=words] button").last.hover()
    caption(page).get_by_text("looks at").first.wait_for()
    page.mouse.move(*at_patch(page, 0, 0))
    caption(page).get_by_text("is looked at by").wait_for()
    page.get_by_label("Layer").select_option("vision.L0")
    page.locator("[data-part=prefix]").get_by_text("class").wait_for()


def test_tiles_stand_side_by_side_with_a_picture_each(shown):
    tiles = Axis((Grid(3, 3), Grid(3, 3, picture=1), Tokens(2)))
    page, _ = shown(tiles, tokens=[*["<i>"] * 18, "a", "b"])
    boards = page.locator("[data-part=board]")
    assert boards.count() == 2
    first, second = (boards.nth(n).bounding_box() for n in (0, 1))
    assert first["y"] == second["y"] and first["x"] < second["x"]
    page.mouse.move(*at_patch(page, 2, 2, board=1))
    caption(page).get_by_text("patch (2, 2)").first.wait_for()


def test_a_film_has_its_frames(shown):
    page, _ = shown(
        Axis((Grid(3, 3, frames=3),)), "&head=L0H0&at=4", heads=1, seconds=[0, 0.5, 1.25]
    )
    assert page.locator("[data-part=board]").count() == 3
    page.get_by_text("frame 2, scene 2, 1.25 s, 3 × 3 patches").wait_for()
    page.mouse.move(*at_patch(page, 1, 1, board=2))
    caption(page).get_by_text("patch (1, 1) of frame 2").first.wait_for()
    page.mouse.click(*at_patch(page, 1, 1, board=2))
    page.get_by_label("L0H0 over scene 2").wait_for()


def test_a_click_outside_a_window_goes_to_its_head(shown):
    page, _ = shown(Axis((Grid(2, 2, windows=(2, 2)),)), "&head=L0H1", heads=8)
    page.mouse.click(*at_patch(page, 3, 3))
    page.wait_for_selector("main[data-head=L0H7]")


def test_a_sound_is_a_curve_over_seconds(shown):
    page, _ = shown(Axis((Frames(40, 0.02),)), "&head=L0H0&at=3")
    page.locator("[data-part=tabs]").get_by_text("Sound").wait_for()
    assert page.locator("[data-part=curve] path.line").get_attribute("d").count("L") == 39
    caption(page).get_by_text("0.06 s").first.wait_for()


def test_a_spectrogram_lies_over_the_seconds_of_the_curve(tab, view, tmp_path):
    path = tmp_path / "run.regard"
    with Writer(path) as writer:
        write_heard(writer, ["Hel", "lo", " world"], Frames(40, 0.05, 30.0), 1.5)
    page = tab(f"{view(path)}&view=picture&rec=0&prompt=0&head=cross.L0H1&at=1", "picture")
    page.locator("[data-part=spectrogram]").wait_for()
    drawn = page.locator("[data-part=spectrogram]").bounding_box()
    curve = page.locator("[data-part=curve] svg").bounding_box()
    assert drawn["x"] == pytest.approx(curve["x"], abs=1)
    assert drawn["width"] == pytest.approx(curve["width"] * 0.75, abs=1)  # 1.5 of 2 s
    assert drawn["y"] + drawn["height"] <= curve["y"] + 1
    with open_recording(path) as recording:
        words = study.word_times(recording)
        (tmp_path / "page.html").write_text(recording_page(recording), encoding="utf-8")
    times = page.locator("[data-part=words] [data-part=word-time]")
    assert times.all_inner_texts() == [f"{one.start:.2f}–{one.end:.2f} s" for one in words]
    assert not page.locator("[data-position='1'] [data-part=word-time]").count()
    alone = tab(f"{(tmp_path / 'page.html').as_uri()}#view=picture&head=cross.L0H1", offline=True)
    alone.locator("[data-part=spectrogram]").wait_for()
    assert alone.locator("[data-part=word-time]").count() == 2


@pytest.mark.parametrize("width", [390, 1920])
def test_it_fits_narrow_and_wide_screens(shown, width):
    page, _ = shown(TOLD, tokens=WORDS, mask=Causal(), size={"width": width})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_text_has_no_picture_tab(tab, view, tmp_path):
    page = tab(view(on_disk(tmp_path / "text.regard")), "overview")
    assert "Picture" not in page.locator("[data-part=tabs]").inner_text()


def test_patches_are_named_where_a_head_is_read(shown):
    page, _ = shown(VIT)
    page.evaluate("location.hash = 'view=head&head=L0H0&rec=0&prompt=0'")
    page.wait_for_selector("html[data-ready=head]")
    box = page.locator("[data-part=map]").bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"])
    page.locator("[data-part=readout]").get_by_text("(2,5)").first.wait_for()  # token 18 of 37


def test_one_file_draws_over_its_picture_offline(tab, tmp_path):
    path = tmp_path / "run.regard"
    with Writer(path) as writer:
        write_sighted(writer, TOLD, tokens=WORDS, mask=Causal())
    with open_recording(path) as recording:
        (tmp_path / "page.html").write_text(recording_page(recording), encoding="utf-8")
        row = np.asarray(recording["L1H2"][18])
        column = np.asarray(recording["L1H2"][:, 6])
    address = f"{(tmp_path / 'page.html').as_uri()}#view=picture&head=L1H2&at=18"
    page = tab(address, "picture", offline=True)
    assert read_weight(page, int(row.argmax())) == pytest.approx(row.max(), abs=1e-6)
    assert not page.locator("[data-part=no-picture]").count()
    page.mouse.move(*at_patch(page, 1, 1))
    assert read_weight(page, int(column.argmax())) == pytest.approx(column.max(), abs=1e-6)
    page.get_by_role("button", name="Rollout").click()
    page.locator("[data-part=failed]").get_by_text("does not carry").wait_for()


def test_a_broken_picture_leaves_the_patches(shown):
    page, _ = shown(VIT, pictures=[b"\x89PNG\r\n\x1a\n and nothing more"])
    page.locator("[data-part=no-picture]").get_by_text("cannot be decoded").wait_for()


def test_rollout_lies_over_the_picture_with_what_it_is(shown):
    page, rec = shown(VIT, "&head=L1H0")
    plain = page.locator("[data-part=board]").screenshot()
    page.get_by_role("button", name="Rollout").click()
    until_in_address(page, "dir=rollout")
    caption(page).get_by_text("through all 2").wait_for()
    page.locator("[data-part=rollout-what]").get_by_text("residual stream were all").wait_for()
    shares = study.roll_out_picture(rec, 0, stack="").shares
    assert read_weight(page, int(shares.argmax())) == pytest.approx(shares.max(), abs=1e-6)
    assert page.locator("[data-part=board]").screenshot() != plain
    page.mouse.click(*at_patch(page, 2, 3))
    own = study.roll_out_picture(rec, (2, 3), stack="").shares
    page.mouse.move(*at_patch(page, 4, 1))
    until_in_address(page, f"at={1 + 15}")
    caption(page).get_by_text("patch (2, 3)").first.wait_for()
    assert read_weight(page, 1 + 25) == pytest.approx(own[26], abs=1e-6)
    page.keyboard.press("r")
    until_in_address(page, without="dir=")


def test_a_causal_rollout_warns_of_the_sink(shown):
    page, _ = shown(TOLD, "&head=L0H0&dir=rollout", tokens=WORDS, mask=Causal())
    page.locator("[data-part=rollout-what]").get_by_text("drifts to the sink").wait_for()


def test_windows_say_in_place_why_they_have_no_rollout(shown):
    page, _ = shown(Axis((Grid(2, 2, windows=(2, 2)),)), "&head=L0H0&dir=rollout", heads=8)
    page.locator("[data-part=rollout-refused]").get_by_text("within windows").wait_for()
    page.get_by_role("button", name="Where it looks").click()
    caption(page).get_by_text("looks at").wait_for()
