"""The lazy matrix where a tensor is expected: `a[…]` to the bit and to the shape, what torch does
with tensors, or a clear refusal."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import regard
from engine.conftest import draw, qkv
from regard.errors import InputError, TooLargeError

SHAPES = [(7, 5), (3, 7, 5), (2, 3, 7, 5), (2, 1, 3, 4, 70)]
each_implementation = pytest.mark.parametrize("implementation", ["cpu", "tiled", "dense"])


@cache
def attention(shape: tuple[int, ...], implementation: str) -> tuple[regard.Attention, Tensor]:
    """A matrix of this shape, and the same as a tensor."""
    *lead, queries, keys = shape
    q, k = draw(*lead, queries, 4, dtype=torch.float32), draw(*lead, keys, 4, dtype=torch.float32)
    a = regard.attend(q, k, k, mask=regard.Causal(), implementation=implementation)
    return a, a.dense()


# ── cells ────────────────────────────────────────────────────────────────────────────────────


def whole_numbers(size: int) -> st.SearchStrategy[int]:
    return st.integers(-size, size - 1)


def slices(size: int) -> st.SearchStrategy[slice]:
    edge = st.none() | st.integers(-size - 2, size + 2)
    return st.builds(slice, edge, edge, st.none() | st.integers(1, 4))


@st.composite
def lists(draw: st.DrawFn, size: int, length: int | None = None) -> Any:
    """Whole numbers in any form: a list, an array, a tensor."""
    bounds = {"max_size": 4} if length is None else {"min_size": length, "max_size": length}
    numbers = draw(st.lists(whole_numbers(size), **bounds))
    return draw(st.sampled_from([list, torch.tensor, np.array]))(numbers) if numbers else numbers


def flags(size: int) -> st.SearchStrategy[Tensor]:
    return st.lists(st.booleans(), min_size=size, max_size=size).map(torch.tensor)


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Integers and slices with one list, or lists of one length: cell by cell; `…` where axes are
    missing, at either end or in the middle; new axes here and there."""
    plain = [whole_numbers(size) | slices(size) for size in shape]
    if draw(st.booleans()):
        length, chosen = draw(st.integers(0, 6)), draw(st.sets(st.integers(0, len(shape) - 1)))
        parts = [
            draw(lists(size, length)) if n in chosen and len(chosen) > 1 else draw(plain[n])
            for n, size in enumerate(shape)
        ]
    else:
        listed = draw(st.none() | st.integers(0, len(shape) - 1))
        parts = [
            draw(lists(size) | flags(size)) if n == listed else draw(plain[n])
            for n, size in enumerate(shape[: draw(st.integers(0, len(shape)))])
        ]
    if not parts or draw(st.booleans()):
        at = draw(st.integers(0, len(parts))) if len(parts) == len(shape) else len(parts)
        parts.insert(at, ...)
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        parts.insert(draw(st.integers(0, len(parts))), None)
    return parts[0] if len(parts) == 1 and not isinstance(parts[0], list) else tuple(parts)


def as_torch(index: Any) -> Any:
    """numpy's arrays as tensors, which is how torch takes them."""
    if isinstance(index, tuple):
        return tuple(as_torch(part) for part in index)
    return torch.from_numpy(index) if isinstance(index, np.ndarray) else index


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@each_implementation
@settings(max_examples=25)
@given(data=st.data())
def test_an_index_means_what_it_means_to_a_tensor(implementation, shape, data):
    a, every = attention(shape, implementation)
    index = data.draw(indices(shape))
    expected, cells = every[as_torch(index)], a[index]
    assert cells.shape == expected.shape and torch.equal(cells, expected)


OTHERS: dict[str, tuple[tuple[int, ...], Callable[[Tensor], Any]]] = {
    "booleans of all axes": (SHAPES[2], lambda every: every > 0.2),
    "of the last ones": (SHAPES[2], lambda every: (0, every[0] > 0.2)),
    "of two axes": (SHAPES[2], lambda every: (..., every[1, 1] > 0.1)),
    "of the first ones": (SHAPES[2], lambda every: every[..., 0] > 0.5),
    "behind a new axis": (SHAPES[2], lambda every: (0, None, every[0, :, 0, 0] > 0)),
    "scattered cells": (SHAPES[3], lambda e: tuple(torch.randint(n, (3, 50)) for n in e.shape)),
    "more queries than a strip": ((200, 90), lambda e: tuple(torch.randint(90, (2, 500)))),
    "a range": (SHAPES[1], lambda every: (..., range(1, 6, 2), slice(None))),
    "no cells": (SHAPES[1], lambda every: ([], [])),
    "no rows": (SHAPES[1], lambda every: (..., [], slice(None))),
    "an empty slice and a list": (SHAPES[1], lambda every: (slice(0), [0, 1])),
}


@pytest.mark.parametrize("name", OTHERS)
@each_implementation
def test_other_indices(implementation, name):
    shape, make = OTHERS[name]
    a, every = attention(shape, implementation)
    index = make(every)
    plain = tuple(list(p) if isinstance(p, range) else p for p in index) if isinstance(
        index, tuple) else index  # fmt: skip
    assert torch.equal(a[index], every[plain])
    assert torch.equal(a.scores[index], a.scores[...][plain])
    assert torch.equal(a.rows([3, 1, 1]), every[..., [3, 1, 1], :])


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ((0, 0, 0, 0), "names too many axes"),
        ((..., ...), "names too many axes"),
        ((None, 0, 0, 0, 0), "names too many axes; the matrix has shape (3, 7, 5)"),
        ((..., 5), "does not fit a matrix of shape (3, 7, 5)"),
        ((..., -6), "does not fit a matrix of shape (3, 7, 5)"),
        (3, "index 3 does not fit"),
        ((..., [0, 5]), "index (Ellipsis, [0, 5]) does not fit"),
        ((..., [0, 1], [0, 1, 2]), "does not fit"),
        ((..., torch.tensor([True] * 4)), "does not fit"),
        ((..., torch.tensor([], dtype=torch.bool)), "does not fit"),
        (slice(None, None, -1), "does not fit"),
        ((..., torch.ones(2, 5) > 0), "does not fit"),
        (True, "True cannot index"),
        (torch.tensor(True), "tensor(True) cannot index"),
        (torch.tensor(1.5), "tensor(1.5000) cannot index"),
        ((..., [0.5]), "cannot index"),
        ("x", "'x' cannot index"),
        ((..., ["x"]), "['x'] cannot index"),
    ],
    ids=repr,
)
def test_what_cannot_be_an_index(index, said):
    a, _ = attention((3, 7, 5), "cpu")
    with pytest.raises(InputError) as caught:
        a[index]
    assert said in str(caught.value)


# ── functions, methods, operators ────────────────────────────────────────────────────────────

A, D = attention((1, 3, 6, 6), "cpu")
X = draw(1, 3, 6, 6, seed=1, dtype=torch.float32)

# each is done with the attention and with the tensor
DONE: dict[str, Callable[[Any], Any]] = {
    "stack": lambda a: torch.stack([a, a], dim=1),
    "cat": lambda a: torch.cat((a, X, a), dim=-1),
    "by name": lambda a: torch.softmax(input=a, dim=-1),
    "functional": lambda a: F.avg_pool2d(a, 2),
    "einsum": lambda a: torch.einsum("bhij,bhjd->bhid", a, X),
    "where": lambda a: torch.where(a > 0.2, a, 0.0),
    "close": lambda a: torch.allclose(a, D),
    "view": lambda a: a.view(3, 36),
    "permute": lambda a: a.permute(0, 2, 1, 3),
    "half": lambda a: a.half(),
    "mean": lambda a: a.mean(dim=(0, 1)),
    "topk": lambda a: a.topk(2).indices,
    "rounded": lambda a: a.round(decimals=2),
    "chosen by itself": lambda a: a[a > 0.2],
    "turned": lambda a: a.mT + a.transpose(-1, -2),
    "both": lambda a: (a > 0.1) & (a < 0.5),
    "negative": lambda a: -a,
    "size of": lambda a: abs(a - 0.5),
    "inside": lambda a: 0.0 in a,
    "walked": lambda a: torch.cat(list(a)),
    "array": np.asarray,
    "numpy": lambda a: a.numpy(),
    "a function of numpy's": lambda a: np.asarray(np.sqrt(a)),
    "with an array": lambda a: torch.as_tensor(a * np.full(6, 2, np.float32)),
    "numbers": lambda a: (a.tolist(), a[0, 0, 0, 0].item()),
    "size": lambda a: (a.size(), a.size(1), a.size(-1), a.dim(), a.ndim, a.numel(), len(a)),
    "kind": lambda a: (a.dtype, a.device, a.is_cuda, a.layout, a.requires_grad, a.nbytes),
    "shape": lambda a: tuple(a.shape),
}
for name in "add sub mul truediv floordiv mod pow matmul lt le gt ge eq ne".split():
    run = getattr(operator, name)
    DONE[f"{name} a tensor"] = lambda a, run=run: run(a, X)
    DONE[f"a tensor {name}"] = lambda a, run=run: run(X, a)
    if name != "matmul":
        DONE[f"{name} a number"] = lambda a, run=run: run(a, 2)
        DONE[f"a number {name}"] = lambda a, run=run: run(2, a)


@pytest.mark.parametrize("name", DONE)
def test_what_a_tensor_does(name: str) -> None:
    mine, right = DONE[name](A), DONE[name](D)
    assert type(mine) is type(right)
    if isinstance(mine, Tensor | np.ndarray | np.generic):
        pair = torch.as_tensor(mine), torch.as_tensor(right)
        assert_close(*pair, rtol=1e-6, atol=1e-7, equal_nan=True)
    else:
        assert mine == right


def test_a_transposed_one_too() -> None:
    assert_close(A.T + 1, D.mT + 1)
    assert_close(torch.stack([A.T])[0], D.mT)
    assert A.T.shape == A.T.size() == (1, 3, 6, 6) and A.T.dtype == torch.float32
    assert A.T.device == A.device and A.T.T is A


def test_what_builds_nothing_still_builds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.engine.attention._LARGEST_DENSE", 1)
    a = regard.attend(*qkv(batch=(1,)))
    assert (a @ draw(6, 6)).shape == (1, 4, 6, 6) and a[0, 1, 2].shape == (6,)
    assert a.detach().entropy().shape == a.clone().lse.shape
    assert isinstance(a.detach(), regard.Attention)
    assert a.size(-1) == 6 and not a.is_cuda and hasattr(a, "numpy") and not hasattr(a, "nothing")
    assert {a: 1}[a] == 1
    copies = copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a))
    assert all(torch.equal(one.lse, a.lse) for one in copies)
    sentence = (
        r"stack needs the dense matrix \(1, 4, 6, 6\), which would take 0.0 GiB of at most 0; ask "
        r"for rows, a slice, top\(\), received\(\) or pooled\(\), multiply by a @ x, or call"
    )
    with pytest.raises(TooLargeError, match=sentence):
        torch.stack([a, a])
    for said, ask in {
        "mean": a.mean, "__add__": lambda: a + 1, "an array": lambda: np.asarray(a),
        ".mT": lambda: a.mT,
    }.items():  # fmt: skip
        with pytest.raises(TooLargeError, match=f"^{said} needs the dense matrix"):
            ask()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a: a.mul_(2), "mul_"),
        (lambda a: torch.relu_(a), "relu_"),
        (lambda a: a.__setitem__(0, 1.0), "__setitem__"),
        (lambda a: a.requires_grad_(), "requires_grad_"),
        (lambda a: a.register_hook(print), "register_hook"),
        (lambda a: a.retain_grad(), "retain_grad"),
        (lambda a: torch.add(X, X, out=a), "add"),
    ],
)
def test_what_would_be_lost_is_refused(change: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(InputError, match=f"^{said} needs a tensor that stays"):
        change(A)


def test_gradients_go_through() -> None:
    a = regard.attend(*(leaves := qkv(batch=(1,), grad=True)))
    assert a.requires_grad
    (mine,) = torch.autograd.grad((torch.stack([a, a]) * X[:, :1]).sum(), leaves[:1])
    (right,) = torch.autograd.grad((a.dense() * X[:, :1]).sum() * 2, leaves[:1])
    assert_close(mine, right)


def test_assigning_and_asking_for_truth() -> None:
    a, _ = attention((1, 3, 6, 6), "cpu")
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(a)
    a += 1
    assert_close(a, D + 1)
