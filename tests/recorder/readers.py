"""Small modules that read texts, called in every way people call theirs."""

from __future__ import annotations

from collections import UserDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import BatchEncoding

import regard

__all__ = ["CALLS", "HEADS", "LAYERS", "Attends", "Named", "Reader", "attention_of", "batch_of"]

HEADS, LAYERS, WIDTH = 4, 2, 16
Pair = namedtuple("Pair", "input_ids attention_mask")


@dataclass
class Fields:
    """A batch as a dataclass."""

    input_ids: Tensor
    attention_mask: Tensor


@dataclass(slots=True)
class Slots:
    """The same, without a `__dict__`."""

    input_ids: Tensor
    attention_mask: Tensor


def _dict(ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
    return {"token_type_ids": 0 * ids, "attention_mask": mask, "input_ids": ids}


# name → (args, kwargs) of a call
CALLS: dict[str, Any] = {
    "dict": lambda *given: ((_dict(*given),), {}),
    "UserDict": lambda *given: ((UserDict(_dict(*given)),), {}),
    "BatchEncoding": lambda *given: ((BatchEncoding(_dict(*given)),), {}),
    "dataclass": lambda *given: ((Fields(*given),), {}),
    "slots": lambda *given: ((Slots(*given),), {}),
    "namedtuple": lambda *given: ((Pair(*given),), {}),
    "namespace": lambda *given: ((SimpleNamespace(**_dict(*given)),), {}),
    "nested": lambda *given: (({"n": 1, "text": [{"of": _dict(*given)}]},), {}),
    "keyword": lambda *given: ((), {"batch": _dict(*given)}),
}


class Attends(nn.Module):
    """One layer, by torch's function or by regard's."""

    def __init__(self, torchs: bool) -> None:
        super().__init__()
        self.torchs, self.qkv = torchs, nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, L, D); mask (B, L)."""
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        self.seen = q.detach(), k.detach()
        allowed = mask[:, None, None].bool()
        if self.torchs:
            found = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        else:
            found = regard.attend(q, k, v, mask=regard.Padding(mask.bool())).output
        return x + found.transpose(1, 2).flatten(2)


class Named(nn.Module):
    """Tokens and mask as arguments, by place or by name."""

    def __init__(self, torchs: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(60, WIDTH)
        self.layers = nn.ModuleList(Attends(torchs) for _ in range(LAYERS))
        with torch.no_grad():
            for layer in self.layers:
                layer.qkv.weight.mul_(3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Both (B, L)."""
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x, attention_mask)
        return x


class Reader(Named):
    """One structure that holds both, somewhere."""

    def forward(self, batch: Any) -> Tensor:  # type: ignore[override]
        """Any of CALLS."""
        while not hasattr(batch, "input_ids") and "input_ids" not in batch:
            batch = batch["text"][0] if "text" in batch else batch["of"]
        parts = [
            getattr(batch, name) if hasattr(batch, name) else batch[name]
            for name in ("input_ids", "attention_mask")
        ]
        return super().forward(*parts)


def batch_of(count: int, padding: str, tokens: int = 9) -> tuple[Tensor, Tensor]:
    """(count, tokens) ids from 3 on and a mask of ones and zeros; each sequence has its length."""
    dice = torch.Generator().manual_seed(count)
    ids = torch.randint(3, 60, (count, tokens), generator=dice)
    mask = torch.ones_like(ids)
    for number in range(count):
        less = (2 * number + 1) % 5
        if padding == "right" and less:
            mask[number, -less:] = 0
        elif padding == "left":
            mask[number, :less] = 0
    return ids * mask, mask


def attention_of(layer: Attends, number: int, head: int, real: Tensor) -> Tensor:
    """The definition: one sequence, one head, real tokens only."""
    q, k = (t[number, head][real] for t in layer.seen)
    return ((q @ k.mT) * q.shape[-1] ** -0.5).softmax(-1)
