"""Positions mean the same everywhere: an edge in a padded batch is the edge of each text alone, and
the one that a recording shows."""

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
from recorder.models import tiny
from regard.intervene import Edge
from support.families.build import build
from support.families.inputs import accepted

_TOKENS = 9


def padded(dice: random.Random, side: str, least: int = 2) -> tuple[Tensor, Tensor]:
    """(3, 9) ids and flags of real tokens, on one side."""
    ids, flags = torch.randint(3, 23, (3, _TOKENS)), torch.ones(3, _TOKENS, dtype=torch.long)
    for row in flags:
        less = dice.randint(0, _TOKENS - least)
        row[(slice(less) if side == "left" else slice(_TOKENS - less, None))] = 0
    return ids, flags


def drawn(dice: random.Random, heads: Any = None) -> Edge:
    """Any set of queries and keys."""

    def places() -> Any:
        start = dice.randint(0, 6)
        return dice.choice((start, slice(start, None), range(start, start + 3), [start, 7]))

    return Edge(places(), places(), heads)


class Lengths(nn.Module):
    """A model whose padding its attention is given, and nobody else."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.attention = regard.nn.MultiHeadAttention(16, 4)

    def forward(self, input_ids: Tensor, real: Tensor) -> Tensor:
        """Ids and flags (B, L)."""
        return self.attention(self.embed(input_ids), mask=regard.Padding(real.bool()))


def models() -> dict[str, tuple[Any, str]]:
    """By name, with what the flags are called."""
    return {
        "llama": (tiny("llama"), "attention_mask"),
        "bert": (tiny("bert"), "attention_mask"),
        "language model": (language_model(), "attention_mask"),
        "encoder": (encoder(), "attention_mask"),
        "keys alone": (Lengths(), "real"),
    }


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["llama", "bert", "language model", "encoder", "keys alone"])
@torch.no_grad()
def test_an_edge_of_a_padded_batch_is_that_of_each_text(name: str, side: str) -> None:
    torch.manual_seed(0)
    model, flags_name = models()[name]
    dice = random.Random(name + side)
    for _ in range(4):
        ids, flags = padded(dice, side)
        edge = drawn(dice, dice.choice((None, ["L0H1"])))
        given = {"input_ids": ids, flags_name: flags}
        if name in ("language model", "encoder"):
            given["ids"] = given.pop("input_ids")
        if name == "llama":
            given["position_ids"] = (flags.cumsum(-1) - 1).clamp(min=0)
        with regard.knock_out(model, edges=[edge]), regard.record(model) as rec:
            model(**given)
        for number, row in enumerate(flags.bool()):
            prompt = rec.recording.prompts[number]
            n = int(row.sum())
            assert prompt.ids.tolist() == ids[number][row].tolist()
            queries, keys = (p.among(np.arange(n)) for p in (edge.queries, edge.keys))
            for head in prompt:
                is_cut = edge.heads is None or head.label == "L0H1"
                seen = np.ones((n, n), bool)
                if name in ("llama", "language model"):
                    seen = np.tril(seen)
                if is_cut:
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
    for _ in range(2):
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


@torch.no_grad()
def test_an_edge_across_counts_the_source_s_real_tokens() -> None:
    model = seq2seq()
    ids, flags = padded(random.Random(1), "left")
    edge = Edge(slice(None), [0], heads=["cross"])
    with regard.knock_out(model, edges=[edge]), regard.record(model) as rec:
        model.generate(ids, start=1, tokens=3, source_mask=flags)
    for number in range(3):
        head = rec.recording.prompts[number]["cross.L0H0"]
        assert head.shape == (3, int(flags[number].sum()))
        assert not head.dense()[:, 0].any() and (head.dense()[:, 1:] > 0).all()


class Checkpointed(Lengths):
    """The same, run again for its gradients."""

    def forward(self, input_ids: Tensor, real: Tensor) -> Tensor:
        """Ids and flags (B, L)."""
        mask = regard.Padding(real.bool())
        x = self.embed(input_ids)
        found: Tensor = checkpoint(self.attention, x, mask=mask, use_reentrant=False)
        return found


def test_checkpointed_layers_are_cut_alike() -> None:
    """The forward that autograd runs again hides the same cells."""
    ids, flags = padded(random.Random(2), "left")
    edge = Edge(slice(2, None), [0, 1])
    grads = []
    for kind in (Lengths, Checkpointed):
        torch.manual_seed(0)
        model = kind()
        with regard.knock_out(model, edges=[edge]):
            (model(ids, flags) ** 2).sum().backward()
        grads.append([p.grad for p in model.parameters()])
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


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
        with regard.knock_out(model, region=region):
            alone = model(input_ids=row[None, real], pixel_values=pixels[n : n + 1]).logits[0]
        torch.testing.assert_close(whole[n, real], alone, atol=1e-4, rtol=1e-4)
        plain = model(input_ids=row[None, real], pixel_values=pixels[n : n + 1]).logits[0]
        assert not torch.allclose(alone, plain, atol=1e-2)
