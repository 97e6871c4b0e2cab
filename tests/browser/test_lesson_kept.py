"""What a learner made is not lost: saved pages, changes left behind, links, paper, the keyboard."""

from __future__ import annotations

import numpy as np
import pytest

from browser.reading import go_to, matrix, overflow, put, value

BANK = "sentence=She+sat+on+the+bank+of+the+river&vectors=features&heads=by-hand"


def type_sentence(page, text):
    page.locator("[data-part=sentence-input]").fill(text)
    page.locator("[data-part=sentence-input]").press("Enter")


def step_of(page):
    return page.locator("[data-part=stage]").get_attribute("data-step")


def focused(page):
    return page.evaluate("document.activeElement.dataset.part")


# ── a saved page ─────────────────────────────────────────────────────────────────────────────


def test_a_saved_page_opens_as_it_was_left(lesson, tab, tmp_path):
    page = lesson(f"step=1&language=de&{BANK}")
    put(page, "words", 2, 3, "-1.5")
    go_to(page, 9)
    output = matrix(page, "block_output")
    page.keyboard.press("p")
    for _ in range(20):
        if page.locator("[data-part=save-html]").count():
            break
        page.keyboard.press(" ")
    with page.expect_download() as saving:
        page.locator("[data-part=save-html]").click()
    saved = tmp_path / "saved.html"
    saving.value.save_as(saved)
    again = tab(saved.as_uri())
    again.wait_for_selector("[data-part=learner-room]")
    assert step_of(again) == "9"
    assert again.evaluate("document.documentElement.lang") == "de"
    assert again.evaluate("document.documentElement.dataset.presenting") is None
    assert again.locator("[data-part=sentence]").text_content().startswith("She sat on the bank")
    assert again.locator("[data-part=heads-choice-of-page]").input_value() == "by-hand"
    np.testing.assert_allclose(matrix(again, "block_output"), output, atol=1e-6)
    go_to(again, 1)
    assert matrix(again, "words")[2, 3] == -1.5
    wins = tab(f"{saved.as_uri()}#step=2&language=en")
    wins.wait_for_selector("[data-part=learner-room]")
    assert step_of(wins) == "2"
    assert wins.evaluate("document.documentElement.lang") == "en"


# ── changes left behind ──────────────────────────────────────────────────────────────────────


def test_undo_brings_the_lesson_back_with_its_changes(lesson):
    page = lesson()
    put(page, "words", 0, 0, "1,5")
    page.locator("[data-part=token-picker] button").nth(2).click()
    type_sentence(page, "A bird flew")
    assert "stays with" in page.locator("[data-part=left-behind]").inner_text()
    page.locator("[data-part=undo-change]").click()
    assert page.locator("[data-part=sentence]").text_content() == "The cat sat"
    assert value(page, "[data-part=cell][data-matrix=words]") == 1.5
    pressed = page.locator("[data-part=token-picker] [aria-pressed=true]")
    assert pressed.inner_text() == "sat"
    assert page.locator("[data-part=left-behind]").count() == 0


def test_back_brings_the_changes_back(lesson):
    page = lesson()
    put(page, "words", 0, 0, "7")
    type_sentence(page, "A bird flew")
    page.go_back()
    page.locator("[data-part=sentence]", has_text="The cat sat").wait_for(state="attached")
    assert value(page, "[data-part=cell][data-matrix=words]") == 7
    assert page.locator("[data-part=left-behind]").count() == 0


def test_each_exercise_keeps_its_answers(lesson):
    page = lesson("step=9")
    page.locator("[data-part=exercise-Q] input").first.fill("0,5")
    choices = page.locator("[data-part=exercise-choice] button")
    choices.nth(1).click()
    assert page.locator("[data-part=exercise-Q] input").first.input_value() == ""
    go_to(page, 3)
    go_to(page, 9)
    choices.first.click()
    assert page.locator("[data-part=exercise-Q] input").first.input_value() == "0,5"


# ── links ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("place", "word", "said"),
    [
        ("sentence=" + "word+" * 30, "sentence", "30 words"),
        ("vectors=foo", "vectors", "vectors=foo"),
        ("heads=bar", "heads", "heads=bar"),
        ("step=99", "step", "0 to 12"),
    ],
)
def test_a_link_that_cannot_be_followed_says_so_and_is_put_right(lesson, place, word, said):
    page = lesson(place)
    assert said in page.locator("[data-part=ignored]").inner_text()
    assert f"{word}=" not in page.url
    page.locator("[data-part=close-ignored]").click()
    assert page.locator("[data-part=ignored]").count() == 0


def test_a_good_link_is_followed_without_a_word_and_its_row_has_scores(lesson):
    page = lesson(f"step=3&{BANK}")
    assert page.locator("[data-part=ignored]").count() == 0
    pressed = page.locator("[data-part=token-picker] [aria-pressed=true]")
    assert pressed.inner_text() == "bank"


# ── paper ────────────────────────────────────────────────────────────────────────────────────


def test_paper_has_the_answer_and_colours_and_nothing_to_press(lesson):
    page = lesson("step=5")
    answer = page.locator("[data-part=printed-answer]")
    assert not answer.is_visible()
    page.emulate_media(media="print")
    answer.wait_for()
    for pressed in ("show-answer", "next-step", "train-ten", "skip"):
        assert not page.locator(f"[data-part={pressed}]").is_visible()
    bar = page.locator(".learn-share i").first
    assert bar.evaluate("bar => getComputedStyle(bar).printColorAdjust") == "exact"
    heading = page.locator(".learn-stage h3").first
    assert heading.evaluate("title => getComputedStyle(title).breakAfter") == "avoid"
    page.emulate_media(media="print", color_scheme="dark")  # which is light on paper
    ink = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink')")
    assert ink == "#1d1f23"


def test_maps_are_painted_for_paper(lesson):
    picture = "document.querySelector('[data-part=heat-map]').toDataURL()"
    light = lesson("step=8").evaluate(picture)
    page = lesson("step=8", color_scheme="dark")
    assert page.evaluate(picture) != light
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(picture) == light
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 640, "height": 900})  # A4 within its margins
    box = page.locator("[data-part=heat-map]").bounding_box()
    room = page.locator(".learn-heat").bounding_box()
    assert box["x"] + box["width"] <= min(640, room["x"] + room["width"] + 1)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_all_steps_are_printed(lesson):
    page = lesson("step=9")
    put_in = "window.printed = 0; window.print = () => { window.printed += 1 }; null"
    page.evaluate(put_in)
    page.locator("[data-part=print-all]").click()
    page.wait_for_selector("[data-part=all-steps]")
    page.wait_for_function("() => window.printed === 1")
    steps = page.locator("[data-part=all-steps] [data-part=stage]")
    assert [one.get_attribute("data-step") for one in steps.all()] == [str(n) for n in range(13)]
    assert all(one.inner_text().strip() for one in steps.all())
    page.locator("[data-part=leave-print]").click()
    page.wait_for_selector("[data-part=learner-room]")
    assert step_of(page) == "9"
    assert page.evaluate("window.printed") == 1


# ── the keyboard, narrow screens ─────────────────────────────────────────────────────────────


def test_the_focus_goes_to_the_title_of_the_next_step(lesson):
    page = lesson("step=2")
    page.keyboard.press("Tab")
    assert focused(page) == "skip"
    page.keyboard.press("Enter")
    assert focused(page) == "step-title"
    assert "step=2" in page.url
    page.locator("[data-part=next-step]").click()
    page.wait_for_selector('[data-part=stage][data-step="3"]')
    assert focused(page) == "step-title"


@pytest.mark.parametrize(("letters", "width"), [(60, 390), (200, 1400)])
def test_a_long_word_fits_the_page(lesson, letters, width):
    page = lesson(f"step=0&sentence=The+{'x' * letters}+sat", width=width, height=900)
    for step in range(13):
        go_to(page, step)
        assert overflow(page) <= 0, step
    page.locator("[data-part=step-1]").click()
    assert "x" * 13 not in page.locator("[data-part=made-up]").inner_text()


def test_the_hint_of_the_map_is_read_whole(lesson):
    page = lesson("step=5&language=de", width=390, height=844)
    hint = page.locator("[data-part=heat-reading]").first
    assert "tippen" in hint.inner_text()
    assert hint.evaluate("one => one.scrollWidth - one.clientWidth") <= 0


def test_tokens_are_wide_enough_to_be_touched(lesson):
    page = lesson("step=8", width=390, height=844)
    widths = [one.bounding_box()["width"] for one in page.locator(".lab-tokens button").all()]
    assert min(widths) >= 24
