"""Attention over several ranks: one long sequence, each rank with some of its tokens.

shards     which tokens each rank holds
group      who takes part, and where this rank stands
agree      all ranks mean the same problem
travel     how tensors go round
failure    a rank that is lost is named
whole      the rules of the whole sequence, seen from one block
forward    the first ring: output, lse and what merges
backward   the ring of gradients
columns    the second ring: what keys received, maps
opening    what every attention over ranks begins with
questions  what every attention over ranks answers
attention  the answers of a ring
api        `ring`
spread     which heads each rank computes
message    several tensors as one message
swap       tokens for heads, and back
by_heads   `ulysses`
split_keys `tree`
prefill    the keys of the ranks before, for models that read a prompt over ranks
"""

from __future__ import annotations

from regard.engine.torch_state import whole_sequence
from regard.parallel.api import ring
from regard.parallel.attention import RingAttention
from regard.parallel.by_heads import HeadwiseAttention, ulysses
from regard.parallel.group import Peers
from regard.parallel.shards import Piece, Shards
from regard.parallel.split_keys import tree

__all__ = [
    "HeadwiseAttention",
    "Peers",
    "Piece",
    "RingAttention",
    "Shards",
    "ring",
    "tree",
    "ulysses",
    "whole_sequence",
]
