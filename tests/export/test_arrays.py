"""Arrays by name read back bit for bit, made one at a time."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from regard.errors import FileError
from regard.export.arrays import Named, write_npz, write_safetensors

ARRAYS = {
    "P0/L0H0/lse": np.arange(5, dtype=np.float32),
    "P0/L0H0/top_keys": np.arange(6, dtype=np.int32).reshape(3, 2),
    "empty": np.zeros((0, 4), np.float64),
    "P0/L0/q": np.ones((2, 3), np.float16),
}
FACTS = {"regard": "1", "tokens": '["猫"]'}


def named(name: str, array: np.ndarray) -> Named:
    """The array as one that is still to be made."""
    return Named(name, array.shape, array.dtype, lambda: array)


GIVEN = [named(name, array) for name, array in ARRAYS.items()]


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    """Bits, shape and dtype."""
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    assert found.tobytes() == wanted.tobytes()


def test_npz(tmp_path):
    write_npz(GIVEN, tmp_path / "a.npz", FACTS)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as found:
        assert set(found) == {*ARRAYS, "about/regard", "about/tokens"}
        for name, wanted in ARRAYS.items():
            same(found[name], wanted)
        assert str(found["about/tokens"]) == '["猫"]'


def read_safetensors(path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """By the format's own words: length, JSON, data."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    head, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    facts = head.pop("__metadata__", {})
    kinds = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8"}
    arrays = {}
    for name, said in head.items():
        start, end = said["data_offsets"]
        arrays[name] = np.frombuffer(data[start:end], kinds[said["dtype"]]).reshape(said["shape"])
    return arrays, facts


def test_safetensors(tmp_path):
    write_safetensors(GIVEN, tmp_path / "a.safetensors", FACTS)
    found, facts = read_safetensors(tmp_path / "a.safetensors")
    assert facts == FACTS and list(found) == list(ARRAYS)
    for name, wanted in ARRAYS.items():
        same(found[name], wanted)


def test_safetensors_as_its_own_library_reads_it(tmp_path):
    from safetensors.numpy import load_file

    write_safetensors(GIVEN, tmp_path / "a.safetensors", FACTS)
    for name, found in load_file(tmp_path / "a.safetensors").items():
        same(found, ARRAYS[name])


@pytest.mark.parametrize("write", [write_npz, write_safetensors])
def test_arrays_are_made_one_at_a_time(tmp_path, write):
    order = []

    def noted(name: str) -> Named:
        return Named(name, (1,), np.dtype(np.float32), lambda: order.append(name) or np.ones(1))

    write([noted("a"), noted("b")], tmp_path / "x", {}, lambda n: order.append(n))
    assert order == ["a", 1, "b", 1]


def test_an_array_that_is_not_what_was_said(tmp_path):
    wrong = Named("a", (2,), np.dtype(np.float32), lambda: np.ones(3))
    with pytest.raises(FileError, match=r"a: \(3,\) instead of \(2,\)"):
        write_npz([wrong], tmp_path / "x", {})


def test_bytes_are_known_before():
    assert named("a", np.ones((3, 4), np.float16)).nbytes == 24
