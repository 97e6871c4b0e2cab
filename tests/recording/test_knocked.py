"""What knock-outs changed, written as a note and read back."""

from __future__ import annotations

import json

import pytest

from regard.errors import FileError
from regard.recording import Memory, Recording, open
from regard.recording.format.write import annotate
from regard.recording.notes import read_knocked, write_knocked
from regard.recording.schema import CONTENTS
from support.recordings import in_memory, on_disk

NUMBERS = {"delta_logit": -0.5, "delta_logprob": -0.25, "kl": 0.125}
NUMBERS |= {f"typical_{name}": 0.0 for name in NUMBERS}
ONE = {"label": "L1H2", "copies": True, "text": NUMBERS, "copying": NUMBERS}


def test_there_and_back():
    assert read_knocked(write_knocked({"L1H2": ONE})) == {"L1H2": ONE}
    assert read_knocked("{}") == {}


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "3", "{", '{"L0H0": 3}', '{"L0H0": {}}', "[" * 100_000,
        json.dumps({"L0H0": ONE | {"text": NUMBERS | {"kl": "much"}}}),
        json.dumps({"L0H0": ONE | {"copying": NUMBERS | {"kl": float("nan")}}}),
        json.dumps({"L0H0": ONE | {"text": [1, 2]}}),
        json.dumps({"L0H0": ONE | {"text": {"kl": 1.0}}}),
    ],
)  # fmt: skip
def test_what_cannot_be_is_an_error(text):
    with pytest.raises(FileError, match="knock-out"):
        read_knocked(text)
    store = Memory()
    store.note({"contents": CONTENTS, "knocked/0": text})
    with pytest.raises(FileError, match="knock-out"):
        Recording(store)


def test_each_prompt_has_its_own(tmp_path):
    path = on_disk(tmp_path / "run.regard", prompts=2)
    annotate(path, {"knocked/1": write_knocked({"L1H2": ONE})})
    with open(path) as rec:
        assert rec.prompts[0].knocked == {}
        assert rec.prompts[1].knocked == {"L1H2": ONE}


def test_most_recordings_have_none():
    rec, _ = in_memory()
    assert rec.prompts[0].knocked == {}
