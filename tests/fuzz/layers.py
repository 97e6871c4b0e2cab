"""regard's own layers and models: by chunks from a cache, from a shared prefix, in padded batches,
and against torch's layers and the definition; values and gradients, in double precision."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

import regard
from regard.nn import (
    Decoder,
    Encoder,
    EncoderConfig,
    LanguageModelConfig,
    MultiHeadAttention,
    Rotary,
    share_prefix,
)

_CLOSE = {"rtol": 1e-8, "atol": 1e-10}


def check(seed: int) -> None:
    """One layer or model of this seed."""
    dice = random.Random(seed)
    torch.manual_seed(seed)
    kinds = (_layer, _from_torch, _chunks, _prefix, _padded, _evicting, _encoder)
    kind = dice.choice(kinds)
    try:
        kind(dice)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, {kind.__name__}: {error}") from error


def _gradients(output: Tensor, of: list[Tensor]) -> list[Tensor | None]:
    """Of a fixed mixture of the outputs."""
    dice = torch.Generator().manual_seed(1)
    weights = torch.randn(output.shape, generator=dice, dtype=output.dtype)
    return list(torch.autograd.grad((output * weights).sum(), of, allow_unused=True))


def _same(mine: Tensor, right: Tensor, of: list[Tensor]) -> None:
    """Values, and the gradients of everything that has one."""
    torch.testing.assert_close(mine, right, **_CLOSE)
    for one, other in zip(_gradients(mine, of), _gradients(right, of), strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            torch.testing.assert_close(one, other, **_CLOSE)


def _mask(dice: random.Random, tokens: int) -> tuple[Any, Tensor]:
    """A mask, and its booleans (tokens, tokens); every row sees a key."""
    i, j = torch.arange(tokens)[:, None], torch.arange(tokens)
    near = dice.randrange(tokens)
    ids = torch.randint(3, (tokens,))
    table = (torch.rand(tokens, tokens) > 0.5) | (i == j)
    given = {
        "none": (None, (i == i) & (j == j)),
        "causal": (regard.Causal(), j <= i),
        "window": (regard.Window(near), (j <= i) & (j >= i - near)),
        "both": (regard.Window(near, near), (j - i).abs() <= near),
        "documents": (regard.Documents(ids) & regard.Causal(), (ids[:, None] == ids) & (j <= i)),
        "table": (table, table),
    }
    return given[dice.choice(sorted(given))]


def _layer(dice: random.Random) -> None:
    """softmax(q kᵀ / √d) v by the definition, from the layer's own matrices."""
    heads, group = dice.choice([1, 2, 4]), dice.choice([1, 2])
    width, tokens, batch = dice.choice([2, 4, 6]), dice.randint(1, 9), dice.randint(1, 3)
    rotary = Rotary(width) if dice.random() < 0.5 else None
    layer = MultiHeadAttention(
        8, heads * group, kv_heads=heads, head_dim=width, value_dim=dice.choice([None, 3]),
        bias=dice.random() < 0.5, rotary=rotary, qk_norm=dice.random() < 0.5, norm_eps=1e-6,
    ).double()  # fmt: skip
    x = torch.randn(batch, tokens, 8, dtype=torch.double, requires_grad=True)
    mask, seen = _mask(dice, tokens)

    def split(t: Tensor, count: int) -> Tensor:
        return t.unflatten(-1, (count, -1)).transpose(1, 2)

    q, k = split(layer.w_q(x), heads * group), split(layer.w_k(x), heads)
    if layer.norm_q is not None and layer.norm_k is not None:
        q, k = layer.norm_q(q), layer.norm_k(k)
    if rotary is not None:
        q, k = (_turned(t) for t in (q, k))
    k, v = (t.repeat_interleave(group, 1) for t in (k, split(layer.w_v(x), heads)))
    scores = (q @ k.mT * width**-0.5).masked_fill(~seen, -torch.inf)
    right = layer.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
    _same(layer(x, mask=mask), right, [x, *layer.parameters()])


def _turned(t: Tensor, base: float = 10000.0) -> Tensor:
    """Pairs (n, n + D/2) of (…, tokens, D) turned by position · base^(−2n/D)."""
    half = t.shape[-1] // 2
    rate = base ** (-torch.arange(half, dtype=t.dtype) * 2 / t.shape[-1])
    angle = torch.arange(t.shape[-2], dtype=t.dtype)[:, None] * rate
    a, b = t[..., :half], t[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def _from_torch(dice: random.Random) -> None:
    """torch's layer with the same weights, over a batch with padding."""
    heads, batch, tokens = dice.choice([1, 2, 4]), dice.randint(1, 3), dice.randint(1, 8)
    theirs = nn.MultiheadAttention(
        8, heads, bias=dice.random() < 0.7, batch_first=dice.random() < 0.5
    ).double()
    layer = MultiHeadAttention.from_torch(theirs)
    lengths = [dice.randint(1, tokens) for _ in range(batch)]
    real = torch.arange(tokens) < torch.tensor(lengths)[:, None]
    x = torch.randn(batch, tokens, 8, dtype=torch.double)
    x = x if theirs.batch_first else x.transpose(0, 1)
    right = theirs(x, x, x, key_padding_mask=~real, need_weights=False)[0]
    torch.testing.assert_close(layer(x, mask=regard.Padding(real)), right, **_CLOSE)


def _options(dice: random.Random) -> dict[str, Any]:
    heads = dice.choice([1, 2])
    return {
        "vocabulary": 11, "dim": 8, "layers": dice.randint(1, 2), "heads": heads * 2,
        "kv_heads": dice.choice([heads, heads * 2]), "head_dim": dice.choice([2, 4]),
        "hidden": 12, "feed_forward": dice.choice(["mlp", "swiglu"]),
        "norm": dice.choice(["rms", "layer"]), "norm_first": dice.random() < 0.7,
        "qk_norm": dice.random() < 0.5, "attention_bias": dice.random() < 0.5, "longest": 40,
        "positions": dice.choice(["rotary", "learned", "sinusoidal", "alibi", "none"]),
    }  # fmt: skip


def _model(dice: random.Random, window: bool = True, **options: Any) -> Decoder:
    near = dice.randint(1, 6) if window and dice.random() < 0.4 else None
    config = LanguageModelConfig(**(_options(dice) | options))
    return Decoder(config, window=near).double()


def _cuts(dice: random.Random, tokens: int) -> list[tuple[int, int]]:
    """Chunks of a text, of one token each at its end as when it is written."""
    edges = {0, tokens, *(dice.randrange(tokens + 1) for _ in range(3))}
    edges |= set(range(max(tokens - dice.randint(0, 3), 0), tokens))
    ordered = sorted(edges)
    return list(pairwise(ordered))


def _chunks(dice: random.Random) -> None:
    """A text in chunks, with a cache of any kind, padded on the left or not, is the whole text."""
    model = _model(dice)
    batch, tokens = dice.randint(1, 3), dice.randint(1, 12)
    ids = torch.randint(11, (batch, tokens))
    real = None
    if dice.random() < 0.5:
        first = torch.tensor([dice.randrange(tokens) for _ in range(batch)])
        real = (torch.arange(tokens) >= first[:, None]).long()
    fixed = dice.random() < 0.5
    room = tokens + dice.randint(0, 3) if fixed else None
    with torch.set_grad_enabled(not fixed):
        right = model(ids, attention_mask=real)
        cache = model.new_cache(room)
        parts = [
            model(
                ids[:, start:end],
                attention_mask=None if real is None else real[:, :end],
                cache=cache,
            )
            for start, end in _cuts(dice, tokens)
        ]
    shown = torch.ones(batch, tokens, dtype=torch.bool) if real is None else real.bool()
    mine, right = torch.cat(parts, 1)[shown], right[shown]
    if fixed:
        torch.testing.assert_close(mine, right, **_CLOSE)
    else:
        _same(mine, right, list(model.parameters()))


def _prefix(dice: random.Random) -> None:
    """Continuations of one beginning that they share."""
    model = _model(dice, window=False)
    before, after, batch = dice.randint(1, 6), dice.randint(1, 6), dice.randint(1, 4)
    first = torch.randint(11, (1, before))
    rest = torch.randint(11, (batch, after))
    with torch.no_grad():
        whole = model(torch.cat([first.expand(batch, -1), rest], 1))[:, before:]
        cache = model.new_cache()
        model(first, cache=cache)
        shared = share_prefix(cache)
        parts = [model(rest[:, a:b], cache=shared) for a, b in _cuts(dice, after)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, **_CLOSE)


def _padded(dice: random.Random) -> None:
    """A padded batch, and its texts one by one; the gradients of the padded one are theirs."""
    model = _model(dice)
    lengths = [dice.randint(1, 8) for _ in range(dice.randint(1, 3))]
    most, left = max(lengths) + dice.randint(0, 2), dice.random() < 0.5
    ids, real = torch.randint(11, (len(lengths), most)), torch.zeros(len(lengths), most)
    for n, length in enumerate(lengths):
        real[n, most - length :] = 1 if left else real[n, most - length :]
        real[n, :length] = real[n, :length] if left else 1
    rows = [ids[n][real[n].bool()] for n in range(len(lengths))]
    together = model(ids, attention_mask=real.long())[real.bool()]
    apart = torch.cat([model(one[None])[0] for one in rows])
    _same(together, apart, list(model.parameters()))


def _evicting(dice: random.Random) -> None:
    """An eviction that keeps every key changes nothing."""
    places = dice.choice(["rotary", "learned", "sinusoidal", "none"])
    model = _model(dice, window=False, positions=places)
    tokens, after = dice.randint(4, 12), dice.randint(1, 4)
    ids = torch.randint(11, (dice.randint(1, 2), tokens + after))
    evict = regard.kv.Eviction(
        dice.choice(["h2o", "observed", "tova"]), budget=1.0, sinks=1, recent=2
    )
    with torch.no_grad():
        right = model(ids)
        cache = model.new_cache(evict=evict)
        parts = [model(ids[:, :tokens], cache=cache)]
        parts += [model(ids[:, n : n + 1], cache=cache) for n in range(tokens, tokens + after)]
    torch.testing.assert_close(torch.cat(parts, 1), right, **_CLOSE)


def _encoder(dice: random.Random) -> None:
    """A padded batch of an encoder, and its texts one by one."""
    model = Encoder(EncoderConfig(**_options(dice))).double()
    lengths = [dice.randint(1, 8) for _ in range(dice.randint(1, 3))]
    real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.randint(11, real.shape)
    together = model(ids, attention_mask=real.long())[real]
    apart = torch.cat([model(ids[n : n + 1, :length])[0] for n, length in enumerate(lengths)])
    _same(together, apart, list(model.parameters()))
