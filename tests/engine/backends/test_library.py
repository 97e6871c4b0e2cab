"""torch's own operator: its limits in words, and the same numbers where it can."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.engine.backends import library
from regard.engine.call import Problem
from regard.errors import UnavailableError
from regard.mask import Mask
from regard.shapes import AttentionShape
from regard.summary import Entropy


def shape(*query: int, keys: int | None = None, value_dim: int = 4) -> AttentionShape:
    key = (*query[:-2], query[-2] if keys is None else keys, query[-1])
    return AttentionShape.of(query, key, (*key[:-1], value_dim))


PLAIN = Problem(
    shape=shape(2, 3, 8, 4), dtype=torch.float32, device="cpu", mask=None, bias=None, softcap=False,
    sink=False, dropout=False, gradients=False, bias_gradient=False, summaries=frozenset(),
)  # fmt: skip
LIMITS: list[tuple[dict[str, Any], str]] = [
    ({"device": "mps"}, "the tensors are on mps, it runs on the CPU and on CUDA"),
    ({"summaries": frozenset([Entropy()])}, "it measures nothing on the way"),
    ({"shape": shape(2, 3, 8, 4, value_dim=5)}, "value dim 5 ≠ query dim 4"),
    ({"shape": shape(8, 4)}, "it takes four axes, not 2"),
    ({"shape": shape(3, 8, 4)}, "it takes four axes, not 3"),
    ({"shape": shape(2, 2, 3, 8, 4)}, "it takes four axes, not 5"),
    ({"softcap": True}, "it has no soft cap"),
    ({"sink": True}, "it has no sink"),
    ({"bias": regard.ALiBi(torch.ones(2))}, "it has no bias"),
    (
        {"mask": regard.Window(3)},
        "of masks it knows only causal ones, not Window(left=3, right=0, align='end')",
    ),
    ({"dropout": True}, "it has no dropout"),
    ({"shape": shape(2, 3, 0, 4)}, "empty inputs end the process"),
    ({"shape": shape(2, 3, 8, 4, keys=0)}, "empty inputs end the process"),
    ({"shape": shape(0, 3, 8, 4)}, "empty inputs end the process"),
]


def random(*size: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    made = torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return made.to(dtype)


# ── limits ───────────────────────────────────────────────────────────────────────────────────


def test_a_plain_problem_is_no_problem() -> None:
    assert library.LIBRARY.reasons(PLAIN) == []


@pytest.mark.parametrize(("changes", "reason"), LIMITS, ids=[said for _, said in LIMITS])
def test_each_limit_is_a_reason_in_words(changes: dict[str, Any], reason: str) -> None:
    assert library.LIBRARY.reasons(replace(PLAIN, **changes)) == [reason]


def on_cuda(monkeypatch: pytest.MonkeyPatch, able: tuple[str, ...], **changes: Any) -> list[str]:
    monkeypatch.setattr(library, "works", lambda name: name in able)
    plain = {"device": "cuda", "dtype": torch.bfloat16, "shape": shape(2, 3, 8, 64, value_dim=64)}
    return library.LIBRARY.reasons(replace(PLAIN, **{**plain, **changes}))


def test_limits_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    both = ("cudnn", "flash")
    wide = shape(2, 3, 8, 256, value_dim=256)
    assert on_cuda(monkeypatch, both) == []
    assert on_cuda(monkeypatch, both, shape=wide) == []
    for able, changes, reason in (
        ((), {}, "no operator of this torch that returns the lse runs on this GPU"),
        (both, {"dtype": torch.float32}, "it computes in half precision, not float32"),
        (("cudnn",), {"shape": wide}, "head dim 256 is not a multiple of 8 up to 128"),
        (both, {"shape": shape(2, 3, 8, 20, value_dim=20)},
         "head dim 20 is not a multiple of 8 up to 256"),
        (both, {"shape": shape(2, 3, 8, 64, keys=12, value_dim=64),
                "mask": regard.Causal("start")},
         "of masks it knows only causal ones, not Causal(align='start')"),
    ):  # fmt: skip
        assert on_cuda(monkeypatch, able, **changes) == [reason]


def test_no_operator_works_without_a_gpu() -> None:
    if not torch.cuda.is_available():
        assert not library.works("cudnn") and not library.works("flash")


def test_several_limits_are_several_reasons() -> None:
    assert len(library.LIBRARY.reasons(replace(PLAIN, sink=True, softcap=True, dropout=True))) == 3


def test_causal_means_from_the_first_key() -> None:
    square, wide = PLAIN, replace(PLAIN, shape=shape(2, 3, 8, 4, keys=12))
    for problem, mask, able in (
        (square, regard.Causal(), True),
        (square, regard.Causal("start"), True),
        (wide, regard.Causal("start"), True),
        (wide, regard.Causal(), False),
        (square, regard.Causal() & regard.Prefix(3), False),
    ):
        assert (library.LIBRARY.reasons(replace(problem, mask=mask)) == []) is able


@pytest.mark.parametrize(
    "options",
    [
        {"mask": regard.Window(2)},
        {"mask": torch.ones(6, 6, dtype=torch.bool)},
        {"softcap": 2.0},
        {"sink": torch.zeros(2)},
        {"bias": torch.zeros(6, 6)},
        {"dropout": 0.5},
        {"summaries": (Entropy(),)},
    ],
    ids=lambda options: next(iter(options)),
)
def test_insisting_says_why_not(options: dict[str, Any]) -> None:
    x = random(1, 2, 6, 4)
    with pytest.raises(UnavailableError, match="'library' cannot serve this call:\n  library: "):
        regard.attend(x, x, x, implementation="library", **options)


def test_a_torch_without_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_NAME", "_no_such_operator")
    assert library.LIBRARY.unavailable() == ["this torch has no aten._no_such_operator"]
    x = random(1, 2, 6, 4)
    assert regard.attend(x, x, x).implementation == "cpu"


# ── the same numbers ─────────────────────────────────────────────────────────────────────────

MASKS: list[tuple[int, int, Mask | None]] = [
    (33, 33, None), (33, 33, regard.Causal()), (20, 50, None), (20, 50, regard.Causal("start")),
    (50, 20, regard.Causal("start")), (1, 9, None), (700, 700, regard.Causal()),
]  # fmt: skip
each_mask = pytest.mark.parametrize(("queries", "keys", "mask"), MASKS, ids=str)


@each_mask
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_output_and_lse(queries: int, keys: int, mask: Mask | None, dtype: torch.dtype) -> None:
    q = random(2, 4, queries, 16, dtype=dtype)
    k, v = (random(2, 2, keys, 16, seed=n, dtype=dtype) for n in (1, 2))
    theirs, ours = (
        regard.attend(q, k, v, mask=mask, scale=0.3, implementation=name)
        for name in ("library", "cpu")
    )
    assert theirs.output.dtype == dtype and theirs.lse.dtype == ours.lse.dtype
    room = 40 * torch.finfo(dtype).eps
    torch.testing.assert_close(theirs.output, ours.output, rtol=room, atol=room)
    torch.testing.assert_close(theirs.lse, ours.lse, rtol=room, atol=room)


@each_mask
def test_gradients(queries: int, keys: int, mask: Mask | None) -> None:
    def gradients(name: str) -> list[Tensor]:
        q = random(1, 4, queries, 8, dtype=torch.float64).requires_grad_()
        k, v = (random(1, 2, keys, 8, seed=n, dtype=torch.float64) for n in (1, 2))
        leaves = [q, k.requires_grad_(), v.requires_grad_()]
        a = regard.attend(*leaves, mask=mask, implementation=name)
        loss = (a.output * random(*a.output.shape, seed=3)).sum() + a.lse.square().sum()
        return list(torch.autograd.grad(loss, leaves))

    for theirs, ours in zip(gradients("library"), gradients("cpu"), strict=True):
        torch.testing.assert_close(theirs, ours, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("part", ["output", "lse"])
def test_either_result_alone_has_its_gradient(part: str) -> None:
    found = []
    for name in ("library", "dense"):
        q, k, v = (random(1, 2, 9, 4, seed=n, dtype=torch.float64) for n in range(3))
        leaves = [q.requires_grad_(), k.requires_grad_(), v.requires_grad_()]
        loss = getattr(regard.attend(*leaves, implementation=name), part).square().sum()
        found.append(torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True))
    for theirs, right in zip(*found, strict=True):
        torch.testing.assert_close(theirs, right)


def test_any_strides() -> None:
    wide = random(2, 9, 3, 16)  # tokens before heads
    turned = wide.transpose(1, 2)
    for x in (turned, turned[..., ::2], turned.mT.contiguous().mT, turned.flip(-1)):
        a = regard.attend(x, x, x, mask=regard.Causal(), implementation="library")
        b = regard.attend(x.contiguous(), x, x, mask=regard.Causal(), implementation="dense")
        torch.testing.assert_close(a.output, b.output)
        torch.testing.assert_close(a.lse, b.lse)


def test_questions_are_answered_by_our_own_sweeps() -> None:
    x = random(1, 2, 40, 8)
    theirs = regard.attend(x, x, x, mask=regard.Causal(), implementation="library")
    ours = regard.attend(x, x, x, mask=regard.Causal(), implementation="cpu")
    assert theirs.implementation == "library"
    for ask in (
        lambda a: a.dense(), lambda a: a.entropy(), lambda a: a.top(3).weights,
        lambda a: a.received(), lambda a: a.pooled(7), lambda a: a @ torch.ones(40),
        lambda a: a.T @ torch.ones(40),
    ):  # fmt: skip
        assert torch.equal(ask(theirs), ask(ours))


@pytest.mark.parametrize("mask", [None, regard.Causal("start")], ids=repr)
@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_nan_shows_where_the_operator_itself_says_zero(mask: Mask | None, key_heads: int) -> None:
    """It takes a row with nothing but NaN for an empty one."""
    q, k, v = random(2, 4, 9, 8), random(2, key_heads, 9, 8, seed=1), random(2, key_heads, 9, 8)
    q[0, 3, 4, 0] = torch.nan
    k[1, :, 0] = torch.nan
    a = regard.attend(q, k, v, mask=mask, implementation="library")
    exact = regard.attend(q, k, v, mask=mask, implementation="dense")
    assert torch.equal(a.output.isnan(), exact.output.isnan())
    assert torch.equal(a.lse.isnan(), exact.lse.isnan())
    assert a.lse.isnan()[0].sum() == 1 and a.lse.isnan()[1].all()


def test_an_lse_of_zero_is_not_taken_for_nan() -> None:
    q, k = torch.zeros(1, 1, 3, 8), torch.zeros(1, 1, 1, 8)
    a = regard.attend(q, k, k, implementation="library")
    assert (a.lse == 0).all() and (a.output == 0).all()
