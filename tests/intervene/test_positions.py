"""Positions mean the same everywhere: an edge in a padded batch, or while a model writes with a
cache, is the edge of each text alone and at once, and the one that a recording shows."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import regard
from nn.small import encoder, language_model, seq2seq
from recorder.models import tiny, tokens
from regard.intervene import Edge
from support.families.build import build
from support.families.inputs import accepted

_TOKENS = 9


def padded(dice: random.Random, side: str) -> tuple[Tensor, Tensor]:
    """(3, 9) ids and flags of real tokens, on one side."""
    ids, flags = torch.randint(3, 23, (3, _TOKENS)), torch.ones(3, _TOKENS, dtype=torch.long)
    for row in flags:
        less = dice.randint(0, _TOKENS - 2)
        row[(slice(less) if side == "left" else slice(_TOKENS - less, None))] = 0
    return ids, flags


class Lengths(nn.Module):
    """A model whose padding its attention is given, and nobody else; run again for its gradients
    where it is checkpointed."""

    def __init__(self, checkpointed: bool = False) -> None:
        super().__init__()
        self.embed, self.checkpointed = nn.Embedding(50, 16), checkpointed
        self.attention = regard.nn.MultiHeadAttention(16, 4)

    def forward(self, input_ids: Tensor, real: Tensor) -> Tensor:
        """Ids and flags (B, L)."""
        x, mask = self.embed(input_ids), regard.Padding(real.bool())
        if self.checkpointed:
            return checkpoint(self.attention, x, mask=mask, use_reentrant=False)
        return self.attention(x, mask=mask)


MODELS: dict[str, tuple[Any, tuple[str, str]]] = {  # and what ids and flags are called
    "llama": (lambda: tiny("llama"), ("input_ids", "attention_mask")),
    "bert": (lambda: tiny("bert"), ("input_ids", "attention_mask")),
    "language model": (language_model, ("ids", "attention_mask")),
    "encoder": (encoder, ("ids", "attention_mask")),
    "keys alone": (Lengths, ("input_ids", "real")),
}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_an_edge_of_a_padded_batch_is_that_of_each_text(name: str, side: str) -> None:
    torch.manual_seed(0)
    make, names = MODELS[name]
    model, dice = make(), random.Random(name + side)

    def places() -> Any:
        start = dice.randint(0, 6)
        return dice.choice((start, slice(start, None), range(start, start + 3), [start, 7]))

    for heads in (None, ["L0H1"]):
        ids, flags = padded(dice, side)
        edge = Edge(places(), places(), heads)
        given = dict(zip(names, (ids, flags), strict=True))
        if name == "llama":
            given["position_ids"] = (flags.cumsum(-1) - 1).clamp(min=0)
        with regard.knock_out(model, edges=[edge]), regard.record(model) as rec:
            model(**given)
        for number, row in enumerate(flags.bool()):
            prompt, n = rec.recording.prompts[number], int(row.sum())
            assert prompt.ids.tolist() == ids[number][row].tolist()
            queries, keys = (p.among(np.arange(n)) for p in (edge.queries, edge.keys))
            for head in prompt:
                causal = name in ("llama", "language model")
                seen = np.tril(np.ones((n, n), bool)) if causal else np.ones((n, n), bool)
                if heads is None or head.label == "L0H1":
                    seen[np.ix_(queries, keys)] = False
                assert ((head.dense() > 0) == seen).all()


@pytest.mark.parametrize("family", ["llama", "mistral", "regard", "window"])
@torch.no_grad()
def test_an_edge_stays_where_it_is_while_a_padded_batch_is_written_on(family: str) -> None:
    dice = random.Random(family)
    if family in ("regard", "window"):
        model: Any = language_model(window=4 if family == "window" else None)
        options: dict[str, Any] = {"tokens": 4}
    else:
        more = {"sliding_window": 4, "num_key_value_heads": 2} if family == "mistral" else {}
        model = tiny(family, **more)
        options = {"max_new_tokens": 4, "do_sample": False, "eos_token_id": None,
                   "pad_token_id": 0}  # fmt: skip
    ids, flags = padded(dice, "left")
    n = int(flags[0].sum())
    edge = Edge(slice(dice.randint(0, n), None), dice.choice((0, [1, n], slice(n - 1, n + 1))))
    with regard.knock_out(model, edges=[edge]):
        with regard.record(model) as rec:
            together = model.generate(ids, attention_mask=flags, **options)
        for number, row in enumerate(flags.bool()):
            alone = model.generate(ids[number, row][None], **options)
            assert together[number, -4:].tolist() == alone[0, -4:].tolist()
            for head in rec.recording.prompts[number]:
                at = np.arange(head.shape[0])
                hidden = np.ix_(edge.queries.among(at), edge.keys.among(at))
                assert not head.dense()[hidden].any()


EDGES = [
    Edge(slice(22, None), range(16, 20)),
    Edge([3, 21, 24], slice(0, 18), heads=["L1H1"]),
    Edge(25, slice(None), heads=["L0"]),
]
WINDOWED = {"sliding_window": 8, "num_key_value_heads": 2}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": WINDOWED,
    "gemma2": WINDOWED | {"head_dim": 8},
    "gpt2": {"n_embd": 32, "n_head": 4, "n_layer": 2, "bos_token_id": 1, "eos_token_id": 1},
}


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_a_cache_changes_nothing(family: str) -> None:
    """Against the whole sequence anew for every token."""
    model, ids, expected = tiny(family, **FAMILIES[family]), tokens(20), []
    options: dict[str, Any] = {"do_sample": False, "max_new_tokens": 8, "eos_token_id": None}
    options |= {"return_dict_in_generate": True, "output_logits": True, "pad_token_id": 0}
    whole = model.generate(ids, **options)
    with regard.knock_out(model, "L0H3", EDGES):
        for cache in ("dynamic", "static"):
            out = model.generate(ids, **options, cache_implementation=cache, disable_compile=True)
            while len(expected) < 8:
                written = out.sequences[:, : 20 + len(expected)]
                expected.append(model(written, use_cache=False).logits[:, -1])
                assert expected[-1].argmax(-1) == out.sequences[:, 19 + len(expected)]
            for mine, right in zip(out.logits, expected, strict=True):
                torch.testing.assert_close(mine, right, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(whole.logits[-1], out.logits[-1], atol=1e-4)


@torch.no_grad()
def test_across_queries_count_what_is_written_and_keys_the_source_s_real_tokens() -> None:
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    model = tiny("t5", **sizes, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    edges = [Edge(2, [0, 3], ["cross"]), Edge(3, 1, ["decoder"])]
    with regard.knock_out(model, edges=edges), regard.record(model) as rec:
        model.generate(tokens(9), max_new_tokens=5, min_new_tokens=5, do_sample=False)
    cross, own = rec["cross.L1H0"].dense(), rec["decoder.L1H0"].dense()
    assert np.argwhere(cross == 0).tolist() == [[2, 0], [2, 3]]
    assert own[3, 1] == 0 and own[3, 0] > 0 and own[4, 1] > 0
    ours = seq2seq()
    ids, flags = padded(random.Random(1), "left")
    edges = [Edge(slice(None), [0], heads=["cross"]), Edge(2, slice(None), heads=["cross"])]
    with regard.knock_out(ours, edges=edges), regard.record(ours) as rec:
        ours.generate(ids, start=1, tokens=4, source_mask=flags)
    for number in range(3):
        weights = rec.recording.prompts[number]["cross.L0H0"].dense()
        assert weights.shape == (4, int(flags[number].sum()))
        assert not weights[:, 0].any() and not weights[2].any()
        assert (weights[[0, 1, 3], 1:] > 0).all()


def test_regard_s_own_cache() -> None:
    layer, x = regard.nn.MultiHeadAttention(32, 4).eval(), torch.randn(1, 10, 32)
    with torch.no_grad(), regard.knock_out(layer, edges=Edge([4, 8], [2, 3], "L0H1")):
        whole = layer(x, mask=regard.Causal())
        cache, parts = regard.nn.KeyValueCache(), []
        for part in (x[:, :4], x[:, 4:7], x[:, 7:8], x[:, 8:9], x[:, 9:]):
            parts.append(layer(part, mask=regard.Causal(), cache=cache))
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-6, rtol=1e-5)


def test_checkpointed_layers_are_cut_alike() -> None:
    """The forward that autograd runs again hides the same cells."""
    ids, flags = padded(random.Random(2), "left")
    grads = []
    for checkpointed in (False, True):
        torch.manual_seed(0)
        model = Lengths(checkpointed)
        with regard.knock_out(model, edges=[Edge(slice(2, None), [0, 1])]):
            (model(ids, flags) ** 2).sum().backward()
        grads.append([p.grad for p in model.parameters()])
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("side", ["left", "right"])
@torch.no_grad()
def test_a_region_of_a_padded_batch_is_that_of_each_picture(side: str) -> None:
    """Places of patches are those of the picture, wherever padding moves its tokens to."""
    model, region = build("llava"), regard.axes.Box(0.25, 0.5, 0.75, 1)
    given = accepted(model)
    ids = given["input_ids"][:1]
    pixels = torch.randn(3, *given["pixel_values"].shape[1:])
    long = ids.shape[1] + 4
    rows, flags = torch.full((3, long), 5), torch.zeros(3, long, dtype=torch.long)
    for row, real, extra in zip(rows, flags, (4, 1, 0), strict=True):
        text = torch.cat([torch.arange(6, 6 + extra), ids[0]])  # words before the picture
        at = slice(long - len(text), None) if side == "left" else slice(len(text))
        row[at], real[at] = text, 1
    with regard.knock_out(model, region=region) as cut:
        whole = model(input_ids=rows, attention_mask=flags, pixel_values=pixels).logits
    assert cut.region is not None and cut.region.hidden["L0"] == 3 * 4
    for n, (row, real) in enumerate(zip(rows, flags.bool(), strict=True)):
        one = {"input_ids": row[None, real], "pixel_values": pixels[n : n + 1]}
        with regard.knock_out(model, region=region):
            alone = model(**one).logits[0]
        torch.testing.assert_close(whole[n, real], alone, atol=1e-4, rtol=1e-4)
        assert not torch.allclose(alone, model(**one).logits[0], atol=1e-2)
