"""Who sees whom, by the masks alone, for every kind of mask."""

from __future__ import annotations

import json

import numpy as np
import pytest

from recording.test_head import CASES
from regard.declare import encode
from regard.mask import Causal
from regard.recording import Recording
from regard.recording.schema import UNKNOWN
from regard.recording.visibility import Sight
from support.recordings import write_recording

NAMES = [name for name in CASES if "saturated" not in name]


@pytest.mark.parametrize("name", NAMES)
def test_counts_are_those_of_the_dense_mask(name):
    case = CASES[name]
    store, made = write_recording(
        chunks=case.chunks, **(case.options | {"exact": False, "statistics": True})
    )
    prompt = Recording(store).prompts[0]
    held = prompt.held("L0")
    marks = np.random.default_rng(0).integers(0, 5, made.place.keys)
    for head in made.place.heads:
        seen = made.truth.exact.visible[head].numpy()
        sight = Sight(held, head)
        assert sight.is_complete
        np.testing.assert_array_equal(sight.visible(), seen.sum(-1))
        np.testing.assert_array_equal(sight.seen(), seen.sum(0))
        np.testing.assert_array_equal(sight.among(marks), seen @ marks)


@pytest.mark.parametrize("name", ["causal", "tables", "chunks"])
def test_of_some_rows(name):
    case = CASES[name]
    store, made = write_recording(chunks=case.chunks, rows=(30, 120), **case.options)
    sight = Sight(Recording(store).prompts[0].held("L0"), 1)
    seen = made.truth.exact.visible[1, 30:120].numpy()
    np.testing.assert_array_equal(sight.visible(), seen.sum(-1))
    np.testing.assert_array_equal(sight.seen(), seen.sum(0))


def test_intervals_need_no_looking():
    for name, free in (("causal", True), ("window", True), ("tables", False), ("biases", False)):
        store, _ = write_recording(chunks=CASES[name].chunks)
        sight = Sight(Recording(store).prompts[0].held("L0"), 0)
        assert (sight.cells() == 0) == free


def test_an_unknown_mask_is_not_guessed():
    store, made = write_recording(chunks=CASES["chunks"].chunks, exact=False)
    causal = json.dumps(encode(Causal()))[1:-1]
    note = made.place.to_json().replace(causal, UNKNOWN, 1)
    store.note({"place/0/L0": note})
    head = Recording(store)["L0H0"]
    sight = Sight(Recording(store).prompts[0].held("L0"), 0)
    assert not sight.is_complete
    np.testing.assert_array_equal(sight.visible()[:100], 0)
    with pytest.raises(RuntimeError, match="visible row by row cannot be computed"):
        head.visible()
