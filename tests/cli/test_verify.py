"""`regard verify`: every byte checked, damage counted, an end that is missing repaired."""

from __future__ import annotations

import json
import os
from functools import partial

import numpy as np
import pytest

import regard
import warm
from regard.recording import Reader, Writer


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
    line = f"{whole}: whole; 2 frames, 1 tensor, {whole.stat().st_size} bytes\n"
    assert verify(whole) == (0, line, "")


def test_damage_is_a_finding_and_repair_cuts_it_off(verify, torn, whole):
    status, out, err = verify(torn)
    assert (status, err) == (1, "")
    head, line, rest = out.splitlines()
    assert "not closed, 1 damaged; 1 frame, 1 tensor" in head
    assert line.startswith("  byte ") and line.endswith("bytes: a frame that was not finished")
    assert rest.startswith("  recovered: 1 tensor; the recording was not closed")
    status, out, _ = verify("--repair", torn)
    assert status == 0 and "whole; 2 frames" in out
    assert torn.read_bytes() == whole.read_bytes() and verify(torn)[0] == 0


KILLED = """
import os, sys, torch, regard
from recorder.models import Stack
model, seen = Stack(), []
def die(*_):
    seen.append(1)
    if len(seen) > int(sys.argv[2]):
        os._exit(9)
model.layers[1].register_forward_hook(die)
with torch.no_grad(), regard.record(model, sys.argv[1]):
    for tokens in (8, 9, 10):
        model(torch.randn(1, tokens, 32))
"""


@pytest.mark.parametrize("prompts", [0, 2, 3])
def test_a_killed_recording_tells_what_is_there_and_what_is_not(verify, tmp_path, prompts):
    path = tmp_path / "run.regard"
    done = warm.run(KILLED, str(path), str(prompts))
    assert done.returncode == (9 if prompts < 3 else 0)
    status, out, err = verify(path)
    if prompts == 3:
        assert status == 0 and ": whole; " in out and out.count("\n") == 1
        return
    head, rest = out.splitlines()
    assert (status, err) == (1, "") and ": not closed; " in head and "whole" not in out
    with regard.open(path) as rec, Reader(path) as reader:
        begun, tensors = len(rec.prompts), len(reader.entries)
    assert f"recovered: {tensors} tensors, {prompts} of {begun} prompt" in rest
    assert "the recording was not closed" in rest and "--repair" in rest
    (facts,) = json.loads(verify("--json", path)[1])["files"]
    assert facts["was_stopped"] and facts["is_whole"] and not facts["is_closed"]
    assert (facts["prompts"], facts["finished"]) == (begun, prompts)
    status, out, _ = verify("--repair", path)
    assert status == 0 and ": whole; " in out
    plural = "" if begun == 1 else "s"
    assert out.endswith(f", {prompts} of {begun} prompt{plural} read to the end\n")


def test_a_recording_that_goes_on_is_no_finding(verify, tmp_path):
    with Writer(tmp_path / "run.regard") as writer:
        writer.add("lse", np.ones(3, np.float32))
        status, out, _ = verify(tmp_path / "run.regard")
    assert status == 0 and ": whole so far; " in out and out.endswith("still being written\n")


def test_notes_that_are_no_prompts_are_not_counted(verify, tmp_path):
    with Writer(tmp_path / "run.regard") as writer:
        writer.note({"prompt/0": "no JSON", "prompt/1": "[]", "prompt/2": '{"tokens": 4}'})
    status, out, _ = verify(tmp_path / "run.regard")
    assert status == 0 and out.endswith(", 0 of 1 prompt read to the end\n")


@pytest.mark.parametrize(("name", "words"), [("a.txt", "not a regard"), ("b", "no such file")])
def test_what_is_no_recording_is_one_line(refused, tmp_path, name, words):
    (tmp_path / "a.txt").write_text("text")
    line = refused("verify", tmp_path / name, status=3)
    assert line.startswith(f"regard: {tmp_path / name}: {words}")


def test_the_worst_of_several_counts(verify, whole, torn, tmp_path):
    status, out, _ = verify(whole, torn, whole, tmp_path / "none")
    assert status == 3 and len(out.splitlines()) == 5 and verify(whole, torn)[0] == 1
    status, out, err = verify("--json", whole, torn, tmp_path / "none")
    fine, damaged, missing = json.loads(out)["files"]
    assert (status, err) == (3, "")
    assert fine == {
        "file": str(whole), "size": whole.stat().st_size, "frames": 2, "tensors": 1,
        "is_closed": True, "is_live": False, "damage": [], "is_whole": True, "problem": None,
        "prompts": 0, "finished": 0, "was_stopped": False,
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
