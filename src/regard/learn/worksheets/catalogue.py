"""Every worksheet by name, and the line by which a sheet says which one it is."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from typing import Final

from regard.errors import InputError
from regard.learn.languages import LANGUAGES, language
from regard.learn.text import quoted
from regard.learn.worksheets import arranging, later_steps, matching
from regard.learn.worksheets.question import Worksheet

LABS: Final = {lab.name: lab for lab in (*matching.LABS, *arranging.LABS)}
LATER_STEPS: Final = {step.name: step for step in later_steps.STEPS}
ONE_HEAD: Final = {  # a step of one head → what is asked
    "projections": ("Q", "K", "V"), "scores": ("scores",), "scaling": ("scaled",),
    "softmax": ("weights",), "output": ("output",),
}  # fmt: skip
STEPS: Final = ("all", *ONE_HEAD, *LATER_STEPS)
_LINE = re.compile(
    r"^\W*(lab|step)\W*?[:：]\W*([a-z][a-z-]*)\W*?[,，]\W*seed\W+([0-9]{1,15})\W*$",
    re.IGNORECASE | re.MULTILINE,
)


def lab_named(name: str) -> Worksheet:
    """The worksheet of a lab; one sentence that lists them where there is none."""
    if name not in LABS:
        given = "" if name == "list" else f"--lab {quoted(name)} is not known; "
        raise InputError(f"{given}the labs are {', '.join(LABS)}")
    return LABS[name]


def check_step(name: str) -> None:
    """InputError that lists the steps where this is none of them."""
    if name not in STEPS:
        raise InputError(f"--step {quoted(name)} is not known; the steps are {', '.join(STEPS)}")


def naming_line(kind: str, name: str, seed: int) -> str:
    """lab: masking, seed 7."""
    return f"{kind}: {name}, seed {seed}"


def named_in(text: str) -> tuple[str, str, int] | None:
    """Kind, name and seed that a sheet gives in its line or else in its title, in any language."""
    for found in _LINE.finditer(text):
        kind, name, seed = found[1].lower(), found[2].lower(), int(found[3])
        if name in (LABS if kind == "lab" else STEPS):
            return kind, name, seed
    for found in re.finditer(r"^ *#+ *(.+?) *$", text, re.MULTILINE):
        for title, sheet in _titles().items():
            if seed_found := re.fullmatch(title, found[1]):
                return *sheet, int(seed_found[1])
    return None


@cache
def _titles() -> dict[str, tuple[str, str]]:
    """Patterns of the titles of all sheets and keys → kind and name of the sheet."""
    sheets = [("step", name) for name in STEPS] + [("lab", name) for name in LABS]
    found = {}
    for code, form, (kind, name) in product(LANGUAGES, ("title", "title_key"), sheets):
        called = title_of(name, is_lab=kind == "lab", code=code)
        title = re.escape(language(code)(f"sheet.{form}", name=called, seed="\0"))
        found[title.replace(re.escape("\0"), "([0-9]{1,15})")] = (kind, name)
    return found


def title_of(name: str, *, is_lab: bool, code: str = "en") -> str:
    """What the sheets of a lab or a step are called."""
    asked = () if is_lab else ONE_HEAD.get(name, ())
    section = "_".join(asked).lower() if asked else "by_hand" if name == "all" else name
    return language(code)(f"sheet.{section.replace('-', '_')}")
