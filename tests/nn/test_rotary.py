"""Rotary positions: only the distance counts."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError, ShapeError
from regard.nn import Rotary

PAIRS = st.integers(1, 6)


def vectors(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@settings(deadline=None)
@given(PAIRS, st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 10_000))
def test_a_product_depends_on_the_distance_alone(pairs, at, other, shift):
    torch.manual_seed(pairs)
    rotary, q, k = Rotary(2 * pairs), vectors(1, 2 * pairs), vectors(1, 2 * pairs)
    here = (rotary(q, at) * rotary(k, other)).sum()
    there = (rotary(q, at + shift) * rotary(k, other + shift)).sum()
    torch.testing.assert_close(here, there, rtol=1e-9, atol=1e-9)


@settings(deadline=None)
@given(PAIRS, st.integers(0, 3), st.integers(1, 6), st.integers(0, 10_000))
def test_lengths_are_kept_and_position_0_is_left_alone(pairs, axes, tokens, start):
    torch.manual_seed(tokens)
    rotary, x = Rotary(2 * pairs), vectors(*(2,) * axes, tokens, 2 * pairs)
    torch.testing.assert_close(rotary(x, start).norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(rotary(x)[..., 0, :], x[..., 0, :])


def test_by_hand():
    """Pairs (0, 2) and (1, 3) turn by 1 and by 1/100 radian per position."""
    x = torch.tensor([[1.0, 1, 0, 0]] * 3, dtype=torch.float64)
    turned = Rotary(4)(x)
    for p in range(3):
        wanted = [math.cos(p), math.cos(p / 100), math.sin(p), math.sin(p / 100)]
        assert turned[p].tolist() == pytest.approx(wanted)


@given(st.integers(1, 8), st.integers(0, 8))
def test_a_start_continues_the_sequence(cut, start):
    torch.manual_seed(0)
    rotary, x = Rotary(6), vectors(2, 9, 6)
    whole = rotary(x, start)
    parts = torch.cat([rotary(x[:, :cut], start), rotary(x[:, cut:], start + cut)], dim=1)
    torch.testing.assert_close(parts, whole, rtol=0, atol=0)


def test_it_turns_as_llama_does():
    """x·cos + rotate_half(x)·sin with the angles twice, as the Llama family writes it."""
    x = vectors(2, 5, 8)
    frequencies = 500.0 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    angles = torch.outer(torch.arange(5, dtype=torch.float64), frequencies).repeat(1, 2)
    half = torch.cat([-x[..., 4:], x[..., :4]], dim=-1)
    torch.testing.assert_close(Rotary(8, base=500.0)(x), x * angles.cos() + half * angles.sin())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_models_keep_exact_angles(dtype):
    """Positions as far as 100,000 stay apart after `model.half()`."""
    rotary = torch.nn.Sequential(Rotary(8)).to(dtype)[0]
    x = torch.ones(2, 8, dtype=dtype)
    wanted = Rotary(8)(x.double(), 100_000)
    found = rotary(x, 100_000)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=0.03)


def test_nothing_is_learnt_or_saved():
    assert list(Rotary(4).parameters()) == []
    assert Rotary(4).state_dict() == {}
    assert repr(Rotary(4)) == "Rotary(4, base=10000.0)"


@pytest.mark.parametrize("dim", [-2, 0, 1, 7])
def test_pairs_need_an_even_number(dim):
    with pytest.raises(InputError, match=rf"dim={dim}.*even"):
        Rotary(dim)


@pytest.mark.parametrize("shape", [(3, 6), (4,)])
def test_other_widths_are_refused(shape):
    with pytest.raises(ShapeError) as refused:
        Rotary(4)(torch.zeros(shape))
    assert str(shape) in str(refused.value)
    assert "(…, tokens, 4)" in str(refused.value)
