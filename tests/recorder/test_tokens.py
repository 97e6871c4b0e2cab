"""Tokens read as text, and what kind they are."""

from __future__ import annotations

import numpy as np
import pytest

from real_models import minilm, smollm2
from regard.errors import InputError
from regard.recorder.tokens import flags_of, reader_of, texts_of
from regard.recording.schema import DELIMITER, SPECIAL


def test_texts_join_to_the_text() -> None:
    tokenizer = smollm2().tokenizer
    text = "Twice a day, 27 million.\nNaïve: 日本語 🙂 end"
    ids = tokenizer(text).input_ids
    texts = texts_of(tokenizer, ids)
    assert texts[:5] == ["Tw", "ice", " a", " day", ","]
    assert "\n" in texts
    assert "".join(texts).startswith("Twice a day, 27 million.\nNa")


def test_kinds() -> None:
    tokenizer = smollm2().tokenizer
    ids = tokenizer("<|im_start|>Yes, no.\n").input_ids
    flags = flags_of(tokenizer, ids, texts_of(tokenizer, ids))
    by_text = dict(zip(texts_of(tokenizer, ids), flags.tolist(), strict=True))
    assert by_text["<|im_start|>"] == SPECIAL
    assert by_text[","] == by_text["."] == by_text["\n"] == DELIMITER
    assert by_text["Yes"] == by_text[" no"] == 0


def test_word_pieces_keep_their_marks() -> None:
    tokenizer = minilm().tokenizer
    ids = tokenizer("tokenization rocks").input_ids
    texts = texts_of(tokenizer, ids)
    assert texts[0] == "[CLS]" and texts[-1] == "[SEP]"
    assert any(text.startswith("##") for text in texts)


def test_without_a_tokenizer() -> None:
    assert texts_of(None, [3, 17]) == ["#3", "#17"]
    assert flags_of(None, [3, 17], ["#3", "#17"]).tolist() == np.zeros(2).tolist()


class _Decoder:
    """Decodes and knows nothing else."""

    def decode(self, ids: list[int]) -> str:
        return f"w{ids[0]}" if ids[0] < 50 else ""


class _Processor:
    """Reads pictures, and text by what is inside it."""

    def __init__(self) -> None:
        self.tokenizer = _Decoder()


def test_what_decodes_is_found() -> None:
    assert texts_of(reader_of(_Processor()), [3, 99, -200]) == ["w3", "#99", "#-200"]
    assert reader_of(None) is None
    with pytest.raises(InputError, match="decodes nothing"):
        reader_of(object())
