"""A function of tensors with shapes for tracing and gradients for autograd, declared as torch's
custom operators are, and called in one of three ways:

    nothing to record     the function itself
    autograd records      as an `autograd.Function`, with the operator's own backward
    anything else         torch's operator: tracing, transforms, modes, subclasses of Tensor

The first call of any custom operator imports dynamo, FSDP and sympy, which takes seconds, and each
call takes torch several times as long as a Function does. Plain training needs neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor, library

from regard.engine.torch_state import is_eager


def operator(name: str) -> Callable[[Callable[..., Any]], Operator]:
    """`@operator("rows")` makes the function below it torch.ops.regard.rows."""
    return lambda run: Operator(name, run)


class Operator:
    """`run` takes tensors, lists of tensors, None, numbers and text, and gives a tensor or a list
    of them, none of which is one that was given."""

    def __init__(self, name: str, run: Callable[..., Any]) -> None:
        self.name, self.run = name, run
        self.setup: Callable[..., None] | None = None
        self.backward: Callable[..., Any] | None = None
        self._traced = library.custom_op(f"regard::{name}", run, mutates_args=())

    def register_fake(self, like: Callable[..., Any]) -> Callable[..., Any]:
        """What has the shapes of its outputs."""
        self._traced.register_fake(like)
        return like

    def register_autograd(
        self, backward: Callable[..., Any], *, setup_context: Callable[..., None] | None = None
    ) -> None:
        """`setup_context(ctx, inputs, output)`, then `backward(ctx, grad)`: one gradient for each
        input, a list of them for a list."""
        self.setup, self.backward = setup_context, backward
        self._traced.register_autograd(backward, setup_context=setup_context)

    def __call__(self, *args: Any) -> Any:
        if not is_eager(tensors := _tensors(args)):
            return self._traced(*args)
        if not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
            return self.run(*args)
        sizes = [len(arg) if isinstance(arg, list) else None for arg in args]
        flat = chain.from_iterable(arg if isinstance(arg, list) else (arg,) for arg in args)
        apply: Callable[..., Any] = _InGraph.apply
        made = apply(self, sizes, *flat)
        return list(made) if isinstance(made, tuple) else made


def _tensors(args: Sequence[Any]) -> list[Tensor]:
    flat = chain.from_iterable(arg if isinstance(arg, list) else (arg,) for arg in args)
    return [arg for arg in flat if isinstance(arg, Tensor)]


class _InGraph(torch.autograd.Function):
    """An operator's call in autograd's graph. Functions take no lists: `sizes` has how many of the
    inputs make one up, None where an input stands for itself."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, sizes: list[int | None], *flat: Any) -> Any:
        rest = iter(flat)
        args = tuple(
            next(rest) if size is None else [next(rest) for _ in range(size)] for size in sizes
        )
        made = operator.run(*args)
        ctx.called = operator, sizes, isinstance(made, list)
        if operator.setup is not None:
            operator.setup(ctx, args, made)
        return tuple(made) if isinstance(made, list) else made

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        operator, sizes, is_list = ctx.called
        made = operator.backward(ctx, list(grads) if is_list else grads[0])
        flat = chain.from_iterable(
            (grad,) if size is None else grad for size, grad in zip(sizes, made, strict=True)
        )
        return None, None, *flat
