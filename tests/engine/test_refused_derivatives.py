"""Derivatives and tensors that are not offered are refused in our words, before or where asked."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import regard
from regard.errors import DTypeError, GradientError


def _tensors(tokens=20):
    return [torch.randn(1, 2, tokens, 8, requires_grad=True) for _ in range(3)]


@pytest.mark.parametrize("tokens", [20, 600])
@pytest.mark.parametrize("implementation", [None, "cpu", "tiled", "library"])
def test_second_derivatives(implementation, tokens):
    q, k, v = _tensors(tokens)
    a = regard.attend(q, k, v, implementation=implementation)
    asked = [a.output, a.entropy(), a.received(), a[..., :3, :], a.T @ v]
    asked.append(regard.divergence(regard.attend(q.detach() * 2, k.detach(), v.detach()), a))
    for value in asked:
        (grad,) = torch.autograd.grad(value.square().sum(), q, create_graph=True)
        with pytest.raises(GradientError, match=r"second derivative.*implementation='dense'"):
            grad.square().sum().backward()


def test_the_definition_has_second_derivatives():
    q, k, v = _tensors(5)
    output = regard.attend(q, k, v, implementation="dense").output
    (grad,) = torch.autograd.grad(output.square().sum(), q, create_graph=True)
    assert torch.autograd.grad(grad.square().sum(), q)[0].abs().sum() > 0


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev])
def test_functions_of_torch_func(transform):
    q, k, v = (t.detach() for t in _tensors())
    for implementation in (None, "cpu", "tiled"):
        with pytest.raises(GradientError, match=r"torch\.func\.grad.*backward\(\)"):
            transform(
                lambda q, by=implementation: regard.attend(q, k, v, implementation=by).output.sum()
            )(q)
    a = regard.attend(q, k, v)
    with pytest.raises(GradientError, match=r"torch\.func\.grad"):
        transform(lambda x: (a @ x).sum())(v)
    transform(lambda q: regard.attend(q, k, v, implementation="dense").output.sum())(q)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors(layout):
    parts = [torch.randn(2, 3, 8), torch.randn(2, 5, 8)]
    given = torch.nested.nested_tensor(parts, layout=layout)
    q = torch.randn(2, 2, 5, 8)
    for ask in (
        lambda: regard.attend(given, given, given),
        lambda: regard.attend(q, q, q, bias=given),
        lambda: regard.attend(q, q, q, sink=given),
        lambda: regard.replay(given, given),
        lambda: regard.replay(q, given),
        lambda: regard.attend_partial(given, given, given),
        lambda: regard.scaled_dot_product_attention(given, given, given),
        lambda: regard.lightning_indexer(given, given, q[..., 0]),
    ):
        with pytest.raises(DTypeError, match="is a nested tensor; give its sequences one behind"):
            ask()


@pytest.mark.parametrize("name", ["mask", "score", "summary", "state", "errors", "declare"])
def test_each_module_is_there_after_import_regard(name):
    """In a process that has imported nothing else."""
    code = f"import regard; assert regard.{name}.__name__ == 'regard.{name}'"
    subprocess.run([sys.executable, "-c", code], check=True)
