"""torch's own operator: its limits in words, and what it says otherwise than the definition. That
it has the same numbers and gradients where it can is in tests/each."""

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


def wide(dim: int, **more: Any) -> AttentionShape:
    return shape(2, 3, 8, dim, value_dim=dim, **more)


PLAIN = Problem(
    shape=shape(2, 3, 8, 4), dtype=torch.float32, device="cpu", mask=None, bias=None, softcap=False,
    sink=False, dropout=False, gradients=False, bias_gradient=False, summaries=frozenset(),
)  # fmt: skip
WINDOW = "of masks it knows only causal ones, not Window(left=3, right=0, align='end')"
LIMITS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"device": "mps"}, ["the tensors are on mps, it runs on the CPU and on CUDA"]),
    ({"summaries": frozenset([Entropy()])}, ["it measures nothing on the way"]),
    ({"shape": shape(2, 3, 8, 4, value_dim=5)}, ["value dim 5 ≠ query dim 4"]),
    ({"shape": shape(8, 4)}, ["it takes four axes, not 2"]),
    ({"shape": shape(3, 8, 4)}, ["it takes four axes, not 3"]),
    ({"shape": shape(2, 2, 3, 8, 4)}, ["it takes four axes, not 5"]),
    ({"bias": regard.ALiBi(torch.ones(2))}, ["it has no bias"]),
    ({"sink": True, "softcap": True, "dropout": True},
     ["it has no soft cap", "it has no sink", "it has no dropout"]),
    ({"shape": shape(2, 3, 0, 4)}, ["empty inputs end the process"]),
    ({"shape": shape(2, 3, 8, 4, keys=0)}, ["empty inputs end the process"]),
    ({"shape": shape(0, 3, 8, 4)}, ["empty inputs end the process"]),
    # causal means from the first key
    ({"mask": regard.Window(3)}, [WINDOW]),
    ({"mask": regard.Causal()}, []),
    ({"mask": regard.Causal("start"), "shape": shape(2, 3, 8, 4, keys=12)}, []),
    ({"mask": regard.Causal(), "shape": shape(2, 3, 8, 4, keys=12)},
     ["of masks it knows only causal ones, not Causal(align='end')"]),
]  # fmt: skip
HALF = {"device": "cuda", "dtype": torch.bfloat16, "shape": wide(64)}
BOTH = ("cudnn", "flash")
ON_CUDA: list[tuple[tuple[str, ...], dict[str, Any], list[str]]] = [
    (BOTH, {}, []), (BOTH, {"shape": wide(256)}, []),
    ((), {}, ["no operator of this torch that returns the lse runs on this GPU"]),
    (BOTH, {"dtype": torch.float32}, ["it computes in half precision, not float32"]),
    (("cudnn",), {"shape": wide(256)}, ["head dim 256 is not a multiple of 8 up to 128"]),
    (BOTH, {"shape": wide(20)}, ["head dim 20 is not a multiple of 8 up to 256"]),
    (BOTH, {"shape": wide(64, keys=12), "mask": regard.Causal("start")},
     ["of masks it knows only causal ones, not Causal(align='start')"]),
]  # fmt: skip


def random(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


# ── limits ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("changes", "reasons"), LIMITS, ids=[str(said) for _, said in LIMITS])
def test_each_limit_is_a_reason_in_words(changes: dict[str, Any], reasons: list[str]) -> None:
    assert library.LIBRARY.reasons(replace(PLAIN, **changes)) == reasons


@pytest.mark.parametrize(("able", "changes", "reasons"), ON_CUDA)
def test_limits_on_a_gpu(
    able: tuple[str, ...], changes: dict[str, Any], reasons: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if not torch.cuda.is_available():
        assert not library.works("cudnn") and not library.works("flash")
    monkeypatch.setattr(library, "works", lambda name: name in able)
    assert library.LIBRARY.reasons(replace(PLAIN, **(HALF | changes))) == reasons


def test_insisting_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    x = random(1, 2, 11, 4)  # a size of its own: what served calls alike before serves them still
    with pytest.raises(UnavailableError, match="'library' cannot serve this call:\n  library: "):
        regard.attend(x, x, x, implementation="library", softcap=2.0)
    monkeypatch.setattr(library, "_NAME", "_no_such_operator")
    assert library.LIBRARY.unavailable() == ["this torch has no aten._no_such_operator"]
    assert regard.attend(x, x, x).implementation == "cpu"


# ── numbers ──────────────────────────────────────────────────────────────────────────────────


def test_any_strides() -> None:
    turned = random(2, 9, 3, 16).transpose(1, 2)  # tokens before heads
    for x in (turned, turned[..., ::2], turned.mT.contiguous().mT, turned.flip(-1)):
        a = regard.attend(x, x, x, mask=regard.Causal(), implementation="library")
        b = regard.attend(x.contiguous(), x, x, mask=regard.Causal(), implementation="dense")
        torch.testing.assert_close(a.output, b.output)
        torch.testing.assert_close(a.lse, b.lse)


@pytest.mark.parametrize("mask", [None, regard.Causal("start")], ids=repr)
@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_nan_shows_where_the_operator_itself_says_zero(mask: Mask | None, key_heads: int) -> None:
    """It takes a row with nothing but NaN for an empty one. An lse of 0 is none."""
    q, k, v = random(2, 4, 9, 8), random(2, key_heads, 9, 8, seed=1), random(2, key_heads, 9, 8)
    q[0, 3, 4, 0] = torch.nan
    k[1, :, 0] = torch.nan
    a = regard.attend(q, k, v, mask=mask, implementation="library")
    exact = regard.attend(q, k, v, mask=mask, implementation="dense")
    assert torch.equal(a.output.isnan(), exact.output.isnan())
    assert torch.equal(a.lse.isnan(), exact.lse.isnan())
    assert a.lse.isnan()[0].sum() == 1 and a.lse.isnan()[1].all()
    zeros = torch.zeros(1, 1, 1, 8)
    a = regard.attend(zeros, zeros, zeros, implementation="library")
    assert (a.lse == 0).all() and (a.output == 0).all()
