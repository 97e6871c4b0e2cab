"""How a model's attention comes to be heard: on regard's own way, and from torch's function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from regard.engine.attention import Attention
from regard.recorder.sdpa import TorchIntercept

_COMPILERS = ("torch._dynamo", "torch.nn.attention.flex_attention")


@contextmanager
def intercepted(
    model: nn.Module,
    saw: Callable[[Attention, Tensor, Tensor], None],
    missed: Callable[[], None] | None = None,
) -> Iterator[None]:
    """Within the block, every module that asks transformers for its attention computes it with
    regard, which tells those who listen; `saw` gets what torch's function computes, and `missed`
    is called where attention is computed by other means.

    A model of transformers of which nothing would be heard is an error.
    """
    with ExitStack() as stack:
        if any(name in sys.modules for name in _COMPILERS):
            # compiled code says nothing of what it computes; without it, the import takes a second
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        if any(map(is_hugging_face, model.modules())):
            from regard.huggingface.families import calls_torch, sight
            from regard.huggingface.switch import switched, using

            found = sight(model)
            if found.seen:
                stack.enter_context(switched(model, found))
            elif is_hugging_face(model) and not calls_torch(model):
                stack.enter_context(using(model))  # which refuses it
        stack.enter_context(TorchIntercept(saw, missed))
        yield


def is_hugging_face(model: nn.Module) -> bool:
    """Whether transformers, or somebody who builds on it, wrote the model."""
    return any(kind.__module__.startswith("transformers.") for kind in type(model).__mro__)
