"""The notes' layer: its numbers, its shapes, its gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.errors import DTypeError, InputError, ShapeError
from regard.nn import SelfAttention

THE, CAT, SAT = [1.0, 0, 1, 0], [0.0, 1, 0, 1], [1.0, 1, 1, 1]


def by_hand(layer, x, mask=None):
    """softmax(q kᵀ / √d) v, written out."""
    q, k, v = layer.w_q(x), layer.w_k(x), layer.w_v(x)
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ v


def test_the_notes_numbers():
    layer = SelfAttention.from_weights(*[np.eye(4)] * 3)
    x = torch.tensor([THE, CAT, SAT], dtype=torch.float64)
    a = layer.look(x)
    assert a.scores[0].tolist() == [1, 0, 1]
    assert a[0].tolist() == pytest.approx([0.4223, 0.1554, 0.4223], abs=5e-5)
    assert layer(x)[0].tolist() == pytest.approx([0.8446, 0.5777, 0.8446, 0.5777], abs=5e-5)


def test_weights_as_the_notes_write_them_are_lists_of_whole_numbers():
    eye = [[int(r == c) for c in range(4)] for r in range(4)]
    layer = SelfAttention.from_weights(eye, eye, eye)
    assert layer.w_q.weight.dtype == torch.get_default_dtype()
    wanted = pytest.approx([0.8446, 0.5777, 0.8446, 0.5777], abs=5e-5)
    assert layer(torch.tensor([THE, CAT, SAT]))[0].tolist() == wanted


def test_from_weights_is_x_times_w():
    torch.manual_seed(0)
    w_q, w_k, w_v = torch.randn(5, 3), torch.randn(5, 3), torch.randn(5, 2)
    layer, x = SelfAttention.from_weights(w_q, w_k, w_v), torch.randn(4, 5)
    for linear, w in ((layer.w_q, w_q), (layer.w_k, w_k), (layer.w_v, w_v)):
        torch.testing.assert_close(linear(x), x @ w)
    assert all(p.requires_grad for p in layer.parameters())


def test_a_layer_owns_its_weights():
    w = torch.eye(4)
    layer = SelfAttention.from_weights(w, w, w)
    w.zero_()
    assert torch.equal(layer.w_q.weight, torch.eye(4))


@settings(deadline=None)
@given(st.data())
def test_any_shape_equals_the_formula(data):
    torch.manual_seed(data.draw(st.integers(0, 999)))
    batch = data.draw(st.lists(st.integers(1, 3), max_size=3))
    tokens, embed, head, value = (data.draw(st.integers(1, 6)) for _ in range(4))
    layer = SelfAttention(embed, head, value, bias=data.draw(st.booleans())).double()
    x = torch.randn(*batch, tokens, embed, dtype=torch.float64)
    causal = data.draw(st.booleans())
    y = layer(x, mask=regard.Causal() if causal else None)
    seen = torch.ones(tokens, tokens).tril().bool() if causal else None
    assert y.shape == (*batch, tokens, value)
    torch.testing.assert_close(y, by_hand(layer, x, seen))


def test_widths_default_to_one_another():
    shapes = [tuple(p.shape) for p in SelfAttention(6).parameters()]
    assert shapes == [(6, 6)] * 3
    shapes = [tuple(p.shape) for p in SelfAttention(6, 3).parameters()]
    assert shapes == [(3, 6)] * 3
    shapes = [tuple(p.shape) for p in SelfAttention(6, 3, 2).parameters()]
    assert shapes == [(3, 6), (3, 6), (2, 6)]


def test_projections_are_named_as_in_the_notes():
    assert list(SelfAttention(4).state_dict()) == ["w_q.weight", "w_k.weight", "w_v.weight"]
    with_bias = SelfAttention(4, bias=True).state_dict()
    assert [n for n in with_bias if n.endswith("bias")] == ["w_q.bias", "w_k.bias", "w_v.bias"]


def test_look_has_a_head_axis_only_beside_a_batch():
    layer = SelfAttention(4, 4, 2)
    assert layer.look(torch.randn(3, 4)).shape == (3, 3)
    assert layer.look(torch.randn(3, 4)).output.shape == (3, 2)
    batched = layer.look(torch.randn(5, 3, 4))
    assert batched.shape == (5, 1, 3, 3)
    assert batched.output.shape == (5, 1, 3, 2)


def test_one_entry_of_a_batch_is_the_layer_on_it_alone():
    torch.manual_seed(1)
    layer, x = SelfAttention(4).double(), torch.randn(3, 5, 4, dtype=torch.float64)
    for n in range(3):
        torch.testing.assert_close(layer(x)[n], layer(x[n]))
        torch.testing.assert_close(layer.look(x)[n, 0], layer.look(x[n]).dense())


def test_a_token_sees_nothing_later_under_a_causal_mask():
    torch.manual_seed(2)
    layer, x = SelfAttention(4), torch.randn(6, 4)
    changed = x.clone()
    changed[4:] += 1
    before, after = (layer(t, mask=regard.Causal()) for t in (x, changed))
    assert torch.equal(before[:4], after[:4])
    assert not torch.allclose(before[4:], after[4:])


def test_options_reach_attend():
    torch.manual_seed(3)
    layer, x = SelfAttention(4), torch.randn(3, 4)
    assert layer.look(x, scale=0.0).dense().tolist() == [[pytest.approx(1 / 3)] * 3] * 3
    a = layer.look(x, summaries=(regard.Entropy(),), sink=torch.tensor([50.0]))
    assert a.sink_mass().min() > 0.99


def test_boolean_masks_per_entry():
    torch.manual_seed(4)
    layer, x = SelfAttention(4).double(), torch.randn(2, 3, 4, dtype=torch.float64)
    seen = torch.tensor([[1, 0, 0], [1, 1, 0]]).bool()
    y = layer(x, mask=regard.Padding(seen))
    torch.testing.assert_close(y[0], layer.w_v(x)[0, :1].expand(3, 4))
    torch.testing.assert_close(y[1], by_hand(layer, x[1], seen[1]))


@pytest.mark.parametrize("mask", [None, regard.Causal()])
def test_gradients_are_the_derivatives(mask):
    torch.manual_seed(5)
    layer = SelfAttention(3, 2, 4, bias=True).double()
    x = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in layer.named_parameters()]

    def run(x, *weights):
        given = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(layer, given, (x,), {"mask": mask})

    assert torch.autograd.gradcheck(run, (x, *layer.parameters()))


def test_a_layer_learns_what_another_knows():
    torch.manual_seed(6)
    teacher, student, x = SelfAttention(4), SelfAttention(4), torch.randn(8, 5, 4)
    wanted = teacher(x).detach()
    optimizer = torch.optim.Adam(student.parameters(), lr=0.02)
    losses = []
    for _ in range(200):
        loss = (student(x) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 100


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda: SelfAttention(4)(torch.zeros(3, 5)), ShapeError, ["x", "(3, 5)", "tokens, 4)"]),
        (lambda: SelfAttention(4)(torch.zeros(4)), ShapeError, ["(4,)", "(…, tokens, 4)"]),
        (lambda: SelfAttention(4)([[1.0] * 4]), DTypeError, ["x is a list", "torch.Tensor"]),
        (
            lambda: SelfAttention(4)(torch.zeros(3, 4).double()),
            DTypeError,
            ["dtype float64", "the layer float32", "x.to(torch.float32)"],
        ),
        (lambda: SelfAttention(4)(torch.zeros(3, 4).long()), DTypeError, ["dtype int64"]),
        (
            lambda: SelfAttention(4)(torch.zeros(3, 4), mask=torch.zeros(3, 3)),
            DTypeError,
            ["mask has dtype torch.float32", "boolean", "bias="],
        ),
        (
            lambda: SelfAttention(4)(torch.zeros(3, 4), mask=torch.ones(2, 2).bool()),
            ShapeError,
            ["mask has shape (2, 2)", "(1, 3, 3)"],
        ),
        (
            lambda: SelfAttention.from_weights(torch.eye(4), torch.eye(3), torch.eye(4)),
            ShapeError,
            ["w_k (3, 3)", "one embed_dim"],
        ),
        (
            lambda: SelfAttention.from_weights(torch.eye(4), torch.eye(4)[:, :2], torch.eye(4)),
            ShapeError,
            ["w_q (4, 4) and w_k (4, 2)", "one width"],
        ),
        (
            lambda: SelfAttention.from_weights(torch.ones(4), torch.eye(4), torch.eye(4)),
            ShapeError,
            ["w_q (4,)", "(embed_dim, width)"],
        ),
        (lambda: SelfAttention(4).look(torch.zeros(3, 4), dropout=2), InputError, ["dropout=2"]),
    ],
)
def test_errors_say_what_was_given_and_what_would_work(ask, error, words):
    with pytest.raises(error) as refused:
        ask()
    for word in words:
        assert word in str(refused.value)


def test_autocast_may_mix_precisions():
    layer, x = SelfAttention(4), torch.randn(3, 4, dtype=torch.float64)
    with torch.autocast("cpu", torch.float16):
        assert layer(x.float()).dtype == torch.float16
