"""Files whose checksums are right and whose words are not: each frame that SPEC.md does not allow
is damage, and costs neither another frame nor memory."""

from __future__ import annotations

import json
import math
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recording.spec import BLOCK, document, file_header, frame, index, read_frames, tail
from regard.errors import FileError
from regard.recording import Reader, check, repair

DATA = bytes(24)
GOOD = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, len(DATA)]}
WORDS = {"__metadata__": {"layer": "0"}, "x": GOOD}
SIZES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2,
         "U16": 2, "I8": 1, "U8": 1, "BOOL": 1}  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2, 6, 24, 2.0, 2**62, 2**70, 0.5, "", "F32", "F16", "I8", "BOOL", "O",
    "F8_E4M3", "23", [], [2, 3], [-2, -3], [2.0, 3], [True, 6], [3, 2], [24], [0, 24], [24, 0],
    [0, 12], [0], [1] * 40, [0, 2**62, 2**62], ["F32"], {}, {"a": "b"}, {"a": 1},
)  # fmt: skip


def changed(said: Any) -> Iterator[Any]:
    """The JSON with one thing replaced by each value, left out, or doubled."""
    yield from VALUES
    if isinstance(said, dict):
        for key, inner in said.items():
            rest = {name: other for name, other in said.items() if name != key}
            yield rest
            yield said | {"more": inner}
            yield from (rest | {key: other} for other in changed(inner))
    elif isinstance(said, list):
        yield said + said
        for at, inner in enumerate(said):
            yield from ([*said[:at], other, *said[at + 1 :]] for other in changed(inner))


def is_sound(said: Any) -> bool:
    """Whether SPEC.md allows it of a frame with one tensor, over those data."""
    if not isinstance(said, dict):
        return False
    facts = said.get("__metadata__", {})
    if not isinstance(facts, dict) or not all(isinstance(text, str) for text in facts.values()):
        return False
    tensors = [fields for name, fields in said.items() if name != "__metadata__"]
    if len(tensors) != 1 or not isinstance(tensors[0], dict):
        return False
    (fields,) = tensors
    if fields.keys() != GOOD.keys() or fields["dtype"] not in [*SIZES]:
        return False
    shape, span = fields["shape"], fields["data_offsets"]
    for numbers in (shape, span):
        if not isinstance(numbers, list) or any(type(n) is not int or n < 0 for n in numbers):
            return False
    size = math.prod(shape) * SIZES[fields["dtype"]]
    return span == [0, len(DATA)] and size == len(DATA) and len(shape) <= 32


def opened(tmp_path: Path, *frames: bytes) -> Reader:
    """A file of such frames, which `check` reads too."""
    path = tmp_path / "a.regard"
    path.unlink(missing_ok=True)  # a new file, since to empty one waits for the disk
    path.write_bytes(file_header() + b"".join(frames))
    reader = Reader(path)
    assert not check(path).is_whole or not reader.damage
    return reader


def expect(tmp_path: Path, head: bytes, fine: bool) -> None:
    """A frame with this head is read or is damage; the one behind it is read."""
    bad = frame(b"TENS", BLOCK, head, DATA)
    behind = frame(b"TENS", BLOCK + len(bad), document({"behind": GOOD}), DATA)
    with opened(tmp_path, bad, behind) as reader:
        assert list(reader)[-1] == "behind" and not reader.array("behind").any()
        assert len(reader) == 1 + fine
        assert [d.offset for d in reader.damage] == [BLOCK] * (not fine)
        for damage in reader.damage:
            assert "\n" not in str(damage) and len(damage.reason) < 120


def test_a_document_is_read_if_the_specification_allows_it(tmp_path):
    every = [*changed(WORDS)]
    assert 10 < sum(map(is_sound, every)) < len(every) / 4
    for said in every:
        expect(tmp_path, document(said), is_sound(said))


TEXT = json.dumps({"x": GOOD}).encode()


@pytest.mark.parametrize(
    "text",
    [
        b"{", b"", b'{"\xff": 1}', b'{"x": %s, "x": %s}' % ((json.dumps(GOOD).encode(),) * 2),
        TEXT.replace(b'"shape"', b'"dtype": "F32", "shape"'),
        b'{"\\ud800": %s}' % json.dumps(GOOD).encode(), TEXT.replace(b"[2, 3]", b"[NaN]"),
        TEXT.replace(b"[2, 3]", b"[2, 3" + b"0" * 5000 + b"]"),
        json.dumps({"x": GOOD, "y": GOOD}).encode(),  # overlap
        json.dumps({n: GOOD | {"shape": [3], "data_offsets": [12 * n, 12 * n + 12]}
                    for n in (0, 1)}).encode(),  # two of them
        b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"x":' * 100_000 + b"1" + b"}" * 100_000, b"[" * 1_000_000,
    ],
    ids=range(13),
)  # fmt: skip
def test_a_text_that_is_no_document_of_one_tensor(tmp_path, text):
    expect(tmp_path, document(text), False)


@pytest.mark.parametrize(
    "lies",
    [{"length": 1 << 40}, {"length": (1 << 63) + 5}, {"length": 10}, {"head_length": 63},
     {"head_length": 64 << 20}, {"head_length": 0}, {"offset": 0}, {"offset": 1 << 63},
     {"head_crc": 1}, {"crc": 1}, {"flags": 1}],
)  # fmt: skip
def test_a_frame_header_that_lies(tmp_path, lies):
    with opened(tmp_path, frame(b"TENS", BLOCK, document({"x": GOOD}), DATA, **lies)) as reader:
        assert len(reader) == 0 and reader.damage[0].offset == BLOCK


def test_unknown_types_are_passed_over(tmp_path):
    odd = frame(b"ZZZZ", BLOCK, document(b"not even JSON"), b"data")
    good = frame(b"TENS", BLOCK + len(odd), document({"x": GOOD}), DATA)
    with opened(tmp_path, odd, good) as reader:
        assert list(reader) == ["x"] and not reader.damage


def test_a_name_counts_once_and_a_truth_value_is_one_or_zero(tmp_path):
    head = document({"x": GOOD | {"dtype": "BOOL", "shape": [len(DATA)]}})
    one = frame(b"TENS", BLOCK, head, b"\7" * len(DATA))
    again = frame(b"TENS", BLOCK + len(one), head, DATA)
    with opened(tmp_path, one, again) as reader:
        assert [d.reason for d in reader.damage] == ["a name that was used before"]
        with pytest.raises(FileError, match="values that are not BOOL"):
            reader.array("x")


def test_nothing_in_a_file_runs(tmp_path):
    """No pickle: an object array has no dtype of the format."""
    raw = np.array([{"a": 1}], object).dumps()
    head = document({"x": GOOD | {"dtype": "O", "shape": [1], "data_offsets": [0, len(raw)]}})
    with opened(tmp_path, frame(b"TENS", BLOCK, head, raw)) as reader:
        assert len(reader) == 0


@pytest.mark.parametrize("version", [0, 2, 7])
def test_other_versions_are_refused(tmp_path, version):
    path = tmp_path / "a.regard"
    path.write_bytes(file_header(version))
    says = "the file header is damaged" if version == 0 else (
        f"version {version}; this regard reads up to version 1: upgrade")  # fmt: skip
    with pytest.raises(FileError, match=says):
        Reader(path)


# ── the index ────────────────────────────────────────────────────────────────────────────────

FIRST = frame(b"TENS", BLOCK, document({"x": GOOD}), DATA)
SECOND = frame(b"TENS", BLOCK + len(FIRST), document({"y": GOOD}), DATA)
HEADERS, HEADS = [FIRST[:BLOCK], SECOND[:BLOCK]], [document({n: GOOD}) for n in "xy"]


def header(offset: int) -> bytes:
    """Of a frame that is not there."""
    return frame(b"TENS", offset, HEADS[0], DATA)[:BLOCK]


@pytest.mark.parametrize(
    ("headers", "heads"),
    [
        ([HEADERS[0]] * 2, [HEADS[0]] * 2), (HEADERS[::-1], HEADS[::-1]),
        ([header(1 << 30)], HEADS[:1]), ([header(65)], HEADS[:1]), (HEADERS, HEADS[:1]),
        ([bytes(BLOCK)], HEADS[:1]), (HEADERS, HEADS[::-1]),
    ],
    ids=["twice", "backwards", "beyond", "elsewhere", "short", "garbage", "crossed"],
)  # fmt: skip
def test_an_index_that_lies_is_not_believed(tmp_path, headers, heads):
    end = BLOCK + len(FIRST + SECOND)
    with opened(tmp_path, FIRST, SECOND, index(end, headers, heads)) as reader:
        assert list(reader) == ["x", "y"] and not check(reader.path).is_whole


@pytest.mark.parametrize("where", [0, BLOCK, 1 << 40, BLOCK + len(FIRST)])
def test_a_tail_that_points_nowhere(tmp_path, where):
    with opened(tmp_path, FIRST, tail(where)) as reader:
        assert list(reader) == ["x"]


# ── files that are longer than what is in them ───────────────────────────────────────────────

TERABYTE = 2**40


def sparse(path: Path, size: int, parts: dict[int, bytes]) -> None:
    """A file of holes, and these bytes."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.truncate(size)
        for at, raw in parts.items():
            file.seek(at)
            file.write(raw)


def test_a_terabyte_of_nothing_is_neither_read_nor_held(small):
    """Behind the frames; repairing cuts it off."""
    with Reader(small) as reader:
        names = list(reader)
    end = next(one.offset for one in read_frames(small.read_bytes()) if one.kind == b"INDX")
    sparse(small, end + 1, {})
    sparse(small, TERABYTE, {TERABYTE // 2: b"RGDF" * 100})
    tracemalloc.start()
    with Reader(small) as reader:
        assert list(reader) == names and reader.damage
    assert not check(small).is_whole and repair(small).is_whole
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()
    assert small.stat().st_size < 2**20


def test_an_index_of_a_terabyte_is_not_believed(tmp_path):
    path = tmp_path / "a.regard"
    claimed = frame(b"INDX", BLOCK, document({}), length=TERABYTE - 2 * BLOCK)[:BLOCK]
    sparse(path, TERABYTE, {0: file_header() + claimed, TERABYTE - BLOCK: tail(BLOCK)})
    tracemalloc.start()
    with Reader(path) as reader:
        assert len(reader) == 0 and reader.damage
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("is_last", [True, False])
def test_a_frame_of_a_terabyte_over_a_hole(small, is_last):
    """Its header is right, and the frame is refused when it is read."""
    end = next(one.offset for one in read_frames(small.read_bytes()) if one.kind == b"INDX")
    head = document({"hole": {"dtype": "U8", "shape": [TERABYTE], "data_offsets": [0, TERABYTE]}})
    length = len(head) + TERABYTE
    parts = {end: frame(b"TENS", end, head, length=length, crc=12345)}
    stop = end + BLOCK + length
    if not is_last:
        parts[stop] = frame(b"META", stop, document({"__metadata__": {"n": "1"}}))
    os.truncate(small, end)
    sparse(small, stop, parts)
    with Reader(small) as reader:
        assert ("hole" in reader) != is_last
        if not is_last:
            with pytest.raises(FileError, match="of which the disk holds"):
                reader.array("hole")
    assert "of which the disk holds" in check(small).damage[0].reason
