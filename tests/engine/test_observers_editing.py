"""Editors change masks before and outputs after; nobody else notices the seam."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor

import regard
from regard.engine.call import Call
from regard.engine.observers import Request, editing, editors, listening
from regard.errors import ShapeError, UnavailableError
from regard.mask import Mask, Table


class Hand:
    """Puts its mask on top of the call's, and its factor onto the output."""

    def __init__(self, mask: Mask | None = None, factor: float = 1.0) -> None:
        self._mask, self._factor = mask, factor
        self.calls: list[Call] = []

    def mask(self, call: Call) -> Mask | None:
        """Both masks."""
        self.calls.append(call)
        if self._mask is None:
            return call.mask
        return self._mask if call.mask is None else call.mask & self._mask

    def output(self, call: Call, output: Tensor) -> Tensor:
        """Times the factor."""
        return output * self._factor


class Ear:
    """Keeps the outputs it hears."""

    def __init__(self) -> None:
        self.outputs: list[Tensor] = []

    def wants(self, call: Call) -> Request[None]:
        """Nothing."""
        return Request()

    def heard(self, attention: regard.Attention, request: Request[None]) -> None:
        """The output."""
        self.outputs.append(attention.output)


@pytest.fixture
def q() -> Tensor:
    """Four heads."""
    return torch.randn(2, 4, 40, 8, generator=torch.Generator().manual_seed(0))


def test_an_edited_mask_is_the_mask(q: Tensor) -> None:
    asked = regard.attend(q, q, q, mask=regard.Causal() & regard.Window(5))
    with editing(Hand(regard.Window(5))):
        edited = regard.attend(q, q, q, mask=regard.Causal())
    assert torch.equal(edited.output, asked.output)
    assert torch.equal(edited.dense(), asked.dense())
    assert edited.implementation == asked.implementation


def test_the_implementation_is_chosen_for_the_edited_mask() -> None:
    q = torch.randn(1, 2, 4, 8)
    assert regard.attend(q, q, q).implementation == "library"
    with editing(Hand(regard.Window(1))):
        assert regard.attend(q, q, q).implementation != "library"
        with pytest.raises(UnavailableError, match="of masks it knows only causal"):
            regard.attend(q, q, q, implementation="library")


def test_listeners_hear_of_the_edited_output(q: Tensor) -> None:
    whole, ear = regard.attend(q, q, q), Ear()
    with listening(ear), editing(Hand(factor=2.0)):
        found = regard.attend(q, q, q)
    assert torch.equal(found.output, 2 * whole.output)
    assert torch.equal(ear.outputs[0], found.output)
    assert torch.equal(found.lse, whole.lse)


def test_several_edit_in_turn(q: Tensor) -> None:
    one, two = Hand(regard.Window(5), 2.0), Hand(regard.Window(3), 3.0)
    with editing(one), editing(two):
        found = regard.attend(q, q, q)
    assert len(editors()) == 0
    expected = regard.attend(q, q, q, mask=regard.Window(3))
    torch.testing.assert_close(found.output, 6 * expected.output)
    assert two.calls[0].mask is not None  # it sees what the first one left


def test_a_mask_that_does_not_fit_is_refused(q: Tensor) -> None:
    wrong = Table(torch.ones(39, 40, dtype=torch.bool))
    with editing(Hand(wrong)), pytest.raises(ShapeError, match="does not broadcast"):
        regard.attend(q, q, q)
    assert editors() == ()


def test_gradients_pass_through_the_edit(q: Tensor) -> None:
    x = q.clone().requires_grad_()
    with editing(Hand(factor=2.0)):
        regard.attend(x, x, x).output.sum().backward()
    doubled, x.grad = x.grad, None
    (2 * regard.attend(x, x, x).output).sum().backward()
    torch.testing.assert_close(doubled, x.grad)


def test_replay_and_parts_are_not_edited(q: Tensor) -> None:
    hand = Hand(regard.Window(5), 2.0)
    with editing(hand):
        regard.replay(q, q).entropy()
        regard.attend_partial(q, q, q)
    assert hand.calls == []


def test_other_threads_are_left_alone(q: Tensor) -> None:
    whole, found = regard.attend(q, q, q).output, []
    with editing(Hand(factor=2.0)):
        thread = threading.Thread(target=lambda: found.append(regard.attend(q, q, q).output))
        thread.start()
        thread.join()
    assert torch.equal(found[0], whole)


def test_compiled_code_neither_keeps_nor_skips_an_edit(q: Tensor) -> None:
    def run(x: Tensor) -> Tensor:
        return regard.attend(x, x, x, mask=regard.Causal()).output

    torch._dynamo.reset()
    compiled = torch.compile(run, backend="eager")
    whole = compiled(q)
    with editing(Hand(factor=2.0)):
        try:  # refused, or, by torch 2.15, computed with the edit
            torch.testing.assert_close(compiled(q), run(q))
        except UnavailableError as error:
            assert "torch.compile" in str(error)
    assert torch.equal(compiled(q), whole)
