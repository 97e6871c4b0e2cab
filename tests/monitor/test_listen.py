"""Which attention of a model is measured during a sampled step."""

from __future__ import annotations

import gc
import itertools
import weakref

import numpy as np
import peft
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from monitor.steps import batch, calls_of, hooks, train, truth
from recorder.models import Plain, Stack, tiny, tokens
from regard.engine.observers import listeners
from regard.mask import Packed
from regard.monitor import Snapshots


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Stack()


def test_several_forwards_of_one_step(model):
    """Means are over all rows, so longer batches count for more; gradients add up."""
    batches = [batch(0, 3, 30), batch(1, 1, 7)]
    calls = [calls_of(model, x) for x in batches]
    with regard.Monitor(model) as monitor:
        train(model, *batches)
        sample = monitor.step()
    for place in range(2):
        for name, right in truth([one[place] for one in calls]).items():
            np.testing.assert_allclose(sample[name][place], right, rtol=1e-5, err_msg=name)
    grad = model.layers[1].w_q.weight.grad[:8].norm()
    np.testing.assert_allclose(sample["grad_w_q"][1, 0], grad, rtol=1e-5)


def test_outputs_and_gradients_are_the_same(model):
    x = batch()
    plain = model(x)
    plain.sum().backward()
    grads = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with regard.Monitor(model) as monitor:
        watched = model(x)
        watched.sum().backward()
        monitor.step()
    assert torch.equal(plain, watched)
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), grads, strict=True))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_counts_once(reentrant):
    from torch.utils.checkpoint import checkpoint

    class Saving(Stack):
        def forward(self, x):
            for layer in self.layers:

                def run(y, layer=layer):
                    return layer(y, mask=regard.Causal())

                x = x + checkpoint(run, x, use_reentrant=reentrant)
            return x

    torch.manual_seed(0)
    plain, saving = Stack(), Saving()
    saving.load_state_dict(plain.state_dict())
    samples = []
    for model in (plain, saving):
        with regard.Monitor(model) as monitor:
            for seed in (0, 1):  # with accumulation
                model(batch(seed).requires_grad_()).square().mean().backward()
            samples.append(monitor.step())
    for name, right in samples[0].values.items():
        np.testing.assert_allclose(samples[1][name], right, rtol=1e-5, err_msg=name)


def test_checkpointing_around_the_model_counts_once(model):
    from torch.utils.checkpoint import checkpoint

    with regard.Monitor(model) as monitor:
        train(model, batch())
        plain = monitor.step()
        model.zero_grad()
        checkpoint(model, batch(), use_reentrant=False).square().mean().backward()
        assert monitor._listener.tally._sums["L0"].sums[-1].tolist() == [40.0] * 4  # rows, once
        saving = monitor.step()
    for name, right in plain.values.items():
        np.testing.assert_allclose(saving[name], right, rtol=1e-5, err_msg=name)


def test_forwards_without_gradients_are_left_out(model):
    with regard.Monitor(model) as monitor:
        train(model, batch(0))
        with torch.no_grad():
            model(batch(1) * 50)
        assert monitor.step()["max_score"].max() < 10
    with regard.Monitor(model, evaluation=True) as monitor:
        with torch.no_grad():
            model(batch(1) * 50)
        assert monitor.step()["max_score"].max() > 10


def test_torch_attention_is_measured():
    torch.manual_seed(0)
    model = Plain()
    x = batch()
    with regard.Monitor(model) as monitor:
        watched = model(x)
        watched.square().mean().backward()
        sample = monitor.step()
    assert torch.equal(watched, model(x))
    assert sample.places == ("L0", "L1", "L2") and sample["peak"].shape == (3, 4)
    q, k, _ = model.blocks[0].qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
    a = regard.attend(q, k, k, mask=regard.Causal())
    np.testing.assert_allclose(
        sample["max_score"][0], a.max_score().amax((0, 2)).detach(), rtol=1e-5
    )
    grad = model.blocks[0].qkv.weight.grad
    np.testing.assert_allclose(sample["grad_w_k"][0, 1], grad[40:48].norm(), rtol=1e-5)


def test_torchs_own_layer():
    torch.manual_seed(0)
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0), 2
    )
    with regard.Monitor(model) as monitor:
        train(model, batch())
        sample = monitor.step()
    assert sample["max_score"].shape == (2, 4) and monitor.reasons == {}
    grad = model.layers[1].self_attn.in_proj_weight.grad
    np.testing.assert_allclose(sample["grad_w_q"][1, 2], grad[16:24].norm(), rtol=1e-5)
    np.testing.assert_allclose(sample["grad_w_k"][1, 3], grad[56:64].norm(), rtol=1e-5)


def test_autocast(model):
    x = batch()
    with regard.Monitor(model) as monitor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
        half = monitor.step()
        model.zero_grad()
        train(model, x)
        whole = monitor.step()
    for name, right in whole.values.items():
        np.testing.assert_allclose(half[name], right, rtol=0.1, atol=0.02, err_msg=name)


def test_a_recorder_beside_it(model):
    """Steps that end inside a recording do not end the recording."""
    with regard.Monitor(model) as monitor:
        with regard.record(model) as rec:
            model(batch())
            monitor.step()
            model(batch(1))
        assert len(rec.recording.prompts) == 4
        train(model, batch())
        assert monitor.step() is not None
    assert listeners() == () and hooks(model) == 0


def test_a_forward_that_fails_leaves_nothing_behind(model):
    with regard.Monitor(model) as monitor:
        with pytest.raises(regard.errors.ShapeError):
            model(torch.randn(2, 20, 31))
        assert listeners() == ()
        train(model, batch())
        assert monitor.step() is not None


def test_nothing_is_held(model):
    """No activation outlives its step because of the monitor."""
    held = []

    class Keep(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            held.append(weakref.ref(y := x * 1))
            return self.inner(y)

    outer = Keep()
    with regard.Monitor(outer) as monitor:
        train(outer, batch())
        gc.collect()
        assert held[0]() is None
        monitor.step()


def test_attention_outside_the_model_is_not_measured(model):
    with regard.Monitor(model) as monitor:
        q = torch.randn(1, 2, 5, 8, requires_grad=True)
        F.scaled_dot_product_attention(q, q, q)
        regard.attend(q, q, q)
        train(model, batch())
        assert monitor.step().places == ("L0", "L1")


def test_padding_of_transformers_is_left_out():
    model = tiny("llama", attn_implementation="regard")
    ids = tokens(20, 2)
    real = torch.ones(2, 20, dtype=torch.long)
    real[1, 8:] = 0
    with regard.Monitor(model) as monitor:
        model(ids, attention_mask=real).logits.sum().backward()
        padded = monitor.step()
        model(ids[:1]).logits.sum().backward()
        model(ids[1:, :8]).logits.sum().backward()
        alone = monitor.step()
        flipped = real.flip(1)
        moved = torch.where(flipped.bool(), ids, 0)
        moved[1, 12:] = ids[1, :8]
        moved[0] = ids[0]
        places = (flipped.cumsum(1) - 1).clamp(min=0)
        model(moved, attention_mask=flipped, position_ids=places).logits.sum().backward()
        left = monitor.step()
    for name in ("normalized_entropy", "max_score", "peak", "sink_mass"):
        np.testing.assert_allclose(padded[name], alone[name], rtol=1e-4, err_msg=name)
        np.testing.assert_allclose(left[name], alone[name], rtol=1e-4, err_msg=name)


def test_sdpa_of_transformers_is_measured():
    model = tiny("llama", num_key_value_heads=2)
    ids, found = tokens(20, 2), {}
    for name in ("regard", "sdpa"):
        model.set_attn_implementation(name)
        model.zero_grad()
        with regard.Monitor(model) as monitor:
            model(ids).logits.square().mean().backward()
            found[name] = monitor.step()
    for name, right in found["regard"].values.items():
        np.testing.assert_allclose(found["sdpa"][name], right, rtol=1e-3, atol=1e-6, err_msg=name)


class PackedLayer(nn.Module):
    """Sequences one behind the other, (tokens, 32)."""

    def __init__(self, how):
        super().__init__()
        self.how, self.qkv = how, nn.Linear(32, 96)

    def forward(self, x, starts):
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 8)).unbind(1)
        if self.how == "packed":
            given = {"cu_seqlens_q": starts, "cu_seqlens_k": starts, "mask": regard.Causal()}
            return regard.attend(q, k, v, **given).output
        q, k, v = (t.transpose(0, 1)[None] for t in (q, k, v))
        return regard.attend(q, k, v, mask=Packed(starts, starts, regard.Causal())).output


@pytest.mark.parametrize("how", ["packed", "by a mask"])
def test_packed_sequences_are_measured_each_by_itself(how):
    torch.manual_seed(0)
    x, bounds = torch.randn(14, 32), [0, 5, 5, 8, 14, 14]
    model = PackedLayer(how)
    together = []
    with regard.Monitor(model) as monitor:
        for starts in (bounds, None):
            for first, last in itertools.pairwise(bounds if starts is None else [0, 14]):
                if last > first:
                    model(x[first:last], torch.tensor(starts or [0, last - first])).sum().backward()
            together.append(monitor.step())
    for name in ("normalized_entropy", "max_score", "peak", "sink_mass"):
        np.testing.assert_allclose(together[0][name], together[1][name], rtol=1e-5, err_msg=name)


def test_snapshots_are_checked():
    with pytest.raises(regard.errors.InputError, match="give labels"):
        Snapshots(("L0",))
    with pytest.raises(regard.errors.InputError, match="give labels"):
        Snapshots(())
    with pytest.raises(regard.errors.InputError, match="every=0"):
        Snapshots(("L0H0",), every=0)


@pytest.mark.parametrize("how", ["peft", "within"])
def test_adapters_leave_gradient_norms_unknown_and_a_warning_tells(how):
    """LoRA around w_q, or within it."""
    torch.manual_seed(0)
    layer = regard.nn.MultiHeadAttention(16, 2)

    class Adapted(torch.nn.Linear):
        """A frozen matrix and what is learnt beside it."""

        def __init__(self) -> None:
            super().__init__(16, 16)
            self.weight.requires_grad_(False)
            self.lora_a = torch.nn.Parameter(torch.randn(2, 16))
            self.lora_b = torch.nn.Parameter(torch.zeros(16, 2))

        def forward(self, x):
            return super().forward(x) + x @ self.lora_a.T @ self.lora_b.T

    if how == "within":
        layer.w_q = Adapted()
    else:
        wrapped = torch.nn.Sequential(layer)
        config = peft.LoraConfig(target_modules=["w_q"], r=2)
        layer = peft.get_peft_model(wrapped, config).base_model.model[0]
    words = r"grad_w_q and grad_w_k are NaN.*adapter"
    with pytest.warns(regard.errors.RegardWarning, match=words), regard.Monitor(layer) as monitor:
        for _ in range(2):
            layer(torch.randn(2, 5, 16)).sum().backward()
            sample = monitor.step()
    assert np.isnan(sample["grad_w_q"]).all() and "adapter" in monitor.reasons["L0"]
