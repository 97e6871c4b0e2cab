"""A sentence by its name, with its values, in one of the languages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeAlias

from regard.errors import InputError

LANGUAGES: Final = {"en": "English", "de": "Deutsch", "zh": "中文"}
Table: TypeAlias = dict[str, dict[str, str | dict[str, str]]]

_MARKS: Final = re.compile(r"</?[a-z]+>")
_VALUE: Final = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True)
class Phrase:
    """A sentence to be said later, in whichever language: its name and its values."""

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For the page, which says it in its own language."""
        values = {k: v.as_dict() if isinstance(v, Phrase) else v for k, v in self.values.items()}
        return {"say": self.name, "values": values}


@dataclass(frozen=True)
class Language:
    """One language, called with a sentence's name and its values."""

    code: str
    whole: str = "--json"  # what has the numbers that are left out of a text

    def __call__(self, sentence: str | Phrase, /, **values: Any) -> str:
        """The sentence as plain text. KeyError for a sentence or a value that is not there."""
        if isinstance(sentence, Phrase):
            return self(sentence.name, **sentence.values)
        section, _, name = sentence.partition(".")
        text = table_of(self.code)[section][name]
        if isinstance(text, dict):
            text = text["one" if values["count"] == 1 else "other"]
        text, given = _MARKS.sub("", text), {"whole": self.whole, **values}
        return _VALUE.sub(lambda found: self._said(given[found[1]]), text)

    def _said(self, value: Any) -> str:
        if isinstance(value, list | tuple):
            return self("list.comma").join(map(self._said, value))
        return self(value) if isinstance(value, Phrase) else str(value)


def listing(names: Sequence[str], most: int = 12) -> Phrase | list[str]:
    """The names as a value of a sentence, cut after `most` with the number of the rest."""
    rest = len(names) - most
    if rest <= 0:
        return list(names)
    return Phrase("list.more", {"names": list(names[:most]), "count": rest})


def language(code: str) -> Language:
    """The language of a code of `LANGUAGES`."""
    if code not in LANGUAGES:
        known = ", ".join(f"{one} ({name})" for one, name in LANGUAGES.items())
        raise InputError(f"the lesson is not written in '{code}'; give one of {known}")
    return Language(code)


@cache
def table_of(code: str) -> Table:
    """Section → name → text."""
    text = (files("regard.learn.languages") / f"{code}.json").read_text(encoding="utf-8")
    return json.loads(text)
