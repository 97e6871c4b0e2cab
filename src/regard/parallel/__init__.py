"""Attention over several ranks: one long sequence, each rank with some of its tokens.

shards         which tokens each rank holds
transport      how ranks exchange tensors; a lost rank is named
problem        the whole problem, checked and compared by all ranks, seen from one block
ring           `ring`: keys and values go round
ring_backward  its gradients
ulysses        `ulysses`: tokens for heads by all-to-all
tree           `tree`: few queries over split keys, for decoding
prefill        the keys of earlier ranks, for models that read a prompt over ranks
"""

from __future__ import annotations

from regard.engine.torch_state import whole_sequence
from regard.parallel.ring import RingAttention, ring
from regard.parallel.shards import Piece, Shards
from regard.parallel.transport import Peers
from regard.parallel.tree import tree
from regard.parallel.ulysses import HeadwiseAttention, ulysses

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
