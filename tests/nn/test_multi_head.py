"""Multi-head attention: equal to torch's own layer, and what torch's has not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import regard
from regard.errors import DTypeError, InputError, ShapeError
from regard.nn import KeyValueCache, MultiHeadAttention, Rotary

close = torch.testing.assert_close


# ── torch's layer ────────────────────────────────────────────────────────────────────────────


@dataclass
class Case:
    """A torch layer, what it is called with, and the same in our words."""

    layer: nn.MultiheadAttention
    inputs: list[Tensor]  # x alone, or query, key, value
    masks: dict[str, Tensor | None]  # torch's: True = forbidden
    mask: Any  # ours: True = may attend

    def run(self) -> tuple[Tensor, Tensor]:
        """torch's output and weights (…, heads, L, S)."""
        query, key, value = self.inputs * (3 if len(self.inputs) == 1 else 1)
        return self.layer(
            query, key, value, need_weights=True, average_attn_weights=False, **self.masks
        )

    def context(self) -> tuple[Tensor, Tensor] | None:
        """Where keys and values come from, in our words."""
        return tuple(self.inputs[1:]) or None


@st.composite
def cases(draw) -> Case:
    """Any configuration of torch's layer that has a counterpart here."""
    torch.manual_seed(draw(st.integers(0, 9999)))
    heads, width = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    embed, batch = heads * width, draw(st.sampled_from([None, 1, 3]))
    alone, first = draw(st.booleans()), draw(st.booleans())
    queries = draw(st.integers(1, 5))
    keys = queries if alone else draw(st.integers(1, 5))
    kdim, vdim = (embed, embed) if alone else (draw(st.sampled_from([embed, 2, 7])) for _ in "kv")
    sink = draw(st.booleans())
    layer = nn.MultiheadAttention(
        embed, heads, kdim=kdim, vdim=vdim, batch_first=first, add_zero_attn=sink,
        bias=draw(st.booleans()), dtype=torch.float64,
    )  # fmt: skip
    for parameter in layer.parameters():  # torch starts biases at 0, where a mix-up cannot show
        nn.init.normal_(parameter)
    sizes = [(queries, embed)] if alone else [(queries, embed), (keys, kdim), (keys, vdim)]
    inputs = [_random(tokens, dim, batch, first) for tokens, dim in sizes]
    kind = draw(st.sampled_from([None, "one for all", "one per head"]))
    masks, mask = _masks(kind, draw(st.booleans()), batch, heads, queries, keys, sink)
    return Case(layer, inputs, masks, mask)


def _random(tokens: int, dim: int, batch: int | None, batch_first: bool) -> Tensor:
    shape = (tokens, dim) if batch is None else (batch, tokens, dim)
    x = torch.randn(shape, dtype=torch.float64)
    if batch is not None and not batch_first:
        x = x.transpose(0, 1).contiguous()
    return x.requires_grad_()


def _masks(kind, padded, batch, heads, queries, keys, sink):
    """The same rules for torch and for us; a row may be empty only where a sink takes it."""
    lead = () if batch is None else (batch,)
    forbidden = torch.rand(*lead, heads, queries, keys) < 0.4
    padding = torch.rand(*lead, keys) < 0.3
    if kind == "one for all":
        forbidden = forbidden[(0,) * (forbidden.ndim - 2)]
    if not sink:
        forbidden[..., 0] = padding[..., 0] = False
    of_torch: dict[str, Tensor | None] = {"attn_mask": None, "key_padding_mask": None}
    mask = None
    if kind is not None:
        of_torch["attn_mask"] = forbidden.flatten(0, -3) if forbidden.ndim > 2 else forbidden
        mask = ~forbidden
    if padded:
        of_torch["key_padding_mask"] = padding
        mask = regard.Padding(~padding) & (~forbidden if kind else regard.Window(None, None))
    return of_torch, mask


@settings(deadline=None, max_examples=150)
@given(cases())
def test_outputs_and_weights_equal_torchs(case):
    twin = MultiHeadAttention.from_torch(case.layer)
    output, weights = case.run()
    close(twin(case.inputs[0], case.context(), mask=case.mask), output)
    a = twin.look(case.inputs[0], case.context(), mask=case.mask)
    if case.layer.add_zero_attn:
        close(a.sink_mass(), weights[..., -1])
        weights = weights[..., :-1]
    close(a.dense(), weights)


@settings(deadline=None, max_examples=100)
@given(cases())
def test_every_gradient_equals_torchs(case):
    twin = MultiHeadAttention.from_torch(case.layer)
    output, _ = case.run()
    direction = torch.randn_like(output)
    wanted = torch.autograd.grad(
        (output * direction).sum(), [*case.inputs, *case.layer.parameters()]
    )
    (twin(case.inputs[0], case.context(), mask=case.mask) * direction).sum().backward()
    inputs, parameters = wanted[: len(case.inputs)], wanted[len(case.inputs) :]
    for x, gradient in zip(case.inputs, inputs, strict=True):
        close(x.grad, gradient)
    names = [name for name, _ in case.layer.named_parameters()]
    ours = _as_torch_names_them(twin)
    assert set(names) <= set(ours)
    for name, gradient in zip(names, parameters, strict=True):
        close(ours[name], gradient)


def _as_torch_names_them(twin: MultiHeadAttention) -> dict[str, Tensor]:
    """Our gradients under torch's names, stacked as torch stacks them."""
    inputs = (twin.w_q, twin.w_k, twin.w_v)
    found = {"out_proj.weight": twin.w_o.weight.grad}
    if twin.w_o.bias is not None:
        found["out_proj.bias"] = twin.w_o.bias.grad
        found["in_proj_bias"] = torch.cat([linear.bias.grad for linear in inputs])
    for linear, name in zip(inputs, "qkv", strict=True):
        found[f"{name}_proj_weight"] = linear.weight.grad
    if len({linear.in_features for linear in inputs}) == 1:
        found["in_proj_weight"] = torch.cat([linear.weight.grad for linear in inputs])
    return found


def test_from_torch_keeps_mode_dropout_order_and_precision():
    layer = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=False, dtype=torch.float64)
    twin = MultiHeadAttention.from_torch(layer.eval())
    assert (twin.dropout, twin.training, twin.batch_first) == (0.3, False, False)
    assert {p.dtype for p in twin.parameters()} == {torch.float64}
    assert MultiHeadAttention.from_torch(layer.train()).training


def test_from_torch_keeps_a_frozen_layer_frozen():
    layer = nn.MultiheadAttention(8, 2)
    assert all(p.requires_grad for p in MultiHeadAttention.from_torch(layer).parameters())
    frozen = MultiHeadAttention.from_torch(layer.requires_grad_(False))
    assert not any(p.requires_grad for p in frozen.parameters())


def test_from_torch_copies():
    layer = nn.MultiheadAttention(8, 2)
    twin = MultiHeadAttention.from_torch(layer)
    before = twin.w_q.weight.clone()
    with torch.no_grad():
        layer.in_proj_weight.zero_()
    assert torch.equal(twin.w_q.weight, before)


def test_from_torch_refuses_a_learned_extra_key():
    with pytest.raises(InputError, match=r"add_bias_kv=True.*Make it with add_bias_kv=False"):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(8, 2, add_bias_kv=True))


def test_a_zero_key_survives_saving_and_moving():
    twin = MultiHeadAttention.from_torch(nn.MultiheadAttention(8, 2, add_zero_attn=True))
    assert "sink" in twin.state_dict()
    assert twin.double().sink.dtype == torch.float64
    assert "sink" not in MultiHeadAttention(8, 2).state_dict()


# ── what a head computes ─────────────────────────────────────────────────────────────────────


def doubles(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def test_each_head_is_attention_on_its_own_columns():
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(6, 3, head_dim=4, value_dim=5, out_dim=7).double(), doubles(4, 6)
    q, k, v = layer.w_q(x), layer.w_k(x), layer.w_v(x)
    parts = zip(q.split(4, -1), k.split(4, -1), v.split(5, -1), strict=True)
    heads = [(q @ k.mT / 2).softmax(-1) @ v for q, k, v in parts]
    close(layer(x), layer.w_o(torch.cat(heads, -1)))
    assert layer(x).shape == (4, 7)


def test_look_answers_before_w_o():
    torch.manual_seed(1)
    layer, x = MultiHeadAttention(8, 2, value_dim=3).double(), doubles(5, 4, 8)
    a = layer.look(x, mask=regard.Causal(), summaries=(regard.Entropy(),))
    assert a.shape == (5, 2, 4, 4)
    assert a.output.shape == (5, 2, 4, 3)
    joined = a.output.transpose(1, 2).flatten(-2)
    close(layer.w_o(joined), layer(x, mask=regard.Causal()))
    value = layer.w_v(x).unflatten(-1, (2, 3)).transpose(1, 2)
    close(a @ value, a.output)


def test_attend_on_the_layers_own_projections_is_its_look():
    torch.manual_seed(2)
    layer, x = MultiHeadAttention(8, 4, kv_heads=2).double(), doubles(3, 5, 8)
    q, k, v = (
        linear(x).unflatten(-1, (-1, 2)).transpose(-3, -2)
        for linear in (layer.w_q, layer.w_k, layer.w_v)
    )
    a, mine = regard.attend(q, k, v, mask=regard.Causal()), layer.look(x, mask=regard.Causal())
    close(mine.output, a.output)
    close(mine.lse, a.lse)
    close(mine.dense(), a.dense())


@settings(deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(0, 99))
def test_grouped_heads_equal_repeating_keys_and_values(kv_heads, group, seed):
    torch.manual_seed(seed)
    heads, width = kv_heads * group, 3
    grouped = MultiHeadAttention(8, heads, kv_heads=kv_heads, head_dim=width).double()
    full = MultiHeadAttention(8, heads, head_dim=width).double()
    state = grouped.state_dict()
    for name in ("w_k.weight", "w_k.bias", "w_v.weight", "w_v.bias"):
        per_head = state[name].unflatten(0, (kv_heads, width))
        state[name] = per_head.repeat_interleave(group, dim=0).flatten(0, 1)
    full.load_state_dict(state)
    x = doubles(2, 5, 8)
    close(grouped(x, mask=regard.Causal()), full(x, mask=regard.Causal()))
    close(grouped.look(x).dense(), full.look(x).dense())


def test_normalised_queries_and_keys_bound_the_scores():
    torch.manual_seed(3)
    x = 1000 * torch.randn(2, 6, 8)
    free, bound = MultiHeadAttention(8, 2), MultiHeadAttention(8, 2, qk_norm=True)
    assert free.look(x).max_score().max() > 100
    assert bound.look(x).max_score().abs().max() <= 2 * (1 + 1e-5)  # √head_dim
    assert {"norm_q.weight", "norm_k.weight"} <= set(bound.state_dict())


def test_a_norm_in_higher_precision_does_not_split_q_k_and_v():
    """As autocast does it on a GPU: RMSNorm gives float32, the projections half precision."""

    class Promoting(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.float()

    layer = MultiHeadAttention(8, 2, qk_norm=True).half()
    layer.norm_q = layer.norm_k = Promoting()
    assert layer(torch.randn(3, 8).half()).dtype == torch.float16


def test_cross_attention_takes_keys_and_values_from_the_context():
    torch.manual_seed(4)
    layer = MultiHeadAttention(8, 2, context_dim=5).double()
    x, context = doubles(3, 4, 8), doubles(3, 6, 5)
    a = layer.look(x, context)
    assert a.shape == (3, 2, 4, 6)
    close(layer(x, context), layer(x, (context, context)))
    shuffled = context[:, torch.randperm(6)]
    close(layer(x, shuffled), layer(x, context))  # keys are a set


def test_keys_and_values_may_come_from_different_contexts():
    torch.manual_seed(5)
    layer = MultiHeadAttention(8, 2, context_dim=(5, 3)).double()
    x, keys, values = doubles(4, 8), doubles(6, 5), doubles(6, 3)
    a = layer.look(x, (keys, values))
    doubled = layer.look(x, (keys, values * 2))
    assert torch.equal(a.dense(), doubled.dense())
    assert not torch.allclose(a.output, doubled.output)


def test_batch_axes_are_independent():
    torch.manual_seed(6)
    layer, x = MultiHeadAttention(8, 2, rotary=Rotary(4)).double(), doubles(2, 3, 5, 8)
    y = layer(x)
    assert y.shape == x.shape
    close(y[1, 2], layer(x[1, 2]))


def test_half_of_the_heads_is_a_layer_of_its_own():
    """Tensor parallel: each rank holds some heads' rows, w_o's products add up."""
    torch.manual_seed(7)
    layer, x = MultiHeadAttention(8, 4, kv_heads=2, bias=False).double(), doubles(5, 8)
    parts = []
    for rank in range(2):
        shard = MultiHeadAttention(8, 4, kv_heads=2, bias=False).double()
        for name in ("w_q", "w_k", "w_v"):
            rows = getattr(layer, name).weight.chunk(2)[rank]
            getattr(shard, name).weight = nn.Parameter(rows)
        shard.w_o.weight = nn.Parameter(layer.w_o.weight.chunk(2, dim=1)[rank])
        assert shard.look(x).shape == (2, 5, 5)
        parts.append(shard(x))
    close(parts[0] + parts[1], layer(x))


def test_dropout_is_for_training_and_spares_the_statistics():
    torch.manual_seed(8)
    layer, x = MultiHeadAttention(8, 2, dropout=0.5), torch.randn(4, 8)
    plain = MultiHeadAttention(8, 2)
    plain.load_state_dict(layer.state_dict())
    assert not torch.equal(layer(x), layer(x))
    close(layer.look(x).dense(), plain.look(x).dense())
    assert torch.equal(layer.eval()(x), plain(x))


def test_dropout_keeps_the_mean():
    torch.manual_seed(9)
    layer, x = MultiHeadAttention(4, 1, dropout=0.3), torch.randn(3, 4)
    mean = layer(x.expand(500, 3, 4)).mean(0)  # each entry is thinned out on its own
    close(mean, layer.eval()(x), atol=0.06, rtol=0)


def test_projections_are_named_alike_everywhere():
    names = [f"w_{n}.{part}" for n in "qkvo" for part in ("weight", "bias")]
    assert list(MultiHeadAttention(8, 2).state_dict()) == names
    assert list(MultiHeadAttention(8, 2, rotary=Rotary(4)).state_dict()) == names
    without = MultiHeadAttention(8, 2, bias=False).state_dict()
    assert list(without) == [f"w_{n}.weight" for n in "qkvo"]


@pytest.mark.parametrize("options", [{}, {"kv_heads": 1}, {"qk_norm": True, "value_dim": 3}])
def test_gradients_are_the_derivatives(options):
    torch.manual_seed(10)
    layer = MultiHeadAttention(4, 2, rotary=Rotary(2), **options).double()
    x = doubles(3, 4).requires_grad_()
    names = [name for name, _ in layer.named_parameters()]

    def run(x, *weights):
        given = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(layer, given, (x,), {"mask": regard.Causal()})

    assert torch.autograd.gradcheck(run, (x, *layer.parameters()))


# ── errors: what was given, what would work ──────────────────────────────────────────────────

X = torch.zeros(3, 8)


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda: MultiHeadAttention(8, 3), InputError, ["embed_dim=8", "num_heads=3", "head_dim"]),
        (lambda: MultiHeadAttention(8, 4, kv_heads=3), InputError, ["kv_heads=3", "multiple"]),
        (lambda: MultiHeadAttention(8, 0), InputError, ["num_heads=0", "at least one"]),
        (lambda: MultiHeadAttention(8, 2, kv_heads=0), InputError, ["kv_heads=0", "at least one"]),
        (
            lambda: MultiHeadAttention(8, 2, rotary=Rotary(8)),
            InputError,
            ["turns 8 dimensions", "a head has 4", "Rotary(4)"],
        ),
        (
            lambda: MultiHeadAttention(8, 2)(torch.zeros(3, 7)),
            ShapeError,
            ["x has shape (3, 7)", "(…, tokens, 8)"],
        ),
        (
            lambda: MultiHeadAttention(8, 2, context_dim=5)(X, torch.zeros(3, 8)),
            ShapeError,
            ["context has shape (3, 8)", "(…, tokens, 5)"],
        ),
        (
            lambda: MultiHeadAttention(8, 2)(X, torch.zeros(2, 3, 8)),
            ShapeError,
            ["query (2, 3, 4), key (2, 2, 3, 4)", "same number of axes"],
        ),
        (
            lambda: MultiHeadAttention(8, 2)(X, (X, torch.zeros(4, 8))),
            ShapeError,
            ["3 keys but 4 values"],
        ),
        (lambda: MultiHeadAttention(8, 2)(X.long()), DTypeError, ["x has dtype int64"]),
        (lambda: MultiHeadAttention(8, 2)(X.numpy()), DTypeError, ["x is a ndarray"]),
        (
            lambda: MultiHeadAttention(8, 2)(X, X.double()),
            DTypeError,
            ["context has dtype float64", "context.to(torch.float32)"],
        ),
        (
            lambda: MultiHeadAttention(8, 2)(X, mask=torch.zeros(3, 3)),
            DTypeError,
            ["boolean", "bias="],
        ),
    ],
)
def test_errors_say_what_was_given_and_what_would_work(ask, error, words):
    with pytest.raises(error) as refused:
        ask()
    for word in words:
        assert word in str(refused.value)


def test_a_refused_call_leaves_the_cache_as_it_was():
    layer, cache = MultiHeadAttention(8, 2), KeyValueCache()
    layer(X, cache=cache)
    with pytest.raises(ShapeError):
        layer(X, cache=cache, mask=torch.ones(9, 9).bool())
    assert cache.length == 3
