"""The bytes of a file: its header, the headers of frames, and the safetensors document inside a
frame, read with every field doubted. SPEC.md is the page."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring as _quoted
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np

from regard.errors import FileError

VERSION = 1
BLOCK = 64  # bytes; everything starts at a multiple of it
FRAME_MAGIC = b"RGDF"
META, TENS, MANY, INDX, TAIL, VOID = b"META", b"TENS", b"MANY", b"INDX", b"TAIL", b"VOID"
MAX_HEAD = 16 << 20
MAX_INDEX = 1 << 30

_MAGIC = b"\x89REGARD\n"
_FILE = struct.Struct("<8sI48x")
_FRAME = struct.Struct("<4s4sIIQIIQ20x")
_CRC = struct.Struct("<I")
_MAX_LENGTH = 1 << 62


def padding(length: int) -> int:
    """How many bytes lead from `length` to a multiple of BLOCK."""
    return -length % BLOCK


def file_header(version: int = VERSION) -> bytes:
    """The first 64 bytes of a file."""
    return _sealed(_FILE.pack(_MAGIC, version))


def check_file_header(raw: bytes) -> None:
    """Refuse what is not a recording, is damaged at the front, or is newer than this reader."""
    if raw[: len(_MAGIC)] != _MAGIC[: len(raw)] or not raw:
        raise FileError("not a regard recording; give a file that regard has written")
    if len(raw) < BLOCK or not _holds(raw):
        raise FileError("the file header is damaged")
    version = _FILE.unpack(raw[: _FILE.size])[1]
    if version > VERSION:
        raise FileError(
            f"a recording of format version {version}; this regard reads up to version "
            f"{VERSION}: upgrade it"
        )
    if raw != file_header(version) or version == 0:
        raise FileError("the file header is damaged")


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame as its header describes it."""

    kind: bytes
    offset: int
    head_length: int = 0
    length: int = 0  # of the payload
    head_crc: int = 0
    crc: int = 0

    @property
    def payload(self) -> int:
        """Where the payload starts."""
        return self.offset + BLOCK

    @property
    def data(self) -> int:
        """Where the tensor data starts."""
        return self.payload + self.head_length

    @property
    def end(self) -> int:
        """Where the next frame starts."""
        return self.payload + self.length + padding(self.length)

    def pack(self) -> bytes:
        """The header, 64 bytes."""
        numbers = self.head_length, self.length, self.head_crc, self.crc, self.offset
        return _sealed(_FRAME.pack(FRAME_MAGIC, self.kind, 0, *numbers))

    @classmethod
    def parse(cls, raw: bytes) -> Frame:
        """The header read back. Only what is sound in itself; the file's size is not known here."""
        if len(raw) < BLOCK:
            raise FileError(f"{len(raw)} stray bytes")
        magic, kind, flags, head_length, length, head_crc, crc, offset = _FRAME.unpack(
            raw[: _FRAME.size]
        )
        if magic != FRAME_MAGIC or not _holds(raw):
            raise FileError("no readable frame header")
        if flags or head_length % BLOCK or head_length > min(MAX_HEAD, length):
            raise FileError("a frame header with impossible fields")
        if max(length, offset) > _MAX_LENGTH:
            raise FileError("a frame header with impossible sizes")
        return cls(kind, offset, head_length, length, head_crc, crc)


def _sealed(body: bytes) -> bytes:
    return body + _CRC.pack(crc32(body))


def _holds(raw: bytes) -> bool:
    return _CRC.pack(crc32(raw[: BLOCK - 4])) == raw[BLOCK - 4 : BLOCK]


# Names of the format → how numpy stores them. BF16 is kept as its 16-bit words.
DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "I64": np.dtype("<i8"), "I32": np.dtype("<i4"), "I16": np.dtype("<i2"), "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"), "U32": np.dtype("<u4"), "U16": np.dtype("<u2"), "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}  # fmt: skip

_METADATA = "__metadata__"
_LENGTH = struct.Struct("<Q")
_MAX_AXES = 32  # of numpy 1
_MAX_BYTES = 1 << 62
_MAX_DEPTH = 4
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_FIELDS = {"dtype", "shape", "data_offsets"}


class Tensor(NamedTuple):
    """One tensor of a document; `start` and `end` count from the first byte of its data."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """What a head says."""

    tensors: tuple[Tensor, ...]
    metadata: dict[str, str]


def encode_head(tensors: Sequence[Tensor], metadata: Mapping[str, str]) -> bytes:
    """Length and JSON, padded so that the data that follows is aligned."""
    # a batch of documents has hundreds: a general encoder takes several times as long
    known = {one.shape: ",".join(map(str, one.shape)) for one in tensors}
    members = [
        f'{_quoted(name)}:{{"dtype":"{dtype}","shape":[{known[shape]}],'
        f'"data_offsets":[{start},{end}]}}'
        for name, dtype, shape, start, end in tensors
    ]
    if metadata:
        facts = json.dumps(dict(metadata), ensure_ascii=False, separators=(",", ":"))
        members.insert(0, f'"{_METADATA}":{facts}')
    text = f"{{{','.join(members)}}}".encode()
    text += b" " * (-(_LENGTH.size + len(text)) % BLOCK)
    return _LENGTH.pack(len(text)) + text


def decode_head(head: bytes, data_length: int) -> Document:
    """The head read back; FileError for anything that safetensors would not allow."""
    size = _LENGTH.size
    if len(head) < size or _LENGTH.unpack(head[:size])[0] != len(head) - size:
        raise FileError("a document whose JSON has another length")
    value = _parse(head[size:])
    metadata = value.pop(_METADATA, {})
    if not isinstance(metadata, dict):
        raise FileError("metadata that is no object")
    for text in (*value, *metadata, *metadata.values()):
        _check_text(text)
    tensors = [_tensor(name, fields) for name, fields in value.items()]
    tensors.sort(key=lambda one: (one.start, one.end))
    reached = 0
    for one in tensors:
        if one.start != reached:
            raise FileError("tensors that overlap or leave gaps")
        reached = one.end
    if reached != data_length:
        raise FileError(f"tensors of {reached} bytes in {data_length} bytes of data")
    return Document(tuple(tensors), metadata)


def _parse(raw: bytes) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8")
        _check_depth(text)
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise FileError("a document whose JSON cannot be read") from None
    if not isinstance(value, dict):
        raise FileError("a document whose JSON is no object")
    return value


def _check_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= 64:
        return  # too few to hurt
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", _STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > _MAX_DEPTH:
            raise FileError("a document whose JSON is nested too deeply")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise FileError("a document that says a name twice")
    return value


def _no_constant(word: str) -> None:
    raise FileError(f"a document with {word} in its JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise FileError("metadata that is no text")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise FileError("text that is not Unicode") from None


def _tensor(name: str, fields: Any) -> Tensor:
    if not isinstance(fields, dict) or set(fields) != _FIELDS:
        raise FileError("a tensor without dtype, shape or data_offsets")
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise FileError("a tensor of unknown dtype")
    if not _are_sizes(shape) or len(shape) > _MAX_AXES:
        raise FileError("a tensor with an impossible shape")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise FileError("a tensor with impossible data_offsets")
    itemsize = DTYPES[dtype].itemsize
    if math.prod(n for n in shape if n) * itemsize > _MAX_BYTES:
        raise FileError("a tensor with an impossible shape")
    start, end = offsets
    if math.prod(shape) * itemsize != end - start:
        raise FileError("a tensor whose shape and bytes do not agree")
    return Tensor(name, dtype, tuple(shape), start, end)


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n <= _MAX_BYTES for n in value)
