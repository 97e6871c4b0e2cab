"""Every sentence of the lesson stands in every language, with the same values."""

from __future__ import annotations

import re

import pytest

from regard.errors import InputError
from regard.learn.languages import LANGUAGES, Phrase, language, listing, table_of

VALUE = re.compile(r"\{([a-z_]+)\}")
OTHERS = [code for code in LANGUAGES if code != "en"]


def sentences(code):
    """name → its text, or texts."""
    table = table_of(code)
    return {f"{s}.{name}": text for s, names in table.items() for name, text in names.items()}


def forms(text):
    return list(text.values()) if isinstance(text, dict) else [text]


@pytest.mark.parametrize("code", OTHERS)
def test_no_sentence_is_missing(code):
    own, english = sentences(code), sentences("en")
    assert sorted(english.keys() - own.keys()) == []
    assert sorted(own.keys() - english.keys()) == []


@pytest.mark.parametrize("code", OTHERS)
def test_values_and_marks_are_the_same(code):
    """`{x}` and `<mark>` are for the program: translated ones would be shown as they are."""
    own = sentences(code)
    for name, text in sentences("en").items():
        assert isinstance(own[name], dict) == isinstance(text, dict), name
        for pattern in (VALUE, re.compile(r"</?[a-z]+>")):
            wanted = {found for form in forms(text) for found in pattern.findall(form)}
            given = {found for form in forms(own[name]) for found in pattern.findall(form)}
            assert given == wanted, name


@pytest.mark.parametrize("code", LANGUAGES)
def test_numbers_have_both_forms(code):
    for name, text in sentences(code).items():
        assert all(form.strip() for form in forms(text)), name
        if isinstance(text, dict):
            assert sorted(text) == ["one", "other"], name


def test_phrases_are_said_in_any_language():
    phrase = Phrase("language.label")
    assert language("en")(phrase) == "Language"
    assert language("de")(phrase) == "Sprache"
    assert phrase.as_dict() == {"say": "language.label", "values": {}}


def test_an_unknown_language_names_those_there_are():
    with pytest.raises(InputError, match=r"'fr'; give one of en \(English\), de"):
        language("fr")


def test_an_unknown_sentence_is_an_error():
    with pytest.raises(KeyError):
        language("en")("language.nothing")


def test_lists_are_joined_as_the_language_does():
    say = {code: language(code) for code in LANGUAGES}
    names = {"name": "a", "names": ["b", "c"]}
    assert say["en"]("story.hidden", **names).endswith(": b, c.")
    assert say["zh"]("story.hidden", **names).endswith("：b、c。")
    assert listing(["a", "b"]) == ["a", "b"]
    cut = {"known": listing(list("abc"), 2), "words": "d"}
    assert say["en"]("origins.notes_and_made_up", **cut).startswith("a, b and 1 more from")
    assert say["de"]("origins.notes_and_made_up", **cut).startswith("a, b und 1 weitere aus")


def test_a_value_may_be_called_sentence():
    assert language("en")("page.title_of", sentence="The cat").endswith("The cat")


def test_marks_inside_values_are_kept():
    assert "<b>x</b>" in language("en")("sum.row", name="<b>x</b>")
