"""Numbers of a seed are the same every time, and every mistake can be told from every other."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from regard.errors import InputError
from regard.learn.worksheets.catalogue import LABS, LATER_STEPS
from regard.learn.worksheets.question import Question, Slip, Worksheet

SHEETS = {**LABS, **LATER_STEPS}


@pytest.mark.parametrize("name", SHEETS)
def test_no_two_answers_look_alike(name):
    sheet = SHEETS[name]
    for seed in range(40):
        facts = sheet.facts(seed)
        for question in sheet.questions:
            answers = [question.answer(facts), *(wrong for _, wrong in question.slips_of(facts))]
            shown = [(a.shape, *a.round(question.places).ravel()) for a in answers]
            assert len(set(shown)) == len(shown), (question.name, seed)


@pytest.mark.parametrize("name", SHEETS)
def test_seeds_repeat_and_differ(name):
    sheet = SHEETS[name]
    assert str(vars(sheet.facts(5))) == str(vars(sheet.facts(5)))
    assert len({str(vars(sheet.facts(seed))) for seed in range(60)}) > 15


@pytest.mark.parametrize("name", LABS)
def test_a_lab_has_three_to_six_questions_with_short_answers(name):
    facts = LABS[name].facts(3)
    assert 3 <= len(LABS[name].questions) <= 6
    for question in LABS[name].questions:
        answer = question.answer(facts)
        assert answer.size <= 8 and np.abs(answer).max() < 1000
        assert question.slips, "a question without a known mistake teaches the grader nothing"
        assert question.places or (answer == answer.round()).all()


def test_later_questions_use_the_answers_of_earlier_ones():
    sheet = Worksheet("x", lambda rng: {"a": 2.0}, (
        Question("double", lambda f: 2 * f.a), Question("more", lambda f: f.double + 1),
    ))  # fmt: skip
    assert sheet.facts(0).more == 5.0


def test_numbers_that_cannot_be_fair_are_refused():
    same = Slip("same", "the same", lambda f: f.a)
    sheet = Worksheet("x", lambda rng: {"a": 2.0}, (Question("it", lambda f: f.a, (same,)),))
    with pytest.raises(InputError, match="take another seed"):
        sheet.facts(0)


def test_a_negative_seed_is_refused():
    with pytest.raises(InputError, match="0 or more; got -1"):
        LABS["masking"].facts(-1)


def test_right_numbers_of_some_labs():
    """By other formulas than those of the sheets."""
    facts = LABS["masking"].facts(7)
    first, second, hidden = np.exp(facts.scaled)
    np.testing.assert_allclose(
        facts.weights, [first / (first + second), second / (first + second), 0]
    )
    assert facts.late_sum == pytest.approx(1 - hidden / (first + second + hidden))
    facts = LABS["training"].facts(7)
    base = np.log(facts.weights)

    def loss(scores):
        e = np.exp(scores)
        return 0.5 * (e @ facts.values / e.sum() - facts.target) ** 2

    slopes = [(loss(base + d) - loss(base - d)) / 2e-6 for d in np.eye(3) * 1e-6]
    np.testing.assert_allclose(facts.at_scores, slopes, atol=1e-6)
    facts = LATER_STEPS["block"].facts(7)
    np.testing.assert_allclose(facts.normed.mean(axis=1), 0, atol=1e-9)
    np.testing.assert_allclose(facts.normed.std(axis=1), 1)
    facts = LABS["shapes"].facts(7)
    x = np.repeat(np.arange(facts.tokens)[:, None], facts.d, axis=1)
    viewed = x.reshape(facts.heads, facts.tokens, facts.size)
    assert viewed[facts.head, facts.row, 0] == facts.viewed
    pairs = combinations((facts.batch, facts.tokens, facts.heads, facts.size), 2)
    assert all(one != other for one, other in pairs)
