"""The engineer's room on a real server; its numbers are numpy's, its pixels the palette's."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from browser.reading import figures, overflow, pixels, value, values
from regard.colour import palette
from regard.mask import Causal
from regard.recording import Writer
from regard.recording import open as open_recording
from regard.recording.schema import PROMPT_NOTE, Prompt
from regard.study import compare_recordings, make_report
from regard.viewer.opened import Opened
from regard.views.findings import why_nobody
from regard.views.text import why_unknown
from support.recordings import WORDS, Chunk, growing, make_state, write, write_recording
from support.recordings.planted import mixed, record_planted, targets, text


@pytest.fixture(scope="session")
def files(tmp_path_factory, planted):
    """Two recordings of one text, and one of heads that do what is expected of them."""
    folder = tmp_path_factory.mktemp("recordings")
    own = [make_state(folder / "a.regard", "exact"), make_state(folder / "b.regard", "window")]
    return [*own, planted]


@pytest.fixture(scope="session")
def address(view, files):
    """Where they are served."""
    return view(*files)


@pytest.fixture
def recording(files):
    with open_recording(files[0]) as found:
        yield found


@pytest.fixture
def at(tab, address):
    """Opens a place and waits until it is drawn."""
    return lambda place, ready, **how: tab(f"{address}&{place}", ready, **how)


# ── overview ─────────────────────────────────────────────────────────────────────────────────


def test_the_grid_has_the_palettes_colours(at, recording):
    page = at("view=overview", "overview")
    page.locator("[data-part=show-numbers]").click()
    grid = np.asarray(recording.grid("peak"))
    page.locator("[data-part=statistic]").select_option("peak")
    canvas = page.locator("[data-part=head-grid]")
    step, left, top = (
        float(canvas.get_attribute(f"data-{name}")) for name in ("step", "left", "top")
    )
    middles = [
        (left + (head + 0.5) * step, top + (layer + 0.5) * step)
        for layer, head in np.ndindex(*grid.shape)
    ]
    expected = [tuple(palette()[round(share * 255)].tolist()) for share in grid.ravel().tolist()]
    assert pixels(page, "[data-part=head-grid] canvas", middles) == expected


def test_a_head_is_opened_by_keys_and_typed(at, recording):
    page = at("view=overview", "overview")
    for key in ("ArrowUp",) * 3 + ("ArrowLeft",) * 4 + ("ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator("[data-part=grid-panel]").inner_text().startswith("L1H1")
    shown = figures(page, "[data-part=grid-panel]")
    peak = float(np.asarray(recording.grid("peak"))[1, 1])
    assert min(abs(number - peak) for number in shown) < 1e-6
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-ready=head]")
    assert page.locator("[data-part=head-page]").get_attribute("data-head") == "L1H1"
    page.go_back()
    page.wait_for_selector("html[data-ready=overview]")
    page.keyboard.press("/")
    page.keyboard.type("l2h0")
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-ready=head]")
    assert page.locator("[data-part=head-page]").get_attribute("data-head") == "L2H0"


def test_tabs_have_keys_and_a_wrong_word_is_the_overview(at):
    page = at("view=nowhere", "overview")
    tabs = page.locator("[data-part=tabs] a")
    assert tabs.all_inner_texts() == ["Overview", "Findings", "Compare"]
    page.keyboard.press("2")
    page.wait_for_selector("html[data-ready=findings]")
    assert page.locator("[data-part=tabs] [aria-current=page]").inner_text() == "Findings"
    assert page.title().startswith("findings · a.regard")


# ── findings ─────────────────────────────────────────────────────────────────────────────────


def test_every_finding_has_its_number(at, files):
    with open_recording(files[2]) as planted:
        report = make_report(planted, top=10_000)
    assert {one.finding.pattern for one in report.found} >= {"previous", "self"}
    page = at("view=findings&rec=2", "findings")
    cards = page.locator("[data-part=finding]")
    assert cards.count() == len(report.found)
    for card, one in zip(cards.all(), report.found, strict=True):
        assert card.get_attribute("data-head") == one.head.label
        assert card.get_attribute("data-pattern") == one.finding.pattern
        numbers = figures(card, "[data-part=score]")
        assert min(abs(number - one.finding.score) for number in numbers) < 1e-6
    assert "not why the model answers" in page.locator("[data-part=caveat]").inner_text()
    page.locator('[data-part=label-chips] [data-label="self"]').click()
    assert {one.get_attribute("data-pattern") for one in cards.all()} == {"self"}
    cards.first.locator("[data-part=evidence] a").first.click()
    page.wait_for_selector("html[data-ready=row]")


def test_keys_of_the_exact_weights_lead_to_their_rows(at):
    page = at("view=head&rec=2&head=L0H0&cell=4,3", "head")
    page.keyboard.press("e")
    panel = page.locator("[data-part=exact-panel]")
    links = panel.locator("[data-part=key-token]")
    assert links.count() == 5
    key = links.nth(2).get_attribute("data-key")
    links.nth(2).click()
    page.wait_for_selector("html[data-ready=row]")
    assert f"head=L0H0&row={key}" in page.url


def test_bars_of_a_ranking_begin_at_zero(at):
    page = at("view=overview&show=ranked&stat=max_score", "overview")
    lines = page.locator("[data-part=ranked] li")
    weights = figures(page, "[data-part=ranked] li")
    widths = lines.locator(".over-bar > span").evaluate_all(
        "all => all.map(o => o.getBoundingClientRect().width)"
    )
    assert min(weights) > 0 and len(set(weights)) > 1
    shares = [weight / weights[0] for weight in weights]
    assert [width / widths[0] for width in widths] == pytest.approx(shares, abs=0.01)


def test_no_finding_is_an_answer(at):
    page = at("view=findings", "findings")
    said = page.locator("[data-part=no-finding]").inner_text()
    assert said == "No head shows a pattern beyond chance."
    page.locator('[data-part=label-chips] [data-label="unclear"]').click()
    assert page.locator("[data-part=unclear] a").count() == 12


def test_why_a_number_and_a_label_are_missing_is_said(view, tab, tmp_path):
    coarse, _ = write_recording(
        tmp_path / "coarse.regard", chunks=[Chunk((0, 80), (0, 80), Causal())],
        key_bin=64, top_every=64, row_bin=64,
    )  # fmt: skip
    short, _ = write_recording(
        tmp_path / "short.regard", chunks=[Chunk((0, 12), (0, 12), Causal())]
    )
    with open_recording(coarse) as recording:
        why = why_unknown(recording.prompts[0], "sink")
    address = view(coarse, short)
    page = tab(f"{address}&view=overview", "overview")
    page.locator("[data-part=show-numbers]").click()
    said = page.locator("[data-part=why-unknown]")
    page.locator("[data-part=statistic]").select_option("sink")
    assert said.inner_text().lower() == f"{why}."
    page.locator("[data-part=statistic]").select_option("peak")
    assert said.count() == 0
    page = tab(f"{address}&view=head&head=L0H1", "head")
    assert page.locator("[data-part=statistics] [data-part=why-unknown]").count() == 1
    page = tab(f"{address}&view=overview&rec=1")
    nobody = page.locator("[data-part=stands-out] [data-part=no-finding]")
    nobody.wait_for()
    assert nobody.inner_text() == f"{why_nobody(12)}."


# ── a head ───────────────────────────────────────────────────────────────────────────────────


def test_zoomed_in_every_pixel_is_its_cells_colour(at, recording, files):
    page = at("view=head&head=L1H1&x=40&y=40&z=16", "head")
    page.wait_for_selector('[data-part=map][data-waiting="0"]')
    canvas = page.locator("[data-part=map]")
    ox, oy, z = (
        float(canvas.get_attribute(f"data-{name}"))
        for name in ("origin-x", "origin-y", "px-per-token")
    )
    opened = Opened(open_recording(files[0]))
    codes = opened.head_map(0, "L1H1").tile(1, 0, 0).codes
    opened.close()
    cells = [
        (row, key)
        for row in range(int(oy) + 1, int(oy) + 20, 3)
        for key in range(int(ox) + 1, int(ox) + 20, 3)
        if codes[row, key]
    ]
    assert len(cells) > 10
    expected = [
        tuple(palette()[round((int(codes[cell]) - 1) / 254 * 255)].tolist()) for cell in cells
    ]
    middles = [((key + 0.5 - ox) * z, (row + 0.5 - oy) * z) for row, key in cells]
    assert pixels(page, "[data-part=map]", middles) == expected


def test_the_read_out_has_every_digit(at, recording):
    page = at("view=head&head=L0H1&x=20&y=60&z=20&at=60,20", "head")
    page.wait_for_selector("[data-part=readout-weight]")
    exact = float(np.asarray(recording["L0H1"][60, 20]))
    assert value(page, "[data-part=readout-weight]") == pytest.approx(exact, abs=1e-6)
    for keys, cell in (("Shift+ArrowLeft", (60, 19)), ("Shift+ArrowDown", (61, 19))):
        page.keyboard.press(keys)
        expected = float(np.asarray(recording["L0H1"][cell]))
        page.wait_for_function(
            "want => Math.abs(document.querySelector('[data-part=readout-weight]')?.dataset.value"
            " - want) < 1e-6",
            arg=expected,
        )
    page.keyboard.press("Shift+ArrowRight")


def test_a_view_is_in_its_address(at):
    page = at("view=head&head=L0H0", "head")
    for key in ("+", "+", "m"):
        page.keyboard.press(key)
    page.wait_for_function("() => location.hash.includes('how=max') && /z=/.test(location.hash)")
    assert "token" not in page.url
    scale = page.locator("[data-part=map]").get_attribute("data-px-per-token")
    page.reload()
    page.wait_for_selector("html[data-ready=head]")
    again = page.locator("[data-part=map]").get_attribute("data-px-per-token")
    assert float(again) == pytest.approx(float(scale), rel=1e-4)
    page.keyboard.press("]")
    page.wait_for_selector('[data-part=head-page][data-head="L0H1"]')


def test_the_whole_map_comes_before_what_is_looked_at(tab, view, tmp_path):
    ids = text(600)  # levels 1, 2, 4
    record_planted(np.array([[mixed(targets(ids)["previous"], noise=0.3)]]), ids, tmp_path / "run")
    page, asked = tab(), []
    page.on("request", lambda request: asked.append(parse_qs(urlsplit(request.url).query)))
    page.goto(f"{view(tmp_path / 'run')}&view=head&head=L0H0&x=300&y=500&z=8")
    page.wait_for_selector('[data-part=map][data-waiting="0"]')
    levels = [one["level"] for one in asked if "level" in one]
    assert levels[0] == ["4"] and set(map(tuple, levels[1:])) == {("1",)}


def test_the_map_stays_where_it_is_under_the_pointer(at):
    page = at("view=head&head=L1H0", "head")
    canvas = page.locator("[data-part=map]")
    before = canvas.bounding_box()
    page.mouse.move(before["x"] + 40, before["y"] + before["height"] - 40)
    page.wait_for_selector("[data-part=track-entropy-value]")
    assert canvas.bounding_box() == before


# ── a row ────────────────────────────────────────────────────────────────────────────────────


def test_a_rows_heaviest_keys_are_numpys(at, recording):
    page = at("view=row&head=L2H3&row=77", "row")
    head = recording["L2H3"]
    expected = np.asarray(head.top(32).weights)[77]
    shown = values(page, "[data-part=top-weight]")
    np.testing.assert_allclose(shown, expected[: len(shown)], atol=1e-6)
    entropy = float(np.asarray(head.entropy())[77])
    assert figures(page, "[data-part=row-entropy]")[0] == pytest.approx(entropy, abs=1e-6)
    weights = np.asarray(head[77])
    for key in (0, 40, 77):
        token = page.locator(f'[data-part=row-text] [data-key="{key}"]').first
        assert float(token.get_attribute("data-value")) == pytest.approx(weights[key], abs=1e-6)
    page.keyboard.press("ArrowRight")
    page.wait_for_selector('[data-part=row-page][data-row="78"]')


# ── two recordings ───────────────────────────────────────────────────────────────────────────


def test_two_recordings_compared(at, files):
    page = at("view=compare&other=1&other_prompt=0", "compare")
    with open_recording(files[0]) as a, open_recording(files[1]) as b:
        expected = compare_recordings(a, b, rows=128).heads
    first = page.locator("[data-part=distance-table] tbody tr").first
    assert expected[0].label in first.inner_text()
    numbers = values(first, "[data-value]")
    assert min(abs(number - expected[0].distance) for number in numbers) < 1e-6


# ── sharing ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("place", "ready"), [("view=head&head=L0H1", "head"), ("view=row&head=L0H1&row=30", "row")]
)
def test_what_is_shared_can_be_read_elsewhere(at, tab, tmp_path, address, place, ready):
    page, content = at(place, ready), {}
    for kind in ("png", "svg", "json", "page"):
        if not page.locator(f"[data-part=share-{kind}]").count():
            page.locator("[data-part=share]").click()
        with page.expect_download() as waiting:
            page.locator(f"[data-part=share-{kind}]").click()
        path = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(path)
        content[kind] = path.read_bytes()
    assert content["png"].startswith(b"\x89PNG") and len(content["png"]) > 2000
    assert b"<svg" in content["svg"] and b"not why the model answers" in content["svg"]
    assert "L0H1" in json.dumps(json.loads(content["json"]))
    tab(path.as_uri()).wait_for_selector("html[data-ready]")
    token = address.split("token=")[1].encode()
    assert not any(token in kind for kind in content.values())


# ── how it looks ─────────────────────────────────────────────────────────────────────────────

PLACES = {
    "overview": "view=overview", "findings": "view=findings", "head": "view=head&head=L1H0",
    "row": "view=row&head=L1H0&row=60", "compare": "view=compare&other=1&other_prompt=0",
}  # fmt: skip


def go(page, place, ready):
    page.evaluate("place => { location.hash = place; }", place)
    page.wait_for_selector(f"html[data-ready={ready}]")


@pytest.mark.parametrize("width", [390, 1280])
def test_no_view_is_wider_than_the_window(at, width):
    page = at(PLACES["overview"], "overview", width=width)
    for ready, place in PLACES.items():
        go(page, place, ready)
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            assert overflow(page) <= 0, (ready, scheme)


def test_hostile_texts_stay_in_their_place(tab, view, tmp_path):
    path, tokens = tmp_path / "run.regard", ["x" * 10_000, "\u202eabc", "<b>", *WORDS]
    with Writer(path) as writer:
        write(writer, tokens, exact=(0, 1))
        note = Prompt(len(tokens), title="w" * 300 + "\u202e<i>", finished=True)
        writer.note({f"{PROMPT_NOTE}0": note.to_json()})
    page = tab(view(path), "overview", width=390)
    for ready in ("overview", "findings", "row"):
        go(page, f"view={ready}&head=L0H0&row=9", ready)
        assert overflow(page) <= 0
        assert "\u202e" not in page.locator("main").inner_text()


def test_the_list_of_keys_takes_the_focus_and_gives_it_back(at):
    page = at("view=overview", "overview")
    page.locator("[data-part=share]").focus()
    page.keyboard.press("?")
    page.wait_for_selector("dialog.help")
    assert page.evaluate("() => document.activeElement.closest('dialog') !== null")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog.help", state="detached")
    assert page.evaluate("() => document.activeElement.dataset.part") == "share"


# ── states ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "place", "part", "words"),
    [
        ("empty", "view=overview", "empty", ""),
        ("damaged", "view=overview", "damaged", "regard verify"),
        ("stored only", "view=head&head=L0H0", "head-page", "Single weights cannot be shown"),
        ("cross", "view=head&head=cross.L0H0", "head-page", "40"),
        ("window", "view=head&head=L0H0", "head-page", ""),
        ("no maps", "view=overview", "overview", ""),
        ("unheard", "view=findings", "findings", "layers.*.attn (ByHand), 3 of them"),
    ],
)
def test_every_state_says_what_it_is(tab, view, tmp_path, name, place, part, words):
    page = tab(f"{view(make_state(tmp_path / 'run.regard', name))}&{place}")
    page.wait_for_selector(f"[data-part={part}]")
    page.wait_for_selector("html[data-ready]")
    assert words in page.locator("body").inner_text()
    tab.said[:] = [one for one in tab.said if "404" not in one]  # a stream that is not there


def test_a_recording_that_grows_is_followed(tab, view, tmp_path):
    with growing(tmp_path / "run.regard") as writer:
        page = tab(view(tmp_path / "run.regard"))
        page.wait_for_selector("[data-part=live], [data-part=live-badge], [data-part=empty]")
        write(writer)
        page.wait_for_selector("[data-part=head-grid]")
        assert page.locator("[data-part=live-badge]").count() == 1


def test_without_the_token_the_page_says_what_to_open(tab, address):
    page = tab(address.split("#")[0])
    page.wait_for_selector("[data-part=wrong-token]")
    assert "regard view" in page.locator("[data-part=wrong-token]").inner_text()
    tab.said[:] = [one for one in tab.said if "401" not in one]  # the browser's own line


def test_a_server_that_went_is_said_to_be_gone(tab, files):
    """And the command is one that serves."""
    command = [sys.executable, "-m", "regard", "view", "--no-open", str(files[0])]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as child:
        assert select.select([child.stdout], [], [], 60)[0], "the server did not start"
        page = tab(child.stdout.readline().strip(), "overview")
        child.send_signal(signal.SIGINT)
    page.locator('[data-part=tabs] a[href*="view=findings"]').click()
    page.wait_for_selector("[data-part=server-gone], [data-part=failed]")
    tab.said[:] = [line for line in tab.said if "ERR_CONNECTION_REFUSED" not in line]
