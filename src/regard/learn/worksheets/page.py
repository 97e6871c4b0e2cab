"""A worksheet or a hand calculation as Markdown: the sheet to fill in, and its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.learn.grading.exercise import exercise_page
from regard.learn.languages import Language, language
from regard.learn.text import page_lines
from regard.learn.worksheets.catalogue import (
    LATER_STEPS,
    ONE_HEAD,
    check_step,
    lab_named,
    naming_line,
    title_of,
)
from regard.learn.worksheets.question import Facts, Question, Worksheet


@dataclass(frozen=True)
class Sheet:
    """What students get and what teachers keep."""

    text: str
    key: str


def make_sheet(seed: int, *, step: str = "all", lab: str = "", code: str = "en") -> Sheet:
    """The sheet of a seed: the whole calculation, one step of it, or a lab."""
    if lab:
        return _worksheet(lab_named(lab), seed, language(code))
    check_step(step)
    if step in LATER_STEPS:
        return _worksheet(LATER_STEPS[step], seed, language(code))
    line = naming_line("step", step, seed) if step in ONE_HEAD else ""
    pages = (
        exercise_page(seed, answers=answers, asked=ONE_HEAD.get(step), line=line, code=code)
        for answers in (False, True)
    )
    return Sheet(*pages)


def _worksheet(sheet: Worksheet, seed: int, say: Language) -> Sheet:
    facts = sheet.facts(seed)
    return Sheet(*(_page(sheet, seed, facts, say, answers=answers) for answers in (False, True)))


def _page(sheet: Worksheet, seed: int, facts: Facts, say: Language, *, answers: bool) -> str:
    section = sheet.name.replace("-", "_")
    name = title_of(sheet.name, is_lab=not sheet.is_step, code=say.code)
    title = say("sheet.title_key" if answers else "sheet.title", seed=seed, name=name)
    opening = "sheet.opening_key" if answers else "sheet.opening_questions"
    lines = [f"# {title}", "", naming_line(sheet.kind, sheet.name, seed), "",
             *page_lines(say(opening)), ""]  # fmt: skip
    if sheet.given:
        lines += ["```text", *_given(sheet, facts), "```", ""]
    values = {name: shown(value) for name, value in vars(facts).items()}
    for number, question in enumerate(sheet.questions, 1):
        asked = say(f"sheet.{section}_{question.name}", **values)
        if question.places:
            asked += say("sheet.decimals", count=question.places)
        lines += [f"## question {number}", "", *page_lines(asked), "", f"## answer {number}", ""]
        lines += [*answer_lines(question, question.answer(facts), blank=not answers), ""]
    return "\n".join(lines)


def _given(sheet: Worksheet, facts: Facts) -> list[str]:
    """w_q = [[1 0]
    [2 1]]"""
    lines: list[str] = []
    for name in sheet.given:
        text = np.array2string(np.asarray(getattr(facts, name)), formatter={"all": _figure})
        head = f"{name} = "
        first, *rest = text.split("\n")
        lines += [head + first, *(" " * len(head) + line for line in rest)]
    return lines


def answer_lines(question: Question, answer: Array, *, blank: bool) -> list[str]:
    """Each row in brackets, a single number bare, an array's sizes as (2, 3, 4)."""
    rows = [["?" if blank else f"{v + 0.0:.{question.places}f}" for v in row] for row in answer]
    if question.shape:
        return [f"({', '.join(rows[0])})"]
    if answer.size == 1:
        return rows[0]
    return [f"[{' '.join(row)}]" for row in rows]


def shown(value: Any) -> str:
    """A fact inside a sentence: 4, 0.5, or [1 0 2]."""
    if np.ndim(value) == 0:
        return _figure(value)
    return "[" + " ".join(_figure(one) for one in np.ravel(value)) + "]"


def _figure(value: Any) -> str:
    return f"{round(float(value), 4) + 0.0:.4f}".rstrip("0").rstrip(".")
