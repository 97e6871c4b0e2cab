"""Feed-forward layers are their formulas."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.errors import InputError, ShapeError
from regard.nn import MLP, SwiGLU


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu", "silu"])
def test_an_mlp_bends_between_two_projections(activation):
    layer, x = MLP(4, 6, activation=activation), torch.randn(2, 3, 4)
    bends = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu}
    bend = bends.get(activation, lambda t: F.gelu(t, approximate="tanh"))
    inner = bend(x @ layer.w_in.weight.T + layer.w_in.bias)
    torch.testing.assert_close(layer(x), inner @ layer.w_out.weight.T + layer.w_out.bias)


def test_swiglu_gates():
    layer, x = SwiGLU(4, 6), torch.randn(5, 4)
    assert layer.w_in.bias is None
    gate = F.silu(x @ layer.w_gate.weight.T)
    torch.testing.assert_close(layer(x), (gate * (x @ layer.w_in.weight.T)) @ layer.w_out.weight.T)


@pytest.mark.parametrize("kind", [MLP, SwiGLU])
def test_it_is_four_times_as_wide_inside_unless_told(kind):
    assert kind(5).w_in.out_features == 20
    assert kind(5, 7).w_in.out_features == 7
    assert all((p.ndim == 1) is False for p in kind(5, bias=False).parameters())


def test_mistakes():
    with pytest.raises(InputError, match="activation='tanh'; give one of 'gelu'"):
        MLP(4, activation="tanh")
    with pytest.raises(ShapeError, match=r"takes \(…, tokens, 4\)"):
        SwiGLU(4)(torch.zeros(2, 5))
