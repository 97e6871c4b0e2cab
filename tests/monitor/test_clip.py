"""QK-clip: scores brought down to τ, and nothing else touched."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import regard
from recorder.models import Stack, tiny, tokens
from regard.errors import InputError, ShapeError, UnavailableError
from regard.monitor import Limits, qk_clip_

TAU = 2.0


def _layer(kv_heads=4, loud=(0, 2), **options):
    """Some heads whose scores are far above τ."""
    torch.manual_seed(0)
    layer = regard.nn.MultiHeadAttention(32, 4, kv_heads=kv_heads, **options)
    with torch.no_grad():
        for head in loud:
            layer.w_q.weight[8 * head : 8 * head + 8] *= 20
            layer.w_q.bias[8 * head : 8 * head + 8] *= 20
    return layer, torch.randn(2, 15, 32)


def _largest(layer, x):
    return layer.look(x).max_score().amax((0, 2)).detach()


@pytest.mark.parametrize("rotary", [False, True])
def test_plain_heads(rotary):
    layer, x = _layer(rotary=regard.nn.Rotary(8) if rotary else None)
    before, was = _largest(layer, x), {n: p.clone() for n, p in layer.named_parameters()}
    gamma = qk_clip_(layer, TAU, max_score=layer.look(x).max_score())[""]
    assert (before[[0, 2]] > TAU).all() and (before[[1, 3]] < TAU).all()
    torch.testing.assert_close(gamma, (TAU / before).clamp(max=1))
    after = _largest(layer, x)
    torch.testing.assert_close(after, before.clamp(max=TAU), rtol=1e-5, atol=1e-5)
    root = gamma.sqrt().repeat_interleave(8)
    for name in ("w_q", "w_k"):
        weight, bias = getattr(layer, name).weight, getattr(layer, name).bias
        torch.testing.assert_close(weight.detach(), was[f"{name}.weight"] * root[:, None])
        torch.testing.assert_close(bias.detach(), was[f"{name}.bias"] * root)
    for name in ("w_v", "w_o"):
        assert torch.equal(getattr(layer, name).weight, was[f"{name}.weight"])


def test_grouped_heads_by_default_leave_the_shared_keys():
    layer, x = _layer(kv_heads=2)
    before, keys = _largest(layer, x), layer.w_k.weight.clone()
    gamma = qk_clip_(layer, TAU, max_score=before)[""]
    assert torch.equal(layer.w_k.weight, keys)
    torch.testing.assert_close(_largest(layer, x), before.clamp(max=TAU), rtol=1e-5, atol=1e-5)
    assert (gamma < 1).tolist() == [True, False, True, False]


def test_grouped_heads_by_their_minimum():
    layer, x = _layer(kv_heads=2, loud=(0,))
    before, was = _largest(layer, x), layer.w_k.weight.clone()
    gamma = qk_clip_(layer, TAU, max_score=before, grouped="minimum")[""]
    least = TAU / before[0]
    torch.testing.assert_close(gamma, torch.tensor([least, least, 1.0, 1.0]))
    torch.testing.assert_close(layer.w_k.weight[:8], was[:8] * least.sqrt())
    assert torch.equal(layer.w_k.weight[8:], was[8:])
    torch.testing.assert_close(_largest(layer, x), before * gamma, rtol=1e-5, atol=1e-5)


def test_scores_at_or_below_nothing_are_left_alone():
    layer, _ = _layer()
    was = layer.w_q.weight.clone()
    scores = torch.tensor([-3.0, 0.0, TAU, -float("inf")])
    assert qk_clip_(layer, TAU, max_score=scores)[""].tolist() == [1, 1, 1, 1]
    assert torch.equal(layer.w_q.weight, was)


@pytest.mark.parametrize("wrong", [float("inf"), float("nan")])
def test_an_overflow_wipes_no_head_out(wrong):
    layer, _ = _layer()
    was = layer.w_q.weight.clone()
    with pytest.raises(InputError, match=r"score of H2 is (inf|nan): it has overflowed"):
        qk_clip_(layer, TAU, max_score=torch.tensor([9.0, 1.0, wrong, 1.0]))
    assert torch.equal(layer.w_q.weight, was)


def test_a_sample_is_used_once():
    """Between samples the scores are not known, and weights are not shrunk again and again."""
    layer, x = _layer()
    with regard.Monitor(layer, every=3) as monitor:
        gammas, largest = [], []
        for _ in range(4):
            layer(x).sum().backward()
            monitor.step()
            layer.zero_grad()
            gammas.append(qk_clip_(monitor, TAU)["L0"])
            largest.append(_largest(layer, x).max().item())
    assert (gammas[0] < 1).tolist() == [True, False, True, False]
    assert all(gamma.tolist() == [1] * 4 for gamma in gammas[1:3])
    torch.testing.assert_close(torch.tensor(largest), torch.full((4,), TAU), rtol=1e-5, atol=0)


def test_qk_norm_is_refused():
    layer = regard.nn.MultiHeadAttention(32, 4, qk_norm=True)
    with pytest.raises(UnavailableError, match=r"normalises its queries or keys \(norm_q\)"):
        qk_clip_(layer, TAU, max_score=torch.full((4,), 9.0))


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox"])
def test_models_of_transformers(family):
    options = {"num_key_value_heads": 2} if family == "llama" else {}
    model = tiny(family, attn_implementation="regard", **options)
    ids = tokens(20, 2)
    with regard.Monitor(model) as monitor:
        model(ids).logits.sum().backward()
        before = monitor.step()["max_score"]
        tau = float(sorted(before.ravel())[4])  # three heads are above it
        gammas = qk_clip_(monitor, tau)
        model(ids)
        after = monitor.step()["max_score"]
    assert list(gammas) == ["L0", "L1"]
    assert sum(int((one < 1).sum()) for one in gammas.values()) == 3
    assert after[0].max() <= tau * (1 + 1e-5)  # what comes into later layers has changed


def test_a_layer_that_runs_several_times_is_scaled_once():
    model = tiny("albert", attn_implementation="regard")
    layer = next(m for m in model.modules() if type(m).__name__ == "AlbertAttention")
    was = layer.query.weight.clone()
    with regard.Monitor(model) as monitor:
        model(tokens(20)).last_hidden_state.sum().backward()
        largest = monitor.step()["max_score"].max(axis=0)
        gamma = qk_clip_(monitor, tau := float(largest.min()) / 2)
    assert list(gamma) == ["L0", "L1"] and torch.equal(gamma["L0"], gamma["L1"])
    torch.testing.assert_close(gamma["L0"], torch.from_numpy(tau / largest))
    ratio = (layer.query.weight / was).detach().unflatten(0, (4, 8)).mean((1, 2))
    torch.testing.assert_close(ratio, gamma["L0"].sqrt(), rtol=1e-4, atol=0)


def test_adapters_are_refused():
    layer, _ = _layer()
    layer.w_q.base_layer = layer.w_k  # as adapters have it
    with pytest.raises(UnavailableError, match="w_q has an adapter around it"):
        qk_clip_(layer, TAU, max_score=torch.full((4,), 9.0))


def _sharpen(clip):
    """A run whose loss is the entropy, so that scores grow: the largest score of every step."""
    torch.manual_seed(0)
    model = Stack(layers=1, heads=2, kv_heads=2)
    layer, x = model.layers[0], torch.randn(1, 12, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    with regard.Monitor(model, limits=Limits(None, None, None)) as monitor:
        for _ in range(100):
            model(x)
            layer.look(x, mask=regard.Causal()).entropy().mean().backward()
            found.append(float(monitor.step()["max_score"].max()))
            optimizer.step()
            optimizer.zero_grad()
            if clip == "monitor":
                qk_clip_(monitor, TAU)
            elif clip == "module":
                qk_clip_(layer, TAU, max_score=layer.look(x, mask=regard.Causal()).max_score())
    return found


def test_a_run_that_grows_is_held():
    """By the scores of the step itself, τ is passed by what one update adds; by fresh ones not."""
    free, held, exact = _sharpen(None), _sharpen("monitor"), _sharpen("module")
    assert max(free) > 3 * TAU and free[-1] == max(free)
    assert max(held) < 1.15 * TAU
    assert max(exact) <= TAU * (1 + 1e-5)


def test_refusals():
    layer, x = _layer()
    with pytest.raises(InputError, match="tau=0"):
        qk_clip_(layer, 0, max_score=torch.ones(4))
    with pytest.raises(InputError, match="grouped='mean'"):
        qk_clip_(layer, TAU, max_score=torch.ones(4), grouped="mean")
    with pytest.raises(InputError, match="has no scores"):
        qk_clip_(layer, TAU)
    with pytest.raises(ShapeError, match=r"give \(heads,\)"):
        qk_clip_(layer, TAU, max_score=torch.tensor(3.0))
    with pytest.raises(UnavailableError, match="3 heads of 8 do not explain"):
        qk_clip_(layer, TAU, max_score=torch.ones(3))
    with pytest.raises(InputError, match="has no head_dim"):
        qk_clip_(nn.Linear(4, 4), TAU, max_score=torch.ones(3))
    monitor = regard.Monitor(layer)
    with pytest.raises(InputError, match="no sample yet"):
        qk_clip_(monitor, TAU)
    with monitor:
        layer(x).sum().backward()
        monitor.step()
        with pytest.raises(InputError, match="with a module only"):
            qk_clip_(monitor, TAU, max_score=torch.ones(4))
