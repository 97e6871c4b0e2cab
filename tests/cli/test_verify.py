"""`regard verify` as a shell sees it."""

from __future__ import annotations

import json
import os
from functools import partial

import numpy as np
import pytest

from regard.recording import Writer


@pytest.fixture
def verify(shell):
    """The verb: status, stdout, stderr."""
    return partial(shell, "verify")


@pytest.fixture
def whole(tmp_path):
    """A recording of one tensor."""
    with Writer(tmp_path / "run.regard") as writer:
        writer.add("lse", np.ones(3, np.float32))
    return tmp_path / "run.regard"


@pytest.fixture
def torn(tmp_path, whole):
    """The same without its last byte."""
    path = tmp_path / "torn.regard"
    path.write_bytes(whole.read_bytes()[:-1])
    return path


def test_a_whole_file(verify, whole):
    said = f"{whole}: whole; 2 frames, 1 tensor, {whole.stat().st_size} bytes\n"
    assert verify(whole) == (0, said, "")


def test_damage_is_a_finding(verify, torn):
    status, out, err = verify(torn)
    assert (status, err) == (1, "")
    head, line = out.splitlines()
    assert "1 damaged; 1 frame, 1 tensor" in head and head.endswith("no index")
    assert line.startswith("  byte ") and line.endswith("bytes: a frame that was not finished")


def test_repair_makes_it_fine(verify, torn, whole):
    status, out, _ = verify("--repair", torn)
    assert status == 0 and "whole; 2 frames" in out
    assert torn.read_bytes() == whole.read_bytes()
    assert verify(torn)[0] == 0


def test_what_is_no_recording_is_one_line(verify, tmp_path):
    (tmp_path / "a.txt").write_text("text")
    for path, message in ((tmp_path / "a.txt", "not a regard"), (tmp_path / "b", "no such file")):
        status, out, err = verify(path)
        assert (status, out) == (3, "")
        assert err.startswith(f"regard: {path}: {message}") and err.count("\n") == 1


def test_the_worst_of_several_counts(verify, whole, torn, tmp_path):
    status, out, _ = verify(whole, torn, tmp_path / "none")
    assert status == 3 and len(out.splitlines()) == 4
    assert verify(whole, torn)[0] == 1


def test_json(verify, whole, torn, tmp_path):
    status, out, err = verify("--json", whole, torn, tmp_path / "none")
    fine, damaged, missing = json.loads(out)["files"]
    assert (status, err) == (3, "")
    assert fine == {
        "file": str(whole), "size": whole.stat().st_size, "frames": 2, "tensors": 1,
        "is_closed": True, "is_live": False, "damage": [], "is_whole": True, "problem": None,
    }  # fmt: skip
    assert damaged["damage"][0].keys() == {"offset", "length", "reason"}
    assert "no such file" in missing["problem"]


def test_a_folder_stands_for_its_ranks(verify, tmp_path):
    for rank in range(2):
        Writer(tmp_path / f"rank-000{rank}.regard").close()
    status, out, _ = verify(tmp_path)
    assert status == 0 and out.count("whole") == 2
    os.truncate(tmp_path / "rank-0001.regard", 100)
    assert verify(tmp_path)[0] == 1


def test_many_damages_are_counted(verify, tmp_path):
    path = tmp_path / "a.regard"
    with Writer(path) as writer:
        for n in range(30):
            writer.add(f"t{n}", np.full(64, n, np.uint8))
    raw = bytearray(path.read_bytes())
    for n in range(30):
        raw[raw.index(bytes([n]) * 64)] ^= 1
    path.write_bytes(raw)
    lines = verify(path)[1].splitlines()
    assert "30 damaged" in lines[0] and lines[-1] == "  and 10 more" and len(lines) == 22
