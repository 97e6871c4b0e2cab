"""Statistics of keys: how queries are reduced, by what they are weighted, which gradients exist."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.errors import DTypeError, GradientError, InputError, ShapeError
from regard.summary import Received, Weighted

HERE = ("dense", "tiled", "cpu")
CAUSAL = regard.Causal()


def tensors(queries: int = 40, keys: int = 300, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    dice = torch.Generator().manual_seed(queries + keys)
    sizes = ((4, queries), (2, keys), (2, keys))
    return [torch.randn(2, h, n, 8, generator=dice, dtype=dtype) for h, n in sizes]


@pytest.mark.parametrize("implementation", ["tiled", "cpu"])
def test_the_gradient_of_the_largest_is_refused(implementation: str) -> None:
    q, k, v = (t.requires_grad_() for t in tensors())
    a = regard.attend(q, k, v, mask=CAUSAL, implementation=implementation)
    right = regard.attend(q, k, v, mask=CAUSAL, implementation="dense")
    asked: tuple[Any, ...] = (
        {"how": "max"}, {"how": "max", "queries": 7}, {"how": "max", "weighted_by": torch.ones(40)},
    )  # fmt: skip
    for given in asked:
        found = a.received(**given)
        torch.testing.assert_close(found, right.received(**given))
        with pytest.raises(GradientError, match=r"received\(how='max'\) has no gradient here"):
            found.sum().backward()


@pytest.mark.parametrize("implementation", HERE)
def test_weights_of_queries_have_gradients(implementation: str) -> None:
    q, k, v = tensors(6, 5)
    by = torch.linspace(-1, 2, 6, dtype=q.dtype)
    each = by.expand(4, 6).clone()

    def received(query: Tensor, weights: Tensor) -> Tensor:
        a = regard.attend(query, k, v, mask=CAUSAL, implementation=implementation)
        return a.received(4, how="mean", weighted_by=weights)

    for weights in (by, each):
        given = q.requires_grad_(), weights.requires_grad_()
        assert torch.autograd.gradcheck(received, given)


@pytest.mark.parametrize("how", ["sum", "mean", "max"])
def test_a_key_that_nobody_sees_received_nothing(how: Any) -> None:
    q, k, v = tensors(3, 9)
    mask = regard.Padding(torch.tensor([4, 0]))
    for implementation in HERE:
        a = regard.attend(q, k, v, mask=mask, implementation=implementation)
        assert a.received(how=how)[0, :, 4:].count_nonzero() == 0
        assert a.received(how=how)[1].count_nonzero() == 0


@pytest.mark.parametrize("implementation", HERE)
def test_what_is_no_number_shows(implementation: str) -> None:
    """In whichever query it stands: before others, behind them, in another block of rows."""
    for at in (0, 77, 149):
        q, k, v = tensors(150, 300)
        q[0, 1, at] = torch.nan
        a = regard.attend(q, k, v, implementation=implementation)
        found = a.received(how="max")
        assert found[0, 1].isnan().all() and not found[0, 0].isnan().any()


def test_the_same_bits_for_any_number_of_threads() -> None:
    q, k, v = tensors(200, 700, torch.float32)
    by = torch.linspace(-1, 2, 200)
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            a = regard.attend(q, k, v, mask=CAUSAL, implementation="cpu")
            found.append(torch.stack([
                a.received(how="max"), a.received(weighted_by=by),
                a.received(how="max", weighted_by=by),
            ]))  # fmt: skip
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_the_largest_weight_is_one_of_the_matrix() -> None:
    q, k, v = tensors(130, 270, torch.float32)
    a = regard.attend(q, k, v, mask=CAUSAL, implementation="cpu")
    assert torch.equal(a.received(how="max"), a.dense().amax(-2))


def test_two_dimensions_packed_sequences_and_parts() -> None:
    q, k, v = (t[0, 0] for t in tensors(20, 20))
    by = torch.linspace(0, 1, 20, dtype=q.dtype)
    alone = regard.attend(q, k, v, mask=CAUSAL)
    right = (alone.dense() * by[:, None]).amax(-2)
    torch.testing.assert_close(alone.received(how="max", weighted_by=by), right)
    starts = torch.tensor([0, 8, 20], dtype=torch.int32)
    packed = regard.attend(
        *(t[:, None] for t in (q, k, v)), cu_seqlens_q=starts, cu_seqlens_k=starts, mask=CAUSAL
    )
    found = packed.received(how="max", weighted_by=by)[0]
    torch.testing.assert_close(found, (packed.dense()[0] * by[:, None]).amax(-2))
    long = regard.attend(*(t[None] for t in tensors(600, 600)), mask=CAUSAL)
    by = torch.rand(4, 600, dtype=torch.float64)
    every = long.dense()[..., 500:, :] * by[:, 500:, None]
    torch.testing.assert_close(long.received(slice(500, None), weighted_by=by), every.sum(-2))


def test_what_does_not_fit_is_refused() -> None:
    a = regard.attend(*tensors(6, 5))
    with pytest.raises(ShapeError, match=r"Weighted\(by\)"):
        a.received(weighted_by=torch.ones(7))
    with pytest.raises(DTypeError, match="one number per query"):
        a.received(weighted_by=0.5)
    with pytest.raises(InputError, match="in_backward"):
        regard.attend(*tensors(6, 5), in_backward=(Received(how="max"),))
    with pytest.raises(InputError, match="in_backward"):
        regard.attend(*tensors(6, 5), in_backward=(Weighted(Received(), torch.ones(6)),))


def test_asked_with_the_output_it_is_known() -> None:
    asked = Received(how="max"), Weighted(Received(how="mean"), torch.rand(40))
    a = regard.attend(*tensors(), summaries=asked)
    right = regard.attend(*tensors(), implementation="dense").summarize(*asked)
    for summary, value in a.summarize(*asked).items():
        torch.testing.assert_close(value, right[summary])
