"""Scaled frequencies are those of transformers, and each rule does what its name says."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from regard.errors import InputError, ShapeError
from regard.nn import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongScaling,
    Rotary,
    YarnScaling,
)
from regard.nn.families.rope import read_rope

DIM, LONGEST = 16, 512
KINDS = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 8.0, "original_max_position_embeddings": 64},
    "yarn mscale": {
        "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64,
        "mscale": 0.7, "mscale_all_dim": 1.3, "beta_fast": 16, "beta_slow": 2,
    },
    "yarn ragged": {
        "rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 100,
        "truncate": False, "attention_factor": 1.25,
    },
    "llama3": {
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 128,
    },
    "longrope": {
        "short_factor": [1.0 + n / 8 for n in range(DIM // 2)],
        "long_factor": [2.0 + n for n in range(DIM // 2)],
        "original_max_position_embeddings": 128,
    },
}  # fmt: skip


def config_of(kind: str, base: float) -> LlamaConfig:
    rope = {"rope_type": kind, "rope_theta": base, **KINDS[kind]}
    return LlamaConfig(
        hidden_size=2 * DIM, num_attention_heads=2, max_position_embeddings=LONGEST,
        rope_parameters=rope,
    )  # fmt: skip


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
@pytest.mark.parametrize("tokens", [1, 128, 129, LONGEST, 3 * LONGEST])
@pytest.mark.parametrize("kind", KINDS)
def test_frequencies_are_those_of_transformers(kind, tokens, base):
    config = config_of(kind, base)
    wanted, size = ROPE_INIT_FUNCTIONS[config.rope_parameters["rope_type"]](config, seq_len=tokens)
    found_base, scaling = read_rope(config.to_dict())
    assert found_base == base
    torch.testing.assert_close(
        scaling.frequencies(DIM, base, tokens), wanted.double(), rtol=5e-7, atol=0
    )
    assert scaling.magnitude == pytest.approx(size, rel=1e-12)


@pytest.mark.parametrize("tokens", [40, 129, LONGEST + 88])
@pytest.mark.parametrize("kind", KINDS)
def test_turns_are_those_of_transformers(kind, tokens):
    """Also of texts longer than the training's, where some rules change with the length."""
    config = config_of(kind, 10_000.0)
    base, scaling = read_rope(config.to_dict())
    x = torch.zeros(1, tokens, DIM)
    cos, sin = LlamaRotaryEmbedding(config)(x, torch.arange(tokens)[None])
    turn = Rotary(DIM, base, scaling=scaling).turn(x, 0, tokens)
    near = {"rtol": 0, "atol": tokens * 2.0**-23}  # an angle is as exact as fp32 has it
    torch.testing.assert_close(turn.cos, cos[0], **near)
    sin[..., : DIM // 2] *= -1  # ours has the sign of the turn
    torch.testing.assert_close(turn.sin, sin[0], **near)


def test_configurations_of_before_are_read_too():
    old = {"rope_theta": 1000.0, "rope_scaling": {"type": "linear", "factor": 2.0}}
    assert read_rope(old) == (1000.0, LinearScaling(2.0))
    assert read_rope({}) == (10000.0, None)


@settings(deadline=None)
@given(st.floats(1, 64), st.integers(1, 5000), st.integers(2, 40))
def test_nothing_turns_faster_than_before(factor, tokens, pairs):
    plain = Rotary(2 * pairs).frequencies(tokens)
    for scaling in (
        LinearScaling(factor),
        DynamicScaling(factor, 512),
        YarnScaling(factor, 512),
        Llama3Scaling(factor, 512),
    ):
        found = scaling.frequencies(2 * pairs, 10000.0, tokens)
        assert bool((found <= plain * (1 + 1e-12)).all()) and bool((found > 0).all())


def test_a_factor_of_one_changes_nothing():
    plain = Rotary(8).frequencies(10)
    ones = (1.0,) * 4
    for scaling in (
        LinearScaling(1.0), DynamicScaling(1.0, 10), YarnScaling(1.0, 64), Llama3Scaling(1.0, 64),
        LongScaling(ones, ones, 4),
    ):  # fmt: skip
        torch.testing.assert_close(scaling.frequencies(8, 10000.0, 10), plain)
        assert scaling.magnitude == 1.0


def test_half_precision_keeps_scaled_angles():
    rotary = Rotary(8, scaling=YarnScaling(4.0, 64))
    wanted = rotary(torch.ones(2, 8, dtype=torch.float64), 50_000)
    found = rotary(torch.ones(2, 8, dtype=torch.bfloat16), 50_000)
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=0.05)


def test_positions_may_be_given_for_each_sequence():
    rotary, x = Rotary(4), torch.randn(2, 3, 5, 4, dtype=torch.float64)
    positions = torch.stack([torch.arange(5), torch.arange(5) + 7])
    found = rotary.turn(x, 0, 5, positions).apply(x)
    torch.testing.assert_close(found[0], rotary(x[0]), rtol=0, atol=0)
    torch.testing.assert_close(found[1], rotary(x[1], 7), rtol=0, atol=0)


def test_it_is_said_how_a_rotary_is_scaled():
    assert repr(Rotary(4, scaling=LinearScaling(2.0))) == (
        "Rotary(4, base=10000.0, scaling=LinearScaling(factor=2.0))"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: LinearScaling(0.0),
        lambda: DynamicScaling(2.0, 0),
        lambda: YarnScaling(-1.0, 4),
        lambda: YarnScaling(2.0, 4, fast=0.0),
        lambda: Llama3Scaling(2.0, 4, fast=1.0, slow=1.0),
    ],
)
def test_impossible_numbers_are_refused(wrong):
    with pytest.raises(InputError, match="give"):
        wrong()


def test_factors_must_be_as_many_as_pairs():
    with pytest.raises(ShapeError, match=r"has 3 factors, 8 dimensions.*give 4"):
        LongScaling((1.0,) * 3, (1.0,) * 3, 4).frequencies(8, 1e4, 2)
    with pytest.raises(ShapeError, match="at least 4"):
        DynamicScaling(2.0, 4).frequencies(2, 1e4, 2)
