"""A vocabulary as ranks (bytes in base64, and a number) → the pieces and merges of byte-level BPE.

The number is both the token's id and the order in which it was merged: a token of several bytes
was made by one merge of two lower ones.
"""

from __future__ import annotations

from base64 import b64decode
from itertools import pairwise

Ranks = dict[bytes, int]


def read_ranks(text: str) -> Ranks:
    """One token a line."""
    pairs = (line.split() for line in text.splitlines())
    return {b64decode(token): int(rank) for token, rank in pairs}


def vocabulary(ranks: Ranks) -> dict[str, int]:
    """Each token as byte-level BPE spells it, with its id."""
    return {spelt_bytes(token): rank for token, rank in ranks.items()}


def merges(ranks: Ranks) -> list[tuple[str, str]]:
    """In order, the pairs that are merged."""
    pairs = (_last_pair(token, ranks) for token in sorted(ranks, key=ranks.__getitem__))
    return [(spelt_bytes(pair[0]), spelt_bytes(pair[1])) for pair in pairs if pair]


def _last_pair(token: bytes, ranks: Ranks) -> tuple[bytes, bytes] | None:
    """The two pieces that the token was merged from: its bytes merged as far as lower ranks go."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        joined = [ranks.get(a + b, len(ranks)) for a, b in pairwise(parts)]
        at = joined.index(min(joined))
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return (parts[0], parts[1]) if len(parts) == 2 else None


def spelt_bytes(token: bytes) -> str:
    """Printable bytes of Latin-1 stand for themselves, the others for letters from 256 on."""
    return "".join(_LETTERS[byte] for byte in token)


def _letters() -> list[str]:
    plain = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("ÿ") + 1)} - {0xAD}
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


_LETTERS = _letters()
