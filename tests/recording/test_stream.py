"""Tokens, put together from their pieces."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.errors import FileError
from regard.recording import Memory, Stream
from regard.recording.pieces import sort_pieces
from regard.recording.schema import DELIMITER, SPECIAL


def stream(*pieces: tuple[int, list[str]], flags: dict[int, list[int]] | None = None) -> Stream:
    """Texts by first token; ids count on."""
    store = Memory()
    for start, texts in pieces:
        raw = np.frombuffer(json.dumps(texts).encode(), np.uint8)
        store.add(f"P3/encoder/text/{start}", raw)
        ids = np.arange(start, start + len(texts), dtype=np.int32)
        store.add(f"P3/encoder/ids/{start}", ids)
    for start, some in (flags or {}).items():
        store.add(f"P3/encoder/flags/{start}", np.array(some, np.uint8))
    return Stream(store, sort_pieces(store), 3, "encoder")


def test_pieces_follow_each_other():
    one = stream((2, ["c"]), (0, ["a", " b"]), flags={0: [0, DELIMITER], 2: [SPECIAL]})
    assert one.tokens == ["a", " b", "c"] and one.ids.tolist() == [0, 1, 2] and len(one) == 3
    assert one.flags.tolist() == [0, DELIMITER, SPECIAL]
    assert one.delimiters.tolist() == [False, True, False] and one.name == "encoder"


def test_what_is_behind_a_gap_is_left_out():
    one = stream((0, ["a", "b"]), (3, ["d"]), flags={0: [1]})
    assert one.tokens == ["a", "b"] and one.ids.tolist() == [0, 1] and len(one) == 2
    assert one.flags.tolist() == [1, 0]  # nothing is said of the second


def test_nothing_recorded_is_empty():
    one = stream()
    assert one.tokens == [] and one.ids.shape == (0,) and len(one) == 0 and one.flags.shape == (0,)


@pytest.mark.parametrize("raw", [b"", b"[1]", b"{}", b"[", b"\xff", b'["a", null]', b"[" * 99999])
def test_texts_that_are_none_are_refused(raw):
    store = Memory()
    store.add("P0/tokens/text/0", np.frombuffer(raw, np.uint8))
    with pytest.raises(FileError, match=r"'P0/tokens/text/0': the texts of tokens"):
        len(Stream(store, sort_pieces(store), 0, "tokens").tokens)


def test_where_a_token_stood_first():
    store = Memory()
    store.add("P0/tokens/ids/0", np.array([7, 3, 7, 9, 3, 7], np.int32))
    one = Stream(store, sort_pieces(store), 0, "tokens")
    assert one.first_seen.tolist() == [0, 1, 0, 3, 1, 0]
    assert stream().first_seen.tolist() == []
