"""Whether anybody but us looks at a call of an operator.

torch takes some hundred microseconds to bring a call of a custom operator to the function behind
it. Where nothing is recorded, traced, batched or dispatched elsewhere, the function may be called
as it is. torch has no public word for all of that; this page alone knows the private ones, and
where one is missing says that somebody looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


def unwatched(tensors: Iterable[Tensor]) -> bool:
    """No gradient, no trace, no transform, no mode, no subclass of Tensor."""
    if torch.compiler.is_compiling() or _TRACED() or _MODES() or _LEVELS() or _is_dual():
        return False
    graph = torch.is_grad_enabled()
    return all(
        type(t) is Tensor and t.layout is torch.strided and not (graph and t.requires_grad)
        for t in tensors
    )


def has_tangent(tensors: Iterable[Tensor]) -> bool:
    """Whether a forward-mode derivative travels with one of them."""
    unpack: Callable[[Tensor], Any] = forward_ad.unpack_dual
    return any(unpack(t).tangent is not None for t in tensors)


def is_batched(tensors: Iterable[Tensor]) -> bool:
    """Whether one of them stands for many, inside `torch.vmap`."""
    return any(torch._C._functorch.is_batchedtensor(t) for t in tensors)


def _is_dual() -> bool:
    """Inside `forward_ad.dual_level`, where any tensor may carry a tangent."""
    level: int = getattr(forward_ad, "_current_level", 0)
    return level >= 0


def _somebody() -> bool:
    return True


def _private(name: str) -> Callable[[], Any]:
    """A function of torch's that answers with something true where it looks."""
    found: Any = torch._C
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if callable(found) else _somebody


_TRACED = _private("_get_tracing_state")  # torch.jit.trace
_MODES = _private("_len_torch_dispatch_stack")  # fake tensors, make_fx, selective checkpointing
_LEVELS = _private("_functorch.peek_interpreter_stack")  # vmap, grad, jvp
