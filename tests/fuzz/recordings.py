"""Recordings of random padded batches, compared with the model's own weights over real tokens.

Each seed draws a model (`regard.attend`, a layer of `regard.nn`, or one of transformers), a form of
padding (of keys alone or of queries too, as lengths or booleans, on the left, on the right, inside,
whole sequences), another mask beside it, and what is recorded (rows, heads, bins, weights or not).
Every cell, row statistic and sum of every sequence has to be that of the dense matrix.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import regard
from regard.errors import InputError
from regard.mask import Extent, Mask, as_mask

HEADS, DIM, WORDS = 2, 4, 13
_Array = NDArray[Any]
_NEAR: dict[str, Any] = {"atol": 3e-5, "rtol": 3e-4}


def check(seed: int) -> None:
    """One random batch, recorded and compared."""
    dice = random.Random(seed)
    torch.manual_seed(seed)
    with torch.no_grad():
        kinds = (_attends, _attends, _attends, _chunks, _across, _functions, _transformers)
        dice.choice(kinds)(dice)


# ── models ─────────────────────────────────────────────────────────────────────────────────────


class Attends(nn.Module):
    """Layers that call `regard.attend` with given masks, and keep what they computed."""

    def __init__(self, layers: int, kv_heads: int, sink: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, HEADS * DIM)
        width = (HEADS + 2 * kv_heads) * DIM
        self.layers = nn.ModuleList(nn.Linear(HEADS * DIM, width) for _ in range(layers))
        self.kv_heads = kv_heads
        self.sink = torch.randn(HEADS) if sink else None
        self.seen: list[_Array] = []  # (B, H, L, S) of each layer

    def forward(self, ids: Tensor, masks: list[Any]) -> Tensor:
        """ids (B, L); a mask for each layer."""
        x = self.embed(ids)
        self.seen = []
        for layer, mask in zip(self.layers, masks, strict=True):
            x = x + self.attended(*(t * 2 for t in self.heads(layer, x)), mask)
        return x

    def heads(self, layer: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
        """q, k and v, (B, heads, L, DIM) each."""
        heads: Tensor = layer(x).unflatten(-1, (-1, DIM)).transpose(1, 2)
        return heads.split([HEADS, self.kv_heads, self.kv_heads], 1)

    def attended(self, q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Tensor:
        """(B, L, D); what was computed is kept."""
        self.seen.append(_dense(q, k, mask, self.sink))
        output = regard.attend(q, k, v, mask=mask, sink=self.sink).output
        return output.transpose(1, 2).flatten(2)


def _dense(q: Tensor, k: Tensor, mask: Mask | Tensor | None, sink: Tensor | None) -> _Array:
    """(B, H, L, S) scores, −inf where hidden, in float64."""
    batch, heads, rows, _ = q.shape
    wide = k.double().repeat_interleave(heads // k.shape[1], 1)
    scores = q.double() @ wide.mT * q.shape[-1] ** -0.5
    if mask is not None:
        extent = Extent(rows, k.shape[2], (batch,), heads)
        allowed = (
            as_mask(mask)
            .map(torch.as_tensor)
            .allows(torch.arange(rows), torch.arange(k.shape[2]), extent)
        )
        scores = scores.masked_fill(~allowed, -torch.inf)
    found: _Array = scores.numpy()
    return found


# ── padding and masks ──────────────────────────────────────────────────────────────────────────


def _flags(dice: random.Random, batch: int, length: int, side: str) -> Tensor:
    """(B, L) booleans: real tokens, by where the padding stands."""
    flags = torch.ones(batch, length, dtype=torch.bool)
    for row in flags:
        real = dice.choice((length, 1, dice.randint(1, length), dice.randint(0, length)))
        start = {"left": length - real, "right": 0}.get(side, dice.randint(0, length - real))
        row[:start], row[start + real :] = False, False
        if side == "holes" and real > 2:
            row[start + dice.randint(1, real - 2)] = False
    return flags


def _other(dice: random.Random, batch: int, length: int) -> Mask | Tensor | None:
    """A mask that is no padding."""
    some = dice.randint(0, length)
    return dice.choice((
        None,
        None,
        regard.Causal(),
        regard.Causal(),
        regard.Causal(align="start"),
        regard.Window(some),
        regard.Window(dice.randint(0, 3), dice.randint(0, 3)),
        regard.Prefix(some),
        regard.Causal() | regard.Prefix(some),
        regard.Prefix(torch.tensor([dice.randint(0, length) for _ in range(batch)])),
        regard.Documents(torch.randint(0, 3, (batch, length)).sort(-1).values),
        regard.mask.Rule(lambda i, j: (i - j) % 2 == 0),
        torch.rand(batch, HEADS, length, length) > 0.3,
        torch.rand(length, length) > 0.3,
        ~regard.Prefix(1),
    ))  # fmt: skip


def _padding(dice: random.Random, batch: int, length: int) -> tuple[Mask, list[range]]:
    """Padding in some form, and the tokens from each sequence's first real one to its last."""
    side = dice.choice(("left", "right", "right", "anywhere", "holes"))
    keys = _flags(dice, batch, length, side)
    form = dice.choice(("keys", "keys", "keys", "both", "apart"))
    queries = None
    if form == "both":
        queries = keys
    elif form == "apart":
        queries = _flags(dice, batch, length, side)

    def written(flags: Tensor | None) -> Any:
        if flags is None or side != "right" or dice.random() < 0.4:
            return flags
        return flags.sum(-1)

    numpy = dice.random() < 0.2
    given = [written(flags) for flags in (keys, queries)]
    given = [one.numpy() if numpy and one is not None else one for one in given]
    real = keys if queries is None else keys | queries
    return regard.Padding(*given), [_margin(row) for row in real.tolist()]


def _margin(flags: list[bool]) -> range:
    real = [n for n, is_real in enumerate(flags) if is_real]
    return range(real[0], real[-1] + 1) if real else range(0)


def _masks(
    dice: random.Random, batch: int, length: int, layers: int
) -> tuple[list[Any], list[range]]:
    """One for each layer, under one padding."""
    padding, real = _padding(dice, batch, length)
    masks: list[Any] = []
    shared = _other(dice, batch, length)
    for _ in range(layers):
        other = shared if dice.random() < 0.7 else _other(dice, batch, length)
        if other is None:
            masks.append(padding)
        else:
            masks.append(padding & other if dice.random() < 0.5 else other & padding)
    return masks, real


# ── one kind of model each ─────────────────────────────────────────────────────────────────────


def _attends(dice: random.Random) -> None:
    layers = dice.randint(1, 3)
    model = Attends(layers, dice.choice((1, 2)), dice.random() < 0.2)
    batch, length = dice.choice((1, 2, 2, 3)), dice.randint(1, 9)
    masks, real = _masks(dice, batch, length, layers)
    ids = torch.randint(0, WORDS, (batch, length))
    rec = _recorded(dice, model, lambda: model(ids, masks))
    _compare(rec, model.seen, real, ids.numpy())


class Chunks(Attends):
    """The same through a cache of the model's own, which knows how long it is."""

    class Cache:
        """Keys and values by layer."""

        def __init__(self) -> None:
            self.held: dict[int, list[Tensor]] = {}
            self.length = 0

    def forward(  # type: ignore[override]
        self, ids: Tensor, cache: Chunks.Cache, real: Tensor, other: Any, both: bool
    ) -> Tensor:
        """ids (B, L); real (B, S) booleans of all tokens up to these."""
        x = self.embed(ids)
        rows, keys = ids.shape[1], real.shape[1]
        mask = regard.Padding(real, real[:, keys - rows :] if both else None)
        mask = mask if other is None else mask & other
        for number, layer in enumerate(self.layers):
            q, *kv = self.heads(layer, x)
            held = cache.held.get(number, kv)
            if held is not kv:
                held = [torch.cat(pair, 2) for pair in zip(held, kv, strict=True)]
            cache.held[number] = held
            x = x + self.attended(q * 2, *held, mask)
        cache.length = keys
        return x


def _chunks(dice: random.Random) -> None:
    """Prompts padded on the left, read in parts."""
    layers, batch, length = dice.randint(1, 2), dice.choice((1, 2, 3)), dice.randint(2, 9)
    model = Chunks(layers, dice.choice((1, 2)), False)
    real = _flags(dice, batch, length, "left")
    ids = torch.randint(0, WORDS, (batch, length))
    cuts = sorted({0, length, *(dice.randint(1, length) for _ in range(dice.randint(0, 2)))})
    other = dice.choice(
        (None, regard.Causal(), regard.Window(2), regard.Window(dice.randint(0, 9)))
    )
    both = dice.random() < 0.5

    def run() -> Tensor:
        cache, model.seen = Chunks.Cache(), []
        parts = itertools.pairwise(cuts)
        return torch.cat([model(ids[:, a:b], cache, real[:, :b], other, both) for a, b in parts], 1)

    rec = _recorded(dice, model, run, chunks=len(cuts) - 1)
    wide = [np.pad(one, [(0, 0)] * 3 + [(0, length - one.shape[-1])], constant_values=-np.inf)
            for one in model.seen]  # fmt: skip
    seen = [np.concatenate(wide[n::layers], 2) for n in range(layers)]
    _compare(rec, seen, [_margin(row) for row in real.tolist()], ids.numpy())


class Across(nn.Module):
    """Queries of one sequence, keys of another."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, HEADS * DIM)
        self.cross_attention = regard.nn.MultiHeadAttention(HEADS * DIM, HEADS)

    def forward(self, input_ids: Tensor, context: Tensor, mask: Any) -> Tensor:
        """ids (B, L), context (B, S, D)."""
        x, layer = self.embed(input_ids), self.cross_attention
        q, k = layer._project(x, context, None, None)[:2]
        self.seen = [_dense(q, k, mask, None)]
        return layer(x, context, mask=mask)


def _across(dice: random.Random) -> None:
    batch, rows, keys = dice.choice((1, 2, 3)), dice.randint(1, 7), dice.randint(1, 7)
    model = Across()
    ids = torch.randint(0, WORDS, (batch, rows))
    context = torch.randn(batch, keys, HEADS * DIM)
    side = dice.choice(("left", "right", "anywhere", "holes"))
    of_keys = _flags(dice, batch, keys, side)
    of_rows = _flags(dice, batch, rows, side) if dice.random() < 0.4 else None
    mask: Any = regard.Padding(of_keys, of_rows)
    if dice.random() < 0.3:
        mask = mask & regard.Prefix(dice.randint(0, keys))
    rec = _recorded(dice, model, lambda: model(ids, context, mask))
    if of_rows is None:
        of_rows = torch.ones(batch, rows, dtype=torch.bool)
    rows_of, keys_of = ([_margin(row) for row in f.tolist()] for f in (of_rows, of_keys))
    _compare(rec, model.seen, rows_of, ids.numpy(), keys_of)


class Functions(Attends):
    """Torch's function under a boolean table, or numbers of −∞ to add; the padding comes apart."""

    def forward(  # type: ignore[override]
        self, ids: Tensor, attention_mask: Tensor, other: Any, added: bool
    ) -> Tensor:
        """ids and attention_mask (B, L)."""
        x = self.embed(ids)
        batch, length = ids.shape
        self.seen = []
        mask = regard.Padding(attention_mask.bool())
        mask = mask if other is None else mask & other
        at = torch.arange(length)
        table = as_mask(mask).allows(at, at, Extent(length, length, (batch,), HEADS))
        given = torch.zeros(table.shape).masked_fill(~table, -torch.inf) if added else table
        for layer in self.layers:
            q, k, v = self.heads(layer, x)
            found = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=given)
            self.seen.append(_dense(q, k, mask, None))
            x = x + found.nan_to_num(0).transpose(1, 2).flatten(2)
        return x


def _functions(dice: random.Random) -> None:
    layers, batch, length = dice.randint(1, 2), dice.choice((1, 2, 3)), dice.randint(1, 9)
    model = Functions(layers, HEADS, False)
    real = _flags(dice, batch, length, dice.choice(("left", "right", "anywhere")))
    ids = torch.randint(0, WORDS, (batch, length))
    other = dice.choice((None, regard.Causal(), regard.Window(2), regard.Window(1, 1)))
    added = dice.random() < 0.4
    rec = _recorded(dice, model, lambda: model(ids, real.long(), other, added))
    _compare(rec, model.seen, [_margin(row) for row in real.tolist()], ids.numpy())


def _transformers(dice: random.Random) -> None:
    from recorder.models import tiny

    family = dice.choice(("llama", "bert", "gpt2", "mistral"))
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    model = tiny(family, hidden_size=16, intermediate_size=16, **heads)
    batch, length = dice.choice((1, 2, 3)), dice.randint(1, 9)
    flags = _flags(dice, batch, length, dice.choice(("left", "right")))
    flags |= ~flags.any(-1, keepdim=True)
    ids = torch.randint(3, 50, (batch, length))
    given = {"input_ids": ids, "attention_mask": flags.long()}
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    eager = model(**given, output_attentions=True).attentions
    model.set_attn_implementation(before)
    rec = _recorded(dice, model, lambda: model(**given))
    # as scores whose softmax they are
    seen = [np.log(layer.double().numpy(), where=layer.numpy() > 0, out=np.full(
        layer.shape, -np.inf)) for layer in eager]  # fmt: skip
    _compare(rec, seen, [_margin(row) for row in flags.tolist()], ids.numpy(), lse=False)


def _recorded(dice: random.Random, model: nn.Module, run: Any, chunks: int = 1) -> Any:
    options: dict[str, Any] = {}
    if chunks == 1 and dice.random() < 0.3:
        options["queries"] = dice.choice((1, 2, slice(1, 4)))
    if dice.random() < 0.2:
        options["statistics"] = [regard.Distance()]
    if dice.random() < 0.2:
        options["heads"] = [dice.randint(0, HEADS - 1)]
    plain = run()
    try:
        with regard.record(model, **options) as rec:
            found = run()
    except InputError as why:
        assert "no row was recorded" in str(why), why
        return None
    plain, found = (
        getattr(x, "last_hidden_state", getattr(x, "logits", x)) for x in (plain, found)
    )
    torch.testing.assert_close(plain, found, atol=1e-5, rtol=1e-4)
    return rec.recording


# ── the comparison ─────────────────────────────────────────────────────────────────────────────


def _compare(
    rec: Any,
    scores: list[_Array],
    real: list[range],
    ids: _Array,
    keys: list[range] | None = None,
    *,
    lse: bool = True,
) -> None:
    """Every head of every sequence; scores (B, H, L, S) of each layer. The real tokens of each, and
    its real keys where these are others."""
    if rec is None:
        return
    assert len(rec.prompts) == len(real), (len(rec.prompts), real)
    both = zip(rec.prompts, real, keys or real, strict=True)
    for number, (prompt, part, cut) in enumerate(both):
        assert prompt.ids.tolist() == ids[number, part.start : part.stop].tolist()
        for head in prompt:
            whole = scores[head.layer][number, head.head]
            _compare_head(head, whole[part.start : part.stop, cut.start : cut.stop], lse)


def _first(p: _Array) -> _Array:
    """(n,): the weight of the first key; 0 where there is none."""
    found: _Array = p[:, 0] if p.shape[1] else np.zeros(len(p))
    return found


def _compare_head(head: Any, scores: _Array, lse: bool) -> None:
    """Each answer about the recorded rows."""
    assert head.shape == scores.shape, (head.label, head.shape, scores.shape)
    assert head.exact, head.why_not
    rows = range(*head.place.rows)
    visible = np.isfinite(scores)
    top = np.max(scores, -1, initial=-np.inf, keepdims=True)
    weight = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weight.sum(-1, keepdims=True)
    sums = np.log(total, where=total > 0, out=np.full(total.shape, -np.inf)) + np.where(
        np.isfinite(top), top, 0
    )
    p = weight / np.where(total > 0, total, 1)
    picked = slice(rows.start, rows.stop)
    if head.sink_mass().any():  # a sink takes its share of the softmax
        sink = np.asarray(head.sink_mass(), np.float64)
        p[picked] *= 1 - sink[:, None]
    elif lse:
        np.testing.assert_allclose(head.lse, sums[picked, 0], **_NEAR)
    p = p[picked]
    np.testing.assert_allclose(head.rows(rows), p, **_NEAR)
    np.testing.assert_array_equal(head.visible(), visible[picked].sum(-1))
    np.testing.assert_allclose(head.peak().weights, p.max(-1, initial=0), **_NEAR)
    np.testing.assert_allclose(head.concentration(), (p**2).sum(-1), **_NEAR)
    np.testing.assert_allclose(head.received(), p.sum(0), **_NEAR)
    stored = head.stored
    np.testing.assert_allclose(stored["received"].values, p.sum(0), **_NEAR)
    np.testing.assert_allclose(stored["first"].values, _first(p), **_NEAR)
    np.testing.assert_allclose(stored["peak"].values, p.max(-1, initial=0), **_NEAR)
    i, j = np.arange(*head.place.rows)[:, None], np.arange(scores.shape[1])
    distances = np.arange(1 - scores.shape[1], scores.shape[0])
    mass = np.array([p[i - j == d].sum() for d in distances])
    edges, profile = stored["offsets"].edges, stored["offsets"].values
    for start, stop, found in zip(edges[:-1], edges[1:], profile, strict=True):
        within = (distances >= start) & (distances < stop)
        np.testing.assert_allclose(found, mass[within].sum(), **_NEAR)
