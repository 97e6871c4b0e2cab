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


def loud(kv_heads=4, heads=(0, 2), **options):
    """A layer, some of whose heads have scores far above τ."""
    torch.manual_seed(0)
    layer = regard.nn.MultiHeadAttention(32, 4, kv_heads=kv_heads, **options)
    with torch.no_grad():
        for head in heads:
            layer.w_q.weight[8 * head : 8 * head + 8] *= 20
            layer.w_q.bias[8 * head : 8 * head + 8] *= 20
    return layer, torch.randn(2, 15, 32)


def largest(layer, x):
    return layer.look(x).max_score().amax((0, 2)).detach()


@pytest.mark.parametrize("rotary", [False, True])
def test_plain_heads(rotary):
    layer, x = loud(rotary=regard.nn.Rotary(8) if rotary else None)
    before, was = largest(layer, x), {n: p.clone() for n, p in layer.named_parameters()}
    gamma = qk_clip_(layer, TAU, max_score=layer.look(x).max_score())[""]
    assert (before[[0, 2]] > TAU).all() and (before[[1, 3]] < TAU).all()
    torch.testing.assert_close(gamma, (TAU / before).clamp(max=1))
    torch.testing.assert_close(largest(layer, x), before.clamp(max=TAU), rtol=1e-5, atol=1e-5)
    root = gamma.sqrt().repeat_interleave(8)
    for name in ("w_q", "w_k"):
        weight, bias = getattr(layer, name).weight, getattr(layer, name).bias
        torch.testing.assert_close(weight.detach(), was[f"{name}.weight"] * root[:, None])
        torch.testing.assert_close(bias.detach(), was[f"{name}.bias"] * root)
    for name in ("w_v", "w_o"):
        assert torch.equal(getattr(layer, name).weight, was[f"{name}.weight"])


@pytest.mark.parametrize("grouped", [None, "minimum"])
def test_grouped_heads_leave_the_shared_keys_or_scale_them_by_their_minimum(grouped):
    layer, x = loud(kv_heads=2, heads=(0,) if grouped else (0, 2))
    before, keys = largest(layer, x), layer.w_k.weight.clone()
    options = {"grouped": grouped} if grouped else {}
    gamma = qk_clip_(layer, TAU, max_score=before, **options)[""]
    if grouped:
        least = TAU / before[0]
        torch.testing.assert_close(gamma, torch.tensor([least, least, 1.0, 1.0]))
        torch.testing.assert_close(layer.w_k.weight[:8], keys[:8] * least.sqrt())
        assert torch.equal(layer.w_k.weight[8:], keys[8:])
    else:
        assert (gamma < 1).tolist() == [True, False, True, False]
        assert torch.equal(layer.w_k.weight, keys)
    torch.testing.assert_close(largest(layer, x), before * gamma, rtol=1e-5, atol=1e-5)


def test_scores_at_or_below_nothing_are_left_alone_and_an_overflow_wipes_no_head_out():
    layer, _ = loud()
    was = layer.w_q.weight.clone()
    scores = torch.tensor([-3.0, 0.0, TAU, -float("inf")])
    assert qk_clip_(layer, TAU, max_score=scores)[""].tolist() == [1, 1, 1, 1]
    for wrong in ("inf", "nan"):
        scores = torch.tensor([9.0, 1.0, float(wrong), 1.0])
        with pytest.raises(InputError, match=f"score of H2 is {wrong}: it has overflowed"):
            qk_clip_(layer, TAU, max_score=scores)
    assert torch.equal(layer.w_q.weight, was)


def test_a_sample_is_used_once():
    """Between samples the scores are not known, and weights are not shrunk again and again."""
    layer, x = loud()
    with regard.Monitor(layer, every=3) as monitor:
        gammas, scores = [], []
        for _ in range(4):
            layer(x).sum().backward()
            monitor.step()
            layer.zero_grad()
            gammas.append(qk_clip_(monitor, TAU)["L0"])
            scores.append(largest(layer, x).max().item())
    assert (gammas[0] < 1).tolist() == [True, False, True, False]
    assert all(gamma.tolist() == [1] * 4 for gamma in gammas[1:3])
    torch.testing.assert_close(torch.tensor(scores), torch.full((4,), TAU), rtol=1e-5, atol=0)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox"])
def test_models_of_transformers(family):
    options = {"num_key_value_heads": 2} if family == "llama" else {}
    model, ids = tiny(family, attn_implementation="regard", **options), tokens(20, 2)
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
        most = monitor.step()["max_score"].max(axis=0)
        gamma = qk_clip_(monitor, tau := float(most.min()) / 2)
    assert list(gamma) == ["L0", "L1"] and torch.equal(gamma["L0"], gamma["L1"])
    torch.testing.assert_close(gamma["L0"], torch.from_numpy(tau / most))
    ratio = (layer.query.weight / was).detach().unflatten(0, (4, 8)).mean((1, 2))
    torch.testing.assert_close(ratio, gamma["L0"].sqrt(), rtol=1e-4, atol=0)


def sharpened(clip):
    """The largest score of every step of a run whose loss is the entropy, so that scores grow."""
    torch.manual_seed(0)
    model = Stack(layers=1, heads=2, kv_heads=2)
    layer, x = model.layers[0], torch.randn(1, 12, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    scores = []
    with regard.Monitor(model, limits=Limits(None, None, None)) as monitor:
        for _ in range(40):
            model(x)
            layer.look(x, mask=regard.Causal()).entropy().mean().backward()
            scores.append(float(monitor.step()["max_score"].max()))
            optimizer.step()
            optimizer.zero_grad()
            if clip == "monitor":
                qk_clip_(monitor, TAU)
            elif clip == "module":
                qk_clip_(layer, TAU, max_score=layer.look(x, mask=regard.Causal()).max_score())
    return scores


def test_a_run_that_grows_is_held():
    """By the scores of the step itself, τ is passed by what one update adds; by fresh ones not."""
    free, held, exact = sharpened(None), sharpened("monitor"), sharpened("module")
    assert max(free) > 2 * TAU and free[-1] == max(free)
    assert max(held) < 1.3 * TAU
    assert max(exact) <= TAU * (1 + 1e-5)


def adapted():
    layer, _ = loud()
    layer.w_q.base_layer = layer.w_k  # as adapters have it
    return layer


@pytest.mark.parametrize(
    ("make", "tau", "scores", "options", "kind", "said"),
    [
        (lambda: loud()[0], 0, torch.ones(4), {}, InputError, "tau=0"),
        (lambda: loud()[0], TAU, torch.ones(4), {"grouped": "mean"}, InputError, "grouped='mean'"),
        (lambda: loud()[0], TAU, None, {}, InputError, "has no scores"),
        (lambda: loud()[0], TAU, torch.tensor(3.0), {}, ShapeError, r"give \(heads,\)"),
        (lambda: loud()[0], TAU, torch.ones(3), {}, UnavailableError, "3 heads of 8 do not"),
        (lambda: nn.Linear(4, 4), TAU, torch.ones(3), {}, InputError, "has no head_dim"),
        (lambda: loud(qk_norm=True)[0], TAU, torch.full((4,), 9.0), {}, UnavailableError,
         r"normalises its queries or keys \(norm_q\)"),
        (adapted, TAU, torch.full((4,), 9.0), {}, UnavailableError, "w_q has an adapter around it"),
        (lambda: regard.Monitor(loud()[0]), TAU, None, {}, InputError, "no sample yet"),
    ],
)  # fmt: skip
def test_refusals(make, tau, scores, options, kind, said):
    with pytest.raises(kind, match=said):
        qk_clip_(make(), tau, max_score=scores, **options)


def test_a_monitor_has_scores_of_its_own():
    layer, x = loud()
    with regard.Monitor(layer) as monitor:
        layer(x).sum().backward()
        monitor.step()
        with pytest.raises(InputError, match="with a module only"):
            qk_clip_(monitor, TAU, max_score=torch.ones(4))
