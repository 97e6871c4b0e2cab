"""`regard play` on a real model in a real browser: type, point, switch, append, go back."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

import pytest

from browser.playing import playing
from browser.reading import overflow, value, values
from play.tiny import TEXT
from regard.play.script import read_script

PROMPT = "The silver otter sang to the moon. The lantern went out. The silver otter"


@pytest.fixture(scope="package")
def played():
    """A real model; it is loaded once."""
    with playing("smollm2") as address:
        yield address


def _open(tab, address, prompt="", **options):
    page = tab(f"{address}&p={quote(prompt)}" if prompt else address, **options)
    if prompt:
        page.wait_for_selector("[data-part=arcs] .arc")
    return page


def _share(page, token, name="data-value"):
    return float(page.locator(f"[data-part=bar][data-token='{token}']").get_attribute(name))


def _until_words(page, count):
    page.wait_for_function(
        "(count) => document.querySelectorAll('[data-word]').length === count", arg=count
    )


def test_a_prompt_shows_words_bars_and_arcs(tab, played):
    page = _open(tab, played)
    page.get_by_role("textbox", name="Prompt", exact=True).fill(PROMPT)
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-part=arcs] .arc")
    assert page.locator("[data-word]").count() == 18
    assert page.locator("[data-part=bar]").first.inner_text().startswith("sang")
    page.wait_for_selector("[data-part=card]")
    assert page.locator("[data-part=card]").count() == 10
    page.locator("[data-word='3']").hover()
    assert page.locator("[data-part=reads] h2").inner_text().startswith("“sang”") is False
    keys = page.locator("[data-part=arcs] .arc").evaluate_all("all => all.map(a => a.dataset.key)")
    assert keys and max(map(int, keys)) <= 3
    assert 0 < value(page, "[data-part=read-key]") <= 1


def test_a_switch_moves_the_bars_and_gives_them_back(tab, played):
    page = _open(tab, played, PROMPT)
    page.wait_for_selector("[data-part=card]")
    token = int(page.locator("[data-part=bar]").first.get_attribute("data-token"))
    before = _share(page, token)
    page.locator("[data-part=switch]").first.click()
    page.wait_for_selector("[data-part=moved]")
    assert _share(page, token, "data-before") == pytest.approx(before)
    assert _share(page, token) != before
    address = page.url
    page.reload()
    page.wait_for_selector("[data-part=moved]")
    assert page.url == address
    page.locator("[data-part=restore]").click()
    page.wait_for_selector("[data-part=moved]", state="detached")
    assert _share(page, token) == before


def test_an_edge_is_cut_and_restored(tab, played):
    page = _open(tab, played, PROMPT)
    key = page.locator("[data-part=read-key]").first.get_attribute("data-key")
    page.locator("[data-part=cut]").first.click()
    page.wait_for_selector("[data-part=gone-key]")
    page.wait_for_selector("[data-part=moved]")
    assert not page.locator(f"[data-part=read-key][data-key='{key}']").count()
    page.get_by_text("restore", exact=True).click()
    page.wait_for_selector("[data-part=gone-key]", state="detached")


def test_tokens_are_appended_and_taken_back_exactly(tab, played):
    page = _open(tab, played, PROMPT)
    before = values(page, "[data-part=bar]")
    for count in (19, 20):
        page.locator("[data-part=step]").click()
        _until_words(page, count)
    assert page.locator(".is-fresh").count() == 2
    for count in (19, 18):
        page.locator("[data-part=back]").click()
        _until_words(page, count)
    assert values(page, "[data-part=bar]") == before
    page.locator("[data-part=bar]").nth(1).click()
    page.wait_for_selector("[data-word='18']")


def test_a_number_is_explained_by_the_lesson(tab, played):
    page = _open(tab, played, PROMPT)
    weight = value(page, "[data-part=read-key]")
    page.locator("[data-part=explain]").first.click()
    page.wait_for_selector("[data-part=real-words]")
    assert f"{weight:.4f}" in page.locator("[data-part=real-words]").inner_text()
    shown = page.locator("[data-part=real-top] tbody tr").first
    assert values(shown, "[data-value]")[-1] == pytest.approx(weight, abs=1e-3)
    page.locator("[data-part=return]").click()
    page.wait_for_selector("[data-part=arcs] .arc")


def test_the_engineers_room_opens_on_the_same_recording(tab, played):
    page = _open(tab, played, PROMPT)
    label = page.locator("[data-part=at]").inner_text()
    page.locator("[data-part=open]").click()
    page.wait_for_selector("[data-part=crumbs]")
    assert label in page.locator("[data-part=crumbs]").inner_text()
    page.go_back()
    page.wait_for_selector("[data-part=arcs] .arc")
    with page.expect_download() as download:
        page.locator("[data-part=save]").click()
    assert download.value.suggested_filename == "smollm2.regard"


def test_the_engineers_room_finds_its_recording_on_a_server_started_again(tab):
    """The address says of which prompt it was made; its number is another one there."""
    with playing() as address:
        page = _open(tab, address, "the dog ran")
        page.locator("[data-part=open]").click()
        page.wait_for_selector("[data-part=crumbs]")
        page.locator("[data-part=return]").click()
        page.get_by_role("textbox", name="Prompt", exact=True).fill(TEXT)
        page.keyboard.press("Enter")
        _until_words(page, 12)
        page.locator("[data-part=open]").click()
        page.wait_for_selector("[data-part=crumbs]")
        page.locator("[data-part=tabs]").get_by_text("Overview").click()
        page.wait_for_selector("html[data-ready=overview]")
        place = urlsplit(page.url).fragment
        assert "rec=1" in place and "from=" in place
        page.close()
    with playing() as address:
        page = tab(f"{address}&{place}", "overview")
        assert "rec=0" in page.url
        assert page.locator("[data-part=recording-name]").inner_text() == TEXT.replace(" ", "")
        page.locator("[data-part=return]").click()
        _until_words(page, 12)
        page.close()
        lost = "&".join(part for part in place.split("&") if not part.startswith("from="))
        page = tab(f"{address}&{lost}")
        page.get_by_text("A server that was started again has none").wait_for()
        page.close()
    assert all("404" in line for line in tab.said), tab.said  # what Chromium says of that one
    tab.said.clear()


def test_two_prompts_are_linked(tab, played):
    page = _open(tab, played)
    page.locator("[data-part=compare]").click()
    page.locator("[data-part=prompt]").fill("The animal did not cross because it was too tired")
    page.locator("[data-part=second-prompt]").fill(
        "The street was not crossed because it was too wide"
    )
    page.locator("[data-part=send]").click()
    page.wait_for_selector("[data-part=second] .arc")
    page.locator("[data-part=second] [data-word='8']").hover()
    assert page.locator("[data-part=second] .row").count() == 1
    assert page.locator("[data-part=reads] h2").inner_text().startswith("“too”")


def test_a_sentence_stands_where_something_is_wrong(tab, played):
    page = _open(tab, played)
    page.locator("[data-part=prompt]").fill("word " * 9000)
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-part=failed]")
    assert "shorten it by" in page.locator("[data-part=failed]").inner_text()
    assert page.locator("[data-part=prompt]").input_value().startswith("word word")
    page.locator("[data-part=prompt]").fill("<img src=x onerror=alert(1)> is text")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-part=arcs] .arc")
    assert page.locator("[data-part=words] img").count() == 0
    assert "<img" in page.locator("[data-part=words]").inner_text()


def test_the_tour_ends_at_a_head_that_copies(tab, played):
    page = _open(tab, played)
    page.locator("[data-part=tour]").click()
    for _ in range(3):
        page.locator("[data-part=tour-next]:enabled").click()
    page.wait_for_selector("[data-part=tour-found]")
    page.locator("[data-part=tour-next]").click()
    page.wait_for_selector("[data-part=moved]")


@pytest.mark.parametrize("width", [390, 1920])
def test_it_fits_and_works_by_keyboard(tab, played, width):
    page = _open(tab, played, PROMPT, width=width, color_scheme="dark", reduced_motion="reduce")
    assert overflow(page) <= 0
    page.locator("[data-part=words]").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert "pin=16" in page.url
    page.keyboard.press("Escape")
    assert "pin=" not in page.url
    page.locator("[data-part=layer-slider]").focus()
    label = page.locator("[data-part=at]").inner_text()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "(label) => document.querySelector('[data-part=at]').innerText !== label", arg=label
    )
    page.locator("[data-part=cells]").focus()
    page.keyboard.press("x")
    page.wait_for_selector("[data-part=moved]")


def test_two_tabs_do_not_disturb_each_other(tab, played):
    one, two = (_open(tab, played, text) for text in (PROMPT, "The capital of France is"))
    two.wait_for_selector("[data-part=card]")
    two.locator("[data-part=switch]").first.click()
    two.wait_for_selector("[data-part=moved]")
    one.locator("[data-word='4']").hover()
    assert one.locator("[data-part=moved]").count() == 0
    assert one.locator("[data-word]").count() == 18


def test_a_server_that_is_killed_and_started_again(tab):
    said = tab.said
    with playing() as address:
        page = _open(tab, address, "the cat sat on")
        port = urlsplit(address).port
    page.locator("[data-part=step]").click()
    page.wait_for_selector("[data-part=failed]")
    assert "what you typed is still here" in page.locator("[data-part=failed]").inner_text()
    assert page.locator("[data-part=prompt]").input_value() == "the cat sat on"
    with playing(port=port) as address:
        other = page.context.new_page()
        other.goto(address)
        page.wait_for_selector("[data-word='4']", timeout=30_000)
        assert page.locator("[data-part=failed]").count() == 0
        other.close()
        page.close()
    said[:] = [line for line in said if "Failed to load resource" not in line]


def test_a_script_is_replayed(tab, tmp_path):
    file = tmp_path / "talk.txt"
    file.write_text("prompt the cat sat on\npin cat\nhead L1H2\noff L1H2\ncut sat cat\nnext\n")
    with playing(script=read_script(file)) as address:
        page = tab(address)
        page.wait_for_selector("html[data-script=done]", timeout=60_000)
        assert "off=L1H2" in page.url and "at=L1H2" in page.url
        assert page.locator("[data-word]").count() == 5
        page.wait_for_selector("[data-part=moved]")
        page.close()
