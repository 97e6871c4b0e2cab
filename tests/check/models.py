"""Plain torch models: each mixes, packs, pads or keeps a cache in a way of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

__all__ = [
    "Attention", "Channels", "Counted", "Long", "Pack", "Packed", "Pictures", "Shifted", "Steps",
    "Words", "seeded",
]  # fmt: skip


def seeded(kind: Any, *args: Any, **kwargs: Any) -> Any:
    """With weights of a fixed seed, in eval mode."""
    with torch.random.fork_rng():
        torch.manual_seed(11)
        return kind(*args, **kwargs).eval()


class Attention(nn.Module):
    """Causal, to at most `window` tokens, or within what `allowed` says."""

    def __init__(self, heads: int = 4, window: int | None = None) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.heads, self.window = heads, window

    def forward(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        behind = torch.arange(n)[:, None] - torch.arange(n)
        mask = behind >= 0
        if self.window is not None:
            mask = mask & (behind < self.window)
        if allowed is not None:
            mask = mask & allowed
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        rows: Tensor = self.out(mixed.transpose(1, 2).reshape(b, n, -1))
        return rows


class Words(nn.Module):
    """A language model with added padding: True where there is a token."""

    def __init__(self, window: int | None = None) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(64, 32), nn.Linear(32, 64)
        self.mix = nn.ModuleList([Attention(window=window), Attention()])

    def forward(self, tokens: Tensor, padding_mask: Tensor | None = None) -> dict[str, Tensor]:
        x = self.embed(tokens)
        itself = torch.eye(tokens.shape[1], dtype=torch.bool)
        allowed = None if padding_mask is None else ~padding_mask[:, None, None] | itself
        for mix in self.mix:
            x = x + mix(x, allowed)
        return {"loss": x.mean(), "logits": self.head(x)}


@dataclass
class Pack:
    """Where documents begin in a row of tokens without an axis of sequences."""

    cu_seqlens: Tensor
    max_seqlen: int


class Packed(nn.Module):
    """Takes [T, D] and a nested description, gives [T, D]."""

    def __init__(self, is_right: bool = True) -> None:
        super().__init__()
        self.mix, self.is_right = Attention(), is_right

    def forward(self, hidden: Tensor, pack: Pack) -> Tensor:
        places = torch.arange(len(hidden))
        document = torch.bucketize(places, pack.cu_seqlens[1:].to(places), right=True)
        allowed = document[:, None] == document
        rows: Tensor = self.mix(hidden[None], allowed if self.is_right else None)[0]
        return hidden + rows


class Steps(nn.Module):
    """A GRU that hands on its state as the second of a tuple; `late` forgets it by a share."""

    def __init__(self, late: float = 0.0) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(64, 32), nn.Linear(32, 64)
        self.gru, self.late = nn.GRU(32, 32, batch_first=True), late

    def forward(self, tokens: Tensor, cache: Tensor | None = None) -> tuple[Tensor, Tensor]:
        x, state = self.gru(self.embed(tokens), cache)
        return self.head(x), state * (1 - self.late)


class Counted(nn.Module):
    """Attention with a cache of its own class, changed in place; `off` is added to positions that
    are read from a cache."""

    class Cache:
        def __init__(self) -> None:
            self.rows = torch.zeros(1, 0, 32)

    def __init__(self, off: int = 0) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(64, 32), nn.Embedding(64, 32)
        self.q, self.k, self.v = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.head, self.off = nn.Linear(32, 64), off

    def new_cache(self) -> Counted.Cache:
        return Counted.Cache()

    def forward(self, tokens: Tensor, cache: Counted.Cache | None = None) -> Tensor:
        known = 0 if cache is None else cache.rows.shape[1]
        places = torch.arange(tokens.shape[1]) + known + (self.off if known else 0)
        x = self.embed(tokens) + self.place(places)
        read = x
        if cache is not None:
            cache.rows = read = torch.cat([cache.rows.to(x), x], 1)
        mask = torch.ones(x.shape[1], read.shape[1], dtype=torch.bool).tril(known)
        mixed = scaled_dot_product_attention(self.q(x), self.k(read), self.v(read), attn_mask=mask)
        logits: Tensor = self.head(x + mixed)
        return logits


class Pictures(nn.Module):
    """Convolutions with batch norm, and a class a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.first(x)).relu().mean((2, 3))
        logits: Tensor = self.head(x)
        return logits


class Shifted(nn.Module):
    """A causal convolution; `early` positions too far ahead."""

    def __init__(self, early: int = 0) -> None:
        super().__init__()
        self.embed, self.mix = nn.Embedding(64, 32), Convolution()
        self.mix.early = early

    def forward(self, tokens: Tensor) -> Tensor:
        rows: Tensor = self.mix(self.embed(tokens))
        return rows


class Convolution(nn.Module):
    """Of three positions, the last of which is its own, or one behind it."""

    early = 0

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Conv1d(32, 32, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = pad(x.transpose(1, 2), (2 - self.early, self.early))
        rows: Tensor = self.kernel(x).transpose(1, 2)
        return rows


class Long(nn.Module):
    """A causal convolution as long as the text, by Fourier transforms: each row is rounded anew."""

    def __init__(self, is_padded: bool = True) -> None:
        super().__init__()
        self.embed, self.kernel = nn.Embedding(64, 32), nn.Parameter(torch.randn(64, 32))
        self.is_padded = is_padded

    def forward(self, tokens: Tensor) -> Tensor:
        x, length = self.embed(tokens), tokens.shape[1]
        n = 2 * length if self.is_padded else length
        kernel = torch.fft.rfft(self.kernel[:length], n=n, dim=0)
        return torch.fft.irfft(torch.fft.rfft(x, n=n, dim=1) * kernel, n=n, dim=1)[:, :length]


class Channels(nn.Module):
    """A convolution of torch itself, on (B, D, L)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, 32)
        self.kernel = nn.Conv1d(32, 32, 3, padding="same")

    def forward(self, tokens: Tensor) -> Tensor:
        rows: Tensor = self.kernel(self.embed(tokens).transpose(1, 2)).transpose(1, 2)
        return rows
