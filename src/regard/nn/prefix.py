"""Many continuations of one prefix, whose keys are stored once."""

from __future__ import annotations

from typing import TypeGuard

from torch import Tensor

from regard.engine.api import attend_partial
from regard.errors import InputError, ShapeError
from regard.mask import Mask
from regard.nn.cache import Cache, KeyValueCache, StackCache
from regard.state import Partial, merge


class SharedPrefix(Cache):
    """A cache that continues a finished one of batch size 1, for a batch of any size.

    The prefix is neither copied nor read once per continuation: attention of all queries to it is
    one Partial, which is merged with that over their own keys. A prefix may be continued any
    number of times.
    """

    def __init__(self, prefix: Cache, own: Cache | None = None) -> None:
        if not isinstance(prefix, KeyValueCache):
            raise InputError(f"a {type(prefix).__name__} cannot be shared; give a KeyValueCache")
        if prefix.key is None or prefix.value is None:
            raise ShapeError("the prefix is empty; run the model on it first")
        self.key: Tensor = prefix.key
        self.value: Tensor = prefix.value
        if self.key.ndim != 4 or self.key.shape[0] != 1:
            raise ShapeError(
                f"the prefix holds keys {tuple(self.key.shape)}; give (1, heads, tokens, dim): one "
                "sequence, which all continuations share"
            )
        self.own = KeyValueCache() if own is None else own

    @property
    def length(self) -> int:
        """The prefix and what came after it."""
        return int(self.key.shape[-2]) + self.own.length

    def extended(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values side by side, the prefix once per continuation: for questions."""
        beginning = KeyValueCache()
        beginning.keep(*(t.expand(key.shape[0], -1, -1, -1) for t in (self.key, self.value)))
        return beginning.extended(*self.own.extended(key, value))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask | None) -> Tensor:
        """The output for new tokens, whose keys and values are then kept."""
        own = self.own.extended(key, value)
        found = attend_after((self.key, self.value), query, *own, mask).finish().output
        self.own.keep(*own)
        return found.to(query.dtype)

    def keep(self, key: Tensor, value: Tensor) -> None:
        """Store the tokens after the prefix."""
        first = self.key.shape[-2]
        self.own.keep(key[..., first:, :], value[..., first:, :])


def share_prefix(cache: StackCache) -> StackCache:
    """A cache that continues one sequence, in a growing cache, any number of times."""
    held = iter(cache.layers)
    shared = StackCache(len(cache.layers), lambda: SharedPrefix(next(held)))
    shared.cross = cache.cross
    return shared


def attend_after(
    prefix: tuple[Tensor, Tensor], query: Tensor, key: Tensor, value: Tensor, mask: Mask | None
) -> Partial:
    """Attention of (B, Hq, L, D) over a prefix (1, Hkv, P, D) that all see, and over their own
    keys (B, Hkv, S, D), of which a causal mask may hide the later ones."""
    batch, heads, tokens, dim = query.shape
    beginning, own = prefix[0].shape[-2], key.shape[-2]
    # everybody's queries meet the prefix as rows of one problem: (1, Hq, B·L, D)
    rows = query.transpose(0, 1).reshape(1, heads, batch * tokens, dim)
    met = attend_partial(rows, *prefix)
    before = Partial(
        met.out.reshape(heads, batch, tokens, -1).transpose(0, 1),
        met.lse.reshape(heads, batch, tokens).transpose(0, 1),
    )
    after = attend_partial(
        query, key, value, mask=mask, key_start=beginning, total_queries=tokens,
        total_keys=beginning + own,
    )  # fmt: skip
    return merge(before, after)


def sees_prefix(mask: Mask | Tensor | None) -> TypeGuard[Mask | None]:
    """Whether a mask hides nothing of what came before."""
    window = mask.as_window() if isinstance(mask, Mask) else None
    return mask is None or (window is not None and window.left is None and window.align == "end")
