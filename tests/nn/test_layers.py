"""SelfAttention and MultiHeadAttention: their formula, torch's own layer, gradients, and errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import regard
from regard.errors import DTypeError, InputError, ShapeError
from regard.nn import KeyValueCache, MultiHeadAttention, Rotary, SelfAttention

close = torch.testing.assert_close
THE, CAT, SAT = [1.0, 0, 1, 0], [0.0, 1, 0, 1], [1.0, 1, 1, 1]
CAUSAL = regard.Causal()


def doubles(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


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
    x = doubles(tokens, dim) if batch is None else doubles(batch, tokens, dim)
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


@settings(deadline=None, max_examples=80)
@given(cases())
def test_output_weights_and_every_gradient_equal_torchs(case):
    twin = MultiHeadAttention.from_torch(case.layer)
    context = tuple(case.inputs[1:]) or None
    output, weights = case.run()
    mine = twin(case.inputs[0], context, mask=case.mask)
    close(mine, output)
    a = twin.look(case.inputs[0], context, mask=case.mask)
    if case.layer.add_zero_attn:
        close(a.sink_mass(), weights[..., -1])
        weights = weights[..., :-1]
    close(a.dense(), weights)
    direction = torch.randn_like(output)
    names = [name for name, _ in case.layer.named_parameters()]
    given_ = [*case.inputs, *case.layer.parameters()]
    wanted = torch.autograd.grad((output * direction).sum(), given_)
    (mine * direction).sum().backward()
    ours = [x.grad for x in case.inputs] + [_as_torch_names_them(twin)[name] for name in names]
    for gradient, right in zip(ours, wanted, strict=True):
        close(gradient, right)


def _as_torch_names_them(twin: MultiHeadAttention) -> dict[str, Tensor]:
    """Our gradients under torch's names, stacked as torch stacks them."""
    inputs = (twin.w_q, twin.w_k, twin.w_v)
    named = {"out_proj.weight": twin.w_o.weight.grad}
    if twin.w_o.bias is not None:
        named["out_proj.bias"] = twin.w_o.bias.grad
        named["in_proj_bias"] = torch.cat([linear.bias.grad for linear in inputs])
    for linear, name in zip(inputs, "qkv", strict=True):
        named[f"{name}_proj_weight"] = linear.weight.grad
    if len({linear.in_features for linear in inputs}) == 1:
        named["in_proj_weight"] = torch.cat([linear.weight.grad for linear in inputs])
    return named


def test_from_torch_copies_the_layer_as_it_is():
    layer = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=False, dtype=torch.float64)
    twin = MultiHeadAttention.from_torch(layer.eval())
    assert (twin.dropout, twin.training, twin.batch_first) == (0.3, False, False)
    assert {p.dtype for p in twin.parameters()} == {torch.float64}
    assert MultiHeadAttention.from_torch(layer.train()).training
    assert all(p.requires_grad for p in twin.parameters())
    before = twin.w_q.weight.clone()
    with torch.no_grad():
        layer.in_proj_weight.zero_()
    assert torch.equal(twin.w_q.weight, before)
    frozen = MultiHeadAttention.from_torch(layer.requires_grad_(False))
    assert not any(p.requires_grad for p in frozen.parameters())
    zero_key = MultiHeadAttention.from_torch(nn.MultiheadAttention(8, 2, add_zero_attn=True))
    assert "sink" in zero_key.state_dict() and zero_key.double().sink.dtype == torch.float64
    assert "sink" not in twin.state_dict()
    with pytest.raises(InputError, match=r"add_bias_kv=True.*Make it with add_bias_kv=False"):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(8, 2, add_bias_kv=True))


# ── what a layer computes ────────────────────────────────────────────────────────────────────


def test_the_notes_numbers():
    eye = [[int(r == c) for c in range(4)] for r in range(4)]
    for weights in (eye, np.eye(4)):
        layer = SelfAttention.from_weights(*[weights] * 3)
        x = torch.tensor([THE, CAT, SAT], dtype=layer.w_q.weight.dtype)
        a = layer.look(x)
        assert a.scores[0].tolist() == [1, 0, 1]
        assert a[0].tolist() == pytest.approx([0.4223, 0.1554, 0.4223], abs=5e-5)
        assert layer(x)[0].tolist() == pytest.approx([0.8446, 0.5777, 0.8446, 0.5777], abs=5e-5)
    assert SelfAttention.from_weights(eye, eye, eye).w_q.weight.dtype == torch.get_default_dtype()


def test_from_weights_is_x_times_w_and_owns_them():
    w_q, w_k, w_v = torch.randn(5, 3), torch.randn(5, 3), torch.randn(5, 2)
    layer, x = SelfAttention.from_weights(w_q, w_k, w_v), torch.randn(4, 5)
    for linear, w in ((layer.w_q, w_q), (layer.w_k, w_k), (layer.w_v, w_v)):
        close(linear(x), x @ w)
    w_q.zero_()
    assert layer.w_q.weight.abs().sum() > 0


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_self_attention_is_its_formula(data):
    torch.manual_seed(data.draw(st.integers(0, 999)))
    batch = data.draw(st.lists(st.integers(1, 3), max_size=3))
    tokens, embed, head, value = (data.draw(st.integers(1, 6)) for _ in range(4))
    layer = SelfAttention(embed, head, value, bias=data.draw(st.booleans())).double()
    x = doubles(*batch, tokens, embed)
    seen = torch.rand(*batch[:1], 1, tokens) < 0.6 if data.draw(st.booleans()) else None
    seen = None if seen is None or len(batch) != 1 else seen | torch.eye(tokens).bool()
    q, k, v = layer.w_q(x), layer.w_k(x), layer.w_v(x)
    scores = q @ k.mT / math.sqrt(head)
    scores = scores if seen is None else scores.masked_fill(~seen, -torch.inf)
    mask = None if seen is None else seen[:, None]
    close(layer(x, mask=mask), scores.softmax(-1) @ v)
    a = layer.look(x, mask=mask)
    assert a.shape == (*batch, *(1,) * bool(batch), tokens, tokens)  # a head axis beside a batch
    close(a.dense().reshape(scores.shape), scores.softmax(-1))


def random_layer(draw) -> MultiHeadAttention:
    kv, group, dim = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.sampled_from([2, 4]))
    return MultiHeadAttention(
        6, kv * group, kv_heads=kv, head_dim=dim, value_dim=draw(st.sampled_from([None, 5])),
        out_dim=draw(st.sampled_from([None, 7])), bias=draw(st.booleans()),
        rotary=Rotary(dim) if draw(st.booleans()) else None, qk_norm=draw(st.booleans()),
    ).double()  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_each_head_is_attention_on_its_own_columns(data):
    """Groups, rotary, norms and all: `layer`, `look` and `attend` beside the formula."""
    torch.manual_seed(data.draw(st.integers(0, 999)))
    layer = random_layer(data.draw)
    batch, tokens = data.draw(st.sampled_from([(), (2,), (2, 3)])), data.draw(st.integers(1, 5))
    x = doubles(*batch, tokens, 6)
    q, k, v = (
        linear(x).unflatten(-1, (-1, width)).transpose(-3, -2)
        for linear, width in (
            (layer.w_q, layer.head_dim), (layer.w_k, layer.head_dim), (layer.w_v, layer.value_dim)
        )
    )  # fmt: skip
    if layer.norm_q is not None:
        q, k = layer.norm_q(q), layer.norm_k(k)
    if layer.rotary is not None:
        q, k = layer.rotary(q), layer.rotary(k)
    a = regard.attend(q, k, v, mask=CAUSAL)
    group = q.shape[-3] // k.shape[-3]
    k, of_heads = (t.repeat_interleave(group, -3) for t in (k, v))
    scores = q @ k.mT / math.sqrt(layer.head_dim)
    later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(later, -torch.inf).softmax(-1)
    mixed = weights @ of_heads
    mine = layer.look(x, mask=CAUSAL, summaries=(regard.Entropy(),))
    close(mine.dense(), weights)
    close(mine.output, mixed)
    close(mine.lse, a.lse)
    close(a.output, mixed)
    close(mine @ of_heads, mixed)
    close(layer(x, mask=CAUSAL), layer.w_o(mixed.transpose(-3, -2).flatten(-2)))


def test_normalised_queries_and_keys_bound_the_scores():
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
    with torch.autocast("cpu", torch.float16):
        assert SelfAttention(4)(torch.randn(3, 4)).dtype == torch.float16


def test_cross_attention_takes_keys_and_values_from_contexts():
    layer = MultiHeadAttention(8, 2, context_dim=5).double()
    x, context = doubles(3, 4, 8), doubles(3, 6, 5)
    assert layer.look(x, context).shape == (3, 2, 4, 6)
    close(layer(x, context), layer(x, (context, context)))
    close(layer(x, context[:, torch.randperm(6)]), layer(x, context))  # keys are a set
    apart = MultiHeadAttention(8, 2, context_dim=(5, 3)).double()
    x, keys, values = doubles(4, 8), doubles(6, 5), doubles(6, 3)
    a, doubled = apart.look(x, (keys, values)), apart.look(x, (keys, values * 2))
    assert torch.equal(a.dense(), doubled.dense())
    assert not torch.allclose(a.output, doubled.output)


def test_half_of_the_heads_is_a_layer_of_its_own():
    """Tensor parallel: each rank holds some heads' rows, w_o's products add up."""
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


def test_dropout_is_for_training_keeps_the_mean_and_spares_the_statistics():
    torch.manual_seed(9)
    layer, x = MultiHeadAttention(4, 1, dropout=0.3), torch.randn(3, 4)
    plain = MultiHeadAttention(4, 1)
    plain.load_state_dict(layer.state_dict())
    assert not torch.equal(layer(x), layer(x))
    close(layer.look(x).dense(), plain.look(x).dense())
    mean = layer(x.expand(500, 3, 4)).mean(0)  # each entry is thinned out on its own
    assert torch.equal(layer.eval()(x), plain(x))
    close(mean, plain(x), atol=0.06, rtol=0)


def test_projections_are_named_as_in_the_notes():
    names = [f"w_{n}.{part}" for n in "qkvo" for part in ("weight", "bias")]
    assert list(MultiHeadAttention(8, 2, rotary=Rotary(4)).state_dict()) == names
    without = MultiHeadAttention(8, 2, bias=False).state_dict()
    assert list(without) == [f"w_{n}.weight" for n in "qkvo"]
    assert list(SelfAttention(4).state_dict()) == [f"w_{n}.weight" for n in "qkv"]
    assert list(SelfAttention(4, bias=True).state_dict()) == names[:6]
    for widths, shapes in (
        ((6,), [(6, 6)] * 3), ((6, 3), [(3, 6)] * 3), ((6, 3, 2), [(3, 6), (3, 6), (2, 6)])
    ):  # fmt: skip
        assert [tuple(p.shape) for p in SelfAttention(*widths).parameters()] == shapes


def test_options_reach_attend():
    layer, x = SelfAttention(4), torch.randn(3, 4)
    assert layer.look(x, scale=0.0).dense().tolist() == [[pytest.approx(1 / 3)] * 3] * 3
    a = layer.look(x, summaries=(regard.Entropy(),), sink=torch.tensor([50.0]))
    assert a.sink_mass().min() > 0.99


@pytest.mark.parametrize(
    "layer",
    [
        SelfAttention(4, 2, 3, bias=True),
        MultiHeadAttention(4, 2, rotary=Rotary(2)),
        MultiHeadAttention(4, 2, rotary=Rotary(2), kv_heads=1),
        MultiHeadAttention(4, 2, rotary=Rotary(2), qk_norm=True, value_dim=3),
    ],
    ids=["self", "heads", "groups", "norms"],
)
def test_gradients_are_the_derivatives(layer):
    x = doubles(3, 4).requires_grad_()
    names = [name for name, _ in layer.double().named_parameters()]

    def run(x, *weights):
        named = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(layer, named, (x,), {"mask": CAUSAL})

    assert torch.autograd.gradcheck(run, (x, *layer.parameters()))


# ── errors: what was given, what would work ──────────────────────────────────────────────────

X, EYE = torch.zeros(3, 8), torch.eye(4)


def heads(*given: Any, **options: Any) -> Tensor:
    return MultiHeadAttention(8, 2, **options)(*given)


def single(*given: Any, **options: Any) -> Tensor:
    return SelfAttention(4)(*given, **options)


@pytest.mark.parametrize(
    ("attempt", "error", "words"),
    [
        (lambda: MultiHeadAttention(8, 3), InputError, "embed_dim=8.*num_heads=3.*head_dim"),
        (lambda: MultiHeadAttention(8, 4, kv_heads=3), InputError, "kv_heads=3.*multiple"),
        (lambda: MultiHeadAttention(8, 0), InputError, "num_heads=0.*at least one"),
        (lambda: MultiHeadAttention(8, 2, kv_heads=0), InputError, "kv_heads=0.*at least one"),
        (lambda: MultiHeadAttention(8, 2, rotary=Rotary(8)), InputError,
         r"turns 8 dimensions.*a head has 4.*Rotary\(4\)"),
        (lambda: heads(torch.zeros(3, 7)), ShapeError,
         r"x has shape \(3, 7\).*\(…, tokens, 8\)"),
        (lambda: heads(X, torch.zeros(3, 8), context_dim=5), ShapeError,
         r"context has shape \(3, 8\).*\(…, tokens, 5\)"),
        (lambda: heads(X, torch.zeros(2, 3, 8)), ShapeError,
         r"query \(2, 3, 4\), key \(2, 2, 3, 4\).*same number of axes"),
        (lambda: heads(X, (X, torch.zeros(4, 8))), ShapeError, "3 keys but 4 values"),
        (lambda: heads(X.long()), DTypeError, "x has dtype int64"),
        (lambda: heads(X.numpy()), DTypeError, "x is a ndarray"),
        (lambda: heads(X, X.double()), DTypeError,
         r"context has dtype float64.*context\.to\(torch\.float32\)"),
        (lambda: MultiHeadAttention(8, 2)(X, mask=torch.zeros(3, 3)), DTypeError,
         "boolean.*bias="),
        (lambda: single(torch.zeros(3, 5)), ShapeError, r"x has.*\(3, 5\).*tokens, 4\)"),
        (lambda: single(torch.zeros(4)), ShapeError, r"\(4,\).*\(…, tokens, 4\)"),
        (lambda: single([[1.0] * 4]), DTypeError, r"x is a list.*torch\.Tensor"),
        (lambda: single(X[:, :4].double()), DTypeError,
         r"dtype float64.*the layer float32.*x\.to\(torch\.float32\)"),
        (lambda: single(X[:, :4].long()), DTypeError, "dtype int64"),
        (lambda: single(X[:, :4], mask=torch.ones(2, 2).bool()), ShapeError,
         r"mask has shape \(2, 2\).*\(1, 3, 3\)"),
        (lambda: SelfAttention.from_weights(EYE, torch.eye(3), EYE), ShapeError,
         r"w_k \(3, 3\).*one embed_dim"),
        (lambda: SelfAttention.from_weights(EYE, EYE[:, :2], EYE), ShapeError,
         r"w_q \(4, 4\) and w_k \(4, 2\).*one width"),
        (lambda: SelfAttention.from_weights(torch.ones(4), EYE, EYE), ShapeError,
         r"w_q \(4,\).*\(embed_dim, width\)"),
        (lambda: SelfAttention(4).look(X[:, :4], dropout=2), InputError, "dropout=2"),
    ],
)  # fmt: skip
def test_errors_say_what_was_given_and_what_would_work(attempt, error, words):
    with pytest.raises(error, match=words):
        attempt()


def test_a_refused_call_leaves_the_cache_as_it_was():
    layer, cache = MultiHeadAttention(8, 2), KeyValueCache()
    layer(X, cache=cache)
    with pytest.raises(ShapeError):
        layer(X, cache=cache, mask=torch.ones(9, 9).bool())
    assert cache.length == 3
