"""Texts of tokens as a reader expects them, whatever the tokenizer calls its tokens.

A tokenizer over bytes may cut a character into several tokens. The character is given to the token
that holds its first byte, and a token left with nothing of its own is `CONTINUED`:

    " <0xC3>", "<0x84>", "pf"          " Ä", "⋯", "pf"        as recordings have it
    "ĠÃ", "Ħ", "pf"                    " Ä", "⋯", "pf"        as earlier recordings have it
    "[CLS]", "the", "ap", "##ple"      "[CLS]", " the", " ap", "ple"        WordPiece
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

CONTINUED: Final = "⋯"

_SPELLED: Final = re.compile("<0x([0-9A-Fa-f]{2})>")
_PLAIN: Final = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHERS: Final = sorted(set(range(256)) - set(_PLAIN))
# The letter by which byte-level BPE calls each byte: its own where that is printable.
_LETTERS: Final = {n: chr(n) for n in _PLAIN} | {n: chr(256 + at) for at, n in enumerate(_OTHERS)}
_BYTES: Final = {letter: n for n, letter in _LETTERS.items()}

_CLITICS: Final = ("s", "t", "m", "d", "re", "ve", "ll")
_CLOSING: Final = frozenset(".,;:!?)]}%’”…")
_OPENING: Final = frozenset("([{“‘")
_UNSPACED: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def readable(tokens: Sequence[str]) -> list[str]:
    """One text for each token; together they read as the text that was given."""
    found = _with_spaces(tokens) if _is_wordpiece(tokens) else list(tokens)
    for first, last in _runs([_pieces_of(one) is not None for one in found]):
        found[first:last] = _joined(found[first:last])
    return found


def spelled_bytes(name: str) -> str:
    """The text of a token of byte-level BPE by its name in the vocabulary; bytes that are no whole
    character as <0xC3>."""
    if not all(letter in _BYTES for letter in name):
        return name
    raw = bytes(_BYTES[letter] for letter in name)
    return "".join(text or f"<0x{raw[at]:02X}>" for at, _, text in _characters(raw))


# ── characters in several tokens ─────────────────────────────────────────────────────────────


class _Byte(NamedTuple):
    """A byte, how it was written, and whether a byte is all that this can mean."""

    value: int
    written: str
    is_sure: bool


def _pieces_of(token: str) -> list[_Byte] | None:
    """The bytes of a token that holds a part of a character; None for any other."""
    if "<0x" in token and _SPELLED.search(token):
        parts = _SPELLED.split(token)  # text, byte, text, byte … text
        return [
            byte
            for at, part in enumerate(parts)
            for byte in (_bytes_of(part) if at % 2 == 0 else [_spelled(part)])
        ]
    if token.isascii() or not all(letter in _BYTES for letter in token):
        return None
    raw = bytes(_BYTES[letter] for letter in token)
    if all(text for _, _, text in _characters(raw)):
        return None  # whole characters are written as themselves: these letters are meant
    is_sure = any(ord(letter) > 0xFF for letter in token)
    return [_Byte(n, letter, is_sure) for n, letter in zip(raw, token, strict=True)]


def _bytes_of(text: str) -> list[_Byte]:
    raw = [letter.encode("utf-8", "surrogatepass") for letter in text]
    return [
        _Byte(n, letter if at == 0 else "", True)
        for letter, encoded in zip(text, raw, strict=True)
        for at, n in enumerate(encoded)
    ]


def _spelled(digits: str) -> _Byte:
    return _Byte(int(digits, 16), f"<0x{digits}>", True)


def _joined(tokens: Sequence[str]) -> list[str]:
    """Tokens that hold parts of characters; what makes no character stays as it was written."""
    owned = [(n, byte) for n, one in enumerate(tokens) for byte in _pieces_of(one) or ()]
    raw = bytes(byte.value for _, byte in owned)
    texts = [""] * len(tokens)
    for start, stop, text in _characters(raw):
        parts = owned[start:stop]
        # Two letters of Latin-1 beside each other, as in "CAFÉ»", are more likely meant.
        is_meant = stop - start == 2 and not any(byte.is_sure for _, byte in parts)
        if text and not is_meant:
            texts[parts[0][0]] += text
        else:
            for n, byte in parts:
                texts[n] += byte.written
    return [text or CONTINUED for text in texts]


def _characters(raw: bytes) -> Iterator[tuple[int, int, str]]:
    """From, to, and the character there; "" for a byte that is part of none."""
    at = 0
    while at < len(raw):
        first = raw[at]
        size = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
        try:
            text = raw[at : at + size].decode("utf-8")
        except UnicodeDecodeError:
            size, text = 1, ""
        yield at, at + size, text
        at += size


def _runs(marks: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """First, and the one after the last, of marks that are beside each other."""
    start = None
    for at, mark in enumerate([*marks, False]):
        if mark and start is None:
            start = at
        elif not mark and start is not None:
            yield start, at
            start = None


# ── WordPiece ────────────────────────────────────────────────────────────────────────────────


def _is_wordpiece(tokens: Sequence[str]) -> bool:
    """Whether spaces were lost: no token begins with one, and parts of words say so."""
    if any(one[:1].isspace() for one in tokens):
        return False
    has_parts = any(one.startswith("##") and one.strip("#") for one in tokens)
    return has_parts or (len(tokens) > 0 and tokens[0] == "[CLS]")


def _with_spaces(tokens: Sequence[str]) -> list[str]:
    found = []
    for at, token in enumerate(tokens):
        is_part = token.startswith("##") and len(token) > 2
        before = tokens[at - 1] if at else ""
        after = tokens[at + 1] if at + 1 < len(tokens) else ""
        is_glued = is_part or not before or _is_glued(before, token, after)
        found.append(("" if is_glued else " ") + (token[2:] if is_part else token))
    return found


def _is_glued(before: str, token: str, after: str) -> bool:
    """Whether no space stood between a token and the one before it."""
    if token in _CLOSING or before in _OPENING:
        return True
    if token == "'" and after in _CLITICS:
        return True
    if before == "'" and token in _CLITICS:
        return True
    return bool(_UNSPACED.match(token)) and bool(_UNSPACED.match(before[-1:]))
