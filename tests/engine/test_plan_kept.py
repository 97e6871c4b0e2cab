"""Calls alike are settled once; nothing that differs is taken for alike."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import regard
from regard.engine import api, plan
from regard.engine.observers import Request, editing, listening


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    plan.KEPT.clear()
    yield


def given(*shape: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    dice = torch.Generator().manual_seed(0)
    return [torch.randn(*(shape or (2, 3, 5, 8)), generator=dice).to(dtype) for _ in range(3)]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every choice that is made from now on."""
    made: list[Any] = []

    def count(problem: Any, name: str | None) -> Any:
        made.append(problem)
        return choose(problem, name)

    choose = api.choose
    monkeypatch.setattr(api, "choose", count)
    return made


def test_a_replay_is_settled_once_too(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(monkeypatch)
    for _ in range(3):
        q, k, v = (t * 2 for t in given())
        a = regard.attend(q, k, v, mask=regard.Causal())
        b = regard.replay(q, k, mask=regard.Causal())
        torch.testing.assert_close(b.received(), a.received())
        c = regard.replay(q, k, a.lse, mask=regard.Window(1))
        assert not torch.allclose(c.received(), a.received())
    assert len(made) == 3
    with pytest.raises(regard.errors.InputError, match="no output"):
        b.output  # noqa: B018


def test_a_choice_is_made_once_for_calls_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(monkeypatch)
    first = regard.attend(*given(), mask=regard.Causal(), summaries=(regard.Entropy(),))
    q, k, v = given()
    again = regard.attend(q + 1, k, v, mask=regard.Causal(), summaries=(regard.Entropy(),))
    assert len(made) == 1
    right = regard.attend(q + 1, k, v, mask=regard.Causal(), implementation="dense")
    torch.testing.assert_close(again.output, right.output)
    torch.testing.assert_close(again.entropy(), right.entropy())
    assert again.implementation == first.implementation


OTHERS: dict[str, Callable[[], Any]] = {
    "shape": lambda: regard.attend(*given(2, 3, 6, 8), mask=regard.Causal()),
    "dtype": lambda: regard.attend(*given(dtype=torch.float64), mask=regard.Causal()),
    "mask": lambda: regard.attend(*given()),
    "window": lambda: regard.attend(*given(), mask=regard.Window(2)),
    "align": lambda: regard.attend(*given(), mask=regard.Causal(align="start")),
    "scale": lambda: regard.attend(*given(), mask=regard.Causal(), scale=2.0),
    "softcap": lambda: regard.attend(*given(), mask=regard.Causal(), softcap=3.0),
    "summaries": lambda: regard.attend(
        *given(), mask=regard.Causal(), summaries=(regard.Entropy(),)
    ),
    "implementation": lambda: regard.attend(
        *given(), mask=regard.Causal(), implementation="dense"
    ),
    "bias": lambda: regard.attend(*given(), mask=regard.Causal(), bias=torch.ones(5, 5).triu()),
    "sink": lambda: regard.attend(*given(), mask=regard.Causal(), sink=torch.ones(3)),
    "table": lambda: regard.attend(*given(), mask=torch.ones(5, 5, dtype=torch.bool).tril()),
    "gradients": lambda: regard.attend(
        *(t.requires_grad_() for t in given()), mask=regard.Causal()
    ),
}  # fmt: skip


@pytest.mark.parametrize("other", OTHERS)
def test_what_differs_is_settled_by_itself(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    regard.attend(*given(), mask=regard.Causal())
    made = counted(monkeypatch)
    found = OTHERS[other]()
    assert len(made) == 1
    plan.KEPT.clear()
    assert torch.equal(found.output, OTHERS[other]().output)


def test_wrong_calls_are_refused_every_time() -> None:
    q, k, v = given()
    for _ in range(2):
        with pytest.raises(regard.errors.ShapeError):
            regard.attend(q, k[..., :4], v)
        with pytest.raises(regard.errors.DTypeError):
            regard.attend(q.double(), k, v)
        with pytest.raises(regard.errors.InputError):
            regard.attend(q, k, v, softcap=-1.0)


WRONG: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "no dropout": ({"dropout": None}, regard.errors.InputError),
    "an empty dropout": ({"dropout": []}, regard.errors.InputError),
    "dropout as a tensor": ({"dropout": torch.tensor(0.0)}, regard.errors.InputError),
    "scale as a list": ({"scale": [1.0]}, regard.errors.DTypeError),
    "scale as a tensor": ({"scale": torch.tensor(1.0)}, regard.errors.DTypeError),
    "scale of numpy": ({"scale": np.float32(1.0)}, regard.errors.DTypeError),
    "no number": ({"scale": float("nan")}, regard.errors.InputError),
    "softcap as a list": ({"softcap": [3.0]}, regard.errors.DTypeError),
    "several implementations": ({"implementation": ["cpu"]}, regard.errors.InputError),
    "no summary": ({"summaries": ([1],)}, regard.errors.InputError),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_not_taken_for_what_was_right(wrong: str) -> None:
    """Something equal to an argument that was accepted, or not to be compared with any."""
    options, error = WRONG[wrong]
    for accepted in ({}, {"scale": 1.0}, {"softcap": 3.0}, {"dropout": 0}):
        regard.attend(*given(), **accepted)
        with pytest.raises(error):
            regard.attend(*given(), **options)


def test_dropout_is_part_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = given(1, 2, 40, 8)
    plain = regard.attend(q, k, v, implementation="tiled").output
    made = counted(monkeypatch)
    outputs = []
    for _ in range(2):
        torch.manual_seed(3)
        outputs.append(regard.attend(q, k, v, dropout=0.5, implementation="tiled").output)
    assert len(made) == 1 and torch.equal(*outputs)
    assert not torch.allclose(outputs[0], plain)
    assert torch.equal(regard.attend(q, k, v, implementation="tiled").output, plain)


def test_autocast_makes_another_call() -> None:
    q, k, v = given()
    plain = regard.attend(q, k, v, mask=regard.Causal()).output
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert regard.attend(q, k, v, mask=regard.Causal()).output.dtype == torch.bfloat16
        assert torch.equal(regard.attend(q, k, v, mask=regard.Causal()).output, plain)


def test_strides_are_not_kept() -> None:
    """Equal shapes, other places in memory."""
    q, k, v = given(2, 5, 3, 8)
    right = regard.attend(*(t.mT.contiguous() for t in (q, k, v)), implementation="cpu").output
    assert torch.equal(
        regard.attend(*(t.mT for t in (q, k, v)), implementation="cpu").output, right
    )


def test_a_change_in_place_is_still_noticed() -> None:
    q, k, v = given()
    regard.attend(q, k, v)
    found = regard.attend(q, k, v)
    k.add_(1)
    with pytest.raises(regard.errors.StaleError):
        found.entropy()


def test_listeners_hear_of_calls_that_were_settled() -> None:
    q, k, v = given()
    regard.attend(q, k, v, mask=regard.Causal(), implementation="cpu")
    heard: list[regard.Attention] = []

    class Ear:
        def wants(self, call: Any) -> Request[None]:
            return Request((regard.Entropy(), regard.Top(2)))

        def heard(self, attention: regard.Attention, request: Request[None]) -> None:
            assert {regard.Entropy(), regard.Top(2)} <= attention._known.values.keys()
            heard.append(attention)

    with listening(Ear()):
        regard.attend(q, k, v, mask=regard.Causal(), implementation="cpu")
    after = regard.attend(q, k, v, mask=regard.Causal(), implementation="cpu")
    assert len(heard) == 1 and not after._known.values


def test_what_is_traced_leaves_nothing_behind() -> None:
    """Sizes are tensors to torch.jit.trace, and would be kept alive."""
    q, k, v = given()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that tracing is old, and sees numbers as constants
        traced = torch.jit.trace(
            lambda *t: regard.attend(*t, implementation="cpu").output, (q, k, v), check_trace=False
        )
    assert not plan.KEPT
    torch.testing.assert_close(traced(q + 1, k, v), regard.attend(q + 1, k, v).output)


def test_threads_settle_calls_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may forget everything at any moment."""
    monkeypatch.setattr(plan, "_MANY", 2)
    right = {n: regard.attend(*given(1, 1, n, 4), implementation="cpu").output for n in range(1, 9)}

    def ask(n: int) -> bool:
        n = n % 8 + 1
        found = regard.attend(*given(1, 1, n, 4), implementation="cpu").output
        return torch.equal(found, right[n])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(200)))


def test_gradients_flow_after_a_call_without() -> None:
    q, k, v = given()
    regard.attend(q, k, v, mask=regard.Causal())
    q.requires_grad_()
    regard.attend(q, k, v, mask=regard.Causal()).output.sum().backward()
    assert q.grad is not None
    with torch.no_grad():
        assert not regard.attend(q, k, v, mask=regard.Causal()).output.requires_grad


def test_no_tensor_is_kept_alive() -> None:
    q, k, v = given()
    marks = torch.arange(5)
    asked = (regard.Matching(marks, marks.clone()),)
    regard.attend(q, k, v, summaries=asked, sink=torch.ones(3))
    regard.attend(q, k, v, summaries=asked)
    regard.attend(q, k, v)
    gone = [weakref.ref(t) for t in (q, k, v, marks)]
    del q, k, v, marks, asked
    gc.collect()
    assert not any(ref() is not None for ref in gone)


def test_two_axes_stay_two_axes() -> None:
    for _ in range(2):
        found = regard.attend(*given(5, 8), mask=regard.Causal())
        assert found.output.shape == (5, 8) and found.shape == (5, 5)


def test_an_edit_is_not_kept() -> None:
    """Editors change the mask of a call; the same call without them is another one."""
    q, k, v = given()
    plain = regard.attend(q, k, v, mask=regard.Causal()).output

    class Nobody:
        def mask(self, call: Any) -> Any:
            return regard.Window(0)

        def output(self, call: Any, output: Tensor) -> Tensor:
            return output

    with editing(Nobody()):
        assert not torch.equal(regard.attend(q, k, v, mask=regard.Causal()).output, plain)
    assert torch.equal(regard.attend(q, k, v, mask=regard.Causal()).output, plain)


def test_the_memory_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_MANY", 3)
    for n in range(1, 9):
        regard.attend(*given(1, 1, n, 4))
        assert len(plan.KEPT) <= 3


def test_what_is_remembered_in_inference_mode_serves_gradients_too() -> None:
    q, k, v = given(1, 2, 9, 4)
    asked = (regard.Pooled(4), regard.Received(3))
    with torch.inference_mode():
        regard.attend(q, k, v, implementation="cpu").summarize(*asked)
    q = q.clone().requires_grad_()
    a = regard.attend(q, k, v, implementation="cpu")
    a.summarize(*asked)[regard.Received(3)][..., 0].sum().backward()
    assert q.grad is not None and q.grad.isfinite().all()
