"""Known mistakes are named; one slip is one mistake; what cannot be read is listed."""

from __future__ import annotations

import numpy as np
import pytest

from regard.learn.worksheets import LABS, make_sheet
from regard.learn.worksheets.catalogue import LATER_STEPS
from regard.learn.worksheets.page import answer_lines

SHEETS = {**LABS, **LATER_STEPS}
MASKING = make_sheet(7, lab="masking")  # scores [2 0 4], the third hidden; 4 tokens
SHAPES = make_sheet(7, lab="shapes")  # (6, 7, 4, 5)


def options(name):
    return {"lab": name} if name in LABS else {"step": name}


@pytest.mark.parametrize("name", SHEETS)
def test_every_known_mistake_is_named(graded, answered, name):
    sheet = SHEETS[name]
    for seed in range(3):
        facts, key = sheet.facts(seed), make_sheet(seed, **options(name)).key
        for number, question in enumerate(sheet.questions, 1):
            for slip, wrong in question.slips_of(facts):
                lines = "\n".join(answer_lines(question, wrong, blank=False))
                verdict = graded(answered(key, number, lines))
                assert verdict.verdict == "wrong" and verdict.first_wrong.number == number
                assert verdict.first_wrong.cause.kind == slip.kind


@pytest.mark.parametrize("name", SHEETS)
def test_four_decimals_are_as_good_as_those_of_the_key(graded, answered, name):
    sheet, text = SHEETS[name], make_sheet(2, **options(name)).text
    facts = sheet.facts(2)
    for number, question in enumerate(sheet.questions, 1):
        rows = question.answer(facts)
        text = answered(text, number, "\n".join(" ".join(f"{v:.4f}" for v in row) for row in rows))
    assert graded(text).verdict == "right"


def test_what_follows_from_a_wrong_answer_is_right(graded, answered):
    """scaling: the weights are those of the scaled row that was given."""
    facts = LABS["scaling"].facts(3)
    text = make_sheet(3, lab="scaling").text
    unscaled = " ".join(f"{score:g}" for score in facts.scores)
    text = answered(text, 2, f"[{unscaled}]")
    e = np.exp(facts.scores)
    text = answered(text, 3, "[" + " ".join(f"{w:.2f}" for w in e / e.sum()) + "]")
    verdict = graded(text)
    assert [answer.cause is None for answer in verdict.answers] == [True, False, True, True]
    assert "divide by √d_k" in verdict.first_wrong.cause.text


def test_rounded_and_unrounded_answers_may_be_gone_on_with(graded, answered):
    facts = LATER_STEPS["block"].facts(4)
    text = make_sheet(4, step="block").text
    rows = facts.residual
    means, deviations = facts.means.round(2), facts.deviations.round(2)
    rounded = (rows - means[:, None]) / deviations[:, None]
    for number, matrix in enumerate((rows, [means], [deviations], rounded), 1):
        lines = "\n".join("[" + " ".join(f"{v:.2f}" for v in row) + "]" for row in matrix)
        text = answered(text, number, lines)
    assert graded(text).verdict == "right"


@pytest.mark.parametrize(
    "words",
    [
        "[0.88 0.12 0]", "(0.88, 0.12, 0)", "88 %, 12 %, 0 %", "0,88; 0,12; 0,00", "0.88\n0.12\n0",
        r"$\begin{pmatrix} 0.88 & 0.12 & 0\end{pmatrix}$", "w = (0.88, 0.12, 0.00)",
        r"$$\begin{bmatrix} 0{,}88 \\ 0{,}12 \\ 0 \end{bmatrix}$$", "| 0.88 | 0.12 | 0 |",
    ],
)  # fmt: skip
def test_a_vector_in_many_spellings(graded, answered, words):
    assert graded(answered(MASKING.text, 1, words)).answers[0].cause is None
    assert graded(answered(MASKING.text, 1, words)).verdict == "right"
    wrong = graded(answered(MASKING.text, 1, words.replace("12", "13").replace("88", "80")))
    assert wrong.verdict == "wrong"


@pytest.mark.parametrize(
    "words",
    ["(6, 7, 4, 5)", "6×7×4×5", "6 x 7 x 4 x 5", "torch.Size([6, 7, 4, 5])", "(6,7,4,5)",
     "shape (6, 7, 4, 5)", r"$6 \times 7 \times 4 \times 5$", "(B, H, N, d) = (6, 7, 4, 5)"],
)  # fmt: skip
def test_a_shape_in_many_spellings(graded, answered, words):
    assert graded(answered(SHAPES.text, 1, words)).verdict == "right"
    wrong = graded(answered(SHAPES.text, 1, words.replace("4", "9")))
    assert wrong.verdict == "wrong" and wrong.first_wrong.cause.kind == "wrong-shape"


@pytest.mark.parametrize("words", ["10", "10 weights", "4·5/2 = 10", "**10**", "x = 10", "10.0"])
def test_a_number_in_many_spellings(graded, answered, words):
    assert graded(answered(MASKING.text, 4, words)).verdict == "right"
    wrong = graded(answered(MASKING.text, 4, words.replace("10", "16")))
    assert wrong.first_wrong.cause.text == "this is the number without a mask"


@pytest.mark.parametrize("words", ["about 10 of 16", "10 or 11", "[1 2], [3]", "10 10"])
def test_what_cannot_be_read_is_never_right(graded, answered, words):
    text = answered(MASKING.text, 4, words)
    verdict = graded(text)
    assert verdict.verdict in ("not all read", "wrong")
    if verdict.unread:
        (line,) = verdict.unread
        assert text.splitlines()[line.line - 1] == words == line.text


@pytest.mark.parametrize(
    ("words", "cause"),
    [("[0.88 0.12]", "2 numbers given, 3 numbers asked"), ("[0.73 0.12 0]", "an arithmetic slip"),
     ("[8.8 1.2 0]", "the decimal point is one place too far to the right")],
)  # fmt: skip
def test_other_mistakes_are_described(graded, answered, words, cause):
    assert graded(answered(MASKING.text, 1, words)).first_wrong.cause.text == cause


def test_the_order_of_axes(graded, answered):
    assert graded(answered(SHAPES.text, 1, "(5, 4, 7, 6)")).first_wrong.cause.kind == "wrong-order"
    assert graded(answered(SHAPES.text, 1, "(6, 4, 35)")).first_wrong.cause.kind == "wrong-axes"


def test_a_file_of_ones_own_needs_only_the_line_and_the_answers(graded):
    text = "**lab: masking, seed 7**\nanswer 1: [0.88 0.12 0]\nAntwort 2 = 0.13\n**answer 4**: 10\n"
    verdict = graded(text)
    assert (verdict.verdict, verdict.checked, verdict.blank) == ("right", 5, 1)


def test_a_blank_in_a_vector_is_blank(graded, answered):
    verdict = graded(answered(MASKING.text, 1, "[0.88 ? 0]"))
    assert (verdict.verdict, verdict.checked, verdict.blank) == ("right", 2, 4)


@pytest.mark.parametrize("words", ["e^4", "the second", "die zweite", "第二个"])
def test_words_in_place_of_a_number_are_not_read_rather_than_blank(graded, answered, words):
    found = graded(answered(make_sheet(7, lab="next-word").key, 2, words))
    assert found.verdict == "not all read" and found.blank == 0
    assert [one.text for one in found.unread] == [words]


def test_an_answer_still_open_is_blank_whatever_is_noted_beside_it(graded, answered):
    found = graded(answered(make_sheet(7, lab="next-word").key, 2, "? (ask Eva)"))
    assert found.verdict == "right" and found.blank == 1


@pytest.mark.parametrize("seed", range(1, 12))
def test_answers_from_the_rounded_figures_of_the_sheet_are_right(graded, answered, seed):
    facts, key = LABS["next-word"].facts(seed), make_sheet(seed, lab="next-word").key
    second, first = np.sort(np.round(facts.tempered, 2))[-2:]
    if second > 0:
        assert graded(answered(key, 4, f"{first / second:.2f}")).verdict == "right"
    assert graded(answered(key, 4, f"{1.5 * first / (second + 0.1):.2f}")).verdict == "wrong"
    powers = np.round(facts.probabilities, 2) ** (1 / facts.t)
    rounded = " ".join(f"{value:.2f}" for value in powers / powers.sum())
    assert graded(answered(key, 3, f"[{rounded}]")).verdict == "right"

    places, key = LABS["positions"].facts(seed), make_sheet(seed, lab="positions").key
    ahead = np.round([np.sin(places.p + places.k), np.cos(places.p + places.k)], 2)
    product = np.round(places.encoding, 2) @ ahead
    assert graded(answered(key, 2, f"{product:.4f}")).verdict == "right"
