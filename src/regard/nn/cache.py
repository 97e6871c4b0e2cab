"""Keys and values of tokens already seen, so that each new token is projected once.

    KeyValueCache   grows by concatenation; gradients flow through it
    StaticCache     room for so many tokens, written in place: for decoding
    WindowCache     only as many tokens as a sliding window looks back at
    EvictingCache   what the prompt's attention shows to matter
    ContextCache    the projected other sequence of cross-attention
    SharedPrefix    one beginning for many continuations; attention to it is a Partial (prefix)

One per layer and sequence. `extended` gives all keys and values; `keep` makes that the state, once
the call has succeeded. `StackCache` holds those of all layers of a model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from regard.engine.attention import Attention
from regard.errors import InputError, ShapeError
from regard.kv import Eviction, take


class Cache(ABC):
    """Keys and values of earlier tokens in one layer, for a batch of sequences of one length."""

    evicts: ClassVar[bool] = False  # whether it holds other keys than those of the last tokens

    @property
    @abstractmethod
    def length(self) -> int:
        """The number of tokens so far: the position of the next one."""

    @abstractmethod
    def extended(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values to attend to: those held, followed by these. Nothing is counted yet."""

    @abstractmethod
    def keep(self, key: Tensor, value: Tensor) -> None:
        """Store what `extended` returned."""

    @property
    def asks(self) -> bool:
        """Whether `keep` has to be given the attention of the next call as well."""
        return False

    def keep_after(self, key: Tensor, value: Tensor, attention: Attention) -> None:
        """`keep`, where the attention over these keys is known."""
        self.keep(key, value)

    def reach(self, tokens: int) -> int:
        """The number of keys that a call with `tokens` new tokens attends to."""
        return self.length + tokens

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append the new tokens' keys and values; returns all that are to be attended to."""
        key, value = self.extended(key, value)
        self.keep(key, value)
        return key, value


class KeyValueCache(Cache):
    """A cache that grows by concatenation; one per layer."""

    def __init__(self) -> None:
        self.key: Tensor | None = None  # (…, Hkv, tokens so far, D)
        self.value: Tensor | None = None  # (…, Hkv, tokens so far, Dv)

    @property
    def length(self) -> int:
        """How many tokens are held."""
        return 0 if self.key is None else self.key.shape[-2]

    def extended(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values held so far followed by these; the cache stays as it is."""
        if self.key is None or self.value is None:
            return key, value
        return _join(self.key, key, "keys"), _join(self.value, value, "values")

    def keep(self, key: Tensor, value: Tensor) -> None:
        """Replace the stored keys and values by these."""
        self.key, self.value = key, value


class StaticCache(Cache):
    """Room for `tokens` tokens, taken at the first call and written in place.

    For decoding without gradients. An `Attention` over it can be asked until the next token is
    written; then it raises StaleError.
    """

    def __init__(self, tokens: int) -> None:
        if tokens < 1:
            raise InputError(f"StaticCache(tokens={tokens}); give the longest length, at least 1")
        self.tokens = tokens
        self._length = 0
        self._key: Tensor | None = None  # (…, Hkv, tokens, D)
        self._value: Tensor | None = None

    @property
    def length(self) -> int:
        """How many tokens are held."""
        return self._length

    def extended(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Views of the filled part; the new tokens are in them."""
        end = self._length + key.shape[-2]
        if end > self.tokens:
            raise ShapeError(
                f"StaticCache({self.tokens}) holds {self._length} tokens, {key.shape[-2]} more do "
                f"not fit; make it with at least {end}"
            )
        if torch.is_grad_enabled() and (key.requires_grad or value.requires_grad):
            raise InputError(
                "StaticCache is written in place, which gradients do not survive; decode under "
                "torch.no_grad(), or use KeyValueCache"
            )
        if self._key is None or self._value is None:
            self._key, self._value = (_room(t, self.tokens) for t in (key, value))
        _check_fit(self._key, key, "keys")
        _check_fit(self._value, value, "values")
        for room, new in ((self._key, key), (self._value, value)):
            room.narrow(-2, self._length, new.shape[-2]).copy_(new)
        return self._key.narrow(-2, 0, end), self._value.narrow(-2, 0, end)

    def keep(self, key: Tensor, value: Tensor) -> None:
        """Count the new tokens."""
        self._length = key.shape[-2]


class _ForgettingCache(Cache):
    """Counts every token and holds some of them, one behind the other."""

    def __init__(self) -> None:
        self._seen = 0
        self._held = KeyValueCache()

    @property
    def length(self) -> int:
        """The number of tokens so far, including those dropped."""
        return self._seen

    def extended(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """What is held followed by these."""
        return self._held.extended(key, value)

    def reach(self, tokens: int) -> int:
        """Held and new tokens."""
        return self._held.length + tokens

    def keep(self, key: Tensor, value: Tensor) -> None:
        """All of them."""
        self._seen += key.shape[-2] - self._held.length
        self._held.keep(key, value)


class WindowCache(_ForgettingCache):
    """Holds the last `window` tokens: all that a layer with `regard.Window(window − 1)` can see
    from the next token on, however long the text."""

    def __init__(self, window: int) -> None:
        if window < 1:
            raise InputError(f"WindowCache(window={window}); a token sees itself: at least 1")
        super().__init__()
        self.window = window

    def keep(self, key: Tensor, value: Tensor) -> None:
        """Drop what no later token can see."""
        super().keep(key, value)
        first = max(key.shape[-2] - (self.window - 1), 0)
        self._held.keep(key[..., first:, :], value[..., first:, :])


class EvictingCache(_ForgettingCache):
    """Once the first tokens (the prompt) are read, keeps of each key head what the eviction says,
    and all later tokens. Positions go on counting what was dropped."""

    evicts = True

    def __init__(self, eviction: Eviction) -> None:
        super().__init__()
        self.eviction = eviction
        self.kept: Tensor | None = None  # (…, Hkv, n): the prompt's keys that stayed; None: all

    @property
    def asks(self) -> bool:
        """Until the prompt is read."""
        return self._seen == 0

    def keep_after(self, key: Tensor, value: Tensor, attention: Attention) -> None:
        """Of the prompt what the eviction says; of later tokens all."""
        is_prompt = self.asks
        self.keep(key, value)
        self.kept = self.eviction.keep(attention, key.shape[-2]) if is_prompt else self.kept
        if is_prompt and self.kept is not None:
            self._held.keep(*take(self.kept, key, value))


class ContextCache(Cache):
    """Keys and values of the context in cross-attention, projected once for all steps."""

    def __init__(self) -> None:
        self.held: tuple[Tensor, Tensor] | None = None

    @property
    def length(self) -> int:
        """0: the queries' positions are not counted here."""
        return 0

    def extended(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """The given keys and values: there are no others."""
        return key, value

    def keep(self, key: Tensor, value: Tensor) -> None:
        """Store them for all later steps."""
        self.held = key, value


class StackCache:
    """The caches of a model's layers, made by `make`; with cross-attention, those too."""

    def __init__(self, layers: int, make: Callable[[], Cache], *, cross: bool = False) -> None:
        self.layers = [make() for _ in range(layers)]
        self.cross = [ContextCache() if cross else None for _ in range(layers)]

    @property
    def length(self) -> int:
        """The number of tokens so far: the position of the next one."""
        return self.layers[0].length

    @property
    def evicts(self) -> bool:
        """Whether layers hold other keys than those of the last tokens."""
        return self.layers[0].evicts

    def reach(self, tokens: int) -> int:
        """The number of keys that a call with `tokens` new tokens attends to."""
        return self.layers[0].reach(tokens)


def _room(like: Tensor, tokens: int) -> Tensor:
    return like.new_empty((*like.shape[:-2], tokens, like.shape[-1]))


def _join(held: Tensor, new: Tensor, name: str) -> Tensor:
    _check_fit(held, new, name)
    return torch.cat([held, new], dim=-2)


def _check_fit(held: Tensor, new: Tensor, name: str) -> None:
    if (held.shape[:-2], held.shape[-1]) != (new.shape[:-2], new.shape[-1]):
        raise ShapeError(
            f"the cache holds {name} {tuple(held.shape)}, given {tuple(new.shape)}; only the "
            "number of tokens may differ. Make a new cache for each layer and sequence"
        )
