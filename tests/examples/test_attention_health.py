"""What is measured equals what its definition gives, row by row."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import regard
from examples.scripts import load

health, loop = load("attention_health"), load("training_loop")

PADDED = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=torch.bool)


class Reader(nn.Module):
    """One layer with a read-out, over sequences of which one is padded."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = regard.nn.MultiHeadAttention(6, 2, bias=False)
        self.x = nn.Parameter(torch.randn(2, 5, 6), requires_grad=False)

    def forward(self, dice: torch.Generator) -> torch.Tensor:
        """A loss for every real token."""
        aim = torch.randn(6, generator=dice)
        seen = self.attention(self.x, mask=regard.Causal() & regard.Padding(PADDED))
        return (seen @ aim).square()[PADDED]


@pytest.fixture
def reader():
    """With large scores, so that rows differ."""
    torch.manual_seed(0)
    model = Reader()
    with torch.no_grad():
        model.attention.w_q.weight *= 4
    return model


def by_hand(model: Reader, factor: float):
    """Weights and gradients of the rows that count, by plain torch."""
    layer = model.attention
    heads = [w(model.x).unflatten(-1, (2, 3)).transpose(1, 2) for w in (layer.w_q, layer.w_k)]
    query, key = (one.detach().requires_grad_() for one in heads)
    value = layer.w_v(model.x).unflatten(-1, (2, 3)).transpose(1, 2).detach()
    scores = factor * query @ key.transpose(-1, -2)
    seen = torch.ones(5, 5).tril().bool() & PADDED[:, None, None, :]
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    output = weights @ value
    output.retain_grad()
    aim = torch.randn(6, generator=torch.Generator().manual_seed(health.PROBE_SEED))
    mixed = output.transpose(1, 2).flatten(-2) @ layer.w_o.weight.detach().T
    (mixed @ aim).square()[PADDED].sum().backward()
    counts = PADDED[:, None].expand(2, 2, 5).clone()
    counts[..., 0] = False  # one key to see
    return [t[counts] for t in (weights, query.grad.norm(dim=-1), output.grad.norm(dim=-1))]


@pytest.mark.parametrize("scaled", [True, False])
def test_the_numbers_are_those_of_the_definition(reader, scaled):
    weights, gradient, reached = by_hand(reader, 3**-0.5 if scaled else 1.0)
    if not scaled:
        loop.remove_scale(reader)
    reading = health.measure(reader, reader, 7)
    visible = (weights > 0).sum(-1)
    entropy = torch.special.entr(weights).sum(-1) / visible.log()
    assert reading.step == 7
    assert reading.entropy == pytest.approx(entropy.mean().item(), rel=1e-4)
    assert reading.concentration == pytest.approx(weights.square().sum(-1).mean().item(), rel=1e-4)
    assert reading.saturated == pytest.approx((weights.amax(-1) > 0.99).float().mean().item())
    assert reading.gradient_median == pytest.approx(gradient.median().item(), rel=1e-3)
    assert reading.gradient_p99 == pytest.approx(gradient.quantile(0.99).item(), rel=1e-3)
    assert reading.passed_median == pytest.approx((gradient / reached).median().item(), rel=1e-3)
    assert reading.dead == pytest.approx((gradient / reached < health.DEAD).float().mean().item())
