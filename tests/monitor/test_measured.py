"""The numbers of a sample are those of the whole matrices and of the gradients."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import peft
import pytest
import torch
from torch import nn

import regard
from fuzz.sinks import check
from monitor.steps import batch, train
from recorder.models import Plain, Stack, tiny
from recorder.test_weights import padded
from regard.errors import RegardWarning
from regard.mask import Packed
from support.families.build import build

L = 37
ROWS = ("normalized_entropy", "max_score", "peak", "sink_mass")


class Attends(nn.Module):
    """One call of attend over given queries and keys."""

    def __init__(self, q, k, **options):
        super().__init__()
        self.given, self.options = (q, k, k), options

    def forward(self, x):
        """Whatever is given."""
        self.attention = regard.attend(*self.given, **self.options)
        return self.attention.output


def sampled(model, *calls):
    """The sample of these forwards, each given as keyword arguments or one tensor."""
    options = {"evaluation": True, "on_alarm": lambda _: None}
    with regard.Monitor(model, **options) as monitor, torch.no_grad():
        for given in calls:
            model(**given) if isinstance(given, dict) else model(given)
        return monitor.step()


def inputs(kv=4):
    dice = torch.Generator().manual_seed(0)
    return torch.randn(2, 4, L, 16, generator=dice) * 2, torch.randn(2, kv, L, 16, generator=dice)


def same_rows(mine, right, **close):
    for name in ROWS:
        np.testing.assert_allclose(mine[name], right[name], err_msg=name, **close)


RULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"mask": regard.Causal()},
    "window": {"mask": regard.Causal() & regard.Window(5)},
    "documents": {"mask": regard.Causal() & regard.Documents(torch.arange(L) // 9)},
    "padding": {"mask": regard.Padding([L, 20], [L, 20])},
    "table": {"mask": torch.rand(L, L, generator=torch.Generator().manual_seed(1)) > 0.5},
    "softcap": {"mask": regard.Causal(), "softcap": 3.0},
    "bias": {"mask": regard.Causal(), "bias": regard.score.ALiBi([0.5, 0.25, 0.1, 0.05])},
    "sink": {"mask": regard.Causal(), "sink": torch.tensor([0.0, 1.0, 2.0, -1.0])},
}


@pytest.mark.parametrize("kv", [4, 2])
@pytest.mark.parametrize("rule", RULES)
def test_rows_are_those_of_the_matrix(rule, kv):
    q, k = inputs(kv)
    model = Attends(q, k, **RULES[rule])
    sample, a = sampled(model, q), model.attention
    weights, finite = a.dense(), a.scores[...] > -torch.inf
    choices = finite.sum(-1) + ("sink" in RULES[rule])
    first = finite.int().argmax(-1, keepdim=True).expand(*weights.shape[:-1], 1)
    resting = weights.gather(-1, first)[..., 0] + a.sink_mass()  # on each row's first visible key
    rows, some = ((choices > n).expand(weights.shape[:-1]) for n in (0, 1))
    entropy, largest = a.entropy(normalized=True), a.max_score().amax((0, 2))
    for head in range(4):
        seen = rows[:, head]
        right = {
            "normalized_entropy": entropy[:, head][some[:, head]].mean(),
            "peak": weights[:, head].amax(-1)[seen].mean(),
            "sink_mass": resting[:, head][seen].mean(),
            "max_score": largest[head],  # before cap and bias
        }
        for name, number in right.items():
            np.testing.assert_allclose(sample[name][0, head], number, rtol=2e-5, err_msg=name)
    plain = {name: RULES[rule][name] for name in ("mask",) if name in RULES[rule]}
    largest = sampled(Attends(q, k, **plain), q)["max_score"]
    np.testing.assert_allclose(sample["max_score"], largest, rtol=1e-6)


def test_by_asking_every_cell_it_is_the_same(monkeypatch):
    """What a GPU does for masks that hold arrays, in strips."""
    from regard.monitor import sink

    monkeypatch.setattr(sink, "_lowest", lambda mask, extent: None)
    monkeypatch.setattr(sink, "_lowest_once", lambda mask, extent: None)
    monkeypatch.setattr(sink, "_STRIP", 5)
    check(5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")], ids=str)
@pytest.mark.parametrize(
    ("rule", "implementation"),
    [*((rule, "tiled") for rule in RULES), ("causal", "dense"), ("bias", "cpu"), ("plain", "cpu")],
)
def test_one_score_that_is_not_finite_makes_the_largest_infinite(rule, bad, implementation):
    """In its head alone; the query is one that every rule lets see a key."""
    q, k = inputs()
    q[0, 2, 3, 5] = bad
    sample = sampled(Attends(q, k, implementation=implementation, **RULES[rule]), q)
    largest, mass = sample["max_score"][0], sample["sink_mass"][0]
    assert largest[2] == np.inf and np.isfinite(largest[[0, 1, 3]]).all()
    is_capped = rule == "softcap" and bad == float("inf")  # then weights are finite as ever
    assert np.isnan(mass[2]) != is_capped and np.isfinite(mass[[0, 1, 3]]).all()


def test_masked_keys_and_rows_that_see_nothing_break_nothing():
    q, k = inputs()
    k[:, :, -1] = torch.nan  # the last key is padding
    mask = regard.Padding([L - 1, L - 1])
    assert np.isfinite(sampled(Attends(q, k, mask=mask), q)["max_score"]).all()
    empty = sampled(Attends(q, k, mask=torch.zeros(L, L, dtype=torch.bool)), q)
    assert all(np.isnan(empty[name]).all() for name in ROWS)


def test_half_precision_is_measured_in_single():
    q, k = (one.bfloat16() for one in inputs())
    same_rows(
        sampled(Attends(q, k), q), sampled(Attends(q.float(), k.float()), q), rtol=1e-3, atol=1e-3
    )


# ── padding and packs ────────────────────────────────────────────────────────────────────────

FAMILIES = ("bert", "roberta", "albert", "distilbert", "llama", "t5", "bart")
LENGTHS = (7, 4, 2)  # of three sequences, and of what a decoder writes
WRITTEN = (3, 5, 5)


def built(family, attention):
    model = build(family)
    model.set_attn_implementation(attention)
    return model


@pytest.mark.sampled(8)
@pytest.mark.parametrize("attention", ["sdpa", "eager", "regard"])
@pytest.mark.parametrize(
    ("family", "side"), [*((name, "right") for name in FAMILIES), ("llama", "left")]
)
def test_padding_changes_no_statistic(family, attention, side):
    model = built(family, attention)
    streams = {"": LENGTHS}
    if model.config.is_encoder_decoder:
        streams["decoder_"] = WRITTEN

    def given(entries, side):
        made = {}
        for stream, lengths in streams.items():
            ids, mask = padded(tuple(lengths[n] for n in entries), side, entries[0])
            made |= {f"{stream}input_ids": ids, f"{stream}attention_mask": mask}
            if side == "left":
                made["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
        return made

    apart = (given([n], "right") for n in range(3))
    same_rows(sampled(model, given([0, 1, 2], side)), sampled(model, *apart), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("attention", ["sdpa", "eager", "regard"])
def test_packed_training_of_transformers(attention):
    """As `DataCollatorWithFlattening` packs: one row, positions that start again."""
    model = built("llama", attention)
    documents = [torch.randint(3, 40, (n,)) for n in (5, 9, 3, 12)]
    positions = torch.cat([torch.arange(len(d)) for d in documents])[None]
    together = {"input_ids": torch.cat(documents)[None], "position_ids": positions}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RegardWarning)
        packed = sampled(model, together | {"use_cache": False})
    apart = sampled(model, *({"input_ids": d[None], "use_cache": False} for d in documents))
    same_rows(packed, apart, rtol=1e-4, atol=1e-5)


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
    x, bounds, model = torch.randn(14, 32), [0, 5, 5, 8, 14, 14], PackedLayer(how)
    parts = (
        {"x": x[first:last], "starts": torch.tensor([0, last - first])}
        for first, last in itertools.pairwise(bounds)
        if last > first
    )
    together = {"x": x, "starts": torch.tensor(bounds)}
    same_rows(sampled(model, together), sampled(model, *parts), rtol=1e-5)


# ── gradients ────────────────────────────────────────────────────────────────────────────────


class Fused(nn.Module):
    """4 heads of queries, 2 of keys and of values in one matrix."""

    def __init__(self, rows=64):
        super().__init__()
        self.qkv_proj = nn.Linear(32, rows, bias=False)

    def forward(self, x):
        q, k, v, *_ = self.qkv_proj(x).split([32, 16, 16, self.qkv_proj.out_features - 64], -1)
        q, k, v = (t.unflatten(-1, (-1, 8)).transpose(1, 2) for t in (q, k, v))
        attend = nn.functional.scaled_dot_product_attention
        return attend(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(2)


def family(name, path, **options):
    """A model of transformers, and its first layer's attention."""
    model = tiny(name, **options)
    return model, model.get_submodule(path)


def rows_of(start, step=8):
    """Of each head, one behind the other."""
    return lambda head: slice(start + step * head, start + step * head + 8)


# model and attention; the parameters of w_q and w_k and whose rows they are, by key head
GRADIENTS: dict[str, Any] = {
    "regard": (lambda: (m := Stack(), m.layers[0]), "w_q", "w_k", rows_of(0), rows_of(0), 2),
    "fused": (lambda: (m := Fused(), m), "qkv_proj", "qkv_proj", rows_of(0), rows_of(32), 2),
    "torch's function": (lambda: (m := Plain(), m.blocks[0]),
                         "qkv", "qkv", rows_of(0), rows_of(32), 4),
    "torch's layer": (lambda: (m := nn.TransformerEncoderLayer(32, 4, 64, batch_first=True),
                               m.self_attn),
                      "in_proj_weight", "in_proj_weight", rows_of(0), rows_of(32), 4),
    "llama": (lambda: family("llama", "model.layers.0.self_attn", num_key_value_heads=2),
              "q_proj", "k_proj", rows_of(0), rows_of(0), 2),
    "bert": (lambda: family("bert", "encoder.layer.0.attention.self"),
             "query", "key", rows_of(0), rows_of(0), 4),
    "gpt2": (lambda: family("gpt2", "transformer.h.0.attn"),
             "c_attn", "c_attn", rows_of(0), rows_of(32), 4),
    "gpt_neox": (lambda: family("gpt_neox", "gpt_neox.layers.0.attention"),
                 "query_key_value", "query_key_value", rows_of(0, 24), rows_of(8, 24), 4),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_those_of_the_heads_own_rows(name):
    torch.manual_seed(0)
    make, q, k, q_rows, k_rows, key_heads = GRADIENTS[name]
    model, attention = make()
    x = torch.randint(3, 50, (2, 9)) if hasattr(model, "config") else batch()
    with regard.Monitor(model) as monitor:
        found = model(x)
        getattr(
            found, "logits", getattr(found, "last_hidden_state", found)
        ).square().mean().backward()
        sample = monitor.step()
    for head in range(4):
        for statistic, matrix, rows in (
            ("grad_w_q", q, q_rows(head)),
            ("grad_w_k", k, k_rows(head * key_heads // 4)),
        ):
            held = getattr(attention, matrix)
            gradient = getattr(held, "weight", held).grad
            gradient = gradient.T if name == "gpt2" else gradient
            norm = gradient[rows].norm()
            np.testing.assert_allclose(sample[statistic][0, head], norm, rtol=1e-5)


def test_a_gradient_that_is_not_known_has_a_reason():
    model, x = Stack(), batch()
    with regard.Monitor(model) as monitor:
        train(model, x)
        model.zero_grad()
        sample = monitor.step()
        assert np.isnan(sample["grad_w_q"]).all() and "before zero_grad" in monitor.reasons["L0"]
        assert not np.isnan(sample["peak"]).any()
        model.layers[1].w_k.requires_grad_(False)  # from this step on
        train(model, x)
        sample = monitor.step()
    assert np.isnan(sample["grad_w_k"][1]).all() and not np.isnan(sample["grad_w_k"][0]).any()
    assert not np.isnan(sample["grad_w_q"]).any()
    assert monitor.reasons["L1"] == "the projection is frozen"
    odd = Fused(66)
    with regard.Monitor(odd) as monitor:
        train(odd, x)
        monitor.step()
    assert "qkv_proj has 66 rows, which 4 heads of 8 do not explain" in monitor.reasons["L0"]


def test_adapters_leave_gradient_norms_unknown_and_a_warning_says_so():
    config = peft.LoraConfig(target_modules=["w_q"], r=2)
    layer = nn.Sequential(regard.nn.MultiHeadAttention(16, 2))
    layer = peft.get_peft_model(layer, config).base_model.model[0]
    words = r"grad_w_q and grad_w_k are NaN.*adapter"
    with pytest.warns(RegardWarning, match=words), regard.Monitor(layer) as monitor:
        train(layer, torch.randn(2, 5, 16))
        sample = monitor.step()
    assert np.isnan(sample["grad_w_q"]).all() and "adapter" in monitor.reasons["L0"]
    plain = regard.nn.MultiHeadAttention(16, 2)  # within it, as torchtune and by hand
    plain.w_q.lora_a = nn.Parameter(torch.randn(2, 16))
    with pytest.warns(RegardWarning, match=words), regard.Monitor(plain) as monitor:
        train(plain, torch.randn(2, 5, 16))
        monitor.step()


# ── a loss that is scaled up ─────────────────────────────────────────────────────────────────


def scaled(run, **options):
    """The monitor of a run with a scaler, after one step of it."""
    torch.manual_seed(0)
    model, scaler = Stack(), torch.amp.GradScaler("cpu", init_scale=256.0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    options = {"optimizer": optimizer} if options.get("optimizer") else {}
    with regard.Monitor(model, **options) as monitor:
        run(monitor, model, scaler, optimizer)
    return monitor


def by_hand(monitor, model, scaler, optimizer):
    scaler.scale(model(batch(tokens=12)).square().mean()).backward()
    scaler.unscale_(optimizer)
    monitor.step()
    scaler.step(optimizer)
    optimizer.zero_grad()


def in_half(_, model, scaler, optimizer):
    """Over two forwards whose gradients come together. A scaler unscales before it lets the
    optimiser step, so nothing has to be called."""
    for _ in range(2):
        with torch.autocast("cpu", torch.float16):
            loss = model(batch(tokens=12)).float().square().mean() / 2
        scaler.scale(loss).backward()
    scaler.step(optimizer)


def skipped(_, model, scaler, optimizer):
    """The forwards of a step that is skipped count to the next; gradients are that one's."""
    for factor in (float("inf"), 1.0):
        scaler.scale(model(batch(tokens=12)).square().mean() * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


@pytest.mark.parametrize("run", [by_hand, in_half, skipped])
def test_a_scaled_loss_has_the_gradients_of_the_loss(run):
    def plain(monitor, model, *_):
        model(batch(tokens=12)).square().mean().backward()
        monitor.step()

    right = scaled(plain).latest
    sample = scaled(run, optimizer=run is not by_hand).latest
    assert sample.step == 0
    for name, numbers in right.values.items():
        close = 0.02 if run is in_half else 1e-4
        np.testing.assert_allclose(sample[name], numbers, rtol=close, err_msg=name)
