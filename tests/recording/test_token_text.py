"""Texts of tokens, as they are shown."""

import pytest

from regard.recording.token_text import readable, spelled_bytes
from support.recordings.small import in_memory

_GERMAN = ["S", "ü", "ß", "e", "ĠÃ", "Ħ", "p", "fel"]


@pytest.mark.parametrize(
    "tokens, shown",
    [
        (_GERMAN, ["S", "ü", "ß", "e", " Ä", "⋯", "p", "fel"]),
        ([" <0xC3>", "<0x84>", "p"], [" Ä", "⋯", "p"]),
        (["<0xF0>", "<0x9F>", "<0x98>", "<0x80>"], ["😀", "⋯", "⋯", "⋯"]),
        ([" <0xF0><0x9F>", "<0x98>", "<0x80> x"], [" 😀", "⋯", " x"]),
        (["ĠðŁĺ", "Ģ"], [" 😀", "⋯"]),
        (["æ", "¼", "¢"], ["漢", "⋯", "⋯"]),
        (["a<0xE6>", "<0xBC>", "<0xA2><0xE6><0xBC>", "<0xA2>"], ["a漢", "⋯", "漢", "⋯"]),
    ],
)
def test_a_character_in_several_tokens_is_shown_once(tokens, shown):
    assert readable(tokens) == shown


@pytest.mark.parametrize(
    "tokens",
    [
        ["C", "AF", "É", "»"],  # É» would be bytes of ɻ
        [" Ñ", "¿"],
        ["Ġ", "gantija"],  # a Maltese letter, and not a space
        [" ogó", "ł", "em"],
        ["é", "à"],
        ["##", " Heading"],  # of Markdown
        ["<0x", "C3", ">"],  # text about bytes
        ["<0xF0>"],  # what belongs to it is not there
        ["日本", "語"],
        ["a", "�"],
        [],
    ],
)
def test_what_is_meant_stays(tokens):
    assert readable(tokens) == tokens


def test_a_letter_beside_a_cut_character_stays():
    assert readable(["É", "ðŁĺ", "Ģ"]) == ["É", "😀", "⋯"]


def test_word_pieces_have_their_spaces():
    given = "[CLS] the animal didn ' t un ##bel ##ie ##vable , ( it ) cost 5 % ! [SEP]".split()
    shown = "".join(readable(given))
    assert shown == "[CLS] the animal didn't unbelievable, (it) cost 5%! [SEP]"
    assert len(readable(given)) == len(given)
    assert "".join(readable(["[CLS]", "東", "京", "is", "big"])) == "[CLS] 東京 is big"


def test_sentence_pieces_have_them_already():
    given = ["[CLS]", " the", " cat", "[SEP]"]
    assert readable(given) == given


def test_names_of_a_vocabulary_over_bytes():
    assert spelled_bytes("ĠÃ") == " <0xC3>"
    assert spelled_bytes("Ħp") == "<0x84>p"
    assert spelled_bytes("ï¿½") == "\N{REPLACEMENT CHARACTER}"
    assert spelled_bytes("<0xE2>") == "<0xE2>"
    assert spelled_bytes("▁x") == "▁x"


def test_a_recording_shows_them_everywhere():
    recording, _ = in_memory(_GERMAN)
    prompt = recording.prompts[0]
    assert "".join(prompt.tokens) == "Süße Ä⋯pfel"
    head = prompt[prompt.labels()[0]]
    assert head.key_tokens == prompt.tokens
