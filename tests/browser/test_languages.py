"""The lesson in German and Chinese: chosen by the browser, by --language, or on the page."""

from __future__ import annotations

import re

import pytest

from browser.reading import go_to, matrix, put
from regard.learn import Options
from regard.learn.languages import table_of

STEPS = range(13)
LONG = 20  # letters; shorter ones may be symbols or the same in both languages


def sentences(code):
    """name → its texts, without marks."""
    found = {}
    for section, names in table_of(code).items():
        for name, text in names.items():
            forms = text.values() if isinstance(text, dict) else [text]
            found[f"{section}.{name}"] = [re.sub(r"</?[a-z]+>", "", form) for form in forms]
    return found


def english_only(code):
    """Stretches of English sentences, between their values, that this language does not share."""
    own = " ".join(text for texts in sentences(code).values() for text in texts)
    pieces = {
        piece.strip()
        for texts in sentences("en").values()
        for text in texts
        for piece in re.split(r"\{[a-z_]+\}", text)
    }
    return [piece for piece in pieces if len(piece) > LONG and piece not in own]


@pytest.fixture
def opened(lesson):
    """Opens a lesson that was made for a language."""

    def open_lesson(place="", *, language=None, locale="en-US", width=1280, **asked):
        options = Options("The cat sat", language=language, **asked)
        return lesson(place, options, locale=locale, width=width)

    return open_lesson


def step_title(page):
    return page.locator("[data-part=step-title]").inner_text()


def spoken(page):
    """What is read, and what is read aloud: text, labels and titles."""
    return page.evaluate(
        """() => {
            const all = [...document.querySelectorAll("#page *")];
            const said = (name) => all.map((one) => one.getAttribute(name) ?? "");
            return [document.getElementById("page").innerText, ...said("aria-label"),
                    ...said("title"), ...said("aria-valuetext")].join("\\n");
        }"""
    )


@pytest.mark.parametrize(
    ("locale", "language", "shown"),
    [("de-DE", None, "de"), ("fr-FR", None, "en"), ("de-DE", "zh", "zh")],
    ids=["as the browser", "none of ours", "as it was made"],
)
def test_the_language_that_is_chosen(opened, locale, language, shown):
    page = opened(locale=locale, language=language)
    assert table_of(shown)["why"]["title"] in step_title(page)
    assert page.evaluate("document.documentElement.lang") == shown


def test_the_picker_changes_everything_and_loses_nothing(opened):
    page = opened("step=3")
    put(page, "h0.scores", 0, 0, "7")
    page.locator("[data-part=show-answer]").click()
    page.locator("[data-part=language-picker]").select_option("de")
    assert table_of("de")["scores"]["title"] in step_title(page)
    assert page.locator("[data-part=changes]").inner_text().startswith("1 Zahl geändert")
    assert matrix(page, "h0.scores")[0, 0] == 7
    assert page.locator("[data-part=answer]").inner_text() == table_of("de")["scores"]["answer"]
    assert page.evaluate("document.documentElement.lang") == "de"
    page.locator("[data-part=language-picker]").select_option("zh")
    assert table_of("zh")["scores"]["title"] in step_title(page)
    page.reload()  # the address keeps the language and the step
    page.wait_for_selector("[data-part=learner-room]")
    assert table_of("zh")["scores"]["title"] in step_title(page)


def test_the_list_of_keys_speaks_it_too(opened):
    page = opened(language="de", heads=2)
    page.keyboard.press("?")
    listed = page.locator("dialog.help").inner_text()
    keys, shell = table_of("de")["keys"], table_of("de")["shell"]
    for words in (keys["title"], keys["token"], keys["head"], shell["does_dark"], shell["close"]):
        assert words in listed
    page.keyboard.press("Escape")
    page.locator("[data-part=language-picker]").select_option("zh")
    page.locator("[data-part=step-title]").click()
    page.keyboard.press("?")
    assert table_of("zh")["keys"]["token"] in page.locator("dialog.help").inner_text()


@pytest.mark.parametrize("code", ["de", "zh"])
def test_no_english_is_left(opened, code):
    page = opened(language=code)
    english = english_only(code)
    assert len(english) > 200
    for step in STEPS:
        go_to(page, step)
        page.locator("[data-part=show-answer]").click()
        for answer in ("[data-part=guess] button", "[data-part=slips] button"):
            if page.locator(answer).count():
                page.locator(answer).last.click()
        said = spoken(page)
        assert [piece for piece in english if piece in said] == [], f"step {step}"


def test_presenter_mode_speaks_it(opened):
    page = opened(language="de")
    page.locator("[data-part=present-button]").click()
    line = page.locator("[data-part=presenter-line]").inner_text()
    assert "Leertaste" in line
    assert "kausal aus" in line
