"""Positions of every kind: added, turned, or put on the scores."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from nn.small import encoder, ids, language_model
from regard.errors import ShapeError
from regard.nn import LearnedPositions, SinusoidalPositions, alibi_slopes
from regard.nn.positions import sinusoidal


@given(st.integers(0, 3))
def test_slopes_of_powers_of_two_are_a_geometric_row(power):
    heads = 2**power
    found = alibi_slopes(heads)
    assert found == pytest.approx([2 ** (-8 * (n + 1) / heads) for n in range(heads)])


@pytest.mark.parametrize("heads", [1, 3, 6, 7, 12, 20])
def test_slopes_are_those_of_transformers(heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, 2), heads, torch.float64)[:, 0, 1]
    assert alibi_slopes(heads) == pytest.approx(theirs.tolist(), rel=1e-6)


def test_a_model_with_alibi_attends_under_its_bias():
    model = language_model(positions="alibi", layers=1)
    heard = []
    with regard.record(model) as rec:
        heard.append(model(ids(1, 6)))
    found = rec["L0H2"]
    attention = model.decoder.blocks[0].attention
    x = model.decoder.blocks[0].norm_attention(model.decoder.embed(ids(1, 6)))
    bias = regard.ALiBi(torch.tensor(alibi_slopes(4), dtype=torch.float64))
    wanted = attention.look(x, mask=regard.Causal(), bias=bias)
    torch.testing.assert_close(
        torch.as_tensor(found.rows(range(6))).double(), wanted[0, 2].detach(), rtol=0, atol=1e-5
    )


def test_learned_rows_are_added():
    table = LearnedPositions(9, 4)
    x = torch.randn(2, 3, 4)
    assert torch.equal(table(x, 5), x + table.weight[5:8])
    positions = torch.tensor([[0, 1, 2], [0, 0, 1]])
    assert torch.equal(table(x, 0, positions), x + table.weight[positions])


def test_waves_are_added_to_a_larger_x():
    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(SinusoidalPositions()(x, 5), 2 * x + sinusoidal(3, 4, start=5))
    positions = torch.tensor([[0, 1, 2], [0, 0, 1]])
    wanted = 2 * x + sinusoidal(6, 4)[positions]
    torch.testing.assert_close(SinusoidalPositions()(x, 3, positions), wanted)


def test_a_table_ends():
    with pytest.raises(ShapeError, match=r"3 tokens from position 7.*at most 9"):
        LearnedPositions(9, 4)(torch.zeros(3, 4), 7)


@pytest.mark.parametrize("kind", ["rotary", "learned", "sinusoidal", "alibi"])
def test_order_matters_exactly_where_there_are_positions(kind):
    """Without positions, a set of tokens is all that an encoder sees."""
    text, shuffled = torch.tensor([[3, 4, 5, 6]]), torch.tensor([[4, 3, 5, 6]])
    placed, blind = encoder(positions=kind), encoder(positions="none")
    assert not torch.allclose(placed(text)[0, 2], placed(shuffled)[0, 2], atol=1e-4)
    torch.testing.assert_close(blind(text)[0, 2], blind(shuffled)[0, 2])


@pytest.mark.parametrize("kind", ["rotary", "learned", "sinusoidal", "alibi", "none"])
def test_no_kind_looks_ahead(kind):
    model = language_model(positions=kind)
    text = ids(2, 9)
    torch.testing.assert_close(model(text)[:, :5], model(text[:, :5]))
