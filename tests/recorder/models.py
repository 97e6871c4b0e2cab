"""Small models to record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from installed import needs

__all__ = ["SDPA", "Calls", "Plain", "Stack", "heads_of", "tiny", "tokens"]

SDPA = F.scaled_dot_product_attention


class Stack(nn.Module):
    """Layers of regard's own."""

    def __init__(self, layers: int = 2, heads: int = 4, kv_heads: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            regard.nn.MultiHeadAttention(32, heads, kv_heads=kv_heads) for _ in range(layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, 32)."""
        for layer in self.layers:
            x = x + layer(x, mask=regard.Causal())
        return x


class Torch(nn.Module):
    """One layer around torch's function."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, 32)."""
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        return SDPA(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


class Plain(nn.Module):
    """Somebody's model that knows nothing of regard."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Torch() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, 32)."""
        for block in self.blocks:
            x = x + block(x)
        return x


class Calls(nn.Module):
    """Hands what it is given to a function that attends."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Whatever the function gives."""
        return self.call(*args, **kwargs)


def heads_of(x: Tensor, count: int = 4) -> Tensor:
    """(…, L, D) → (…, count, L, D ÷ count)."""
    return x.unflatten(-1, (count, -1)).transpose(-2, -3)


_SIZES = {
    "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 50,
    "intermediate_size": 48, "max_position_embeddings": 4096,
}  # fmt: skip


SINCE = {"t5": "5.15"}  # the first transformers in which these dispatch their attention


def tiny(family: str, **options: Any) -> Any:
    """A model of transformers with random weights."""
    import transformers

    needs("transformers", SINCE.get(family, "5.0"), f"{family} dispatches its attention")
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **(_SIZES | options))
    kinds: dict[str, Any] = dict.fromkeys(("bert", "albert"), transformers.AutoModel)
    kinds["t5"] = transformers.AutoModelForSeq2SeqLM
    return kinds.get(family, transformers.AutoModelForCausalLM).from_config(config).eval()


def tokens(count: int, batch: int = 1, seed: int = 0) -> Tensor:
    """(batch, count) ids from 3 on."""
    dice = torch.Generator().manual_seed(seed)
    return torch.randint(3, 50, (batch, count), generator=dice)
