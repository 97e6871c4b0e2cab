"""Whether a sheet still gives the numbers of its exercise: those in its questions and matrices.

The answers follow from the seed, so that a sheet with other numbers, or with the seed of another
sheet, asks for something else than what is graded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from regard.learn.grading.cells import bare
from regard.learn.languages import LANGUAGES
from regard.learn.worksheets.page import make_sheet

_PART = re.compile(r"^#+ *(question|answer) *([0-9]+)\W*$", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])-?[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True)
class Changed:
    """A part of the sheet whose numbers are not those of the exercise."""

    place: str
    given: str
    right: str


def first_changed(kind: str, name: str, seed: int, text: str) -> Changed | None:
    """The first part with other numbers; one that was deleted is not missed."""
    own, asked = _parts(text), [_parts(_page(kind, name, seed, code)) for code in LANGUAGES]
    for place in asked[0]:
        wanted = [page[place] for page in asked]
        given = own.get(place, [])
        if given and not any(_holds(given, numbers) for numbers in wanted):
            return Changed(place, _row(given[: len(wanted[0])]), _row(wanted[0]))
    return None


def _page(kind: str, name: str, seed: int, code: str) -> str:
    lab, step = (name, "all") if kind == "lab" else ("", name)
    return make_sheet(seed, step=step, lab=lab, code=code).text


def _parts(text: str) -> dict[str, list[str]]:
    """The numbers of the matrices at the top and of every question."""
    parts: dict[str, list[str]] = {}
    place, is_open, fenced = "", False, False
    for line in text.splitlines():
        found = _PART.match(line.strip())
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif found:
            is_open, place = found[1].lower() == "question", f"question {found[2]}"
        elif is_open or (fenced and not place):
            parts.setdefault(place or "givens", []).extend(_NUMBER.findall(bare(line)))
    return parts


def _holds(given: list[str], wanted: list[str]) -> bool:
    """Whether the wanted numbers stand there in a row; working may stand around them."""
    last = len(given) - len(wanted)
    return any(given[at : at + len(wanted)] == wanted for at in range(last + 1))


def _row(numbers: list[str]) -> str:
    return " ".join(numbers)
