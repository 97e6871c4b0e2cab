"""The learner's room, driven as a learner would; its numbers are Python's."""

from __future__ import annotations

import json
import select
import subprocess
import sys

import numpy as np
import pytest

from browser.reading import figures, go_to, matrix, overflow, pixels, put, value
from regard.attention import softmax
from regard.colour import palette
from regard.colour.shades import codes
from regard.learn import Options, make_lesson
from regard.learn.grading.exercise import draw_exercise
from regard.learn.lesson.head import attend
from regard.viewer.lesson import EXERCISES

STEPS = range(13)
LESSONS = {
    "notes": Options("The cat sat"),
    "heads": Options("Rain fell softly", projections="random:7", heads=2, causal=True),
    "narrow": Options("We drink tea", projections="random:3", d_k=2, d_v=4, positions=True),
}
# which matrices stand on which step
SHOWN = {
    2: ("w_q", "w_k", "w_v", "queries", "keys", "values"),
    3: ("scores",),
    4: ("scaled",),
    5: ("weights",),
    6: ("context",),
}


@pytest.fixture
def opened(lesson):
    """Opens a lesson: the page, and Python's lesson."""

    def open_lesson(options=LESSONS["notes"], place="step=1", **how):
        return lesson(place, options, **how), make_lesson(options)

    return open_lesson


def same(found, expected):
    """To 1e-6, where the page has a cell: hidden scores have none."""
    assert found.shape == expected.shape
    known = ~np.isnan(found)
    assert known.any()
    np.testing.assert_allclose(found[known], expected[known], rtol=0, atol=1e-6)


# ── numbers ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", LESSONS)
def test_every_number_is_pythons(opened, name):
    page, made = opened(LESSONS[name])
    same(matrix(page, "words"), made.embedding.words)
    for step, names in SHOWN.items():
        go_to(page, step)
        for one in names:
            same(matrix(page, f"h0.{one}"), getattr(made.heads[0], one))
    assert overflow(page) <= 0


def test_the_next_layer_is_pythons(opened):
    page, made = opened(Options("The cat sat", projections="random:2", block=True), "step=9")
    for one in ("residual", "normed", "hidden", "activated", "mlp", "residual_2"):
        same(matrix(page, one), getattr(made.block, one))
    same(matrix(page, "block_output"), made.block.output)


def test_what_follows_from_an_edit_follows(opened):
    page, made = opened()
    put(page, "words", 0, 0, "2.5")
    x = made.embedding.words.copy()
    x[0, 0] = 2.5
    eye = np.eye(4)
    expected = attend(x, eye, eye, eye)
    for step, names in SHOWN.items():
        go_to(page, step)
        for one in names:
            same(matrix(page, f"h0.{one}"), getattr(expected, one))
    assert value(page, "[data-part=changes]") == 1
    page.locator("[data-part=reset-all]").click()
    same(matrix(page, "h0.context"), made.heads[0].context)


def test_a_result_can_be_replaced_and_put_back(opened):
    page, made = opened(place="step=3")
    put(page, "h0.scores", 0, 2, "1/2")
    scores = made.heads[0].scores.copy()
    scores[0, 2] = 0.5
    go_to(page, 5)
    weights = softmax(scores / 2)
    same(matrix(page, "h0.weights"), weights)
    go_to(page, 6)
    same(matrix(page, "h0.context"), weights @ made.heads[0].values)
    go_to(page, 3)
    same(matrix(page, "h0.scores"), scores)
    page.locator("[data-part=reset-cell]").first.click()
    same(matrix(page, "h0.scores"), made.heads[0].scores)


def test_what_is_no_number_is_said(opened):
    page, made = opened()
    cell = put(page, "words", 1, 1, "cat")
    assert page.locator("[data-part=problem]").first.inner_text()
    cell.press("Escape")
    same(matrix(page, "words"), made.embedding.words)


def test_scaling_and_the_mask_can_be_switched(opened):
    page, made = opened(place="step=4")
    page.locator("[data-part=toggle-scaled]").click()
    go_to(page, 5)
    same(matrix(page, "h0.weights"), softmax(made.heads[0].scores))
    page.locator("[data-part=toggle-causal]").click()
    hidden = np.triu(np.ones((3, 3), bool), 1)
    masked = softmax(np.where(hidden, -np.inf, made.heads[0].scores))
    found = matrix(page, "h0.weights")
    np.testing.assert_allclose(np.nan_to_num(found), masked, atol=1e-6)


def heat_cell(page, row, key):
    """Where a cell of the first map begins and how large it is, in pixels of the map."""
    names = ("left", "top", "cell-width", "cell-height")
    canvas = page.locator("[data-part=heat-map]").first
    left, top, width, height = (float(canvas.get_attribute(f"data-{name}")) for name in names)
    return left + key * width, top + row * height, width, height


@pytest.mark.parametrize("ratio", [1, 2])
def test_weights_have_the_palettes_colours(opened, ratio):
    page, made = opened(place="step=5", device_scale_factor=ratio)
    shades = codes(made.heads[0].weights)
    cells = [heat_cell(page, row, key)[:2] for row, key in np.ndindex(*shades.shape)]
    corners = [(ratio * (x + 3), ratio * (y + 3)) for x, y in cells]  # numbers are in the middle
    expected = [tuple(palette()[code].tolist()) for code in shades.ravel()]
    assert pixels(page, "[data-part=heat-map]", corners) == expected


def reading(page):
    return page.locator("[data-part=heat-reading]").first.inner_text()


def test_a_cell_is_read_by_pointing_and_by_keys(opened):
    page, made = opened(place="step=5")
    canvas = page.locator("[data-part=heat-map]").first
    x, y, width, height = heat_cell(page, 2, 1)
    canvas.hover(position={"x": x + width / 2, "y": y + height / 2})
    assert "sat → cat" in reading(page)
    exact = made.heads[0].weights[2, 1]
    assert figures(page, "[data-part=heat-reading]")[0] == pytest.approx(exact, abs=1e-9)
    page.mouse.move(0, 0)
    assert not figures(page, "[data-part=heat-reading]")
    canvas.focus()
    for key, cell in (("ArrowRight", "The → The"), ("ArrowRight", "The → cat"),
                      ("ArrowDown", "cat → cat"), ("ArrowUp", "The → cat")):  # fmt: skip
        page.keyboard.press(key)
        assert cell in reading(page)
    assert page.locator('[data-part=stage][data-step="5"]').count() == 1  # no step was left
    assert all(
        f"{one:.2f}" in canvas.get_attribute("aria-label") for one in made.heads[0].weights.ravel()
    )
    page.locator("[data-part=toggle-causal]").click()
    x, y, width, height = heat_cell(page, 0, 2)
    canvas.hover(position={"x": x + width / 2, "y": y + height / 2})
    assert reading(page) == "The → sat hidden"


# ── the room ─────────────────────────────────────────────────────────────────────────────────


def test_keys_walk_through_the_steps_and_the_address_keeps_the_place(opened):
    page, _ = opened()
    for step in (2, 3):
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(f'[data-part=stage][data-step="{step}"]')
    page.keyboard.press("t")
    assert "step=3" in page.url and "row=2" in page.url
    page.reload()
    page.wait_for_selector('[data-part=stage][data-step="3"]')
    page.keyboard.press("?")
    assert "next token" in page.locator("dialog.help").inner_text().lower()
    page.keyboard.press("Escape")
    assert page.locator("dialog.help").count() == 0


def test_a_question_is_answered_on_demand(opened):
    page, _ = opened()
    assert page.locator("[data-part=answer]").count() == 0
    page.locator("[data-part=show-answer]").click()
    assert page.locator("[data-part=answer]").inner_text()


def test_made_up_numbers_are_said_to_be(opened):
    page, _ = opened(Options("Bees make honey"))
    assert "made up" in page.locator("[data-part=made-up]").inner_text().lower()
    page, _ = opened()
    assert page.locator("[data-part=made-up]").count() == 0


def test_presenting_takes_keys_alone(opened):
    page, _ = opened(place="step=3")
    page.keyboard.press("p")
    page.wait_for_selector("[data-part=presenter]")
    size = page.locator("[data-part=step-title]").evaluate("e => getComputedStyle(e).fontSize")
    assert float(size.removesuffix("px")) >= 30
    for _ in range(12):
        page.keyboard.press(" ")
    assert page.locator('[data-part=stage][data-step="3"]').count() == 0  # went on by itself
    for leave in ("Escape", "p"):
        page.keyboard.press(leave)
        page.wait_for_selector("[data-part=steps]")
        page.keyboard.press("p")
        page.wait_for_selector("[data-part=presenter]")


def test_brackets_are_as_tall_as_their_line(opened):
    page, _ = opened(LESSONS["heads"])
    for step in (1, 7, 9):
        go_to(page, step)
        heights = page.locator("[data-part=formula] math mtext").evaluate_all(
            "all => all.map(one => one.getBoundingClientRect().height)"
        )
        assert heights and page.locator("[data-part=formula]").bounding_box()["height"] < 45, step


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1920, "light")])
def test_no_step_is_wider_than_the_window(opened, width, scheme):
    sentence = "The animal did not cross the street because it was too tired"
    options = Options(sentence, vectors="features", projections="by-hand")
    page, _ = opened(options, width=width, color_scheme=scheme)
    for code in ("en", "de", "zh"):
        page.locator("[data-part=language-picker]").select_option(code)
        for step in STEPS:
            go_to(page, step)
            assert overflow(page) <= 0, (code, step)
            assert page.locator("[data-part=formula] math").count() >= 1
    page.locator("[data-part=sentence-input]").wait_for()


def test_a_long_sentence_stays_usable(opened):
    words = " ".join(f"w{n}" for n in range(512))
    page, _ = opened(Options(words, projections="random:1"), "step=5")
    assert page.locator("*").count() < 6000
    go_to(page, 6)
    go_to(page, 9)


# ── labs ─────────────────────────────────────────────────────────────────────────────────────


def test_questions_that_learners_ask_can_be_tried(opened):
    page, made = opened(LESSONS["heads"], "step=3&row=1")
    scores = made.heads[0].scores
    page.locator("[data-part=other-picker] button").nth(1).click()
    there, back = figures(page, "[data-part=both-ways]")
    assert (there, back) == pytest.approx((scores[0, 1], scores[1, 0]))
    page.locator("[data-choice=same]").click()
    assert page.locator("[data-part=both-ways]").get_attribute("data-even") == "true"
    go_to(page, 5)
    place = page.locator("[data-part=mask-place]")
    for choice, leaks in (("before", "false"), ("after", "true"), ("zero", "false")):
        place.locator(f"[data-choice={choice}]").click()
        place.locator("[data-part=raise]").check()
        assert place.locator("[data-part=mask-outcome]").get_attribute("data-leak") == leaks
        whole = value(page, "[data-part=visible-sum] [data-value]") == pytest.approx(1)
        assert whole is (choice == "before")
    slider = page.locator("[data-part=sharpness-slider]")
    slider.focus()
    slider.press("End")
    assert "dictionary" in page.locator("[data-part=lookup-verdict]").inner_text()
    go_to(page, 7)
    page.locator("[data-choice=viewed]").click()
    assert page.locator("[data-part=head-0] [data-token='0']").count() == 4


def test_the_scaling_lab_measures_after_a_guess(opened):
    page, _ = opened(place="step=4")
    assert page.locator("[data-part=scaling-table]").count() == 0
    page.locator("[data-part=guess] [data-choice=width]").click()
    page.wait_for_selector('[data-part=scaling-table][aria-busy="false"]')
    raw, scaled = figures(page, "[data-part=scaling-table] [data-figure=variance]")
    assert raw == pytest.approx(64, rel=0.2) and scaled == pytest.approx(1, rel=0.2)
    page.wait_for_selector('[data-part=scaling-chart][aria-busy="false"]')
    page.locator("[data-part=draw-again]").click()
    page.wait_for_selector('[data-part=scaling-table][aria-busy="false"]')
    again = figures(page, "[data-part=scaling-table] [data-figure=variance]")
    assert again != [raw, scaled] and again[0] == pytest.approx(64, rel=0.2)


def test_a_training_step_with_and_without_scaling(opened):
    page, _ = opened(place="step=5")
    before = figures(page, "[data-part=training-table]")
    page.locator("[data-part=train-ten]").click()
    after = figures(page, "[data-part=training-table]")
    assert after != before
    assert value(page, "[data-part=train-count]") == 10


def test_a_saturated_row_is_seen_to_die(opened):
    page, _ = opened(place="step=4")
    put(page, "h0.scaled", 0, 0, "60")
    go_to(page, 5)
    assert figures(page, "[data-part=meter-entropy]")[0] < 1e-6
    assert figures(page, "[data-part=meter-jacobian]")[0] < 1e-6


def test_what_was_counted_twice(opened):
    page, _ = opened(place="step=6")
    lab = page.locator("[data-part=counted-twice]")
    assert "1.2669" in lab.inner_text()
    for choice, fits in (("cat", "false"), ("weight", "true")):
        lab.locator(f"[data-choice={choice}]").click()
        assert lab.locator("[data-part=slip-outcome]").get_attribute("data-fits") == fits


def test_heads_at_the_same_parameter_count(opened):
    page, _ = opened(place="step=7")
    for n, heads in enumerate((1, 2, 4)):
        page.locator(f'[data-part=heads-choice] [data-choice="{n}"]').click()
        assert "= 64 parameters" in page.locator("[data-part=parameter-count]").inner_text()
        assert page.locator("[data-part=head-map] [data-part=heat-map]").count() == heads


def test_a_real_head(opened):
    page, _ = opened(place="step=8")
    assert "SmolLM2" in page.locator("[data-part=real-head]").inner_text()
    heaviest = figures(page, "[data-part=real-top]")[2]  # the score, the scaled score, the weight
    assert f" {heaviest:.2f}" in page.locator("[data-part=heat-map]").get_attribute("aria-label")


def fill_exercise(page, name, numbers):
    inputs = page.locator(f"[data-part=exercise-{name}] input").all()
    assert len(inputs) == len(numbers)
    for one, number in zip(inputs, numbers, strict=True):
        one.fill(f"{number:.4f}")


@pytest.mark.parametrize("slip", [None, "scaled"])
def test_an_exercise_is_checked_on_the_page(opened, slip):
    page, _ = opened(place="step=9")
    tokens, _x, head = draw_exercise(EXERCISES[0])
    assert " ".join(tokens).split()[0] in page.locator("[data-part=exercise-task]").inner_text()
    page.locator('[data-part=exercise-row] [data-choice="-1"]').click()
    steps = {
        "Q": head.queries, "K": head.keys, "V": head.values, "scores": head.scores,
        "scaled": head.scores if slip else head.scaled, "weights": head.weights,
        "output": head.context,
    }  # fmt: skip
    for name, numbers in steps.items():
        fill_exercise(page, name, numbers.ravel())
    page.locator("[data-part=exercise-check]").click()
    result = page.locator("[data-part=exercise-result]")
    assert (result.get_attribute("data-step") or None) == slip
    assert (result.get_attribute("data-verdict") == "right") == (slip is None)


# ── taking it away ───────────────────────────────────────────────────────────────────────────


def saved(page, which, folder):
    with page.expect_download() as waiting:
        page.locator(f"[data-part=save-{which}]").click()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def test_the_saved_python_gives_every_number(opened, tmp_path):
    page, _ = opened(LESSONS["heads"])
    put(page, "words", 0, 1, "0.75")
    go_to(page, 9)
    output = matrix(page, "block_output")
    path = saved(page, "python", tmp_path)
    probe = f"{path.read_text()}\nimport json\nprint(json.dumps(block_output.tolist()))\n"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    found = np.array(json.loads(done.stdout.splitlines()[-1]))
    np.testing.assert_allclose(found, output, atol=1e-9)


def test_learn_web_serves_the_page(tab):
    words = [sys.executable, "-m", "regard", "learn", "The cat sat", "--web", "--no-open"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as it:
        try:
            assert select.select([it.stdout], [], [], 60)[0]
            page = tab(it.stdout.readline().strip())
            page.wait_for_selector("[data-part=learner-room]")
            go_to(page, 1)
            same(matrix(page, "words"), make_lesson(LESSONS["notes"]).embedding.words)
        finally:
            it.terminate()


def test_without_scripts_the_lesson_can_still_be_read(chromium, lesson_file):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(lesson_file(LESSONS["notes"]))
    assert "[0.8446 0.5777 0.8446 0.5777]" in page.locator("noscript").inner_text()
    context.close()
