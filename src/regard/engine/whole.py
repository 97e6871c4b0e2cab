"""Tensors that are only a rank's share of a sequence, where nothing about them says so.

Inside `torch.distributed.tensor.experimental.context_parallel` every tensor is one rank's part of
the sequence. torch's own `scaled_dot_product_attention` is replaced there by one that talks to the
other ranks. Whoever computes attention by another way would attend within the part, in silence.
So `attend` asks here first, and refuses.

This page alone knows how torch marks the place. It replaces the function in its module, makes
DTensor take attention's operators over, or both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F

from regard.errors import UnavailableError

_OWN = F.scaled_dot_product_attention
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
    replaced = F.scaled_dot_product_attention is not _OWN and _is_replaced()
    return replaced or _is_taken_over()


def _is_replaced() -> bool:
    """Others replace the function too: only torch.distributed's replacement counts."""
    home = getattr(F.scaled_dot_product_attention, "__module__", None)
    return str(home).startswith("torch.distributed")


def _is_taken_over() -> bool:
    """Whether DTensor hands attention's operators to the ring, as modules wrapped for context
    parallelism need it. Nothing to look at where nobody has imported DTensor."""
    api: Any = sys.modules.get(_HOME)
    if api is None:
        return False
    dispatcher = getattr(api.DTensor, "_op_dispatcher", None)
    return _OPERATOR in getattr(dispatcher, "_custom_op_handlers", ())
