"""Inside torch's context_parallel a rank's tensors are part of a sequence: nobody attends to it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

import regard
from installed import needs
from parallel.world import run
from regard.engine.torch_state import inside_context_parallel, whole_sequence
from regard.errors import UnavailableError
from regard.nn import KeyValueCache, MultiHeadAttention

SAID = "inside torch's context_parallel"


def tensors() -> list[Tensor]:
    dice = torch.Generator().manual_seed(0)
    return [torch.randn(1, 2, 8, 4, generator=dice) for _ in range(3)]


def _next_token() -> Any:
    with torch.no_grad():
        return MultiHeadAttention(8, 2)(torch.randn(1, 1, 8), cache=KeyValueCache())


def _transformers() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    import regard.huggingface  # noqa: F401

    small = LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        vocab_size=11, attn_implementation="regard",
    )  # fmt: skip
    return LlamaForCausalLM(small)(torch.arange(8)[None])


WAYS: dict[str, Callable[[], Any]] = {
    "attend": lambda: regard.attend(*tensors()),
    "replay": lambda: regard.replay(*tensors()[:2]),
    "twin": lambda: regard.scaled_dot_product_attention(*tensors()),
    "layer": lambda: MultiHeadAttention(8, 2)(torch.randn(1, 8, 8)),
    "next token": _next_token,
    "transformers": _transformers,
}


def _refused(way: str) -> None:
    from torch.distributed.tensor.experimental import context_parallel

    call = WAYS[way]
    tokens = torch.arange(32.0).reshape(1, 32)
    call()
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    with context_parallel(mesh, buffers=[tokens], buffer_seq_dims=[1]):
        assert tokens.shape[1] == 16  # it has sharded
        with pytest.raises(UnavailableError, match=SAID):
            call()
        with whole_sequence():
            call()
        with pytest.raises(UnavailableError, match=SAID):
            call()
        part = regard.attend_partial(*tensors(), total_keys=16)  # it says which part it is
        assert part.out.shape == (1, 2, 8, 4)
    call()


@pytest.mark.parametrize("way", WAYS)
def test_every_way_is_refused_unless_told_otherwise(way: str) -> None:
    run(2, _refused, way)


def _wrapped() -> None:
    """Modules wrapped for context parallelism: the function stays as it is."""
    from torch.distributed.tensor.experimental import _attention

    _attention._enable_context_parallel_dispatcher()
    try:
        assert F.scaled_dot_product_attention is torch._C._nn.scaled_dot_product_attention
        with pytest.raises(UnavailableError, match=SAID):
            WAYS["attend"]()
    finally:
        _attention._disable_context_parallel_dispatcher()
    WAYS["attend"]()


def test_modules_wrapped_for_context_parallelism_are_noticed() -> None:
    needs("torch", "2.11", "modules can be wrapped for context parallelism")
    run(1, _wrapped)


def _compiled() -> None:
    from torch.distributed.tensor.experimental import context_parallel

    attend = torch.compile(lambda *given: regard.attend(*given).output, backend="eager")
    given = tensors()
    attend(*given)
    mesh = init_device_mesh("cpu", (1,))
    with (
        context_parallel(mesh, buffers=[torch.zeros(1, 8)], buffer_seq_dims=[1]),
        pytest.raises(UnavailableError, match=SAID),
    ):
        attend(*given)
    torch.testing.assert_close(attend(*given), regard.attend(*given).output)


def test_code_compiled_before_is_refused_too() -> None:
    run(1, _compiled)


def test_others_may_replace_the_function_and_nothing_is_imported_for_the_question() -> None:
    with patch.object(F, "scaled_dot_product_attention", lambda *given, **options: given[0]):
        assert not inside_context_parallel()
        WAYS["attend"]()
    with patch.dict(sys.modules):
        for name in [name for name in sys.modules if name.startswith("torch.distributed.tensor")]:
            del sys.modules[name]
        assert not inside_context_parallel()
        assert "torch.distributed.tensor" not in sys.modules
