"""The estimate against knock-outs, and against a gate that is moved a little."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from play.tiny import TEXT, make_session
from regard.engine.observers import editing
from regard.intervene import Probe
from regard.intervene.gates import estimated_effects
from regard.intervene.here import Here


class _Moved:
    """One head's output times 1 − ε."""

    def __init__(self, here, layer, head, by):
        self._here, self._at, self._by = here, (layer, head), by

    def mask(self, call):
        return call.mask

    def output(self, call, output):
        spot = self._here.spot(call)
        self._here.done()
        if spot.layer != self._at[0]:
            return output
        gates = torch.ones(call.shape.query_heads, 1, 1)
        gates[self._at[1]] = 1 - self._by
        return output * gates


def _log(model, ids, layer, head, by):
    here = Here(model)
    moved = editing(_Moved(here, layer, head, by))
    with torch.no_grad(), here, regard.huggingface.using(model), moved:
        logits = model(ids).logits[0, -1].double()
    return logits.log_softmax(-1)


def test_it_is_the_slope_of_the_log_probability():
    session = make_session()
    ids = torch.tensor([session.tokenizer(TEXT).input_ids])
    found = estimated_effects(session.model, ids)
    assert list(found)[:5] == ["L0H0", "L0H1", "L0H2", "L0H3", "L1H0"] and len(found) == 12
    target, by = int(session.model(ids).logits[0, -1].argmax()), 1e-2
    for label, layer, head in (("L0H1", 0, 1), ("L2H3", 2, 3)):
        both = [_log(session.model, ids, layer, head, way * by)[target] for way in (1, -1)]
        slope = float(both[0] - both[1]) / (2 * by)
        assert found[label] == pytest.approx(slope, rel=0.02, abs=1e-3)


def test_it_goes_with_what_knock_outs_do():
    session = make_session()
    ids = session.tokenizer(TEXT).input_ids
    found = estimated_effects(session.model, ids)
    probe = Probe(session.model, ids)
    real = [probe.effect(label).delta_logprob for label in found]
    assert np.corrcoef(list(found.values()), real)[0, 1] > 0.5


def test_nothing_is_left_on_the_model():
    session = make_session()
    before = session.model.config._attn_implementation
    estimated_effects(session.model, session.tokenizer(TEXT).input_ids, target=5)
    assert session.model.config._attn_implementation == before
    assert all(one.grad is None for one in session.model.parameters())
