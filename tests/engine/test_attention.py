"""Rows that statistics do not count."""

from __future__ import annotations

import copy

import pytest
import torch

import regard
from regard.engine import api
from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.engine.observers import Request, listening

QKV = [torch.randn(2, 4, 6, 8, generator=torch.Generator().manual_seed(n)) for n in range(3)]
COUNTED = torch.tensor([[True] * 6, [False, True, True, False, True, True]])


@pytest.mark.parametrize("mask", [None, regard.Causal(), regard.Padding([5, 6]), "rule"], ids=str)
def test_rows_that_do_not_count_are_computed_and_not_measured(mask: regard.Mask | str) -> None:
    hidden = regard.Rule(lambda i, j: (i + j) % 3 > 0) if isinstance(mask, str) else mask
    plain = regard.attend(*QKV, mask=hidden)
    found = api.attend_counting(*QKV, counted=COUNTED, mask=hidden)
    assert torch.equal(found.output, plain.output) and torch.equal(found.lse, plain.lse)
    assert torch.equal(found.dense(), plain.dense())
    weights = plain.dense() * COUNTED[:, None, :, None]
    torch.testing.assert_close(found.received(), weights.sum(-2))
    torch.testing.assert_close(found.pooled(1), weights)
    uncounted = ~COUNTED[:, None].expand(2, 4, 6)
    for measured in (found.entropy(), found.concentration(), found.top(2).weights.sum(-1)):
        assert not measured[uncounted].any()
    assert torch.equal(found.entropy()[~uncounted], plain.entropy()[~uncounted])
    for twin in (found.clone(), found.detach(), copy.deepcopy(found)):
        assert torch.equal(twin.received(), found.received())


def test_listeners_are_given_the_rows_that_count() -> None:
    heard: list[Attention] = []

    class Listener:
        def wants(self, call: Call) -> Request[None]:
            return Request((regard.Entropy(), regard.Received()))

        def heard(self, attention: Attention, request: Request[None]) -> None:
            heard.append(attention)

    q = QKV[0].clone().requires_grad_()
    with listening(Listener()):
        found = api.attend_counting(q, *QKV[1:], counted=COUNTED, mask=regard.Causal())
    (told,) = heard
    assert torch.equal(told.output, found.output)
    assert (told.lse[1, :, 0] == -torch.inf).all() and found.lse.isfinite().all()
    torch.testing.assert_close(told.received(), found.received())
    found.entropy().sum().backward()
    assert q.grad is not None
    assert not q.grad[1, :, 3].any() and q.grad[1, :, 2].any()
