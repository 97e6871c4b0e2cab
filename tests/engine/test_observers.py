"""Listeners hear of every attention and change none of it."""

from __future__ import annotations

import pytest
import torch

import regard
from regard.engine.call import Call
from regard.engine.observers import Request, listeners, listening, unheard
from regard.summary import Entropy


class Ear:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []
        self.entropies: list[torch.Tensor] = []

    def wants(self, call: Call) -> Request[None]:
        """Entropy."""
        return Request((Entropy(),))

    def heard(self, attention: regard.Attention, request: Request[None]) -> None:
        """Its shape and entropy."""
        self.shapes.append(attention.shape)
        with torch.no_grad():
            self.entropies.append(attention.entropy())


@pytest.mark.parametrize("queries", [1, 16, 17, 100])
def test_the_output_has_the_same_bits(queries: int) -> None:
    q, k = torch.randn(2, 4, queries, 16), torch.randn(2, 4, 100, 16)
    plain = regard.attend(q, k, k)
    ear = Ear()
    with listening(ear):
        heard = regard.attend(q, k, k)
    assert torch.equal(heard.output, plain.output)
    assert heard.implementation == plain.implementation
    assert ear.shapes == [(2, 4, queries, 100)]
    torch.testing.assert_close(ear.entropies[0], plain.entropy(), atol=1e-5, rtol=1e-5)


def test_the_graph_is_the_same() -> None:
    q = torch.randn(1, 2, 40, 8, requires_grad=True)
    with listening(Ear()):
        regard.attend(q, q, q).output.sum().backward()
    heard, q.grad = q.grad, None
    regard.attend(q, q, q).output.sum().backward()
    assert torch.equal(heard, q.grad)


def test_several_listen_and_some_do_not() -> None:
    q = torch.randn(1, 20, 8)
    one, two = Ear(), Ear()
    with listening(one):
        with listening(two):
            regard.attend(q, q, q)
        with unheard():
            regard.attend(q, q, q)
        regard.attend(q, q, q)
    regard.attend(q, q, q)
    assert (len(one.shapes), len(two.shapes)) == (2, 1)
    assert listeners() == ()
