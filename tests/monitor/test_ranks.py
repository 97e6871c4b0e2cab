"""Several processes that train one model: the sample is that of all their batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from monitor.together import AGREE, STEPS, TWO, batch, train
from parallel.world import run
from recorder.models import Stack
from regard.monitor import qk_clip_


def _alone(size):
    """The same in one process: DDP and FSDP average the gradients of their ranks."""
    torch.manual_seed(0)
    model, samples = Stack(), []
    with regard.Monitor(model) as monitor:
        for step in range(STEPS):
            for rank in range(size):
                (model(batch(step, rank)).square().sum() / size).backward()
            samples.append(monitor.step())
            model.zero_grad()
        gamma = qk_clip_(monitor, 0.5)
    return samples, gamma, [layer.w_q.weight.detach() for layer in model.layers]


def _together(size, how, folder):
    """What each rank found. Patient: ranks wait for each other's imports on a busy machine."""
    return run(size, train, how, f"{folder}/run.regard", timeout=300.0, patience=120.0)


def _without_agreeing(said):
    return [one for one in said if one in TWO]


def test_a_place_that_one_rank_comes_by_later(tmp_path):
    """All ranks take it up together, one sample later."""
    for found in _together(2, "skipping", tmp_path):
        assert [places for places, _ in found["samples"]] == [("L0",), ("L0",), ("L0", "L1")]
        assert [_without_agreeing(said) for said in found["spoken"]] == [TWO] * STEPS
        assert [AGREE in said for said in found["spoken"]] == [True, True, False]
        assert not np.isnan(found["samples"][-1][1]["max_score"]).any()


@pytest.mark.parametrize(("how", "size"), [("ddp", 1), ("ddp", 2), ("fsdp", 2)])
def test_all_ranks_have_the_sample_of_all(how, size, tmp_path):
    samples, gamma, weights = _alone(size)
    for found in _together(size, how, tmp_path):
        assert found["reasons"] == {}
        # two reductions a step and nothing else, once all know which places there are
        assert _without_agreeing(found["spoken"][0]) == ([] if size == 1 else TWO)
        assert found["spoken"][1:] == [[] if size == 1 else TWO] * (STEPS - 1)
        for (places, values), right in zip(found["samples"], samples, strict=True):
            assert places == right.places
            for name, value in values.items():
                np.testing.assert_allclose(value, right[name], rtol=1e-4, err_msg=f"{how} {name}")
        for label, one in gamma.items():
            torch.testing.assert_close(found["gamma"][label], one, rtol=1e-5, atol=0)
        for mine, right in zip(found["weights"], weights, strict=True):
            torch.testing.assert_close(mine, right, rtol=1e-5, atol=1e-7)
    training = regard.open(tmp_path / "run.regard").training  # written by one of them
    np.testing.assert_allclose(training["peak"][-1], samples[-1]["peak"], rtol=1e-4)
