"""Generation token by token: greedy, or sampled."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import index
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.errors import InputError, ShapeError
from regard.kv import Eviction
from regard.nn.cache import StackCache


class Writer(Protocol):
    """A model that continues text."""

    def __call__(
        self,
        ids: Tensor,
        *,
        attention_mask: Tensor | None = ...,
        cache: StackCache | None = ...,
        last_only: bool = ...,
    ) -> Tensor:
        """Logits (batch, tokens, vocabulary)."""

    def new_cache(self, tokens: int | None = ..., evict: Eviction | None = ...) -> StackCache:
        """An empty cache."""


def generate(
    model: Writer,
    ids: Tensor,
    *,
    tokens: int = 64,
    stop: int | Iterable[int] = (),
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    attention_mask: Tensor | None = None,
    cache: StackCache | None = None,
    evict: Eviction | None = None,
) -> Tensor:
    """(batch, prompt) or (prompt,) → the same followed by at most `tokens` new ones.

    stop            tokens that end a sequence; the rest of it is filled with the stop token until
                    all sequences of the batch have ended
    temperature     0: greedy, the most likely token each time. Above 0, tokens are sampled from
                    softmax(logits / temperature)
    top_k           sample among the k most likely tokens
    top_p           sample among the most likely tokens whose probabilities sum to p
    generator       the random generator, for samples that can be repeated
    attention_mask  0 where a prompt is padding, which must be on the left
    cache           the model's `new_cache()`, to continue the text later
    evict           a `regard.kv.Eviction`: once the prompt is read, each layer keeps of every key
                    head only the keys that it names; later tokens stay
    """
    if ids.ndim not in (1, 2) or ids.shape[-1] == 0:
        raise ShapeError(f"ids have shape {tuple(ids.shape)}; give (batch, tokens), a token each")
    tokens = _how_many(tokens)
    _check_left_padded(attention_mask)
    if evict is not None and cache is not None:
        raise InputError("evict and cache: give one of them, or cache=model.new_cache(evict=…)")
    choose = choose_token(temperature, top_k, top_p, generator)
    batch = ids if ids.ndim == 2 else ids[None]
    mask = attention_mask[None] if attention_mask is not None and ids.ndim == 1 else attention_mask
    # a cache that outlives the call must not be full of tensors that no gradient may meet
    with torch.inference_mode() if cache is None else torch.no_grad():
        held = cache
        if held is None:
            room = batch.shape[-1] + tokens
            held = model.new_cache(room) if evict is None else model.new_cache(room, evict)
        step = _with_padding(model, held, mask)
        written = write_on(step, batch, tokens, stop, choose)
    found = torch.cat([batch, written], dim=-1)
    return found if ids.ndim == 2 else found[0]


def write_on(
    step: Callable[[Tensor], Tensor],
    ids: Tensor,
    tokens: int,
    stop: int | Iterable[int],
    choose: Callable[[Tensor], Tensor],
) -> Tensor:
    """(batch, ≤ tokens): what comes after ids. `step` reads new ids (batch, n) and gives the
    logits (batch, vocabulary) of the next one."""
    tokens = _how_many(tokens)
    ends = ids.new_tensor([stop] if isinstance(stop, int) else list(stop))
    written = ids.new_empty(ids.shape[0], 0)
    done = torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)
    new = ids
    for _ in range(tokens):
        chosen = choose(step(new))  # (batch,)
        if len(ends):
            chosen = torch.where(done, ends[0], chosen)
            done = done | torch.isin(chosen, ends)
        new = chosen[:, None]
        written = torch.cat([written, new], dim=-1)
        if len(ends) and bool(done.all()):
            break
    return written


def choose_token(
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Callable[[Tensor], Tensor]:
    """A function from logits (batch, vocabulary) to tokens (batch,)."""
    if not temperature >= 0:
        raise InputError(f"temperature={temperature}; give 0 for the likeliest token, or more")
    if top_k is not None and top_k < 1:
        raise InputError(f"top_k={top_k}; give at least 1")
    if top_p is not None and not 0 < top_p <= 1:
        raise InputError(f"top_p={top_p}; give a share above 0, at most 1")
    if temperature == 0:
        return lambda logits: logits.argmax(-1)

    def draw(logits: Tensor) -> Tensor:
        scaled = _likeliest(logits.float() / temperature, top_k, top_p)
        return torch.multinomial(scaled.softmax(-1), 1, generator=generator)[:, 0]

    return draw


def _likeliest(logits: Tensor, top_k: int | None, top_p: float | None) -> Tensor:
    """Those that may not be drawn get −∞; the likeliest always may."""
    if top_k is not None:
        least = logits.topk(min(top_k, logits.shape[-1])).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if top_p is not None:
        ranked = logits.sort(descending=True)
        share = ranked.values.softmax(-1)
        above = share.cumsum(-1) - share  # held by those before it
        hidden = (above >= top_p).scatter(-1, ranked.indices, above >= top_p)
        logits = logits.masked_fill(hidden, -torch.inf)
    return logits


def _with_padding(
    model: Writer, cache: StackCache, mask: Tensor | None
) -> Callable[[Tensor], Tensor]:
    """Reads new tokens; the mask of the prompt's padding grows along, all new ones are real."""
    held = [mask]

    def step(ids: Tensor) -> Tensor:
        logits = model(ids, attention_mask=held[0], cache=cache, last_only=True)
        if held[0] is not None:
            held[0] = torch.cat([held[0], held[0].new_ones(ids.shape[0], 1)], dim=-1)
        return logits[:, -1]

    return step


def _how_many(tokens: Any) -> int:
    """A whole number of tokens, Python's or numpy's."""
    is_whole = hasattr(tokens, "__index__") and not isinstance(tokens, (bool, Tensor))
    if not is_whole or index(tokens) < 0:
        raise InputError(f"tokens={tokens!r}; give how many to write, a whole number ≥ 0")
    return index(tokens)


def _check_left_padded(mask: Tensor | None) -> None:
    if mask is not None and mask.numel() and not bool((mask[..., -1] != 0).all()):
        raise InputError(
            "attention_mask is 0 at the last token, where the text goes on; pad prompts on the "
            "left (tokenizer.padding_side = 'left')"
        )
