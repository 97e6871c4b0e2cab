"""Tokens traded for heads around the attention function, as DeepSpeed's wrapper does it.

The wrapper throws the mask away, since it speaks of one rank's tokens, trades tokens for heads,
gathers `position_ids` and calls the registered function with all tokens of some heads. What that
function then knows about who sees whom is the layer's causality and the positions.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from parallel.world import run
from regard.huggingface import regard_attention
from regard.parallel import Peers, Shards
from regard.parallel.ulysses import Repartition, split_heads, to_heads, to_tokens

PLAIN = [[*range(12)]]
PACKED = [[*range(5), *range(4), *range(3)]]


def _traded(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any,
    *args: Any,
    **kwargs: Any,
) -> tuple[Tensor, Any]:
    """What the wrapper does, with our own all-to-all."""
    peers = Peers.of()
    shards = Shards.contiguous([query.shape[2]] * peers.world)
    heads = split_heads(query.shape[1], key.shape[1], peers.world)
    layout = Repartition(peers, shards, *zip(*heads, strict=True))
    mine = kwargs["position_ids"].contiguous()
    everyone = [torch.empty_like(mine) for _ in range(peers.world)]
    dist.all_gather(everyone, mine)
    kwargs["position_ids"] = torch.cat(everyone, -1)
    q, k, v = to_heads(layout, query, key, value, [])
    output, weights = regard_attention(module, q, k, v, None, *args, **kwargs)
    (found,) = to_tokens(layout, (-2,), output.transpose(1, 2))
    return found.transpose(1, 2), weights


def _model(kind: str) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 19,
        "num_attention_heads": 4, "num_key_value_heads": 2, "attn_implementation": "regard",
    }  # fmt: skip
    if kind == "mistral":
        return MistralForCausalLM(MistralConfig(**sizes, sliding_window=3)).double()
    return LlamaForCausalLM(LlamaConfig(**sizes)).double()


def _loss(model: Any, ids: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    logits = model(ids, position_ids=positions, use_cache=False).logits
    return logits, logits.square().sum()


def _on_ranks(kind: str, positions: list[list[int]]) -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    model = _model(kind)
    ids, places = torch.arange(12)[None], torch.tensor(positions)
    right, loss = _loss(model, ids, places)
    loss.backward()
    exact = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    shards = Shards.contiguous([12 // dist.get_world_size()] * dist.get_world_size())
    mine = [shards.take(t, dist.get_rank(), -1) for t in (ids, places)]
    before = ALL_ATTENTION_FUNCTIONS["regard"]
    ALL_ATTENTION_FUNCTIONS["regard"] = _traded
    try:
        found, loss = _loss(model, *mine)
        loss.backward()
    finally:
        ALL_ATTENTION_FUNCTIONS["regard"] = before
    torch.testing.assert_close(found, shards.take(right, dist.get_rank(), 1))
    for name, parameter in model.named_parameters():
        grad = parameter.grad
        dist.all_reduce(grad)
        torch.testing.assert_close(grad, exact[name], msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("positions", [PLAIN, PACKED], ids=["plain", "packed"])
@pytest.mark.parametrize("kind", ["llama", "mistral"])
@pytest.mark.parametrize("world", [2, 4])
def test_a_model_whose_tokens_are_spread(world: int, kind: str, positions: list[list[int]]) -> None:
    run(world, _on_ranks, kind, positions)
