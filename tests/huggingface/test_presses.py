"""Presses without eager attention, against kvpress's own: `make test-peers` has the package."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

kvpress = pytest.importorskip("kvpress")

TOKENS = 96
KINDS: dict[str, dict[str, Any]] = {
    "llama": {}, "qwen2": {}, "qwen3": {"head_dim": 8}, "mistral": {"sliding_window": None},
}  # fmt: skip
SIZES = {
    "vocab_size": 61, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 3,
    "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 512,
    "pad_token_id": 0,
}  # fmt: skip


def model_of(kind: str, attention: str) -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **SIZES | KINDS[kind])
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # scores that differ from key to key
            parameter.mul_(3.0 if parameter.ndim > 1 else 1.0)
    return model.double()


def ids(tokens: int = TOKENS) -> Tensor:
    return torch.randint(1, 61, (1, tokens), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def compressed(model: Any, press: Any, more: int = 1) -> tuple[list[Tensor], Tensor]:
    """Keys and values of all layers after the prompt, and the logits of tokens after it. Where
    layers keep different numbers of keys, transformers has a mask for one token alone."""
    cache = DynamicCache()
    with press(model):
        model.model(input_ids=ids(), past_key_values=cache)
    held = [part.clone() for layer in cache.layers for part in (layer.keys, layer.values)]
    places = torch.arange(TOKENS, TOKENS + more)[None]
    found = model(ids(more), past_key_values=cache, position_ids=places).logits
    return held, found


def in_order(held: list[Tensor]) -> list[Tensor]:
    """Keys and values sorted by their first number: presses keep them in any order."""
    sorted_: list[Tensor] = []
    for keys, values in zip(held[::2], held[1::2], strict=True):
        order = keys[..., 0].argsort(-1)[..., None]
        sorted_ += [keys.take_along_dim(order, 2), values.take_along_dim(order, 2)]
    return sorted_


# eager rounds its weights to single precision, whatever the model's is
def expect_same(mine: tuple[list[Tensor], Tensor], theirs: tuple[list[Tensor], Tensor]) -> None:
    for one, other in zip(in_order(mine[0]), in_order(theirs[0]), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mine[1], theirs[1], rtol=1e-4, atol=1e-5)


PRESSES: dict[str, tuple[str, dict[str, Any]]] = {
    "observed": ("ObservedAttentionPress", {"compression_ratio": 0.5}),
    "observed, most": ("ObservedAttentionPress", {"compression_ratio": 0.9}),
    "compose": ("KVComposePress", {"compression_ratio": 0.5}),
    "compose, means": (
        "KVComposePress",
        {"compression_ratio": 0.6, "agg_task": "mean", "agg_group": "max"},
    ),
    "compose, unstructured": ("KVComposePress", {"compression_ratio": 0.5, "structured": False}),
}


@pytest.mark.parametrize("attention", ["sdpa", "regard"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("press", PRESSES)
def test_as_kvpress_on_eager(press: str, kind: str, attention: str) -> None:
    """KVComposePress goes to eager by itself, and on from there only with another attention."""
    from regard.huggingface import presses

    name, options = PRESSES[press]
    is_observed = name == "ObservedAttentionPress"
    eager, more = ("eager", 5) if is_observed else ("sdpa", 1)
    theirs = compressed(model_of(kind, eager), getattr(kvpress, name)(**options), more)
    model = model_of(kind, attention)
    mine = compressed(model, getattr(presses, name)(**options), more)
    expect_same(mine, theirs)
    assert model.config._attn_implementation == attention, "as it was before"


def test_prompts_of_their_own_for_kvcompose() -> None:
    from regard.huggingface import presses

    found = []
    for module, attention in ((kvpress, "sdpa"), (presses, "sdpa")):
        model, press = model_of("llama", attention), module.KVComposePress(compression_ratio=0.5)
        register = press.register_context_ids

        def context(given: Tensor, press: Any = press, register: Any = register) -> None:
            register(given)
            press.register_prompt_ids([ids(7), ids(12)])

        press.register_context_ids = context
        found.append(compressed(model, press))
    expect_same(found[1], found[0])


ORDER = """
import sys
{first}
{second}
import torch
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache
config = AutoConfig.for_model(
    "llama", vocab_size=61, hidden_size=48, intermediate_size=64, num_hidden_layers=2,
    num_attention_heads=6, num_key_value_heads=2)
ids = torch.randint(1, 61, (1, 80), generator=torch.Generator().manual_seed(1))
said = []
for attention in ("sdpa", "regard"):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).double().eval()
    cache = DynamicCache()
    press = kvpress.AdaKVPress(kvpress.SnapKVPress(0.7, window_size=8))
    with torch.no_grad(), press(model):
        model.model(input_ids=ids, past_key_values=cache)
    with torch.no_grad():
        said.append(model(ids[:, :1], past_key_values=cache).logits)
        plain = model(torch.cat([ids, ids[:, :1]], 1)).logits[:, -1:]
torch.testing.assert_close(said[0], said[1], rtol=1e-6, atol=1e-7)
assert (said[0] - plain).abs().max() > 1e-4, "nothing was hidden"
print("same")
"""


@pytest.mark.parametrize("order", ["regard, kvpress", "kvpress, regard", "kvpress, huggingface"])
def test_registered_before_or_after_kvpress(order: str) -> None:
    """Keys that a press hides from single heads are hidden by regard's attention too."""
    words = {"regard": "import regard", "kvpress": "import kvpress"}
    words["huggingface"] = "import regard.huggingface"
    first, second = (words[word] for word in order.split(", "))
    code = ORDER.format(first=first, second=second)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "same\n", run.stderr[-2000:]
