"""Files made to hurt: a clean answer or a FileError, never another exception or wrong data."""

from __future__ import annotations

import json
import os
import random
import struct
import tracemalloc
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from recording.conftest import contents
from regard.errors import FileError
from regard.recording import Reader, check, repair
from regard.recording.format import frames as source
from regard.recording.format.frames import index_payload
from regard.recording.format.layout import (
    BLOCK,
    INDX,
    META,
    TAIL,
    TENS,
    Frame,
    Tensor,
    decode_head,
    encode_head,
    file_header,
)
from regard.recording.format.write import note_head

SIZE = 24  # bytes of data behind every head below
GOOD = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, SIZE]}


def head_of(text: bytes) -> bytes:
    """A document's head around any JSON."""
    text += b" " * (-(8 + len(text)) % BLOCK)
    return struct.pack("<Q", len(text)) + text


def frame_of(kind: bytes, at: int, head: bytes, data: bytes, **changes: int) -> bytes:
    """A frame with right checksums and, where a test wants it, wrong fields."""
    fields = {
        "offset": at,
        "head_length": len(head),
        "length": len(head + data),
        "head_crc": crc32(head),
        "crc": crc32(head + data),
    }
    frame = Frame(kind, **(fields | changes))
    payload = head + data
    return frame.pack() + payload + bytes(-len(payload) % BLOCK)


def answer(path: Path) -> dict[str, object] | None:
    """Everything the file gives, array by array; None where it is refused outright."""
    try:
        reader = Reader(path)
    except FileError:
        return None
    given, failed = {}, False
    for name, entry in reader.entries.items():
        try:
            given[name] = (entry.dtype, entry.shape, reader.array(entry).tobytes())
        except FileError:
            failed = True
    given["told"] = failed or bool(reader.damage)
    given["metadata"] = reader.metadata
    given["facts"] = {name: dict(e.metadata) for name, e in reader.entries.items()}
    return given


def is_part_of(given: dict[str, object], truth: dict[str, object]) -> bool:
    """Nothing in the answer that the whole file does not say, and no loss without a word."""
    arrays = given.keys() - {"metadata", "facts", "told"}
    notes = {*truth["metadata"].items(), ("model", "tiny")}  # what the first note said
    return (
        all(truth.get(name) == given[name] for name in arrays)
        and all(truth["facts"][name] == fact for name, fact in given["facts"].items())
        and given["metadata"].items() <= notes
        and (given["told"] or given == truth)
    )


def test_a_flip_of_every_byte_gives_no_wrong_answer(small):
    raw, truth = small.read_bytes(), answer(small)
    for at in range(len(raw)):
        for bit in (0x01, 0x80):
            small.write_bytes(raw[:at] + bytes([raw[at] ^ bit]) + raw[at + 1 :])
            given = answer(small)
            assert given is None if at < BLOCK else is_part_of(given, truth), (at, bit)


def test_a_cut_at_every_byte_gives_no_wrong_answer(small):
    raw, truth = small.read_bytes(), answer(small)
    edges = {found.frame.offset for found in Reader(small)._catalogue.frames}
    counts = []
    for end in range(len(raw)):
        small.write_bytes(raw[:end])
        given = answer(small)
        if end in edges:  # nothing is torn there; the file is only not closed
            assert not given["told"] and not Reader(small).is_closed
            given["told"] = True
        assert given is None if end < BLOCK else is_part_of(given, truth), end
        counts.append(len(given or ()))
    assert counts == sorted(counts)  # more bytes, more answers


def test_a_thousand_random_wounds(small):
    raw, truth, chance = small.read_bytes(), answer(small), random.Random(20)
    for _ in range(1000):
        wounded = bytearray(raw)
        for _ in range(chance.randint(1, 4)):
            start = chance.randrange(len(wounded))
            stop = min(len(wounded), start + chance.choice((1, 4, 64, 200)))
            way = chance.randrange(4)
            if way == 0:
                wounded[start:stop] = chance.randbytes(stop - start)
            elif way == 1:
                del wounded[start:stop]
            elif way == 2:
                wounded[start:start] = wounded[chance.randrange(len(wounded)) :][:64]
            else:
                wounded[start:stop] = bytes(stop - start)
            if not wounded:
                break
        small.write_bytes(wounded)
        given = answer(small)
        if given is not None:
            given["told"] = given["told"] or not Reader(small).is_closed
            assert is_part_of(given, truth)
            check(small)


def test_random_bytes_behind_a_good_header(tmp_path):
    path, chance = tmp_path / "a.regard", random.Random(21)
    for size in (1, 63, 64, 65, 1000, 5000):
        path.write_bytes(file_header() + chance.randbytes(size))
        reader = Reader(path)
        assert len(reader) == 0 and len(reader.damage) == 1


def tensor(**changes: object) -> bytes:
    return json.dumps({"x": GOOD | changes}).encode()


HEADS = {
    "not JSON": b"{",
    "an array": b"[]",
    "a number": b"1",
    "nothing": b"",
    "not UTF-8": b'{"\xff": 1}',
    "no tensor": b"{}",
    "two tensors": json.dumps(
        {
            "x": GOOD | {"shape": [3], "data_offsets": [0, 12]},
            "y": GOOD | {"shape": [3], "data_offsets": [12, 24]},
        }
    ).encode(),
    "tensors that overlap": json.dumps({"x": GOOD, "y": GOOD}).encode(),
    "a name twice": b'{"x": %s, "x": %s}' % ((json.dumps(GOOD).encode(),) * 2),
    "a field twice": tensor().replace(b'"shape"', b'"dtype": "F32", "shape"'),
    "a field more": tensor(strides=[1]),
    "a field less": b'{"x": {"dtype": "F32", "shape": [2, 3]}}',
    "a lone surrogate": b'{"\\ud800": %s}' % json.dumps(GOOD).encode(),
    "unknown dtype": tensor(dtype="F8_E4M3"),
    "dtype no text": tensor(dtype=["F32"]),
    "object dtype": tensor(dtype="O"),
    "negative shape": tensor(shape=[-2, -3]),
    "fractional shape": tensor(shape=[2.0, 3]),
    "boolean shape": tensor(shape=[True, 6]),
    "text shape": tensor(shape="23"),
    "huge shape": tensor(shape=[2**62, 2**62]),
    "huge and empty shape": tensor(shape=[0, 2**62, 2**62], data_offsets=[0, 0]),
    "many axes": tensor(shape=[1] * 40 + [2, 3]),
    "shape of other size": tensor(shape=[2, 2]),
    "number of 5000 digits": tensor().replace(b"[2, 3]", b"[2, 3" + b"0" * 5000 + b"]"),
    "NaN": tensor().replace(b"[2, 3]", b"[NaN]"),
    "offsets backwards": tensor(data_offsets=[SIZE, 0]),
    "offsets beyond": tensor(data_offsets=[8, SIZE + 8]),
    "offsets short": tensor(shape=[1], data_offsets=[0, 4]),
    "offsets negative": tensor(data_offsets=[-SIZE, 0]),
    "one offset": tensor(data_offsets=[0]),
    "offsets no list": tensor(data_offsets=None),
    "metadata no object": b'{"__metadata__": [], "x": %s}' % json.dumps(GOOD).encode(),
    "metadata no text": b'{"__metadata__": {"a": 1}, "x": %s}' % json.dumps(GOOD).encode(),
    "deep": b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep in objects": b'{"x":' * 100_000 + b"1" + b"}" * 100_000,
    "deep and unclosed": b"[" * 1_000_000,
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_with_right_checksums_and_wrong_words(tmp_path, name):
    path, head = tmp_path / "a.regard", head_of(HEADS[name])
    with pytest.raises(FileError):
        decoded = decode_head(head, SIZE)
        assert len(decoded.tensors) != 1
        raise FileError("sound, but no TENS frame")
    bad = frame_of(b"TENS", BLOCK, head, bytes(SIZE))
    good = frame_of(b"TENS", BLOCK + len(bad), head_of(tensor()), bytes(SIZE))
    path.write_bytes(file_header() + bad + good)
    reader = Reader(path)
    assert list(reader) == ["x"] and not reader.array("x").any()  # the good one
    assert [one.offset for one in reader.damage] == [BLOCK]
    assert not check(path).is_whole


def test_the_head_these_are_made_from_is_good(tmp_path):
    path = tmp_path / "a.regard"
    path.write_bytes(file_header() + frame_of(b"TENS", BLOCK, head_of(tensor()), bytes(SIZE)))
    assert Reader(path).array("x").shape == (2, 3) and check(path).is_whole


@pytest.mark.parametrize(
    "changes",
    [
        {"length": 1 << 40},
        {"length": (1 << 63) + 5},
        {"length": 10},
        {"head_length": 63},
        {"head_length": 64 << 20},
        {"head_length": 0},
        {"offset": 0},
        {"offset": 1 << 63},
        {"head_crc": 1},
        {"crc": 1},
    ],
)
def test_a_frame_header_that_lies(tmp_path, changes):
    path = tmp_path / "a.regard"
    frame = frame_of(b"TENS", BLOCK, head_of(tensor()), bytes(SIZE), **changes)
    path.write_bytes(file_header() + frame)
    reader = Reader(path)
    assert len(reader) == 0 and reader.damage[0].offset == BLOCK


def test_unknown_types_are_passed_over_and_unknown_flags_are_not(tmp_path):
    path = tmp_path / "a.regard"
    odd = frame_of(b"ZZZZ", BLOCK, head_of(b"not even JSON"), b"data")
    good = frame_of(b"TENS", BLOCK + len(odd), head_of(tensor()), bytes(SIZE))
    path.write_bytes(file_header() + odd + good)
    assert list(Reader(path)) == ["x"] and check(path).is_whole
    header = bytearray(good[:60])
    header[8] = 1
    flagged = bytes(header) + struct.pack("<I", crc32(header)) + good[BLOCK:]
    path.write_bytes(file_header() + odd + flagged)
    assert len(Reader(path)) == 0


def test_a_name_used_twice_counts_once(tmp_path):
    path = tmp_path / "a.regard"
    one = frame_of(b"TENS", BLOCK, head_of(tensor()), bytes(SIZE))
    two = frame_of(b"TENS", BLOCK + len(one), head_of(tensor()), b"\1" * SIZE)
    path.write_bytes(file_header() + one + two)
    reader = Reader(path)
    assert not reader.array("x").any()
    assert [d.reason for d in reader.damage] == ["a name that was used before"]


def test_booleans_that_are_neither(tmp_path):
    path = tmp_path / "a.regard"
    head = head_of(tensor(dtype="BOOL", shape=[SIZE]))
    path.write_bytes(file_header() + frame_of(b"TENS", BLOCK, head, b"\7" * SIZE))
    with pytest.raises(FileError, match="values that are not BOOL"):
        Reader(path).array("x")


def with_index(path: Path, frames: list[bytes], headers: list[bytes], heads: list[bytes]) -> None:
    """A file that ends with an index of whatever was given."""
    body = file_header() + b"".join(frames)
    head, data = index_payload(len(body), headers, heads)
    path.write_bytes(body + frame_of(INDX, len(body), head, data))


@pytest.mark.parametrize("lie", ["twice", "backwards", "beyond", "elsewhere", "short", "garbage"])
def test_an_index_that_lies_is_not_believed(tmp_path, lie):
    path = tmp_path / "a.regard"
    head = head_of(tensor())
    frame = frame_of(b"TENS", BLOCK, head, bytes(SIZE))
    other = head_of(tensor().replace(b'"x"', b'"y"'))
    second = frame_of(b"TENS", BLOCK + len(frame), other, bytes(SIZE))
    far = Frame(b"TENS", 1 << 30, len(head), len(head) + SIZE, crc32(head)).pack()
    odd = Frame(b"TENS", 65, len(head), len(head) + SIZE, crc32(head)).pack()
    headers, heads = {
        "twice": ([frame[:64]] * 2, [head] * 2),
        "backwards": ([second[:64], frame[:64]], [other, head]),
        "beyond": ([far], [head]),
        "elsewhere": ([odd], [head]),
        "short": ([frame[:64], second[:64]], [head]),
        "garbage": ([bytes(64)], [head]),
    }[lie]
    with_index(path, [frame, second], headers, heads)
    assert list(Reader(path)) == ["x", "y"]
    assert not check(path).is_whole


def test_a_tail_that_points_nowhere(tmp_path):
    path = tmp_path / "a.regard"
    frame = frame_of(b"TENS", BLOCK, head_of(tensor()), bytes(SIZE))
    for offset in (0, BLOCK, 1 << 40, len(frame) + BLOCK):
        path.write_bytes(file_header() + frame + Frame(TAIL, offset).pack())
        assert list(Reader(path)) == ["x"]


def test_lengths_cost_no_memory(tmp_path):
    """A terabyte that is not there, in a file that claims it, sparse as it is."""
    path = tmp_path / "a.regard"
    index = Frame(INDX, BLOCK, 64, (1 << 40) - 128)
    path.write_bytes(file_header() + index.pack())
    os.truncate(path, 1 << 40)
    with path.open("r+b") as file:
        file.seek((1 << 40) - BLOCK)
        file.write(Frame(TAIL, BLOCK).pack())
    tracemalloc.start()
    reader = Reader(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(reader) == 0 and reader.damage
    assert peak < 32 << 20


def test_nothing_in_a_file_runs(tmp_path):
    """No pickle: an object array is no dtype of the format."""
    path = tmp_path / "a.regard"
    raw = np.array([{"a": 1}], object).dumps()
    head = head_of(json.dumps({"x": {**GOOD, "dtype": "O", "shape": [1]}}).encode())
    path.write_bytes(file_header() + frame_of(b"TENS", BLOCK, head, raw))
    assert len(Reader(path)) == 0
    assert contents(Reader(path)) == {}


# ── files that are longer than what is in them ───────────────────────────────────────────────

TERABYTE = 2**40


def test_a_terabyte_of_nothing_behind_the_frames(small, monkeypatch):
    """Neither opening nor checking reads a hole."""
    whole = list(Reader(small))
    index = Reader(small)._catalogue.frames[-1].frame
    read = []
    real = source.Source.read
    monkeypatch.setattr(
        source.Source, "read", lambda self, at, n: read.append(n) or real(self, at, n)
    )
    os.truncate(small, index.offset + 1)
    os.truncate(small, TERABYTE)
    with small.open("r+b") as file:
        file.seek(TERABYTE // 2)
        file.write(b"RGDF" * 100)
    assert list(Reader(small)) == whole
    assert not check(small).is_whole
    assert sum(read) < 2**28
    assert repair(small).is_whole and small.stat().st_size < 2**20


@pytest.mark.parametrize("where", ["last", "middle"])
def test_a_terabyte_that_one_frame_claims(small, where):
    """A right header over a hole."""
    with Reader(small) as reader:
        end = reader._catalogue.frames[-1].frame.offset
    tensor = Tensor("hole", "U8", (TERABYTE,), 0, TERABYTE)
    head = encode_head([tensor], {})
    frame = Frame(TENS, end, len(head), len(head) + TERABYTE, crc32(head), 12345)
    with small.open("r+b") as file:
        file.truncate(end)
        file.seek(end)
        file.write(frame.pack() + head)
        file.truncate(frame.end)
        if where == "middle":
            note = note_head({"n": "1"})
            more = Frame(META, frame.end, len(note), len(note), crc32(note), crc32(note))
            file.seek(frame.end)
            file.write(more.pack() + note)
    with Reader(small) as reader:
        assert ("hole" in reader) == (where == "middle")
        if "hole" in reader:
            with pytest.raises(FileError, match="of which the disk holds"):
                reader.array("hole")
    assert "of which the disk holds" in check(small).damage[0].reason
