"""A sheet in any language is its key without the answers, and is graded the same."""

from __future__ import annotations

import re

import pytest

from regard.errors import InputError
from regard.learn.grading.exercise import exercise_key, exercise_markdown
from regard.learn.languages import LANGUAGES
from regard.learn.worksheets import LABS, STEPS, make_sheet, title_of
from regard.learn.worksheets.catalogue import ONE_HEAD

SHEETS = [{"lab": name} for name in LABS] + [{"step": name} for name in STEPS]


def words(options):
    return "-".join(options.values())


def blanks(graded):
    return graded.mark.blank if hasattr(graded, "mark") else graded.blank


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize("options", SHEETS, ids=words)
def test_every_key_is_right_and_every_empty_sheet_is_not(graded, options, code):
    for seed in (1, 7):
        sheet = make_sheet(seed, code=code, **options)
        empty, key = graded(sheet.text), graded(sheet.key)
        assert (empty.verdict, empty.exit_code) == ("nothing filled in", 1)
        assert (key.verdict, blanks(key)) == ("right", 0)
        assert blanks(empty) > 0


@pytest.mark.parametrize("options", SHEETS, ids=words)
def test_languages_differ_in_prose_alone(options):
    english, *others = (make_sheet(7, code=code, **options).key for code in LANGUAGES)

    def read(text):  # what the grader reads
        named = re.findall(r"^(?:lab|step): .*|^## .*|^\|.*", text, re.MULTILINE)
        return named, re.findall(r"^## answer .*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)

    for other in others:
        assert other != english and read(other) == read(english)


def test_the_whole_calculation_is_the_exercise():
    sheet = make_sheet(7)
    assert (sheet.text, sheet.key) == (exercise_markdown(7), exercise_key(7))


@pytest.mark.parametrize("step", ONE_HEAD)
def test_only_the_step_asked_for_is_blank_and_last(step):
    sheet = make_sheet(7, step=step)
    sections = dict(re.findall(r"## (\w+)\n\n(.*?)(?=\n## |\Z)", sheet.text, re.DOTALL))
    asked = ONE_HEAD[step]
    assert [name for name, body in sections.items() if "?" in body] == list(asked)
    assert list(sections)[-len(asked) :] == list(asked)


def test_every_sheet_has_a_title():
    titles = {title_of(name, is_lab=True) for name in LABS}
    assert len(titles) == len(LABS) and title_of("all", is_lab=False) == "Attention by hand"
    assert title_of("masking", is_lab=True, code="de") == "Wohin −∞ gehört"


def test_what_is_not_known_is_refused_with_what_is():
    with pytest.raises(InputError, match="'mask' is not known; the labs are two-matrices, scaling"):
        make_sheet(7, lab="mask")
    with pytest.raises(InputError, match="'sofmax' is not known; the steps are all, projections"):
        make_sheet(7, step="sofmax")
    with pytest.raises(InputError, match="not written in 'fr'"):
        make_sheet(7, lab="masking", code="fr")


@pytest.mark.parametrize("sheet", [{}, {"step": "softmax"}, {"step": "block"}, {"lab": "kv-cache"}])
@pytest.mark.parametrize(("code", "asks"), [("en", "in place"), ("de", "etze"), ("zh", "换成")])
def test_a_key_does_not_ask_for_answers(sheet, code, asks):
    made = make_sheet(7, **sheet, code=code)
    assert asks in made.text and asks not in made.key


def test_no_sheet_counts_1_in_the_plural():
    for seed in range(1, 30):
        assert " 1 numbers" not in make_sheet(seed, lab="kv-cache").text
