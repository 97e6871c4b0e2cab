"""A recording's bytes by SPEC.md alone, with nothing of regard: read apart, and written as no
writer would."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from struct import pack, unpack
from typing import Any, NamedTuple
from zlib import crc32

__all__ = ["BLOCK", "Frame", "document", "file_header", "frame", "index", "read_frames", "tail"]

BLOCK = 64


class Frame(NamedTuple):
    """One frame of a file that holds all that SPEC.md promises."""

    kind: bytes
    offset: int
    header: bytes
    head: bytes  # length8 and JSON
    data: bytes

    @property
    def end(self) -> int:
        """Where the next one starts."""
        length = len(self.head + self.data)
        return self.offset + BLOCK + length + -length % BLOCK

    @property
    def document(self) -> Any:
        """Its JSON."""
        return json.loads(self.head[8:])


def read_frames(raw: bytes) -> Iterator[Frame]:
    """The frames of a whole file; an AssertionError where a byte is not as specified."""
    assert raw[:12] == b"\x89REGARD\n\x01\x00\x00\x00" and not any(raw[12:60])
    assert unpack("<I", raw[60:64])[0] == crc32(raw[:60])
    at = BLOCK
    while at < len(raw):
        header = raw[at : at + BLOCK]
        magic, kind, flags, head, length, head_crc, crc, offset = unpack("<4s4sIIQIIQ", header[:40])
        assert (magic, flags, offset, head % BLOCK) == (b"RGDF", 0, at, 0)
        assert not any(header[40:60]) and unpack("<I", header[60:])[0] == crc32(header[:60])
        body = raw[at + BLOCK : at + BLOCK + length]
        assert (crc32(body[:head]), crc32(body)) == (head_crc, crc)
        assert unpack("<Q", body[:8])[0] + 8 == head
        here = Frame(kind, at, header, body[:head], body[head:])
        assert not any(raw[at + BLOCK + length : here.end])
        yield here
        at = here.end
    assert at == len(raw)


def file_header(version: int = 1) -> bytes:
    """The first 64 bytes."""
    return _sealed(pack("<8sI48x", b"\x89REGARD\n", version))


def document(said: Any) -> bytes:
    """Length and JSON (bytes: as they are), padded so that the data behind it is aligned."""
    text = said if isinstance(said, bytes) else json.dumps(said).encode()
    text += b" " * (-(8 + len(text)) % BLOCK)
    return pack("<Q", len(text)) + text


def frame(kind: bytes, at: int, head: bytes = b"", data: bytes = b"", **lies: int) -> bytes:
    """A frame with right checksums, and with wrong fields where they are given."""
    payload = head + data
    fields = {
        "flags": 0, "head_length": len(head), "length": len(payload), "head_crc": crc32(head),
        "crc": crc32(payload), "offset": at,
    }  # fmt: skip
    header = pack("<4s4sIIQIIQ20x", b"RGDF", kind, *(fields | lies).values())
    return _sealed(header) + payload + bytes(-len(payload) % BLOCK)


def tail(index_offset: int) -> bytes:
    """The last 64 bytes of a closed file."""
    return frame(b"TAIL", index_offset)


def index(at: int, headers: Sequence[bytes], heads: Sequence[bytes]) -> bytes:
    """The index frame that lists such frames, whether or not they are there."""
    parts = b"".join(headers), b"".join(heads), tail(at)
    shapes = [len(headers), BLOCK], [len(parts[1])], [BLOCK]
    spans = pairwise(accumulate(map(len, parts), initial=0))
    tensors = {
        name: {"dtype": "U8", "shape": shape, "data_offsets": span}
        for name, shape, span in zip(("frames", "heads", "tail"), shapes, spans, strict=True)
    }
    return frame(b"INDX", at, document(tensors), b"".join(parts))


def _sealed(header: bytes) -> bytes:
    return header + pack("<I", crc32(header))
