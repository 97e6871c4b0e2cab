"""What a sheet gives has to stay as it was; what is left blank is told."""

from __future__ import annotations

import re

import pytest

from regard.learn.grading import one_line
from regard.learn.languages import LANGUAGES
from regard.learn.worksheets import LABS, STEPS, make_sheet


def line(graded):
    pieces = graded.one_line(0) if hasattr(graded, "one_line") else one_line(graded, 0)
    return "".join(text for text, _ in pieces)


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize(
    ("given", "changed"),
    [("| Bees  | 0 | 1 |", "| Bees  | 0 | 2 |"), ("| 2 | 1 | 1 |", "| 2 | 1 | 5 |")],
)
def test_a_changed_given_of_an_exercise_is_reported_first(graded, code, given, changed):
    key = make_sheet(7, code=code).key
    assert graded(key).verdict == "right"
    found = graded(key.replace(given, changed, 1))
    assert found.verdict == "wrong" and found.exit_code == 1
    assert found.first_mistake == ("givens", "given-changed")
    assert "the exercise has 1" in line(found)
    assert found.mark.checked == 51, "the rest is graded by the exercise's own numbers"


def test_other_numbers_worked_out_rightly_are_not_the_exercise(graded):
    """Givens that make the work easy, and answers that follow from them."""
    text = make_sheet(7).key
    easy = re.sub(r"(?<=## w_v\n\n)(\|.*\n\|.*\n)(?:\|.*\n)+",
                  r"\1| 1 | 0 | 0 |\n| 2 | 0 | 0 |\n", text)  # fmt: skip
    easy = re.sub(r"(?<=## V\n\nembeddings · w_v\n\n)(\|.*\n\|.*\n)(?:\|.*\n)+",
                  r"\1| Bees | 0 | 0 |\n| make | 0 | 0 |\n| honey | 0 | 0 |\n", easy)  # fmt: skip
    found = graded(easy)
    assert found.cell.step == "w_v"
    assert next(step for step in found.mark.steps if step.step == "V").wrong.any()


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_step_sheet_is_compared_too_with_or_without_its_line(graded, code):
    key = make_sheet(7, step="softmax", code=code).key
    for text in (key, key.replace("step: softmax, seed 7\n", "")):
        assert graded(text).mark.checked == 9
        changed = re.sub(r"(?<=\| make  \| )( *)[0-9]+", r"\g<1>9", text, count=1)
        assert graded(changed).cell.step == "embeddings"
    scaled = re.sub(r"(## scaled.*?\| Bees +\| +)[0-9.-]+", r"\g<1>9.1", key, flags=re.DOTALL)
    assert graded(scaled).cell.step == "scaled"
    assert graded(scaled).first_mistake == ("givens", "given-changed")


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_changed_question_of_a_lab_is_reported_first(graded, code):
    key = make_sheet(7, lab="masking", code=code).key
    found = graded(key.replace("[2 0 4]", "[2 0 3]"))
    assert found.verdict == "wrong" and "question 1: given 2 0 3" in line(found)
    assert graded(key.replace("seed 7", "seed 8")).changed, "the seed of another sheet"


def test_changed_matrices_of_a_lab(graded):
    key = make_sheet(7, step="heads").key
    head, _, rest = key.partition("```text\n")
    first, _, rest = rest.partition("\n")
    found = graded(f"{head}```text\n{re.sub('[0-9]', '9', first.partition('=')[2])}\n{rest}")
    assert found.changed and found.changed.place == "givens"


def test_working_beside_a_question_changes_nothing(graded):
    key = make_sheet(7, lab="masking").key
    worked = key.replace("## answer 1", "e^2 + e^0 = 8.389\n\n## answer 1")
    assert graded(worked).verdict == "right"


@pytest.mark.parametrize(
    "sheet",
    [{"step": step} for step in STEPS] + [{"lab": lab} for lab in LABS],
    ids=lambda sheet: next(iter(sheet.values())),
)
def test_an_untouched_sheet_has_no_changes(graded, sheet):
    for code in LANGUAGES:
        made = make_sheet(3, **sheet, code=code)
        assert graded(made.key).verdict == "right" and not graded(made.key).is_partial
        assert graded(made.text).verdict == "nothing filled in"


@pytest.mark.parametrize("sheet", [{}, {"step": "projections"}, {"lab": "masking"}], ids=str)
def test_part_of_a_sheet_is_right_so_far(graded, sheet):
    made = make_sheet(7, **sheet)
    text, key = made.text.split("\n"), made.key.split("\n")
    at = next(i for i, line in enumerate(text) if "?" in line and line[0] in "|[")
    found = graded("\n".join([*text[:at], key[at - len(text)], *text[at + 1 :]]))
    row = found.as_row()
    assert (found.verdict, found.exit_code, found.is_partial) == ("right", 0, True)
    assert int(row["checked"]) > 0 and int(row["blank"]) > 0
    assert line(found).strip().split("  ")[1] == "right so far"
    assert f"{row['blank']} blank" in line(found)


def test_answers_that_were_deleted_are_blank(graded):
    found = graded(make_sheet(7).key.partition("## K")[0])
    assert found.is_partial and (found.mark.checked, found.mark.blank) == (6, 45)
