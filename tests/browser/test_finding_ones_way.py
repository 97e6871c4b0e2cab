"""From words to rows: tokens that are clicked, words that are found, heads that are kept."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from browser.reading import overflow
from regard.colour import lightness
from regard.views.overview import whole_overview
from support.recordings import in_memory, on_disk

# As a recording made before had them: two bytes of Ä on two tokens.
TOKENS = ["S", "ü", "ß", "e", "ĠÃ", "Ħ", "p", "fel", " und", "ĠÃ", "Ħ", "p", "fel", "."]


@pytest.fixture(scope="session")
def address(view, tmp_path_factory):
    return view(on_disk(tmp_path_factory.mktemp("ways") / "a.regard", TOKENS))


@pytest.fixture(scope="session")
def planted_address(view, planted):
    return view(planted)


@pytest.fixture
def at(tab):
    return lambda address, place, ready, **how: tab(f"{address}&{place}", ready, **how)


def place_of(page):
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).fragment).items()}


def opens_on():
    return whole_overview(in_memory(TOKENS)[0])["opens_on"]


def test_the_overview_opens_on_the_head_that_stands_out(at, address):
    page = at(address, "view=overview", "overview")
    first = opens_on()
    assert page.locator("[data-part=grid-cell]").get_attribute("data-head") == first != "L0H0"
    chosen = page.locator("[data-part=statistic]").input_value()
    assert chosen == whole_overview(in_memory(TOKENS)[0])["statistic"]


def test_a_token_of_the_text_opens_its_row(at, address):
    page = at(address, "view=overview", "overview")
    words = page.locator("[data-part=word]")
    assert "".join(words.all_inner_texts()) == "Süße Ä⋯pfel und Ä⋯pfel."
    words.nth(8).click()
    page.wait_for_selector("html[data-ready=row]")
    assert page.locator("[data-part=row-page]").get_attribute("data-row") == "8"
    page.locator("[data-part=row-text] [data-key='4']").click()
    page.wait_for_selector("[data-part=row-page][data-row='4']")
    page.get_by_text("␣Ä", exact=True).and_(page.locator("[data-part=row-token]")).wait_for()


def test_a_token_of_an_axis_opens_its_row(at, address):
    page = at(address, "view=head&head=L0H1", "head")
    axis = page.locator("[data-part=axis-queries]")
    box, size = axis.bounding_box(), float(page.locator("[data-part=map]").get_attribute(
        "data-px-per-token"))  # fmt: skip
    axis.click(position={"x": box["width"] / 2, "y": 5.5 * size})
    page.wait_for_selector("[data-part=row-page][data-row='5']")


def test_words_are_found_where_they_begin(at, address):
    page = at(address, "view=overview", "overview")
    links = page.locator("[data-part=found-words] a")
    for typed, rows in (("Birne", []), ("süße", [0]), ("äpfel", [4, 9])):
        page.locator("[data-part=goto] input").fill(typed)
        page.keyboard.press("Enter")
        page.wait_for_selector(f"[data-part={'found-words' if rows else 'no-words'}]")
        tokens = links.evaluate_all("all => all.map(one => Number(one.dataset.token))")
        assert tokens == rows, typed
    links.last.click()
    page.wait_for_selector("[data-part=row-page][data-row='9']")


def test_go_to_takes_words_and_numbers(at, address):
    page = at(address, "view=row&head=L0H1&row=2", "row")
    for typed, row in (("Äpfel", 4), ("11", 11), ("Birne", None)):
        page.keyboard.press("g")
        page.locator("[data-part=goto] input").fill(typed)
        page.keyboard.press("Enter")
        if row is not None:
            page.wait_for_selector(f"[data-part=row-page][data-row='{row}']")
    page.locator("[data-part=goto] [role=alert]", has_text="not in the text").wait_for()


def test_heads_are_pinned_and_noted_and_the_address_keeps_it(at, address, tab):
    page = at(address, "view=head&head=L0H1", "head")
    page.locator("[data-part=pin]").click()
    page.locator("[data-part=pin-note]").fill("looks back | far")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.locator("[data-part=tabs] a").first.click()
    page.wait_for_selector("[data-part=pinned]")
    assert place_of(page)["pins"] == "L0H1~looks back / far"
    page.reload()
    page.wait_for_selector("[data-part=pinned]")
    assert page.locator("[data-part=pin-note]").input_value() == "looks back / far"
    page.locator("[data-part=pinned] button").click()
    assert "pins" not in place_of(page)


def test_heads_are_filtered_by_label(at, planted_address):
    page = at(planted_address, "view=overview&show=ranked", "overview")
    page.wait_for_selector("[data-part=label-chips]")
    page.locator("[data-part=label-chips] [data-label=previous]").click()
    assert place_of(page)["label"] == "previous"
    shown = page.locator("[data-part=ranked] a")
    assert sorted(shown.all_inner_texts()) == ["L0H0", "L1H0"]


def test_words_are_explained_one_click_away(at, address):
    page = at(address, "view=row&head=L0H1&row=5", "row")
    page.locator("[data-part=term][data-term='× even share']").first.click()
    chosen = page.locator("[data-part=glossary] [data-chosen=true]")
    assert "number of keys" in chosen.inner_text()
    page.keyboard.press("Escape")
    page.wait_for_selector("[data-part=glossary]", state="detached")


_SHADED = """() => [...document.querySelectorAll("[data-part=row-text] .row-token[style]")].map(
    (one) => [+one.dataset.value, getComputedStyle(one).backgroundColor])"""


def shades(page):
    """How light the tokens are that have a colour, the least weight first."""
    found = [(weight, re.findall(r"[0-9.]+", colour)) for weight, colour in page.evaluate(_SHADED)]
    some = sorted((weight, [int(n) for n in rgb]) for weight, rgb in found if len(rgb) == 3)
    return lightness([rgb for _, rgb in some])


def test_heavy_weights_are_far_from_the_paper(at, planted_address):
    page = at(planted_address, "view=row&head=L1H1&row=100", "row")
    for scheme, sign in (("light", -1), ("dark", 1)):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(f"() => document.documentElement.dataset.theme === '{scheme}'")
        away = shades(page) * sign
        assert away.size > 10 and away[-1] - away[0] > 0.1, scheme
        assert (np.diff(away) >= -0.003).all()  # but for the rounding of colours


def test_one_recording_offers_two_heads_whose_maps_move_together(at, planted_address):
    page = at(planted_address, "view=compare", "compare")
    commands = page.locator("[data-part=nothing-to-compare]").inner_text()
    assert "regard view planted.regard other.regard" in commands
    assert "regard record " in commands
    maps = [page.locator(f"[data-part=map-{one}] canvas").first for one in ("head", "second")]
    for one in maps:
        one.wait_for()
    page.wait_for_function(
        "() => document.querySelectorAll('[data-part=two-heads] [data-px-per-token]').length === 2"
    )
    before = [float(one.get_attribute("data-px-per-token")) for one in maps]
    maps[0].hover()
    page.mouse.wheel(0, -400)
    page.wait_for_function(
        f"""() => [...document.querySelectorAll('[data-part=two-heads] [data-px-per-token]')]
            .every((one) => +one.dataset.pxPerToken > 1.1 * {max(before)})"""
    )
    after = [one.evaluate("one => ({...one.dataset})") for one in maps]
    assert after[0]["originX"] == after[1]["originX"]
    assert after[0]["pxPerToken"] == after[1]["pxPerToken"]
    page.locator("[data-part=choose-second]").select_option("L1H2")
    page.wait_for_selector("[data-part=map-second][data-head=L1H2]")
    assert place_of(page)["second"] == "L1H2"


def test_nothing_is_wider_than_a_phone(at, address):
    page = at(address, "view=overview&pins=L0H1~a+note", "overview", width=390, height=844)
    for view in ("overview", "compare", "row"):
        place = f"view={view}&head=L0H1&row=5&pins=L0H1~a+note"
        page.evaluate("place => { location.hash = place; }", place)
        page.wait_for_selector(f"html[data-ready={view}]")
        assert overflow(page) <= 0, view
