"""A whole model being recorded, against the same forward without it.

sdpa        the model's forward with transformers' sdpa attention
regard      the same with regard's attention, not recorded
recorded    recorded to a file, with the default budget

One long prompt, or many short documents: these go through the model in padded batches, and one
recording takes them all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import regard
from regard.bench.results import Result, WrongResultError, timed
from regard.bench.timing import Samples, take_turns

ENCODER, DOCUMENTS = "minilm", 1000  # what `python -m bench record` reads beside a prompt
_SHORT, _LONG = 8, 48  # tokens of a document
_TOGETHER = 32  # documents a batch


def measure(name: str, tokens: int, seconds: float = 2.0) -> list[Result]:
    """Of one prompt. Outputs are compared before anything is timed."""
    model = regard.models.load(name).model
    ids = _random_ids(model, 1, tokens)

    def plain() -> Tensor:
        return model(ids, use_cache=False, logits_to_keep=1).logits

    taken = _timed(model, plain, seconds)
    return [_result(model, f"record {name}", tokens, what, taken) for what in taken]


def measure_documents(name: str, count: int, seconds: float = 2.0) -> list[Result]:
    """Of many documents, short ones and less short ones side by side."""
    model = regard.models.load(name).model
    lengths = np.random.default_rng(0).integers(_SHORT, _LONG, size=count, endpoint=True)
    batches = []
    for start in range(0, count, _TOGETHER):
        some = torch.from_numpy(lengths[start : start + _TOGETHER])
        ids = _random_ids(model, len(some), int(some.max()))
        real = torch.arange(ids.shape[1]) < some[:, None]
        batches.append({"input_ids": ids * real, "attention_mask": real.long()})

    def plain() -> Tensor:
        return torch.stack([model(**batch)[0][:, 0].sum(0) for batch in batches])

    taken = _timed(model, plain, seconds)
    rows = [_result(model, f"record {name} documents", _LONG, what, taken) for what in taken]
    note = f"{count} documents of {_SHORT} to {_LONG} tokens, {_TOGETHER} a batch"
    return [replace(row, batch=_TOGETHER, causal=False, note=note) for row in rows]


def _random_ids(model: Any, count: int, tokens: int) -> Tensor:
    dice = torch.Generator().manual_seed(tokens)
    return torch.randint(100, model.config.vocab_size, (count, tokens), generator=dice)


def _timed(model: Any, plain: Callable[[], Tensor], seconds: float) -> dict[str, Samples]:
    with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
        contenders = _contenders(model, plain, Path(folder))
        _check(contenders)
        return take_turns(contenders, seconds=seconds)


def _contenders(
    model: Any, plain: Callable[[], Tensor], folder: Path
) -> dict[str, Callable[[], Any]]:
    def ours() -> Tensor:
        with regard.huggingface.using(model):
            return plain()

    def recorded() -> Tensor:
        with regard.record(model, folder / "run.regard", overwrite=True):
            return plain()

    return {"sdpa": plain, "regard": ours, "recorded": recorded}


def _check(contenders: dict[str, Callable[[], Any]]) -> None:
    right = contenders["sdpa"]()
    for what in ("regard", "recorded"):
        gap = float((contenders[what]() - right).abs().max())
        if not gap < 1e-2 * float(right.abs().max()):
            raise WrongResultError(f"outputs of {what} are off by {gap:.2g}; no time is reported")


def _result(model: Any, suite: str, tokens: int, what: str, taken: dict[str, Samples]) -> Result:
    config = model.config
    return timed(
        taken[what], 1, taken[what].ratio_to(taken["sdpa"]), suite=suite, what=what,
        implementation="torch" if what == "sdpa" else "cpu", tokens=tokens,
        dim=config.hidden_size // config.num_attention_heads, heads=config.num_attention_heads,
        causal=True, dtype=str(next(model.parameters()).dtype).removeprefix("torch."), peer="sdpa",
    )  # fmt: skip
