"""Faults in the forms in which they occur: one cell, one head, a chunk, one document, some
sequences, one way of decoding, one mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from check import models
from check.architectures import ids, make, padded
from check.faults import Fault, plant
from check.models import seeded
from check.reports import broken
from regard.check import check

LLAMA = "model.layers.1.self_attn"


def masked(change: Callable[[Tensor], Tensor]) -> Fault:
    """A copy of the (B, 1, Q, K) mask of what is added is changed."""

    def fault(forward: Any, module: Any, args: Any, kwargs: Any) -> Any:
        mask = change(kwargs["attention_mask"].clone())
        return forward(*args, **{**kwargs, "attention_mask": mask})

    return fault


def rows(change: Callable[[Tensor], Tensor]) -> Fault:
    """The (B, L, D) rows are changed."""

    def fault(forward: Any, module: Any, args: Any, kwargs: Any) -> Any:
        output = forward(*args, **kwargs)
        return (change(output[0]), *output[1:])

    return fault


def one_cell(mask: Tensor) -> Tensor:
    mask[:, :, 7, 8] = 0
    return mask


def far_ahead(mask: Tensor) -> Tensor:
    """Each row sees one position, seventeen ahead."""
    return mask.masked_fill(torch.ones_like(mask).bool().triu(17).tril(17), 0.0)


def last_token(mask: Tensor) -> Tensor:
    mask[..., -1] = 0
    return mask


def one_head(mask: Tensor) -> Tensor:
    mask = mask.repeat(1, 4, 1, 1)
    mask[:, 2] = mask[:, 2].clamp_min(-9)
    return mask


def one_sequence(mask: Tensor) -> Tensor:
    mask[-1] = 0
    return mask


AHEAD = [one_cell, far_ahead, last_token, one_head, one_sequence]


@pytest.mark.parametrize("form", AHEAD, ids=lambda form: form.__name__)
def test_later_tokens(form: Callable[[Tensor], Tensor]) -> None:
    model = plant(make("llama"), LLAMA, masked(form))
    length = 16 if form is one_cell else 20  # so short a text is measured cell by cell
    report = check(model, {"input_ids": ids(2, length)}, rules=["future", "batch"])
    broken(report, "future", LLAMA)


@pytest.mark.parametrize("length", [66, 130])
@pytest.mark.parametrize("chunk", [4, 16, 64])
def test_tokens_of_the_same_chunk(chunk: int, length: int) -> None:
    """Causal between chunks alone, as in kernels that mask whole tiles."""

    def tiles(mask: Tensor) -> Tensor:
        tile = torch.arange(mask.shape[-1]) // chunk
        return mask.masked_fill(tile[:, None] == tile, 0.0)

    model = make("llama")
    model.config.max_position_embeddings = 256
    plant(model, LLAMA, masked(tiles))
    broken(check(model, {"input_ids": ids(1, length)}, rules=["future"]), "future", LLAMA)


@pytest.mark.parametrize("count", [2, 3, 4, 6])
def test_sequences_in_pairs(count: int) -> None:
    """Each with its neighbour alone, as in norms over parts of a batch."""

    def pairs(x: Tensor) -> Tensor:
        other = x.clone()
        for n in range(0, len(x) - 1, 2):
            other[n], other[n + 1] = x[n + 1], x[n]
        return x + 0.1 * other

    model = plant(make("llama"), LLAMA, rows(pairs))
    broken(check(model, {"input_ids": ids(count, 12)}, rules=["batch", "future"]), "batch", LLAMA)


@pytest.mark.parametrize("source", [0, 1, 2, 3])
def test_one_sequence_that_the_others_see(source: int) -> None:
    model = plant(make("llama"), LLAMA, rows(lambda x: x + 0.1 * x[source % len(x)]))
    broken(check(model, {"input_ids": ids(4, 12)}, rules=["batch", "future"]), "batch", LLAMA)


POSITIONS = torch.tensor([[*range(5), *range(6), *range(4), *range(7)]])  # of four documents
STARTS = (0, 5, 11, 15, 22)


@pytest.mark.parametrize("reader", range(4))
@pytest.mark.parametrize("source", range(4))
def test_one_document_that_another_sees_or_its_own_later_tokens(source: int, reader: int) -> None:
    def cells(mask: Tensor) -> Tensor:
        if mask.shape[-1] == STARTS[-1]:
            keys, queries = (slice(STARTS[n], STARTS[n + 1]) for n in (source, reader))
            mask[:, :, queries, keys] = 0
        return mask

    model = plant(make("llama"), LLAMA, masked(cells))
    rules = ["future"] if source == reader else ["documents", "future"]
    report = check(model, {"input_ids": ids(1, 22), "position_ids": POSITIONS}, rules=rules)
    broken(report, rules[0], LLAMA)


def oldest_dropped(mask: Tensor) -> Tensor:
    if mask.shape[-1] > mask.shape[-2]:
        mask[..., 0] = torch.finfo(mask.dtype).min
    return mask


def newest_dropped(mask: Tensor) -> Tensor:
    if mask.shape[-1] > mask.shape[-2]:
        mask[..., -mask.shape[-2] - 1] = torch.finfo(mask.dtype).min
    return mask


def open_chunk(mask: Tensor) -> Tensor:
    """Several tokens on a cache see one another, later ones as well."""
    new = mask.shape[-2]
    if 1 < new < mask.shape[-1]:
        mask[..., -new:] = 0
    return mask


CACHED = [oldest_dropped, newest_dropped, open_chunk]


@pytest.mark.parametrize("form", CACHED, ids=lambda form: form.__name__)
@pytest.mark.parametrize("name", ["llama", "qwen3_moe"])
def test_a_cache(name: str, form: Callable[[Tensor], Tensor]) -> None:
    model = plant(make(name), LLAMA, masked(form))
    broken(check(model, {"input_ids": ids()}), "cache", LLAMA)


def test_the_encoders_padding() -> None:
    """A decoder that reads padding of the other text."""

    def fault(forward: Any, module: Any, args: Any, kwargs: Any) -> Any:
        return forward(*args, **{**kwargs, "attention_mask": None})

    path = "model.decoder.layers.1.encoder_attn"
    model = plant(make("bart"), path, fault)
    broken(check(model, padded("right"), rules=["padding", "future", "batch"]), "padding", path)


def test_where_there_is_dropout_alone() -> None:
    """A mask that is lost where weights are dropped."""

    def fault(forward: Any, module: Any, args: Any, kwargs: Any) -> Any:
        loses = module.training and module.attn_dropout.p > 0
        mask = kwargs["attention_mask"]
        return forward(*args, **{**kwargs, "attention_mask": mask * 0 if loses else mask})

    path = "transformer.h.1.attn"
    model = plant(make("gpt2"), path, fault)
    report = check(model, {"input_ids": ids()})
    broken(report, "future", path)
    assert report.checked["training"] == "found"


def test_where_nothing_is_padded_alone() -> None:
    """A fast path for batches without padding."""

    class Fast(models.Words):
        def forward(self, tokens: Tensor, padding_mask: Tensor | None = None) -> dict[str, Tensor]:
            if padding_mask is not None and not padding_mask.any():
                x = self.embed(tokens)
                return {"logits": self.head(x + x.flip(1))}
            return super().forward(tokens, padding_mask)

    batch = {"tokens": ids(), "padding_mask": torch.zeros(2, 20, dtype=torch.bool)}
    report = check(seeded(Fast), batch, causal=True)
    assert "future" in {each.rule for each in report.findings}


def test_a_fault_of_the_compiled_model_alone() -> None:
    """The eager one is right: what a compiler makes of it is not."""

    def backend(graph: Any, inputs: Any) -> Any:
        def forward(*args: Any) -> Any:
            return [
                x + 1e-2 * x.roll(-1, 1) if isinstance(x, Tensor) and x.ndim == 3 else x
                for x in graph.forward(*args)
            ]

        return forward

    model = torch.compile(seeded(models.Shifted), backend=backend)
    report = check(model, ids(), causal=True)
    assert {each.rule for each in report.findings} == {"future"}
    assert "in float64" not in report.findings[0].text
