"""Ranks carry the same tokenizer as pieces and merges do."""

from __future__ import annotations

from base64 import b64encode

from regard.models.convert.ranks import merges, read_ranks, spelt_bytes, vocabulary

WORDS = [b"a", b"b", b"c", b" ", b"\n", b"ab", b" a", b"abc", b" abc", b"cc", b"abcc"]
RANKS = {word: rank for rank, word in enumerate(WORDS)}


def test_lines_become_ranks():
    lines = "\n".join(f"{b64encode(word).decode()} {rank}" for word, rank in RANKS.items())
    assert read_ranks(lines) == RANKS


def test_bytes_are_spelt_so_that_they_can_be_seen():
    assert spelt_bytes(b" a!~\n") == "Ġa!~Ċ"
    letters = [spelt_bytes(bytes([byte])) for byte in range(256)]
    assert len(set(letters)) == 256 and all(letter.isprintable() for letter in letters)
    assert letters[0x7F] == "ġ" and letters[0xAD] == "Ń"  # delete, soft hyphen


def test_every_longer_token_is_one_merge_of_two_lower_ones():
    assert merges(RANKS) == [
        ("a", "b"), ("Ġ", "a"), ("ab", "c"), ("Ġ", "abc"), ("c", "c"), ("abc", "c"),
    ]  # fmt: skip


def test_the_tokenizer_made_of_them_encodes_each_token_as_itself():
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    tokenizer = Tokenizer(BPE(vocab=vocabulary(RANKS), merges=merges(RANKS)))
    for word, rank in RANKS.items():
        assert tokenizer.encode(spelt_bytes(word)).ids == [rank]
