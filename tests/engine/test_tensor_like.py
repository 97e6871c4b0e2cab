"""The lazy matrix where code expects a tensor: torch's answers, or a clear refusal."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

import regard
from regard.engine import attention as module
from regard.engine.tensor_like import TensorLike
from regard.errors import InputError, TooLargeError


def made(requires_grad: bool = False) -> regard.Attention:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 3, n, 4, requires_grad=requires_grad) for n in (6, 6, 6))
    return regard.attend(q, k, v, mask=regard.Causal())


A = made()
D = A.dense()
X = torch.randn(1, 3, 6, 6, generator=torch.Generator().manual_seed(1))

# each is done with the attention and with the tensor
DONE: dict[str, Callable[[Any], Any]] = {
    "stack": lambda a: torch.stack([a, a], dim=1),
    "stack of a tuple": lambda a: torch.stack((a, a)),
    "cat": lambda a: torch.cat([a, X, a], dim=-1),
    "squeeze": lambda a: a.squeeze(0),
    "unsqueeze": lambda a: a.unsqueeze(1),
    "permute": lambda a: a.permute(0, 2, 1, 3),
    "view": lambda a: a.view(3, 36),
    "reshape": lambda a: a.reshape(-1),
    "flatten": lambda a: a.flatten(1),
    "to": lambda a: a.to(torch.float64),
    "cpu": lambda a: a.cpu(),
    "float": lambda a: a.float(),
    "half": lambda a: a.half(),
    "mean": lambda a: a.mean(),
    "mean of axes": lambda a: a.mean(dim=(0, 1)),
    "sum": lambda a: a.sum(-1),
    "max": lambda a: a.max(-1).values,
    "argmax": lambda a: a.argmax(-1),
    "topk": lambda a: a.topk(2).indices,
    "function": lambda a: torch.mean(a, dim=1),
    "functional": lambda a: F.avg_pool2d(a, 2),
    "as an argument by name": lambda a: torch.softmax(input=a, dim=-1),
    "einsum": lambda a: torch.einsum("bhij,bhjd->bhid", a, X),
    "add": lambda a: a + 1,
    "scale": lambda a: a * 2,
    "one less": lambda a: 1 - a,
    "divide": lambda a: a / a.sum(-1, keepdim=True),
    "divide by": lambda a: 1 / (a + 1),
    "power": lambda a: a**2,
    "whole part": lambda a: (a * 9) // 2,
    "negative": lambda a: -a,
    "size of": lambda a: abs(a - 0.5),
    "with a tensor": lambda a: X + a,
    "with its transposed": lambda a: a + a.transpose(-1, -2),
    "multiply": lambda a: a @ X,
    "multiplied": lambda a: X @ a,
    "more than": lambda a: a > 0.2,
    "at most": lambda a: a <= 0.2,
    "equal": lambda a: a == 0,
    "unequal": lambda a: a != 0,
    "both": lambda a: (a > 0.1) & (a < 0.5),
    "where": lambda a: torch.where(a > 0.2, a, 0.0),
    "chosen by itself": lambda a: a[a > 0.2],
    "masked": lambda a: a.masked_fill(X > 0, 0.0),
    "new axis": lambda a: a[0, None, ..., :2],
    "lists": lambda a: a[:, [0, 2], :, [1, 3]],
    "walked": lambda a: torch.cat(list(a)),
    "array": np.asarray,
    "numpy": lambda a: a.numpy(),
    "a function of numpy's": lambda a: np.asarray(np.sqrt(a)),
    "with an array": lambda a: torch.as_tensor(a * np.full(6, 2, np.float32)),
    "list": lambda a: a.tolist(),
    "item": lambda a: a[0, 0, 0, 0].item(),
    "shape": lambda a: tuple(a.shape),
    "size": lambda a: (a.size(), a.size(1), a.size(-1), a.dim(), a.ndim, a.numel(), len(a)),
    "kind": lambda a: (a.dtype, a.device, a.is_cuda, a.layout, a.requires_grad, a.nbytes),
    "turned property": lambda a: a.mT,
    "close": lambda a: torch.allclose(a, D),
    "inside": lambda a: 0.0 in a,
    "rounded": lambda a: a.round(decimals=2),
}  # fmt: skip


@pytest.mark.parametrize("name", DONE)
def test_what_a_tensor_does(name: str) -> None:
    found, right = DONE[name](A), DONE[name](D)
    assert type(found) is type(right)
    if isinstance(found, Tensor | np.ndarray | np.generic):
        assert_close(torch.as_tensor(found), torch.as_tensor(right), rtol=1e-6, atol=1e-7)
    else:
        assert found == right


def test_a_transposed_one_too() -> None:
    assert_close(A.T + 1, D.mT + 1)
    assert_close(torch.stack([A.T])[0], D.mT)
    assert A.T.shape == A.T.size() == (1, 3, 6, 6) and A.T.dtype == torch.float32
    assert A.T.device == A.device


def test_what_builds_nothing_still_builds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST_DENSE", 1)
    a = made()
    assert (a @ X).shape == (1, 3, 6, 6) and a[0, 1, 2].shape == (6,)
    assert a.detach().entropy().shape == a.clone().lse.shape
    assert isinstance(a.detach(), regard.Attention)
    assert a.size(-1) == 6 and not a.is_cuda and hasattr(a, "numpy") and not hasattr(a, "nothing")
    assert {a: 1}[a] == 1
    copies = copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a))
    assert all(torch.equal(one.lse, a.lse) for one in copies)
    sentence = (
        r"stack needs the dense matrix \(1, 3, 6, 6\), which would take 0.0 GiB of at most 0; ask "
        r"for rows, a slice, top\(\), received\(\) or pooled\(\), multiply by a @ x, or call"
    )
    with pytest.raises(TooLargeError, match=sentence):
        torch.stack([a, a])
    assert a.dense(force=True).shape == (1, 3, 6, 6)
    for asked in ("mean", "__add__", "an array", ".mT"):
        with pytest.raises(TooLargeError, match=f"^{asked} needs the dense matrix"):
            {
                "mean": a.mean, "__add__": lambda: a + 1, "an array": lambda: np.asarray(a),
                ".mT": lambda: a.mT,
            }[asked]()  # fmt: skip


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
        change(made())


def test_gradients_go_through() -> None:
    a = made(requires_grad=True)
    q = a._call.query
    assert a.requires_grad
    (mine,) = torch.autograd.grad((torch.stack([a, a]) * X).sum(), [q])
    (right,) = torch.autograd.grad((a.dense() * X).sum() * 2, [q])
    assert_close(mine, right)


def test_assigning_and_asking_for_truth() -> None:
    a = made()
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(a)
    a += 1
    assert_close(a, D + 1)
    assert issubclass(regard.Attention, TensorLike)
