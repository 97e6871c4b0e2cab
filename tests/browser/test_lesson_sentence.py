"""The sentence of the learner's room: typed, chosen, linked; its numbers are Python's."""

from __future__ import annotations

import numpy as np
import pytest

from browser.reading import go_to, matrix, put
from regard.learn import Options, make_lesson

BANK = "She sat on the bank of the river"
IT = "The animal did not cross the street because it was too tired"


def type_sentence(page, text):
    page.locator("[data-part=sentence-input]").fill(text)
    page.locator("[data-part=sentence-input]").press("Enter")


def said(page):
    return page.locator("[data-part=sentence]").text_content()


def expect_weights(page, options):
    """Step 5 shows the weights that Python computes, of every head."""
    made = make_lesson(options)
    go_to(page, 5)
    for number, head in enumerate(made.heads):
        if len(made.heads) > 1:
            page.locator("[data-part=head-picker] button").nth(number).click()
        found = matrix(page, f"h{number}.weights")
        np.testing.assert_allclose(found, head.weights, rtol=0, atol=1e-6)
    return made


def test_another_sentence_is_typed_and_its_numbers_are_pythons(lesson):
    page = lesson()
    type_sentence(page, "The dog  chased the cat")
    assert said(page) == "The dog chased the cat"
    assert page.title().startswith("The dog chased the cat")
    assert "dog and chased" in page.locator("[data-part=made-up]").inner_text()
    expect_weights(page, Options("The dog chased the cat"))
    assert page.locator("[data-part=stage]").get_attribute("data-step") == "5"


@pytest.mark.parametrize(
    ("vectors", "heads", "options"),
    [
        ("features", "by-hand", {"projections": "by-hand"}),
        ("features", "random", {"projections": "random:1", "heads": 2}),
        ("smollm2", "one", {}),
    ],
)
def test_vectors_and_heads_are_chosen(lesson, vectors, heads, options):
    page = lesson()
    type_sentence(page, BANK)
    page.locator("[data-part=vectors-choice]").select_option(vectors)
    page.locator("[data-part=heads-choice-of-page]").select_option(heads)
    assert page.locator("[data-part=made-up]").count() == 0
    expect_weights(page, Options(BANK, vectors=vectors, **options))


def test_features_name_the_columns(lesson):
    page = lesson("step=1&vectors=features")
    names = page.locator("[data-matrix=words] thead th").all_inner_texts()
    assert names == ["person", "animal", "thing", "place", "water", "money", "action", "past"]
    page.locator("[data-part=language-picker]").select_option("de")
    assert "Tier" in page.locator("[data-matrix=words] thead").inner_text()


def test_an_example_brings_vectors_that_mean_something(lesson):
    page = lesson()
    page.locator("[data-part=example-choice]").select_option(IT)
    assert said(page) == IT
    assert page.locator("[data-part=vectors-choice]").input_value() == "features"
    assert page.locator("[data-part=heads-choice-of-page]").input_value() == "by-hand"
    assert "topic" in page.locator("[data-part=choice-words]").inner_text()
    page.locator("[data-part=example-choice]").select_option("The cat sat")
    assert page.locator("[data-part=vectors-choice]").input_value() == "notes"


def test_heads_made_by_hand_are_offered_for_features_alone(lesson):
    page = lesson()
    offered = page.locator("[data-part=heads-choice-of-page] option")
    assert offered.count() == 2
    page.locator("[data-part=vectors-choice]").select_option("features")
    assert offered.count() == 3
    page.locator("[data-part=heads-choice-of-page]").select_option("by-hand")
    page.locator("[data-part=vectors-choice]").select_option("smollm2")
    assert page.locator("[data-part=heads-choice-of-page]").input_value() == "one"


def test_a_link_opens_the_sentence_and_back_leads_to_the_one_before(lesson):
    page = lesson("step=3&sentence=The+cat+ran&vectors=features&heads=by-hand&row=2&head=2")
    assert said(page) == "The cat ran"
    assert page.locator("[data-part=stage]").get_attribute("data-step") == "3"
    assert page.locator("[data-part=head-picker] [aria-pressed=true]").inner_text() == "2"
    type_sentence(page, "A bird flew")
    assert "sentence=A+bird+flew" in page.url
    assert "row=" not in page.url
    page.go_back()
    page.locator("[data-part=sentence]", has_text="The cat ran").wait_for(state="attached")
    assert page.locator("[data-part=sentence-input]").input_value() == "The cat ran"
    assert page.locator("[data-part=head-picker] [aria-pressed=true]").inner_text() == "2"
    page.go_forward()
    page.locator("[data-part=sentence]", has_text="A bird flew").wait_for(state="attached")


def test_a_sentence_that_cannot_be_taken_says_so_and_stays(lesson):
    page = lesson()
    box = page.locator("[data-part=sentence-input]")
    long = " ".join(["word"] * 25)
    type_sentence(page, long)
    problem = page.locator("[data-part=sentence-problem]")
    assert "25 words are too many" in problem.inner_text()
    assert box.input_value() == long
    assert said(page) == "The cat sat"
    type_sentence(page, "   ")
    assert "at least one word" in problem.inner_text()
    box.press("Escape")
    assert box.input_value() == "The cat sat"
    assert problem.count() == 0


def test_keys_of_the_room_are_letters_while_typing(lesson):
    page = lesson()
    box = page.locator("[data-part=sentence-input]")
    box.click()
    box.press("End")
    box.press_sequentially(" top c s o")
    box.press("ArrowRight")
    assert page.locator("[data-part=presenter]").count() == 0
    assert page.locator("[data-part=stage]").get_attribute("data-step") == "1"
    assert box.input_value() == "The cat sat top c s o"
    assert said(page) == "The cat sat"
    box.press("Enter")
    assert said(page) == "The cat sat top c s o"


def test_numbers_put_in_by_hand_are_forgotten(lesson):
    page = lesson()
    put(page, "words", 0, 0, "7")
    assert page.locator("[data-part=changes]").count() == 1
    type_sentence(page, "The cat")
    assert page.locator("[data-part=changes]").count() == 0


def test_a_page_made_with_a_choice_opens_with_it(lesson):
    page = lesson(options=Options(BANK, vectors="features", projections="by-hand"))
    assert page.locator("[data-part=vectors-choice]").input_value() == "features"
    assert page.locator("[data-part=heads-choice-of-page]").input_value() == "by-hand"
    page = lesson(options=Options("The cat sat", projections="random:7"))
    assert page.locator("[data-part=vectors-choice]").input_value() == ""
    assert "made with" in page.locator("[data-part=choice-words]").inner_text()
