"""What attention over ranks costs, by counting: bytes that travel, operations, memory.

P ranks, n tokens on each; a layer has H query heads and G key heads of widths d (keys) and e
(values), b bytes a number. `docs/scale.md` says where each formula comes from; the suite
`parallel` holds the counts against what really travels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_EXACT = 4  # bytes of a number in sums and statistics
_INDEX = 8  # bytes of a key's number


@dataclass(frozen=True)
class Machine:
    """What one rank can do in a second."""

    flops: float  # operations of attention
    link: float  # bytes sent to the next rank
    memory: float  # bytes of its own memory read and written


@dataclass(frozen=True)
class Layer:
    """One layer of attention, as far as bytes and operations depend on it."""

    heads: int
    key_heads: int
    dim: int
    value_dim: int
    itemsize: int

    def over_heads(self, ranks: int) -> Layer:
        """What one of so many ranks computes when they share the heads out."""
        fewer = max(self.key_heads // ranks, 1)  # a key head is never cut: several ranks have it
        return replace(self, heads=self.heads // ranks, key_heads=fewer)

    # ── ring ─────────────────────────────────────────────────────────────────────────────────

    def shard(self, tokens: int) -> int:
        """Bytes of the keys and values of so many tokens: what a rank sends in a step."""
        return self.key_heads * tokens * (self.dim + self.value_dim) * self.itemsize

    def shard_backward(self, tokens: int) -> int:
        """Keys and values again, and their gradients, which travel as exact sums."""
        return self.shard(tokens) // self.itemsize * (self.itemsize + _EXACT)

    def work(self, tokens: int, causal: bool) -> float:
        """Operations of a step: n queries against n keys, half of the pairs where causal."""
        full = 2.0 * self.heads * tokens**2 * (self.dim + self.value_dim)
        return full / 2 if causal else full

    def merging(self, tokens: int) -> int:
        """Bytes of memory that merging a step's two blocks reads and writes: w·a, w·b, a + b."""
        return 2 * 7 * _EXACT * self.heads * (tokens // 2) * self.value_dim

    def memory(self, tokens: int, top: int = 0, rows: int = 0) -> dict[str, int]:
        """Bytes that a rank needs during the forward ring, part by part.

        top    how many keys of each row are kept (Top)
        rows   how many other statistics of each row
        """
        per_row = (2 + rows) * _EXACT + top * (_EXACT + _INDEX)
        running = _EXACT * self.heads * tokens * self.value_dim
        return {
            "q": self.heads * tokens * self.dim * self.itemsize,
            "k, v": self.shard(tokens),
            "k, v of others": 2 * self.shard(tokens),  # one here, one on its way
            "running output": running,
            "merging": 2 * running,
            "lse and statistics": self.heads * tokens * per_row,  # lse as two numbers
        }

    # ── Ulysses, tree, recording ─────────────────────────────────────────────────────────────

    def trade(self, tokens: int, world: int) -> float:
        """Bytes a rank sends to trade tokens for heads and back: q, k, v; then output and lse."""
        keys = max(self.key_heads, world)  # more ranks than key heads: each gets a copy
        there = self.heads * self.dim + keys * (self.dim + self.value_dim)
        back = self.heads * (self.value_dim * self.itemsize + _EXACT)
        return tokens * (there * self.itemsize + back) * (world - 1) / world

    def partial(self, queries: int) -> int:
        """Bytes of a few queries' output and lse (two numbers), which is all that `tree` sends."""
        return _EXACT * self.heads * queries * (self.value_dim + 2)


def hidden_from(layer: Layer, machine: Machine, causal: bool) -> float:
    """Tokens per rank from which a ring's messages take no longer than its arithmetic."""
    alone = layer.shard(1) / machine.link
    return alone / (layer.work(1, causal) / machine.flops)


def merge_share(layer: Layer, machine: Machine, tokens: int, causal: bool) -> float:
    """Time of merging over time of arithmetic, in one step."""
    return layer.merging(tokens) / machine.memory / (layer.work(tokens, causal) / machine.flops)
