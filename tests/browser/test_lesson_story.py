"""The steps around the nine: why, order, the next word, the cache, cross-attention."""

from __future__ import annotations

import json
from importlib.resources import files

import numpy as np
import pytest

from browser.reading import figures, overflow, value, values
from regard.learn import Options, make_lesson

NEW = (0, 10, 11, 12)
RIVER, MONEY = "She sat on the bank of the river", "She put the money in the bank"


@pytest.fixture
def opened(lesson):
    """Opens a lesson, by default where it begins."""

    def open_lesson(place="", sentence="The cat sat", width=1280, **options):
        return lesson(place, Options(sentence, **options), width=width)

    return open_lesson


def features(page, which):
    rows = page.locator(f"[data-part=meaning-{which}] [data-part=feature]").all()
    return {
        row.get_attribute("data-feature"): float(row.get_attribute("data-value")) for row in rows
    }


def slide(page, part, key, times=1):
    slider = page.locator(f"[data-part={part}]").first
    slider.focus()
    for _ in range(times):
        slider.press(key)


# ── why ──────────────────────────────────────────────────────────────────────────────────────


def test_the_page_opens_with_the_question_why(opened):
    for place, step in (("", 0), ("step=4", 4), ("view=lesson", 1)):  # a head of play: as it did
        stage = opened(place).locator("[data-part=stage]")
        assert stage.get_attribute("data-step") == str(step)


def test_bank_means_water_by_the_river_and_money_with_the_money(opened):
    page = opened()
    river, money = features(page, 0), features(page, 1)
    assert river["water"] > river["money"] and money["money"] > money["water"]
    expected = make_lesson(Options(RIVER, vectors="features", projections="by-hand"))
    at = expected.sentence.tokens.index("bank")
    np.testing.assert_allclose(list(river.values()), expected.output[at], atol=1e-9)
    weights = values(page, "[data-part=meaning-0] [data-part=weighted-word]")
    np.testing.assert_allclose(weights, expected.heads[0].weights[at], atol=1e-9)
    page.locator('[data-part=pair] [data-choice="1"]').click()
    tired, wide = features(page, 0), features(page, 1)
    assert tired["animal"] > tired["place"] and wide["place"] > wide["animal"]


def test_two_sentences_of_ones_own(opened):
    page = opened()
    page.locator('[data-part=pair] [data-choice="2"]').click()
    page.locator("[data-part=own-first]").fill("The crane flew over the lake")
    page.locator("[data-part=own-second]").fill("A crane carried the blorp")
    assert "crane" in page.locator("[data-part=meaning-1] .is-chosen").inner_text()
    assert "blorp" in page.locator("[data-part=unknown-words]").inner_text()
    page.locator("[data-part=own-second]").fill("Nothing here")
    assert page.locator("[data-part=meaning-0]").count() == 0
    page.locator("[data-part=own-second]").fill("  ")
    assert "at least one word" in page.locator("[data-part=own-second-problem]").inner_text()
    page.locator("[data-part=own-first]").fill("crane " * 25)
    assert "25 words" in page.locator("[data-part=own-first-problem]").inner_text()
    assert page.locator("[data-part=meaning-0]").count() == 0


def test_own_sentences_begin_with_the_word_they_tell_apart(opened):
    page = opened()
    page.locator('[data-part=pair] [data-choice="2"]').click()
    assert page.locator("[data-part=common-word] [aria-pressed=true]").inner_text() == "bank"


def test_own_sentences_stand_in_the_address(opened):
    page = opened()
    page.locator('[data-part=pair] [data-choice="2"]').click()
    page.locator("[data-part=own-first]").fill("The man sat")
    page.locator("[data-part=own-second]").fill("The dog sat")
    page.wait_for_function("() => location.hash.includes('dog')")
    page.reload()
    page.wait_for_selector("[data-part=own-second]")
    assert page.locator("[data-part=own-first]").input_value() == "The man sat"
    assert page.locator("[data-part=own-second]").input_value() == "The dog sat"
    # the action is told apart by its doer, in the head that looks for doers
    chosen = page.locator("[data-part=meaning-0] .is-chosen")
    assert chosen.inner_text().startswith("sat")
    assert page.locator('[data-part=meaning-0] [data-head="2"]').count() == 1
    expected = make_lesson(Options("The man sat", vectors="features", projections="by-hand"))
    weights = values(page, "[data-part=meaning-0] [data-part=weighted-word]")
    np.testing.assert_allclose(weights, expected.heads[1].weights[2], atol=1e-9)


def test_what_is_mostly_the_same_is_not_called_apart(opened):
    page = opened("first=The+old+boat&second=The+boat+in+the+rain&word=boat")
    assert "the same in both" in page.locator("[data-part=verdict]").inner_text()


def test_the_sentence_is_worked_through(opened):
    page = opened()
    after = features(page, 1)
    page.locator("[data-part=work-1]").click()
    page.wait_for_selector('[data-part=stage][data-step="1"]')
    assert page.locator("[data-part=sentence]").text_content() == MONEY
    page.locator("[data-part=step-9]").click()
    expected = make_lesson(Options(MONEY, vectors="features", projections="by-hand"))
    np.testing.assert_allclose(list(after.values()), expected.output[-1], atol=1e-9)


def test_the_map_leads_to_the_steps(opened):
    page = opened()
    page.locator("[data-part=map-step-6]").click()
    page.wait_for_selector('[data-part=stage][data-step="6"]')


# ── order ────────────────────────────────────────────────────────────────────────────────────


def test_order_counts_only_with_positions(opened):
    page = opened("step=1", "The cat sat on a mat", projections="random:3")
    assert page.locator("[data-part=order-without]").get_attribute("data-changed") == "0"
    assert int(page.locator("[data-part=order-with]").get_attribute("data-changed")) > 0


def test_a_rotated_score_follows_the_distance_alone(opened):
    page = opened("step=1")
    before = figures(page, "[data-part=rotary-score]")
    page.locator("[data-part=both-on]").click()
    assert figures(page, "[data-part=rotary-score]") == pytest.approx(before)
    assert figures(page, "[data-part=rotary-table]") == pytest.approx(before * 3)
    slide(page, "place-k", "ArrowRight")
    assert figures(page, "[data-part=rotary-score]") != pytest.approx(before)


# ── the next word ────────────────────────────────────────────────────────────────────────────


def shares(page, part="lesson-sampler"):
    """Word → probability, the likeliest first."""
    rows = page.locator(f"[data-part={part}] [data-part=likeliest] tbody tr[data-word]").all()
    number = "td.weight [data-value]"
    return {
        row.get_attribute("data-word"): float(row.locator(number).get_attribute("data-value"))
        for row in rows
    }


@pytest.mark.parametrize("vectors", ["notes", "features", "smollm2"])
def test_the_likeliest_words_are_pythons(opened, vectors):
    page = opened("step=10", "The cat sat on the", vectors=vectors, causal=True)
    made = make_lesson(Options("The cat sat on the", vectors=vectors, causal=True, next=True))
    found = shares(page)
    top = [made.next.words[place] for place in made.next.order[:10]]
    assert list(found) == top
    expected = made.next.probabilities[made.next.order[:10]]
    np.testing.assert_allclose(list(found.values()), expected, atol=1e-9)


def test_at_temperature_0_the_first_word_has_it_all(opened):
    page = opened("step=10", "The cat sat on the mat")
    sampler = page.locator("[data-part=lesson-sampler]")
    warm = shares(page)
    slide(page, "lesson-sampler] [data-part=temperature", "End")
    assert max(shares(page).values()) < max(warm.values())
    sampler.locator("[data-part=temperature-zero]").click()
    first, *others = shares(page).values()
    assert first == 1 and not any(others)
    for _ in range(3):
        sampler.locator("[data-part=draw]").click()
        drawn = sampler.locator("[data-part=drawn]").get_attribute("data-word")
        assert drawn == next(iter(shares(page)))


def test_a_sentence_whose_h_is_zero_has_an_example_that_works(opened):
    page = opened("step=10")
    parts = page.locator("[data-part=trained], [data-part=zero-hidden], [data-part=next-example]")
    names = parts.evaluate_all("all => all.map(one => one.dataset.part)")
    assert names == ["trained", "zero-hidden", "next-example"]
    begun = "She put the money in the"
    asked = Options(begun, vectors="features", projections="by-hand", next=True)
    expected = make_lesson(asked).next
    found = shares(page, "example-sampler")
    assert list(found) == [expected.words[place] for place in expected.order[:10]]
    np.testing.assert_allclose(
        list(found.values()), expected.probabilities[expected.order[:10]], atol=1e-9
    )
    assert len({round(share, 9) for share in found.values()}) > 1
    page.locator("[data-part=work-through]").click()
    page.wait_for_selector(f'[data-part=sentence-input][title="{begun}"]')
    assert shares(page) == pytest.approx(found)


def test_no_beginning_that_is_offered_ties_all_its_words(opened):
    page = opened("step=10")
    offered = page.locator("[data-part=beginnings] button").count()
    assert offered > 1
    for n in range(offered):
        page.locator("[data-part=beginnings] button").nth(n).click()
        page.wait_for_selector("[data-part=lesson-sampler]")
        assert len({round(share, 9) for share in shares(page).values()}) > 1


def test_ties_are_named_at_temperature_0(opened):
    page = opened("step=10", "She put the money in the", vectors="features", projections="by-hand")
    sampler = page.locator("[data-part=lesson-sampler]")
    assert sampler.locator("[data-part=tied]").count() == 0
    equal = [one for one in shares(page).values() if one == max(shares(page).values())]
    sampler.locator("[data-part=temperature-zero]").click()
    assert value(page, "[data-part=tied]") == len(equal) - 1 == 4
    assert "the first is taken" in sampler.locator("[data-part=tied]").inner_text()


def test_a_drawn_word_is_appended_and_the_text_grows(opened):
    page = opened("step=10", "The cat sat on the mat")
    words = ["The", "cat", "sat", "on", "the", "mat"]
    for _ in range(2):
        page.locator("[data-part=lesson-sampler] [data-part=draw]").click()
        drawn = page.locator("[data-part=lesson-sampler] [data-part=drawn]")
        words.append(drawn.get_attribute("data-word"))
        page.locator("[data-part=append]").click()
        page.wait_for_selector(f'[data-part=sentence-input][title="{" ".join(words)}"]')
    assert page.locator('[data-part=stage][data-step="10"]').count() == 1


def test_draws_are_the_same_each_time(opened):
    drawn = []
    for _ in range(2):
        page = opened("step=10", "The cat sat on the mat")
        for _ in range(4):
            page.locator("[data-part=trained-sampler] [data-part=draw]").click()
            drawn.append(page.locator("[data-part=trained-sampler] [data-part=drawn]").inner_text())
    assert drawn[:4] == drawn[4:] and len(set(drawn[:4])) == 4


def test_a_trained_model_says_what_its_fifty_hold(opened):
    page = opened("step=10")
    given = json.loads((files("regard.viewer") / "next_words.json").read_text("utf-8"))
    for n, prompt in enumerate(given["prompts"]):
        page.locator(f'[data-part=prompts] [data-choice="{n}"]').click()
        held = np.exp(np.array(prompt["logits"]) - prompt["log_sum"]).sum()
        assert value(page, "[data-part=held]") == pytest.approx(held)
        assert f"{100 * held:.1f} %" in page.locator("[data-part=held]").inner_text()
        found = shares(page, "trained-sampler")
        assert list(found) == prompt["words"][:10]
        e = np.exp(np.array(prompt["logits"]))
        np.testing.assert_allclose(list(found.values()), (e / e.sum())[:10], atol=1e-9)


# ── the cache ────────────────────────────────────────────────────────────────────────────────


def test_the_cache_gives_the_same_row_with_the_mask_and_not_without(opened):
    page = opened("step=11", "The cat sat on the mat", projections="random:3")
    assert value(page, "[data-part=cache-difference] [data-value]") == 0
    slide(page, "cache-slider", "Home")
    kinds = page.locator("[data-part=cache-table] tbody tr").first.locator("[data-kind]")
    assert kinds.evaluate_all("all => all.map(one => one.dataset.kind)") == ["new"] * 3
    slide(page, "cache-slider", "ArrowRight")
    assert kinds.evaluate_all("all => all.map(one => one.dataset.kind)") == [
        "unneeded", "cached", "cached",
    ]  # fmt: skip
    assert value(page, "[data-part=cache-difference] [data-value]") == 0
    made = make_lesson(Options("The cat sat on the mat", projections="random:3", causal=True))
    found = figures(page, "[data-part=cache-rows] dd:nth-of-type(1)")
    np.testing.assert_allclose(found, made.heads[0].context[1], atol=1e-9)
    page.locator("[data-part=cache-causal]").click()
    assert value(page, "[data-part=cache-difference] [data-value]") > 1e-3


def test_the_memory_grows_with_the_tokens(opened):
    page = opened("step=11")
    before = value(page, "[data-part=cache-bytes]")
    assert before == 2 * 30 * 3 * 64 * 1024 * 2
    slide(page, "cache-tokens", "End")
    assert value(page, "[data-part=cache-bytes]") == 8 * before


# ── cross-attention ──────────────────────────────────────────────────────────────────────────


def test_the_matrix_of_two_sentences_is_as_wide_as_the_source(opened):
    page = opened("step=12")
    weights = page.locator("[data-part=cross-weights]")
    assert weights.locator("tbody tr").count() == 3
    assert weights.locator("tbody tr").first.locator("td").count() == 6
    rows = np.reshape(values(page, "[data-part=cross-weights] td[data-value]"), (3, 6))
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    scores = np.reshape(values(page, "[data-part=cross-scores] td[data-value]"), (3, 6))
    scaled = np.reshape(values(page, "[data-part=cross-scaled] td[data-value]"), (3, 6))
    np.testing.assert_allclose(scaled, scores / np.sqrt(8))
    e = np.exp(scaled)
    np.testing.assert_allclose(rows, e / e.sum(axis=1, keepdims=True))
    assert rows[1].argmax() == 1 and rows[2].argmax() == 2  # cat → Katze, sat → saß
    page.locator("[data-part=cross-source]").fill("Die Katze schlief")
    assert weights.locator("tbody tr").first.locator("td").count() == 3
    assert page.locator("[data-part=cross-output] tbody tr").count() == 3
    page.locator("[data-part=cross-target]").fill("The cat")
    assert weights.locator("tbody tr").count() == 2
    page.locator("[data-part=cross-target]").fill(" ")
    assert weights.count() == 0


def test_subscripts_stand_below_their_letters(opened):
    page = opened("step=7")
    middles = """(sub) => [...sub.children].map((one) => {
        const box = one.getBoundingClientRect();
        return box.y + box.height / 2;
    })"""
    for sub in page.locator("[data-part=formula] msub").all():
        letter, below = sub.evaluate(middles)
        assert below > letter + 4


# ── all of them ──────────────────────────────────────────────────────────────────────────────


def test_keys_alone_reach_everything(opened):
    page = opened()
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    page.wait_for_selector('[data-part=stage][data-step="12"]')
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector('[data-part=stage][data-step="11"]')
    page.locator("[data-part=cache-causal]").focus()
    page.keyboard.press("Enter")
    assert page.locator("[data-part=cache-causal]").get_attribute("aria-checked") == "false"


@pytest.mark.parametrize("step", NEW)
def test_a_presenter_reveals_part_after_part(opened, step):
    page = opened(f"step={step}")
    page.keyboard.press("p")
    page.wait_for_selector("[data-part=presenter]")
    assert page.locator("[data-part=step-part]").count() == 1
    page.keyboard.press(" ")
    page.locator("[data-part=step-part]").nth(1).wait_for()
    assert overflow(page) <= 0
    for _ in range(4):
        page.keyboard.press(" ")
    if step == 12:
        page.wait_for_selector("[data-part=answer]")
