"""Version 1 to the byte: what was written once can always be read, and is written the same.

To write the golden file again (only together with a new version of the format):

    python -c "import sys; sys.path.insert(0, 'tests'); from pathlib import Path
    from recording.conftest import record; record(Path('tests/recording/golden-v1.regard'))"
"""

from __future__ import annotations

import json
import struct
from importlib.resources import files
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from recording.conftest import ARRAYS, WORDS, record
from regard.recording import Reader, check

GOLDEN = Path(__file__).with_name("golden-v1.regard")


def test_the_writer_still_writes_these_bytes(tmp_path):
    assert record(tmp_path / "new.regard").read_bytes() == GOLDEN.read_bytes()


def test_the_golden_file_is_whole():
    report = check(GOLDEN)
    assert (report.frames, report.tensors, report.is_closed) == (9, 6, True)
    assert report.is_whole and report.size == GOLDEN.stat().st_size


def test_it_reads_as_it_was_written():
    reader = Reader(GOLDEN)
    assert list(reader) == [*ARRAYS, "q"] and reader.damage == ()
    for name, array in ARRAYS.items():
        read = reader.array(name)
        assert read.dtype == array.dtype and read.shape == array.shape
        assert read.tobytes() == array.tobytes()
    assert reader.array("q").view(np.uint32).tolist() == [word << 16 for word in WORDS.tolist()]
    assert reader.metadata == {"model": "tiny 2", "prompt": "the cat — sat"}
    assert reader.entries["q"].metadata == {"layer": "0", "heads": "0:2"}


def frames(raw: bytes):
    """The file taken apart with nothing but SPEC.md: type, document, data, per frame."""
    assert raw[:12] == b"\x89REGARD\n\x01\x00\x00\x00" and not any(raw[12:60])
    assert struct.unpack("<I", raw[60:64])[0] == crc32(raw[:60])
    at = 64
    while at < len(raw):
        header, payload = raw[at : at + 64], at + 64
        magic, kind, flags, head, length, head_crc, crc, offset = struct.unpack(
            "<4s4sIIQIIQ", header[:40]
        )
        assert (magic, flags, offset, head % 64) == (b"RGDF", 0, at, 0)
        assert not any(header[40:60]) and struct.unpack("<I", header[60:])[0] == crc32(header[:60])
        body = raw[payload : payload + length]
        assert (crc32(body[:head]), crc32(body)) == (head_crc, crc)
        (size,) = struct.unpack("<Q", body[:8])
        assert size + 8 == head
        yield kind, header, json.loads(body[8:head]), body[head:]
        at = payload + length + -length % 64
    assert at == len(raw)


def test_it_is_what_the_specification_says():
    found = list(frames(GOLDEN.read_bytes()))
    kinds = [kind for kind, *_ in found]
    assert kinds == [b"META", *[b"TENS"] * 6, b"META", b"INDX"]
    _, _, document, data = found[1]
    assert document == {
        "__metadata__": {"layer": "0"},
        "L0/lse": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    }
    assert data == ARRAYS["L0/lse"].tobytes()


def test_the_index_is_what_the_specification_says():
    raw = GOLDEN.read_bytes()
    *before, (_, own, document, data) = frames(raw)
    assert list(document) == ["frames", "heads", "tail"]
    assert document["frames"]["shape"] == [len(before), 64]
    assert data[: 64 * len(before)] == b"".join(header for _, header, _, _ in before)
    tail = data[-64:]
    assert tail == raw[-64:] and tail[4:8] == b"TAIL"
    assert tail[32:40] == own[32:40]  # the offset of the index frame


@pytest.mark.parametrize("name", [*ARRAYS, "q"])
def test_tensor_data_is_aligned(name):
    frame = Reader(GOLDEN).entries[name].frame
    assert frame.data % 64 == 0


def test_the_specification_ships_with_the_package():
    text = files("regard.recording").joinpath("SPEC.md").read_text(encoding="utf-8")
    assert text.startswith("# The recording file, version 1") and len(text.splitlines()) < 70
