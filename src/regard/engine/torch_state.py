"""What state torch is in where a call arrives; this file alone knows torch's private words for it.

plain       nothing is recorded, traced, batched or dispatched elsewhere, so that a function may
            be called as it is: torch takes some hundred microseconds to bring a call of a custom
            operator to the function behind it
autocast    what q, k and v are cast to
capturing   launches become a CUDA graph: nothing may come from the host, nor be fetched to it
sharded     inside `torch.distributed.tensor.experimental.context_parallel` every tensor is one
            rank's part of the sequence, and nothing about it says so. torch's own function is
            replaced there by one that exchanges keys with the other ranks; attention computed in
            another way would stay within the part. So `attend` asks here first, and refuses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad

from regard.errors import UnavailableError


def is_eager(tensors: Iterable[Tensor], recorded: bool = True) -> bool:
    """No trace, no transform, no mode, no subclass of Tensor; a gradient if it may be recorded."""
    # inside `forward_ad.dual_level` any tensor may carry a tangent
    if torch.compiler.is_compiling() or getattr(forward_ad, "_current_level", 0) >= 0:
        return False
    if _TRACED() or _MODES() or _LEVELS():
        return False
    graph = not recorded and torch.is_grad_enabled()
    for t in tensors:
        if type(t) not in _PLAIN or t.layout is not _STRIDED or t.is_nested:
            return False
        if graph and t.requires_grad:
            return False
    return True


# nor a gradient: every frame of Python shows in short calls
unwatched = partial(is_eager, recorded=False)

_STRIDED = torch.strided
_PLAIN = (Tensor, torch.nn.Parameter)


def unintercepted() -> AbstractContextManager[None]:
    """Within the block no mode of torch's functions is told of them."""
    quiet: AbstractContextManager[None] = torch._C.DisableTorchFunction()
    return quiet


@contextmanager
def recording() -> Iterator[None]:
    """Within the block autograd records, also below itself, where operators run."""
    guard: Any = torch._C
    none = guard._dispatch_tls_local_exclude_set() - guard._dispatch_tls_local_exclude_set()
    here = guard._ForceDispatchKeyGuard(guard._dispatch_tls_local_include_set(), none)
    with here, torch.inference_mode(False), torch.enable_grad():
        yield


def capturing(device: torch.device) -> bool:
    """Whether work on the device is being captured in a CUDA graph."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def has_tangent(tensors: Iterable[Tensor]) -> bool:
    """Whether a forward-mode derivative travels with one of them."""
    unpack: Callable[[Tensor], Any] = forward_ad.unpack_dual
    return any(unpack(t).tangent is not None for t in tensors)


def is_batched(tensors: Iterable[Tensor]) -> bool:
    """Whether one of them stands for many, inside `torch.vmap`."""
    return any(torch._C._functorch.is_batchedtensor(t) for t in tensors)


NO_TRANSFORM = (
    "torch.func.grad, vjp or jacrev over regard is asked for; only implementation='dense' has "
    "them, every other has gradients by backward() and torch.autograd.grad"
)


def is_transformed(tensors: Iterable[Tensor]) -> bool:
    """Whether `torch.func.grad`, `vjp` or `jacrev` differentiates one of them; traced code cannot
    ask."""
    if torch.compiler.is_compiling():
        return False
    return any(torch._C._functorch.is_gradtrackingtensor(t) for t in tensors)


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


_DEVICES = ("cpu", "cuda", "xpu", "mps")  # that have it
_CAST = (torch.float32, torch.bfloat16, torch.float16)  # float64 is left alone


def in_autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Inside torch.autocast, q, k and v take its dtype, as torch's own attention does."""
    kind = tensors[0].device.type if isinstance(tensors[0], Tensor) else "cpu"
    if kind not in _DEVICES or not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return tuple(t.to(dtype) if isinstance(t, Tensor) and t.dtype in _CAST else t for t in tensors)


torch_attention = F.scaled_dot_product_attention  # whatever replaces it later
_OPERATOR = torch.ops.aten._scaled_dot_product_flash_attention.default
_HOME = "torch.distributed.tensor"

_SAID: ContextVar[bool] = ContextVar("regard_whole_sequence", default=False)


def check_whole() -> None:
    """Raise where tensors are parts of sequences, unless `whole_sequence` says otherwise."""
    if not inside_context_parallel() or _is_said():
        return
    raise UnavailableError(
        "attention was asked for inside torch's context_parallel, where each rank holds a part of "
        "the sequence: regard would attend within the part. Shard by regard.parallel.Shards and "
        "use regard.parallel, or leave the block; where the tensors do hold whole sequences, say "
        "so by `with regard.parallel.whole_sequence():`"
    )


@contextmanager
def whole_sequence() -> Iterator[None]:
    """Within the block, the tensors given to `attend` hold whole sequences."""
    token = _SAID.set(True)
    try:
        yield
    finally:
        _SAID.reset(token)


def _is_said() -> bool:
    """Traced code cannot read a context variable: there it counts as not said."""
    return not torch.compiler.is_compiling() and _SAID.get()


def inside_context_parallel() -> bool:
    """Whether torch shards sequences here and now."""
    # compiled code is compiled again when the function is another one
    if F.scaled_dot_product_attention is not torch_attention and _is_replaced():
        return True
    # nothing to look at where nobody has imported DTensor
    return _HOME in sys.modules and _is_taken_over()


def _is_replaced() -> bool:
    """Others replace the function too: only torch.distributed's replacement counts."""
    home = getattr(F.scaled_dot_product_attention, "__module__", None)
    return str(home).startswith("torch.distributed")


def _is_taken_over() -> bool:
    """Whether DTensor hands attention's operators to the ring, as modules wrapped for context
    parallelism need it."""
    api: Any = sys.modules[_HOME]
    dispatcher = getattr(api.DTensor, "_op_dispatcher", None)
    return _OPERATOR in getattr(dispatcher, "_custom_op_handlers", ())
