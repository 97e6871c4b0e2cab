"""Tokens, put together from their pieces, and their texts as they are shown."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.recording import Memory, Recording, Stream
from regard.recording.schema import CONTENTS, DELIMITER, SPECIAL, Prompt
from regard.recording.token_text import spelled_bytes


def stream(*pieces: tuple[int, list[str]], flags: dict[int, list[int]] | None = None) -> Stream:
    """Texts by first token; ids count on."""
    store = Memory()
    for start, texts in pieces:
        raw = np.frombuffer(json.dumps(texts).encode(), np.uint8)
        store.add(f"P0/encoder/text/{start}", raw)
        ids = np.arange(start, start + len(texts), dtype=np.int32)
        store.add(f"P0/encoder/ids/{start}", ids)
    for start, some in (flags or {}).items():
        store.add(f"P0/encoder/flags/{start}", np.array(some, np.uint8))
    store.note({"contents": CONTENTS, "prompt/0": Prompt(9, streams=("encoder",)).to_json()})
    return Recording(store).prompts[0].streams["encoder"]


def test_pieces_follow_each_other():
    text = stream((2, ["c"]), (0, ["a", " b"]), flags={0: [0, DELIMITER], 2: [SPECIAL]})
    assert text.tokens == ["a", " b", "c"] and text.ids.tolist() == [0, 1, 2] and len(text) == 3
    assert text.flags.tolist() == [0, DELIMITER, SPECIAL]
    assert text.delimiters.tolist() == [False, True, False] and text.name == "encoder"


def test_what_is_behind_a_gap_is_left_out():
    text = stream((0, ["a", "b"]), (3, ["d"]), flags={0: [1]})
    assert text.tokens == ["a", "b"] and text.ids.tolist() == [0, 1] and len(text) == 2
    assert text.flags.tolist() == [1, 0]  # nothing is known of the second


def test_where_a_token_stood_first():
    store = Memory()
    store.add("P0/tokens/ids/0", np.array([7, 3, 7, 9, 3, 7], np.int32))
    store.note({"contents": CONTENTS, "prompt/0": Prompt(6).to_json()})
    text = Recording(store).prompts[0].streams["tokens"]
    assert text.first_seen.tolist() == [0, 1, 0, 3, 1, 0]
    nothing = stream()
    assert nothing.tokens == [] and len(nothing) == 0
    for numbers in (nothing.ids, nothing.flags, nothing.first_seen):
        assert numbers.shape == (0,)


# ── as they are shown ────────────────────────────────────────────────────────────────────────


def shown(tokens: list[str]) -> list[str]:
    return stream((0, tokens)).tokens if tokens else stream().tokens


@pytest.mark.parametrize(
    ("tokens", "texts"),
    [
        (["S", "ü", "ß", "e", "ĠÃ", "Ħ", "p", "fel"], ["S", "ü", "ß", "e", " Ä", "⋯", "p", "fel"]),
        ([" <0xC3>", "<0x84>", "p"], [" Ä", "⋯", "p"]),
        (["<0xF0>", "<0x9F>", "<0x98>", "<0x80>"], ["😀", "⋯", "⋯", "⋯"]),
        ([" <0xF0><0x9F>", "<0x98>", "<0x80> x"], [" 😀", "⋯", " x"]),
        (["ĠðŁĺ", "Ģ"], [" 😀", "⋯"]), (["æ", "¼", "¢"], ["漢", "⋯", "⋯"]),
        (["a<0xE6>", "<0xBC>", "<0xA2><0xE6><0xBC>", "<0xA2>"], ["a漢", "⋯", "漢", "⋯"]),
        (["É", "ðŁĺ", "Ģ"], ["É", "😀", "⋯"]),  # a letter beside a cut character stays
    ],
)  # fmt: skip
def test_a_character_in_several_tokens_is_shown_once(tokens, texts):
    assert shown(tokens) == texts


@pytest.mark.parametrize(
    "tokens",
    [
        ["C", "AF", "É", "»"],  # É» would be bytes of ɻ
        [" Ñ", "¿"], ["Ġ", "gantija"],  # a Maltese letter, and not a space
        [" ogó", "ł", "em"], ["é", "à"], ["##", " Heading"],  # of Markdown
        ["<0x", "C3", ">"],  # text about bytes
        ["<0xF0>"],  # what belongs to it is not there
        ["日本", "語"], ["a", "�"], [], ["[CLS]", " the", " cat", "[SEP]"],  # spaces are there
    ],
)  # fmt: skip
def test_what_is_meant_stays(tokens):
    assert shown(tokens) == tokens


def test_word_pieces_have_their_spaces():
    tokens = "[CLS] the animal didn ' t un ##bel ##ie ##vable , ( it ) cost 5 % ! [SEP]".split()
    assert "".join(shown(tokens)) == "[CLS] the animal didn't unbelievable, (it) cost 5%! [SEP]"
    assert len(shown(tokens)) == len(tokens)
    assert "".join(shown(["[CLS]", "東", "京", "is", "big"])) == "[CLS] 東京 is big"


@pytest.mark.parametrize(
    ("name", "text"),
    [("ĠÃ", " <0xC3>"), ("Ħp", "<0x84>p"), ("ï¿½", "\N{REPLACEMENT CHARACTER}"),
     ("<0xE2>", "<0xE2>"), ("▁x", "▁x")],
)  # fmt: skip
def test_names_of_a_vocabulary_over_bytes(name, text):
    assert spelled_bytes(name) == text
