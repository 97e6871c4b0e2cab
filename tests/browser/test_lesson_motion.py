"""The film of the lesson: it plays only when asked, and every frame can be read."""

from __future__ import annotations

import numpy as np
import pytest

from browser import reading
from browser.reading import figures, put
from regard.learn import Options, make_lesson
from regard.viewer.lesson import lesson_data

STEPS = {"meet": 3, "scale": 4, "squeeze": 5, "flow": 6, "heads": 7}
LONG = (
    "the river bank was muddy so we sat on the old bench and watched how the water slowly "
    "carried leaves away from us all"
)
LESSONS = {
    "notes": Options("The cat sat"),
    "heads": Options("Rain fell softly on it", token="it", projections="random:7", heads=2),
    "causal": Options("We drink tea at home", token="tea", projections="random:3", causal=True),
    "long": Options(LONG, token="bench", projections="random:3", heads=4),
}
MOMENTS = 12  # of a scene, at which its text is measured

# Texts that touch each other or leave the stage.
COLLISIONS = """() => {
    const stage = document.querySelector(".motion-stage").getBoundingClientRect();
    const texts = [...document.querySelectorAll(".motion-stage text")].map(
        (text) => ({ words: text.textContent, box: text.getBoundingClientRect() }));
    const outside = texts.filter(({ box }) => box.left < stage.left - 1 || box.top < stage.top - 1
        || box.right > stage.right + 1 || box.bottom > stage.bottom + 1);
    const found = outside.map(({ words }) => `outside: ${words}`);
    const touch = (a, b) => {
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        // a line's box is higher than its letters
        return across > 0.5 && down > 0.25 * Math.min(a.height, b.height);
    };
    texts.forEach((one, n) => texts.slice(0, n).forEach((other) => {
        if (touch(one.box, other.box)) found.push(`${one.words} on ${other.words}`);
    }));
    return found;
}"""

# The least contrast of a text with what is painted under its middle.
CONTRAST = """() => {
    const numbers = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
    const light = (rgb) => {
        const [r, g, b] = rgb.map((c) => c / 255).map(
            (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const stage = document.querySelector(".motion-stage");
    let least = [99, ""];
    for (const text of stage.querySelectorAll("text")) {
        const box = text.getBoundingClientRect();
        const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
        let ground = numbers(getComputedStyle(stage).backgroundColor).slice(0, 3);
        for (const shape of stage.querySelectorAll("rect, circle")) {
            if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) continue;
            const at = shape.getBoundingClientRect();
            if (x < at.left || x > at.right || y < at.top || y > at.bottom) continue;
            const style = getComputedStyle(shape);
            if (style.fill === "none") continue;
            const alpha = Number(style.fillOpacity) * Number(style.opacity);
            const fill = numbers(style.fill);
            ground = ground.map((c, n) => c + (fill[n] - c) * alpha);
        }
        const [a, b] = [light(numbers(getComputedStyle(text).fill).slice(0, 3)), light(ground)];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < least[0]) least = [ratio, text.textContent];
    }
    return least;
}"""

COUNT_FRAMES = """
    window.framesAsked = 0;
    window.ownFrame = window.requestAnimationFrame.bind(window);
    window.requestAnimationFrame = (run) => { window.framesAsked += 1; return ownFrame(run); };
"""

# What is true at moments of a scene: an array of what the function gives at each.
AT_MOMENTS = """async (shares) => {
    const range = document.querySelector("[data-part=motion-scrubber]");
    const made = [];
    for (const share of shares) {
        range.value = Math.round(range.max * share);
        range.dispatchEvent(new Event("input", { bubbles: true }));
        await new Promise((done) => ownFrame(() => setTimeout(done)));
        made.push((WHAT)());
    }
    return made;
}"""
WIDER = "() => document.documentElement.scrollWidth - innerWidth"


@pytest.fixture
def film(tab, lesson_file):
    """Opens a lesson at the step of a scene: the page, and Python's lesson."""

    def open_film(scene="meet", lesson="notes", place="", **how):
        page = tab(**how)
        page.add_init_script(COUNT_FRAMES)
        page.goto(f"{lesson_file(LESSONS[lesson])}#step={STEPS[scene]}{place}")
        page.wait_for_selector("[data-part=motion-stage]")
        return page, make_lesson(LESSONS[lesson])

    return open_film


def part(page, name):
    return page.locator(f"[data-part=motion-{name}]")


def time_of(page):
    return float(part(page, "scrubber").input_value())


def caption(page):
    return part(page, "caption").inner_text()


def at_moments(page, shares, what):
    """What a function of the page gives, at each of these shares of the film."""
    return page.evaluate(AT_MOMENTS.replace("WHAT", what), [float(share) for share in shares])


def seek(page, share):
    at_moments(page, [share], "() => null")


def frames(page, count):
    """So many frames later."""
    page.evaluate(
        """(left) => new Promise((done) => {
            const next = () => (left-- > 0 ? ownFrame(next) : done());
            next();
        })""",
        count,
    )


def until_it_says(page, word):
    """On the button that plays."""
    page.wait_for_function(
        "(word) => document.querySelector('[data-part=motion-play]').innerText.includes(word)",
        arg=word,
    )


def until_past(page, moment):
    page.wait_for_function(
        "(moment) => document.querySelector('[data-part=motion-scrubber]').value > moment",
        arg=moment,
    )


def values(page, name):
    return reading.values(page, f"[data-part=motion-{name}]")


def is_playing(page):
    return "Pause" in part(page, "play").inner_text()


# ── playing ──────────────────────────────────────────────────────────────────────────────────


def test_it_plays_when_asked_and_stops(film):
    page, _ = film()
    frames(page, 12)
    assert time_of(page) == 0
    part(page, "play").click()
    until_past(page, 400)
    part(page, "play").click()
    frames(page, 4)
    stopped, asked = time_of(page), page.evaluate("framesAsked")
    frames(page, 12)
    assert time_of(page) == stopped
    assert page.evaluate("framesAsked") == asked, "frames are asked for while nothing moves"


def test_the_end_is_a_pause_and_play_begins_again(film):
    page, _ = film("scale")
    part(page, "speed").select_option("2")
    seek(page, 0.9)
    part(page, "play").click()
    until_it_says(page, "again")
    part(page, "play").click()
    page.wait_for_function("""() => {
        const at = (name) => document.querySelector(`[data-part=motion-${name}]`);
        const { value, max } = at("scrubber");
        return at("play").innerText.includes("Pause") && value < max / 2;
    }""")


def test_keys_play_and_step(film):
    page, made = film()
    page.keyboard.press("v")
    until_past(page, 100)
    assert is_playing(page)
    page.keyboard.press("v")
    assert not is_playing(page)
    seek(page, 0)
    for token in made.sentence.tokens:
        page.keyboard.press(".")
        assert caption(page).startswith(f"q(The) meets k({token}): ")
    page.keyboard.press(",")
    assert caption(page).startswith("q(The) meets k(cat): 1·0 + 0·1 + 1·0 + 0·1 = 0")
    page.keyboard.press("?")
    assert "play or pause the film" in page.locator("dialog").inner_text()


def test_the_scrubber_goes_from_moment_to_moment(film):
    page, made = film()
    scrubber = part(page, "scrubber")
    scrubber.focus()
    for token in made.sentence.tokens:
        scrubber.press("ArrowRight")
        assert f"meets k({token})" in scrubber.get_attribute("aria-valuetext")
        assert scrubber.get_attribute("aria-valuetext") == caption(page)
        assert caption(page) in part(page, "stage").get_attribute("aria-label")
    scrubber.press("End")
    assert len(values(page, "score")) == len(made.sentence.tokens)
    scrubber.press("Home")
    assert values(page, "score") == []
    assert page.locator("[data-part=stage]").get_attribute("data-step") == "3"


def test_without_motion_there_are_only_stills(film):
    page, _ = film("scale", reduced_motion="reduce")
    stills = {time_of(page)}
    for _ in range(4):
        page.keyboard.press(".")
        stills.add(time_of(page))
    page.keyboard.press(",")
    stills.add(time_of(page))
    seek(page, 0.63)
    assert time_of(page) in stills
    part(page, "scrubber").press("Home")
    part(page, "speed").select_option("2")
    page.evaluate("framesAsked = 0")
    part(page, "play").click()
    until_it_says(page, "Pause")
    seen = page.evaluate("""() => new Promise((done) => {
        const at = (name) => document.querySelector(`[data-part=motion-${name}]`);
        const times = new Set();
        const look = () => {
            times.add(Number(at("scrubber").value));
            if (at("play").innerText.includes("Pause")) ownFrame(look);
            else done([...times]);
        };
        look();
    })""")
    assert page.evaluate("framesAsked") <= 2  # none for motion
    assert max(stills) in seen and set(seen) <= stills


def test_it_stops_where_it_cannot_be_seen(film):
    page, _ = film(height=500)
    page.keyboard.press("v")
    until_past(page, 50)
    page.evaluate("() => scrollTo(0, document.body.scrollHeight)")
    until_it_says(page, "Play")
    page.keyboard.press("v")  # comes back to the film
    until_it_says(page, "Pause")
    page.evaluate("""() => {
        Object.defineProperty(document, "hidden", { value: true, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }""")
    until_it_says(page, "Play")


# ── numbers ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("lesson", ["notes", "heads", "causal"])
def test_its_numbers_are_pythons(film, lesson):
    page, made = film("meet", lesson)
    head, row = made.heads[0], made.sentence.focus
    scores = """() => [...document.querySelectorAll("[data-part=motion-score]")].map(
        (one) => Number(one.dataset.value))"""
    for shown in at_moments(page, np.linspace(0, 1, MOMENTS), scores):
        np.testing.assert_allclose(shown, head.scores[row][: len(shown)], atol=1e-9)
    assert len(shown) == len(made.sentence.tokens)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("[data-scene=squeeze]")
    seek(page, 1)
    np.testing.assert_allclose(values(page, "weight"), head.weights[row], atol=1e-9)
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("[data-scene=flow]")
    seek(page, 1)
    np.testing.assert_allclose(values(page, "sum"), head.context[row], atol=1e-9)
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("[data-scene=heads]")
    seek(page, 1)
    output = made.output if len(made.heads) > 1 else split_output(made)
    np.testing.assert_allclose(values(page, "output"), output[row], atol=1e-9)


def split_output(made):
    """What the two heads of the lab make of a lesson that has one."""
    (two,) = [one for one in lesson_data(made)["splits"] if len(one["heads"]) == 2]
    x = made.embedding.x
    contexts = []
    for head in two["heads"]:
        q, k, v = (x @ np.array(head[name]) for name in ("w_q", "w_k", "w_v"))
        scores = q @ k.T / np.sqrt(k.shape[1])
        if made.options.causal:
            scores[np.triu_indices(len(x), 1)] = -np.inf
        weights = np.exp(scores)
        contexts.append(weights / weights.sum(axis=1, keepdims=True) @ v)
    return np.hstack(contexts) @ np.array(two["w_o"])


def test_one_head_is_joined_with_another(film):
    page, _ = film("heads")
    assert "has one head" in page.locator(".motion-lead-in").inner_text()
    assert part(page, "chip").count() == 2
    seek(page, 1)
    lab = page.locator("[data-part=heads-lab] [data-part=concat]")
    np.testing.assert_allclose(values(page, "output"), figures(lab, "p:last-of-type"), atol=1e-9)


def test_it_follows_an_edit(film):
    page, _ = film("flow")
    seek(page, 1)
    before = values(page, "sum")
    put(page, "h0.values", 0, 0, "3")
    page.wait_for_function(
        "(before) => document.querySelector('[data-part=motion-sum]').dataset.value > before + 0.5",
        arg=before[0],
    )
    np.testing.assert_allclose(values(page, "sum")[1:], before[1:])


def test_q_lies_over_no_other_row_and_brings_its_numbers(film):
    page, made = film("meet", "long")
    query = made.heads[0].queries[made.sentence.focus]
    rows = """() => {
        const parts = (name) => [...document.querySelectorAll(`[data-part=motion-${name}]`)];
        return [parts("q").map((one) => one.y.baseVal.value),
                parts("carried").map((one) => Number(one.dataset.value))];
    }"""
    moments = at_moments(page, np.linspace(0, 1, 60), rows)
    carried = [numbers for _, numbers in moments if numbers]
    for numbers in carried:
        np.testing.assert_allclose(numbers, query[len(query) - len(numbers) :], atol=1e-9)
    assert len(carried) > 3
    drawn = 12 + 2  # keys, those left out, and q's own row: between rows it is never seen
    assert 3 < len({top for tops, _ in moments for top in tops}) <= drawn


# ── readable ─────────────────────────────────────────────────────────────────────────────────


def in_every_scene(page, shares, what):
    """Of each scene in turn: what a function of the page gives at these moments."""
    for scene in STEPS:
        page.wait_for_selector(f"[data-scene={scene}]")
        yield scene, at_moments(page, shares, what)
        page.keyboard.press("ArrowRight")


CROWDED = f"() => [...({COLLISIONS})(), ...(({WIDER})() > 0 ? ['wider than the window'] : [])]"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("lesson", LESSONS)
def test_no_text_stands_on_another(film, lesson, width):
    page, _ = film("meet", lesson, width=width)
    for scene, crowded in in_every_scene(page, np.linspace(0, 1, MOMENTS), CROWDED):
        assert crowded == [[]] * MOMENTS, scene


@pytest.mark.parametrize("code", ["de", "zh"])
def test_other_languages_fit(film, code):
    page, _ = film("meet", "causal", f"&language={code}", width=390)
    for scene, crowded in in_every_scene(page, (0, 0.5, 1), CROWDED):
        assert crowded == [[]] * 3, scene


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(film, scheme):
    page, _ = film("meet", "causal", color_scheme=scheme)
    for scene, least in in_every_scene(page, (0, 0.35, 0.7, 1), CONTRAST):
        for ratio, words in least:
            assert ratio >= 4.5, f"{words} in {scene}"


def test_presenting(film):
    page, made = film(width=1920, height=1080)
    page.keyboard.press("p")
    page.keyboard.press(" ")
    page.wait_for_selector("[data-part=presenter] [data-part=motion-stage]")
    seek(page, 1)
    assert len(values(page, "score")) == len(made.sentence.tokens)
    assert page.evaluate(COLLISIONS) == []
    height = part(page, "score").first.evaluate("(text) => text.getBoundingClientRect().height")
    assert height > 25  # pixels: it is read from the last row
    page.keyboard.press(",")
    assert "meets k(sat)" in caption(page)


def test_it_prints_as_stills(film):
    page, made = film()
    page.emulate_media(media="print")
    still = part(page, "still")
    still.wait_for()
    assert "Every key has its score" in still.inner_text()
    assert len(values(page, "score")) == len(made.sentence.tokens)
    assert not part(page, "play").is_visible()
    page.emulate_media(media="screen")
    part(page, "play").wait_for()
    assert still.count() == 0
