"""Tokens read as text, and what kind they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tokenizers
import transformers

from real_models import minilm, smollm2
from regard.errors import InputError
from regard.recorder.tokens import flags_of, reader_of, sequence_texts, texts_of
from regard.recording.schema import DELIMITER, SPECIAL
from regard.recording.token_text import readable


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


def _made(model: Any, **parts: Any) -> Any:
    """A tokenizer of transformers around one of `tokenizers`."""
    own = tokenizers.Tokenizer(model)
    for name, part in parts.items():
        setattr(own, name, part)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=own, unk_token="[UNK]")


def _words(text: str) -> Any:
    vocabulary = {word: n for n, word in enumerate(dict.fromkeys(["[UNK]", *text.split()]))}
    model = tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]")
    return _made(model, pre_tokenizer=tokenizers.pre_tokenizers.WhitespaceSplit())


def test_words_of_a_list_have_the_spaces_of_decoding() -> None:
    text = "the sea rises and the sea falls"
    tokenizer = _words(text)
    ids = tokenizer(text).input_ids
    texts = sequence_texts(tokenizer, ids)
    assert texts[:3] == ["the", " sea", " rises"]
    assert "".join(texts) == tokenizer.decode(ids) == text == "".join(readable(texts))
    assert sequence_texts(tokenizer, ids[3:], ids[2])[0] == " and"  # a later piece of the stream
    assert texts_of(tokenizer, ids[:2]) == ["the", "sea"]  # alone, as next tokens are


def test_ends_of_words_that_are_marked_become_spaces() -> None:
    """As CLIP and GPT-1 have them."""
    vocabulary = {one: n for n, one in enumerate(["[UNK]", "a</w>", "c", "t</w>", "at</w>", "a"])}
    model = tokenizers.models.BPE(
        vocabulary, [("a", "t</w>")], end_of_word_suffix="</w>", unk_token="[UNK]"
    )
    tokenizer = _made(model, decoder=tokenizers.decoders.BPEDecoder())
    assert sequence_texts(tokenizer, [1, 2, 4]) == ["a", " c", "at"]


def test_letters_that_decoding_joins_stay_joined() -> None:
    vocabulary = {letter: n for n, letter in enumerate(["[UNK]", *"abc"])}
    tokenizer = _made(
        tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"),
        pre_tokenizer=tokenizers.pre_tokenizers.Split("", "isolated"),
        decoder=tokenizers.decoders.Fuse(),
    )
    assert sequence_texts(tokenizer, tokenizer("abcab").input_ids) == list("abcab")


@pytest.mark.parametrize("text", ["tokenization rocks", "one word after another"])
def test_other_tokenizers_keep_their_own_texts(text: str) -> None:
    for loaded in (smollm2(), minilm()):
        ids = loaded.tokenizer(text).input_ids
        assert sequence_texts(loaded.tokenizer, ids) == texts_of(loaded.tokenizer, ids)
