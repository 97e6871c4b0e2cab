"""Listeners hear of every attention and change none of it; editors change masks before and outputs
after. Rows that do not count, and calls about which nothing but the output is asked, too."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from engine.conftest import qkv
from recorder.models import tiny, tokens
from regard.engine import api, plan
from regard.engine.backends import library
from regard.engine.call import Call
from regard.engine.observers import Request, editing, editors, listeners, listening, unheard
from regard.errors import ShapeError, StaleError, UnavailableError
from regard.huggingface import switch
from regard.mask import Mask, Table

CAUSAL = regard.Causal()


class Ear:
    """Keeps what it hears."""

    def __init__(self, *asked: regard.summary.Summary) -> None:
        self.asked, self.heard_of = asked, []

    def wants(self, call: Call) -> Request[None]:
        return Request(self.asked)

    def heard(self, attention: regard.Attention, request: Request[None]) -> None:
        with torch.no_grad():
            self.heard_of.append((attention.shape, attention.output, attention.entropy()))


class Hand:
    """Puts its mask on top of the call's, and its factor onto the output."""

    def __init__(self, mask: Mask | None = None, factor: float = 1.0) -> None:
        self._mask, self._factor = mask, factor
        self.masks: list[Mask | None] = []

    def mask(self, call: Call) -> Mask | None:
        self.masks.append(call.mask)
        if self._mask is None:
            return call.mask
        return self._mask if call.mask is None else call.mask & self._mask

    def output(self, call: Call, output: Tensor) -> Tensor:
        return output * self._factor


# ── listening ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("queries", [1, 16, 17, 100])
@pytest.mark.parametrize("grad", [False, True])
def test_what_is_heard_is_what_would_have_been(queries: int, grad: bool) -> None:
    """The same bits, backend and gradients; calls that are settled are heard of as well."""
    given = qkv(queries, 100, grad=grad)
    for _ in range(2):
        ear = Ear(regard.Entropy(), regard.Top(2))
        with listening(ear):
            heard = regard.attend(*given)
        plain = regard.attend(*given)
        assert torch.equal(heard.output, plain.output)
        assert heard.implementation == plain.implementation
        ((shape, output, entropy),) = ear.heard_of
        assert shape == (2, 4, queries, 100) and torch.equal(output, plain.output)
        torch.testing.assert_close(entropy, plain.entropy(), atol=1e-5, rtol=1e-5)
        if grad:
            grads = [torch.autograd.grad(a.output.sum(), given) for a in (heard, plain)]
            assert all(torch.equal(x, y) for x, y in zip(*grads, strict=True))


def test_several_listen_and_some_do_not() -> None:
    one, two = Ear(), Ear()
    with listening(one):
        with listening(two):
            regard.attend(*qkv())
        with unheard():
            regard.attend(*qkv())
        regard.attend(*qkv())
    regard.attend(*qkv())
    assert (len(one.heard_of), len(two.heard_of)) == (2, 1)
    assert listeners() == ()


COUNTED = torch.tensor([[True] * 6, [False, True, True, False, True, True]])


def test_listeners_are_given_the_rows_that_count() -> None:
    """All others are computed as ever."""
    q, k, v = qkv(grad=True)
    ear = Ear(regard.Entropy(), regard.Received())
    with listening(ear):
        a = api.attend_counting(q, k, v, counted=COUNTED, mask=CAUSAL)
    plain = regard.attend(q, k, v, mask=CAUSAL)
    assert torch.equal(a.output, plain.output) and torch.equal(a.dense(), plain.dense())
    ((_, output, entropy),) = ear.heard_of
    assert torch.equal(output, a.output) and torch.equal(entropy, a.entropy())
    a.entropy().sum().backward()
    assert q.grad is not None
    assert not q.grad[1, :, 3].any() and q.grad[1, :, 2].any()


# ── editing ──────────────────────────────────────────────────────────────────────────────────


def test_an_edited_mask_is_the_mask_and_is_not_kept() -> None:
    asked = regard.attend(*qkv(40), mask=CAUSAL & regard.Window(5))
    plain = regard.attend(*qkv(40), mask=CAUSAL)
    with editing(Hand(regard.Window(5))):
        edited = regard.attend(*qkv(40), mask=CAUSAL)
    assert torch.equal(edited.output, asked.output) and torch.equal(edited.dense(), asked.dense())
    assert edited.implementation == asked.implementation
    assert torch.equal(regard.attend(*qkv(40), mask=CAUSAL).output, plain.output)


def test_the_implementation_is_chosen_for_the_edited_mask() -> None:
    assert regard.attend(*qkv()).implementation == "library"
    with editing(Hand(regard.Window(1))):
        assert regard.attend(*qkv()).implementation != "library"
        with pytest.raises(UnavailableError, match="of masks it knows only causal"):
            regard.attend(*qkv(), implementation="library")


def test_several_edit_in_turn_and_listeners_hear_of_the_last() -> None:
    one, two, ear = Hand(regard.Window(5), 2.0), Hand(regard.Window(3), 3.0), Ear()
    given = qkv(40, grad=True)
    with listening(ear), editing(one), editing(two):
        a = regard.attend(*given)
    assert editors() == ()
    right = regard.attend(*given, mask=regard.Window(3))
    outputs = a.output, 6 * right.output
    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(*(torch.autograd.grad(x.sum(), given) for x in outputs))
    assert torch.equal(ear.heard_of[0][1], a.output)
    torch.testing.assert_close(a.lse, right.lse)
    assert one.masks == [None] and two.masks == [regard.Window(5)]


def test_a_mask_that_does_not_fit_is_refused() -> None:
    wrong = Hand(Table(torch.ones(5, 6, dtype=torch.bool)))
    with editing(wrong), pytest.raises(ShapeError, match="does not broadcast"):
        regard.attend(*qkv())
    assert editors() == ()


def test_replay_parts_and_other_threads_are_not_edited() -> None:
    hand, given, outputs = Hand(regard.Window(5), 2.0), qkv(), []
    whole = regard.attend(*given).output
    with editing(hand):
        regard.replay(*given[:2]).entropy()
        regard.attend_partial(*given)
        thread = threading.Thread(target=lambda: outputs.append(regard.attend(*given).output))
        thread.start()
        thread.join()
    assert hand.masks == [] and torch.equal(outputs[0], whole)


def test_compiled_code_neither_keeps_nor_skips_an_edit() -> None:
    def run(x: Tensor) -> Tensor:
        return regard.attend(x, x, x, mask=CAUSAL).output

    torch._dynamo.reset()
    q, compiled = qkv()[0], torch.compile(run, backend="eager")
    whole = compiled(q)
    with editing(Hand(factor=2.0)):
        try:  # refused, or, by torch 2.15, computed with the edit
            torch.testing.assert_close(compiled(q), run(q))
        except UnavailableError as error:
            assert "torch.compile" in str(error)
    assert torch.equal(compiled(q), whole)


# ── the output alone ─────────────────────────────────────────────────────────────────────────


@pytest.fixture
def like_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Torch's own function in place of its operator, with its own backward; counts its calls."""
    calls: list[int] = []

    def alone(self: library.Library, call: Call) -> Callable[..., Tensor]:
        run = library.by_torch(call)
        return lambda q, k, v: calls.append(q.shape[-2]) or run(q, k, v)

    monkeypatch.setattr(library.Library, "alone", alone)
    plan.KEPT.clear()
    yield calls
    plan.KEPT.clear()


@pytest.mark.parametrize(
    "options",
    [{}, {"scale": 0.3}, {"mask": CAUSAL}, {"mask": regard.Window(2)}, {"softcap": 2.0},
     {"bias": torch.ones(6, 6)}, {"sink": torch.zeros(4)}],
    ids=str,
)  # fmt: skip
def test_the_output_alone_has_the_bits_of_attend(options: dict[str, Any]) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        given = qkv(dtype=dtype)
        right = regard.attend(*given, **options).output
        for _ in range(3):  # first settled, then remembered
            assert torch.equal(api.output_alone(*given, **options), right)
        ear = Ear()
        with listening(ear), editing(Hand(factor=2.0)):
            edited = api.output_alone(*given, **options)
        assert torch.equal(edited, right * 2) and torch.equal(ear.heard_of[0][1], edited)
        assert api.output_alone(given[0] * torch.nan, *given[1:], **options).isnan().all()


def bare(*given: Tensor) -> regard.Attention:
    return api.attended(*given, None, None, None, None, None, 0.0, bare=True)


def test_the_lse_comes_when_it_is_asked_for(like_a_gpu: list[int]) -> None:
    given = qkv(3, 9, grad=True)
    right = regard.attend(*given, implementation="dense")
    a, released, changed = (bare(*given) for _ in range(3))
    assert like_a_gpu == [3] * 3
    torch.testing.assert_close(a.output, right.output)
    with torch.no_grad():
        a.lse  # noqa: B018  # asked where nothing is recorded, it keeps its graph
    torch.testing.assert_close((a.lse, a.entropy()), (right.lse, right.entropy()))
    grads = [
        torch.autograd.grad(one.lse.sin().sum() + one.output.sum(), given) for one in (a, right)
    ]
    torch.testing.assert_close(*grads)
    released.release()
    torch.testing.assert_close(released.lse, right.lse)
    with torch.no_grad():
        given[1].add_(1)
    with pytest.raises(StaleError):
        changed.lse  # noqa: B018


def test_a_layer_heard_through_torchs_function_is_heard_once(like_a_gpu: list[int]) -> None:
    """The recorder hears of it by `attend`; its own call of torch's function is not another."""
    model, ids = tiny("llama", attn_implementation="sdpa"), tokens(6, 1)
    with torch.no_grad():
        plain = model(ids).logits
        with regard.record(model) as rec:
            logits = model(ids).logits
        with switch.using(model):
            unheard_of = model(ids).logits
    assert torch.equal(logits, plain) and torch.equal(unheard_of, plain)
    assert rec.recording.stacks == {"": (model.config.num_hidden_layers, 4)}
    assert len(like_a_gpu) == 2 * model.config.num_hidden_layers
