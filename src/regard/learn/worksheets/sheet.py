"""A worksheet or a hand calculation as Markdown, its key, and what a sheet is recognised by."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, Final

import numpy as np

from regard.arrays import Array
from regard.errors import InputError
from regard.learn.grading.exercise import exercise_page
from regard.learn.languages import LANGUAGES, Language, language
from regard.learn.text import page_lines, quoted
from regard.learn.worksheets.question import LATER_STEPS, PLACES, Facts, Worksheet

ONE_HEAD: Final = {  # a step of one head → what is asked
    "projections": ("Q", "K", "V"), "scores": ("scores",), "scaling": ("scaled",),
    "softmax": ("weights",), "output": ("output",),
}  # fmt: skip
STEPS: Final = ("all", *ONE_HEAD, *LATER_STEPS)
_LABS: Final = (  # retired; sheets of them are still handed in
    "two-matrices", "scaling", "masking", "lookup", "saturation", "training", "shapes",
    "heads-cost", "positions", "kv-cache", "next-word", "cross-attention",
)  # fmt: skip
_LINE = re.compile(
    r"^\W*(lab|step)\W*?[:：]\W*([a-z][a-z-]*)\W*?[,，]\W*seed\W+([0-9]{1,15})\W*$",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True)
class Sheet:
    """What students get and what teachers keep."""

    text: str
    key: str


def make_sheet(seed: int, *, step: str = "all", code: str = "en") -> Sheet:
    """The sheet of a seed: the whole calculation, or one step of it."""
    check_step(step)
    if step in LATER_STEPS:
        return _worksheet(LATER_STEPS[step], seed, language(code))
    line = _naming_line(step, seed) if step in ONE_HEAD else ""
    pages = (
        exercise_page(seed, answers=answers, asked=ONE_HEAD.get(step), line=line, code=code)
        for answers in (False, True)
    )
    return Sheet(*pages)


def check_step(name: str) -> None:
    """InputError that lists the steps where this is none of them."""
    if name not in STEPS:
        raise InputError(f"--step {quoted(name)} is not known; the steps are {', '.join(STEPS)}")


def title_of(step: str, code: str = "en") -> str:
    """What the sheets of a step are called."""
    asked = "_".join(ONE_HEAD.get(step, ())).lower()
    return language(code)(f"sheet.{asked or ('by_hand' if step == 'all' else step)}")


def named_in(text: str) -> tuple[str, str, int] | None:
    """Kind, name and seed that a sheet gives in its line or else in its title, in any language.
    The kind is a step, or a lab, which is retired."""
    for line in _LINE.finditer(text):
        kind, name, seed = line[1].lower(), line[2].lower(), int(line[3])
        if name in (_LABS if kind == "lab" else STEPS):
            return kind, name, seed
    for heading in re.finditer(r"^ *#+ *(.+?) *$", text, re.MULTILINE):
        for title, sheet in _titles().items():
            if numbered := re.fullmatch(title, heading[1]):
                return *sheet, int(numbered[1])
    return None


@cache
def _titles() -> dict[str, tuple[str, str]]:
    """Patterns of the titles of all sheets and keys → kind and name of the sheet."""
    titles = {}
    for code, form in product(LANGUAGES, ("title", "title_key")):
        say = language(code)
        names = {("step", step): title_of(step, code) for step in STEPS}
        names |= {("lab", lab): say(f"sheet.{lab.replace('-', '_')}") for lab in _LABS}
        for sheet, name in names.items():
            title = re.escape(say(f"sheet.{form}", name=name, seed="\0"))
            titles[title.replace(re.escape("\0"), "([0-9]{1,15})")] = sheet
    return titles


def _naming_line(step: str, seed: int) -> str:
    """step: softmax, seed 7."""
    return f"step: {step}, seed {seed}"


def _worksheet(sheet: Worksheet, seed: int, say: Language) -> Sheet:
    facts = sheet.facts(seed)
    return Sheet(*(_page(sheet, seed, facts, say, answers=answers) for answers in (False, True)))


def _page(sheet: Worksheet, seed: int, facts: Facts, say: Language, *, answers: bool) -> str:
    name = title_of(sheet.name, say.code)
    title = say("sheet.title_key" if answers else "sheet.title", seed=seed, name=name)
    opening = say("sheet.opening_key" if answers else "sheet.opening_questions")
    given = [line for name in sheet.given for line in _given(name, getattr(facts, name))]
    lines = [f"# {title}", "", _naming_line(sheet.name, seed), "", *page_lines(opening), "",
             "```text", *given, "```", ""]  # fmt: skip
    for number, question in enumerate(sheet.questions, 1):
        asked = say(f"sheet.{sheet.name}_{question.name}") + say("sheet.decimals", count=PLACES)
        lines += [f"## question {number}", "", *page_lines(asked), "", f"## answer {number}", ""]
        lines += [*answer_lines(question.answer(facts), blank=not answers), ""]
    return "\n".join(lines)


def _given(name: str, matrix: Any) -> list[str]:
    """w_q = [[1 0]
    [2 1]]"""
    head = f"{name} = "
    first, *rest = np.array2string(matrix, formatter={"all": shortest}).split("\n")
    return [head + first, *(" " * len(head) + line for line in rest)]


def answer_lines(answer: Array, *, blank: bool) -> list[str]:
    """Each row in brackets."""
    rows = (["?" if blank else f"{v + 0.0:.{PLACES}f}" for v in row] for row in answer)
    return [f"[{' '.join(row)}]" for row in rows]


def shortest(value: Any) -> str:
    """At most four decimals: 0.5, 2."""
    return f"{round(float(value), 4) + 0.0:.4f}".rstrip("0").rstrip(".")
