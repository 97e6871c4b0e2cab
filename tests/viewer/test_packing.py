"""Numbers packed, and what comes back of them."""

from __future__ import annotations

import zlib

import numpy as np

from regard.viewer.packing import Packed, deflated


def _planes(content: bytes, count: int, bytes_each: int) -> np.ndarray:
    return np.frombuffer(content, np.uint8).reshape(bytes_each, count).T


def test_exact_numbers_keep_every_bit():
    given = np.array([0.1, -0.0, np.nan, 3e38], np.float32)
    packed = Packed()
    packed.exact("w", given)
    back = np.ascontiguousarray(_planes(zlib.decompress(packed.content()), 4, 4)).view("<f4")
    assert back.ravel().tobytes() == given.tobytes()
    assert packed.parts == [{"name": "w", "form": "exact", "count": 4}]


def test_rounded_numbers_are_within_half_a_step():
    given, step = np.array([0.0, 0.3, 1.0, np.nan]), 2.0**-11
    packed = Packed()
    packed.rounded("w", given, step)
    codes = _planes(zlib.decompress(packed.content()), 4, 3).astype(np.int64) @ [1, 256, 65536]
    assert codes[3] == 2**24 - 1
    np.testing.assert_allclose(codes[:3] * step, given[:3], atol=step / 2)


def test_parts_follow_one_another_and_may_be_empty():
    packed = Packed()
    packed.exact("none", np.zeros(0))
    packed.codes("map", np.arange(6, dtype=np.uint8).reshape(2, 3))
    packed.rounded("track", np.ones(1), 1.0)
    assert zlib.decompress(packed.content()) == bytes([*range(6), 1, 0, 0])
    assert [one["count"] for one in packed.parts] == [0, 6, 1]
    assert packed.parts[1]["size"] == [2, 3]


def test_text_is_deflated():
    assert zlib.decompress(deflated(b"a" * 1000)) == b"a" * 1000
