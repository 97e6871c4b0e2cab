"""Which backend serves a call, what is said where none can; calls alike are settled once."""

from __future__ import annotations

import gc
import random
import sys
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import regard
from engine.conftest import EVERY, qkv
from regard.engine import plan
from regard.engine.backends import library
from regard.engine.call import Problem
from regard.errors import UnavailableError
from regard.shapes import AttentionShape
from regard.summary import Entropy, Pooled

PACKAGE = str(Path(regard.__file__).parent)
MOST_FILES, MOST_FRAMES = 14, 100


def square(tokens: int, dim: int = 4, batch: int = 1, heads: int = 2) -> dict[str, AttentionShape]:
    return {"shape": AttentionShape.of(*[(batch, heads, tokens, dim)] * 3)}


FEW, SMALL, LARGE = square(8), square(64), square(4096)
PLAIN = Problem(
    **SMALL, dtype=torch.float32, device="cpu", mask=None, bias=None, softcap=False, sink=False,
    dropout=False, gradients=False, bias_gradient=False, summaries=frozenset(),
)  # fmt: skip


def chosen(implementation: str | None = None, **changes: Any) -> str:
    """By shapes alone, which no machine need hold."""
    return plan.choose(replace(PLAIN, **changes), implementation).name


# ── without a name ───────────────────────────────────────────────────────────────────────────

ENTROPY = {"summaries": frozenset([Entropy()])}
SCATTERED = regard.Rule(lambda i, j: (i + j) % 2 == 0)
HERE: list[tuple[str, dict[str, Any]]] = [
    *(("cpu", size | changes) for size in (SMALL, LARGE) for changes in (
        {}, {"mask": regard.Causal()}, {"gradients": True}, ENTROPY, {"dtype": torch.bfloat16},
        {"bias": regard.ALiBi(torch.ones(2)), "softcap": True, "sink": True},
        {"summaries": frozenset(Pooled(n) for n in range(1, 10))},
    )),
    ("library", FEW), ("library", FEW | {"gradients": True}), ("cpu", FEW | {"sink": True}),
    # what the kernels cannot do: a small matrix is faster than a loop over tiles
    ("dense", {"dropout": True}), ("tiled", LARGE | {"dropout": True}),
    ("dense", {"bias_gradient": True, "bias": regard.ALiBi(torch.ones(2))}),
    ("tiled", LARGE | {"bias_gradient": True, "bias": regard.ALiBi(torch.ones(2))}),
    ("dense", square(512, batch=4, heads=4) | {"dropout": True}),
    ("tiled", square(512, batch=4, heads=5) | {"dropout": True}),
    ("dense", {"device": "mps"}), ("tiled", LARGE | {"device": "mps"}),
]  # fmt: skip
HALF = {"device": "cuda", "dtype": torch.bfloat16}
ON_A_GPU: list[tuple[str, dict[str, Any]]] = [
    ("library", HALF | square(64, 8)), ("triton", HALF | square(64, 8) | ENTROPY),
    ("triton", HALF | square(64, 8) | {"sink": True}), ("triton", {"device": "cuda"}),
    ("dense", {"device": "cuda", "dropout": True}),
    ("triton", LARGE | {"device": "cuda", "mask": regard.Rule(lambda i, j: i > j)}),
    ("triton", square(20_000, 64) | {"device": "cuda", "mask": regard.Rule(lambda i, j: i > j)}),
    ("tiled", square(50_048, 64) | {"device": "cuda", "mask": SCATTERED}),  # 300 MiB as bits
]  # fmt: skip
SHORT, LONG = square(2048, 128, heads=16), square(16384, 128, heads=16)
ON_A_HOPPER: list[tuple[str, dict[str, Any]]] = [
    ("library", HALF | SHORT), ("hopper", HALF | LONG),
    ("library", HALF | LONG | {"gradients": True}),
    ("library", HALF | square(16384, 64, heads=16)), ("hopper", HALF | SHORT | ENTROPY),
]  # fmt: skip


@pytest.mark.parametrize(("name", "problem"), HERE)
def test_the_fastest_that_can_comes_first(name: str, problem: dict[str, Any]) -> None:
    assert chosen(**problem) == name


@pytest.mark.parametrize(
    ("kind", "each"),
    [("sweeps.TritonSweeps", ON_A_GPU), ("hopper.sweeps.HopperSweeps", ON_A_HOPPER)],
)
def test_a_gpu_gets_torch_for_the_bare_output_and_ours_for_more(
    kind: str, each: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(library, "works", lambda name: True)
    monkeypatch.setattr(f"regard.engine.backends.gpu.{kind}.unavailable", lambda self: [])
    for name, problem in each:
        assert chosen(**problem) == name, problem


class Unable:
    """An implementation that can do nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    def unavailable(self) -> list[str]:
        return ["it is not here"] if self.name == "cpu" else []

    def reasons(self, problem: Problem) -> list[str]:
        return [f"{self.name} says no", "and no again"]


def test_every_reason_is_listed_where_nobody_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_load", Unable)
    with pytest.raises(UnavailableError, match="no implementation can serve this call:") as raised:
        chosen()
    assert raised.value.reasons == {
        "cpu": ["it is not here"],
        **{name: [f"{name} says no", "and no again"] for name in ("library", "dense", "tiled")},
    }
    assert "library: library says no; and no again" in str(raised.value)


def test_without_kernels_questions_are_answered_by_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.engine.backends.cpu.sweeps.why_not", lambda: "no compiler")
    plan.KEPT.clear()
    a, right = (regard.attend(*qkv(), implementation=name) for name in (None, "dense"))
    assert a.implementation == "library"
    torch.testing.assert_close(a.received(), right.received())
    replayed = regard.replay(*qkv()[:2])
    torch.testing.assert_close(replayed.entropy(), right.entropy())
    plan.KEPT.clear()


# ── by name ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", EVERY)
def test_a_name_is_obeyed(name: str) -> None:
    assert regard.attend(*qkv(), implementation=name).implementation == name


@pytest.mark.parametrize(
    ("name", "changes", "reasons"),
    [
        ("cpu", {"dropout": True}, ["it has no dropout"]),
        ("cpu", {"bias_gradient": True}, ["its backward gives no gradient to a bias"]),
        ("library", {"sink": True}, ["it has no sink"]),
        (
            "cpu", {"dropout": True, "device": "cuda"},
            ["the tensors are on cuda, these kernels run on the CPU", "it has no dropout"],
        ),
    ],
)  # fmt: skip
def test_a_name_never_falls_back(name: str, changes: dict[str, Any], reasons: list[str]) -> None:
    with pytest.raises(UnavailableError, match=f"'{name}' cannot serve this call:") as raised:
        chosen(name, **changes)
    assert raised.value.reasons == {name: reasons}
    assert all(reason in str(raised.value) for reason in reasons)


# ── calls alike ──────────────────────────────────────────────────────────────────────────────


def attend(*given: torch.Tensor, **options: Any) -> regard.Attention:
    torch.manual_seed(3)  # of dropout
    return regard.attend(*(given or qkv(20)), **{"mask": regard.Causal()} | options)


def in_autocast() -> regard.Attention:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return attend()


CALLS: dict[str, Callable[[], regard.Attention]] = {
    "plain": attend,
    "shape": lambda: attend(*qkv(21)),
    "two axes": lambda: attend(*(t[0, 0] for t in qkv(20))),
    "dtype": lambda: attend(*qkv(20, dtype=torch.float64)),
    "strides": lambda: attend(*(t.mT.contiguous().mT for t in qkv(20))),
    "no mask": lambda: attend(mask=None),
    "window": lambda: attend(mask=regard.Window(2)),
    "align": lambda: attend(*qkv(20, 25), mask=regard.Causal("start")),
    "other align": lambda: attend(*qkv(20, 25)),
    "table": lambda: attend(mask=torch.ones(20, 20, dtype=torch.bool).tril(2)),
    "scale": lambda: attend(scale=2.0),
    "softcap": lambda: attend(softcap=3.0),
    "bias": lambda: attend(bias=torch.ones(20, 20).triu()),
    "sink": lambda: attend(sink=torch.ones(4)),
    "dropout": lambda: attend(dropout=0.5),
    "summaries": lambda: attend(summaries=(regard.Entropy(), regard.Pooled(4))),
    "implementation": lambda: attend(implementation="dense"),
    "gradients": lambda: attend(*qkv(20, grad=True)),
    "in the backward": lambda: attend(*qkv(20, grad=True), in_backward=(regard.Received(),)),
    "autocast": in_autocast,
    "replay": lambda: regard.replay(*qkv(20)[:2], mask=regard.Causal()),
    "replay, lse": lambda: regard.replay(*qkv(20)[:2], torch.ones(2, 4, 20), mask=regard.Causal()),
}


def numbers(name: str) -> list[Any]:
    a = CALLS[name]()
    answers = [a.received(), a.entropy(), a.pooled(4), a.lse if "replay" in name else a.output]
    return [a.implementation, a.shape, *((t.dtype, t.requires_grad, t.tolist()) for t in answers)]


def test_nothing_that_differs_is_taken_for_alike() -> None:
    right = {}
    for name in CALLS:
        plan.KEPT.clear()
        right[name] = numbers(name)
    dice = random.Random(0)
    for name in (name for _ in range(3) for name in dice.sample([*CALLS], len(CALLS))):
        assert numbers(name) == right[name], name


def test_a_call_and_a_question_pass_few_frames() -> None:
    """For short inputs the host's time shows: few files between the caller and the kernel."""
    q = torch.randn(1, 4, 32, 64)
    passed: list[tuple[str, str]] = []

    def ask() -> None:
        regard.attend(q, q, q, mask=regard.Causal(), summaries=(regard.Entropy(),)).received()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            passed.append((frame.f_code.co_filename[len(PACKAGE) :], frame.f_code.co_name))

    with torch.no_grad():
        ask()
        sys.setprofile(watch)
        try:
            ask()
        finally:
            sys.setprofile(None)
    assert len({file for file, _ in passed}) <= MOST_FILES, passed
    assert len(passed) <= MOST_FRAMES, passed


def test_threads_settle_calls_at_once_and_the_memory_has_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others may forget everything at any moment."""
    monkeypatch.setattr(plan, "_MANY", 2)
    right = {n: regard.attend(*qkv(n), implementation="cpu").output for n in range(1, 9)}
    assert len(plan.KEPT) <= 2

    def ask(n: int) -> bool:
        n = n % 8 + 1
        return torch.equal(regard.attend(*qkv(n), implementation="cpu").output, right[n])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(100)))


def test_no_tensor_is_kept_alive() -> None:
    q, k, v = qkv(5)
    marks = torch.arange(5)
    asked = (regard.Matching(marks, marks.clone()),)
    regard.attend(q, k, v, summaries=asked, sink=torch.ones(4))
    regard.attend(q, k, v, summaries=asked)
    regard.attend(q, k, v)
    plan.KEPT.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that tracing is old, and sees numbers as constants
        traced = torch.jit.trace(
            lambda *t: regard.attend(*t, implementation="cpu").output, (q, k, v), check_trace=False
        )
    assert not plan.KEPT  # sizes are tensors to torch.jit.trace
    torch.testing.assert_close(traced(q + 1, k, v), regard.attend(q + 1, k, v).output)
    gone = [weakref.ref(t) for t in (q, k, v, marks)]
    del q, k, v, marks, asked, traced
    gc.collect()
    assert not any(ref() is not None for ref in gone)


def test_what_is_remembered_in_inference_mode_serves_gradients_too() -> None:
    asked = (regard.Pooled(4), regard.Received(3))
    with torch.inference_mode():
        regard.attend(*qkv(9), implementation="cpu").summarize(*asked)
    q, k, v = qkv(9, grad=True)
    a = regard.attend(q, k, v, implementation="cpu")
    a.summarize(*asked)[regard.Received(3)][..., 0].sum().backward()
    assert q.grad is not None and q.grad.isfinite().all()
