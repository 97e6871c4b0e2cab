"""The sums of one attention, against the whole matrix; the sample of several processes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from monitor.together import AGREE, STEPS, TWO, batch, train
from parallel.world import run
from recorder.models import Stack
from regard.monitor import qk_clip_
from regard.monitor.sample import SUMMED, measure

L = 37


def _inputs(heads=4, kv=4, dtype=torch.float32):
    dice = torch.Generator().manual_seed(0)
    q = torch.randn(2, heads, L, 16, generator=dice).to(dtype) * 2
    k = torch.randn(2, kv, L, 16, generator=dice).to(dtype)
    return q, k


RULES = {
    "plain": {},
    "causal": {"mask": regard.Causal()},
    "window": {"mask": regard.Causal() & regard.Window(5)},
    "documents": {"mask": regard.Causal() & regard.Documents(torch.arange(L) // 9)},
    "padding": {"mask": regard.Padding([L, 20], [L, 20])},
    "table": {"mask": torch.rand(L, L, generator=torch.Generator().manual_seed(1)) > 0.5},
    "softcap": {"mask": regard.Causal(), "softcap": 3.0},
    "bias": {"mask": regard.Causal(), "bias": regard.ALiBi([0.5, 0.25, 0.1, 0.05])},
    "sink": {"mask": regard.Causal(), "sink": torch.tensor([0.0, 1.0, 2.0, -1.0])},
}


def _means(attention, real=None):
    sums = dict(zip(SUMMED, measure(attention, real).sums.numpy(), strict=True))
    return {
        "normalized_entropy": sums["normalized_entropy"] / sums["choosing_rows"],
        "peak": sums["peak"] / sums["rows"],
        "sink_mass": sums["sink_mass"] / sums["rows"],
    }


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kv", [4, 2])
def test_sums_are_those_of_the_matrix(rule, kv):
    q, k = _inputs(kv=kv)
    a = regard.attend(q, k, k, **RULES[rule])
    found = _means(a)
    weights = a.dense()
    finite = a.scores[...] > -torch.inf
    sink = "sink" in RULES[rule]
    choices = finite.sum(-1) + sink
    first = finite.int().argmax(-1, keepdim=True).expand(*weights.shape[:-1], 1)
    resting = weights.gather(-1, first)[..., 0] + a.sink_mass()  # on each row's first visible key
    rows = (choices > 0).expand(weights.shape[:-1])
    entropy = a.entropy(normalized=True)
    for head in range(4):
        chosen, some = rows[:, head], (choices > 1).expand(rows.shape)[:, head]
        right = {
            "normalized_entropy": entropy[:, head][some].mean(),
            "peak": weights[:, head].amax(-1)[chosen].mean(),
            "sink_mass": resting[:, head][chosen].mean(),
        }
        for name, value in right.items():
            np.testing.assert_allclose(found[name][head], value.item(), rtol=2e-5, err_msg=name)
    largest = measure(a, None).largest
    torch.testing.assert_close(largest, a.max_score().amax((0, 2)), rtol=1e-6, atol=0)


def test_max_score_is_before_cap_and_bias():
    q, k = _inputs()
    plain = measure(regard.attend(q, k, k, mask=regard.Causal()), None).largest
    changed = regard.attend(q, k, k, mask=regard.Causal(), softcap=2.0, bias=torch.ones(L, L))
    torch.testing.assert_close(measure(changed, None).largest, plain)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_does_not_count(side):
    """A batch of two lengths is the same as its two sequences, one by one."""
    q, k = _inputs()
    short = 20
    at = slice(L - short, L) if side == "left" else slice(0, short)
    flags = torch.zeros(2, L, dtype=torch.bool)
    flags[0], flags[1, at] = True, True
    mask = regard.Causal() & regard.Padding(flags)
    both = measure(regard.attend(q, k, k, mask=mask), flags)
    one = measure(regard.attend(q[:1], k[:1], k[:1], mask=regard.Causal()), None)
    q2, k2 = q[1:, :, at], k[1:, :, at]
    other = measure(regard.attend(q2, k2, k2, mask=regard.Causal()), None)
    joined = one.joined(other)
    torch.testing.assert_close(both.sums, joined.sums, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(both.largest, joined.largest, rtol=1e-6, atol=0)


def test_rows_that_see_nothing_are_no_rows():
    q, k = _inputs()
    empty = regard.attend(q, k, k, mask=torch.zeros(L, L, dtype=torch.bool))
    found = measure(empty, None)
    assert not found.sums.any() and (found.largest == -torch.inf).all()


def test_nothing_keeps_a_graph():
    q, k = _inputs()
    a = regard.attend(q.requires_grad_(), k, k)
    with torch.no_grad():
        found = measure(a, None)
    assert not found.sums.requires_grad and not found.largest.requires_grad
    a.output.sum().backward()
    assert q.grad is not None


def test_half_precision_is_measured_in_single():
    q, k = _inputs(dtype=torch.bfloat16)
    half = measure(regard.attend(q, k, k), None)
    whole = measure(regard.attend(q.float(), k.float(), k.float()), None)
    torch.testing.assert_close(half.sums, whole.sums, rtol=1e-3, atol=1e-3)
    assert half.largest.dtype == torch.float32


@pytest.mark.parametrize("implementation", ["dense", "tiled", "cpu"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")], ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_one_score_that_is_not_finite_makes_the_largest_infinite(rule, bad, implementation):
    """In its head alone; the query is one that every rule lets see a key."""
    q, k = _inputs()
    q[0, 2, 3, 5] = bad
    a = regard.attend(q, k, k, implementation=implementation, **RULES[rule])
    found = measure(a, None).largest
    assert found[2] == torch.inf and found[[0, 1, 3]].isfinite().all()
    mass = _means(a)["sink_mass"]
    is_capped = rule == "softcap" and bad == float("inf")  # then weights are finite as ever
    assert np.isnan(mass[2]) != is_capped and np.isfinite(mass[[0, 1, 3]]).all()


def test_masked_keys_and_padding_rows_break_nothing():
    q, k = _inputs()
    k[:, :, -1] = torch.nan  # the last key is padding
    a = regard.attend(q, k, k, mask=regard.Padding([L - 1, L - 1]))
    assert measure(a, None).largest.isfinite().all()
    q[0, :, -1] = torch.nan  # and so is the first sequence's last row
    rows = torch.ones(2, L, dtype=torch.bool)
    rows[0, -1] = False
    a = regard.attend(q, k, k, mask=regard.Padding([L - 1, L - 1]))
    assert measure(a, rows).largest.isfinite().all()


# ── several processes that train one model ────────────────────────────────────────────────────────


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
    """The result of each rank. Patient: ranks wait for each other's imports on a busy machine."""
    return run(size, train, how, f"{folder}/run.regard", timeout=300.0, patience=120.0)


def _without_agreeing(names):
    return [one for one in names if one in TWO]


def test_a_place_that_one_rank_comes_by_later(tmp_path):
    """All ranks take it up together, one sample later."""
    for found in _together(2, "skipping", tmp_path):
        assert [places for places, _ in found["samples"]] == [("L0",), ("L0",), ("L0", "L1")]
        assert [_without_agreeing(names) for names in found["collectives"]] == [TWO] * STEPS
        assert [AGREE in names for names in found["collectives"]] == [True, True, False]
        assert not np.isnan(found["samples"][-1][1]["max_score"]).any()


@pytest.mark.parametrize(("how", "size"), [("ddp", 1), ("ddp", 2), ("fsdp", 2)])
def test_all_ranks_have_the_sample_of_all(how, size, tmp_path):
    samples, gamma, weights = _alone(size)
    for found in _together(size, how, tmp_path):
        assert found["reasons"] == {}
        # two reductions a step and nothing else, once all know which places there are
        assert _without_agreeing(found["collectives"][0]) == ([] if size == 1 else TWO)
        assert found["collectives"][1:] == [[] if size == 1 else TWO] * (STEPS - 1)
        expected = [1.0, 3.0, 1.0] if size == 1 else [1.5, 3.0, np.nan]
        np.testing.assert_array_equal(found["losses"], expected)
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
