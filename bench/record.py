"""A whole model being recorded, against the same forward without it.

sdpa        the model's forward with transformers' sdpa attention
regard      the same with regard's attention, not recorded
recorded    recorded to a file, with the default budget
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import regard
from regard.bench.results import Result, WrongResultError, timed
from regard.bench.timing import Samples, take_turns


def measure(name: str, tokens: int, seconds: float = 2.0) -> list[Result]:
    """Outputs are compared before anything is timed."""
    loaded = regard.models.load(name)
    model = loaded.model
    dice = torch.Generator().manual_seed(0)
    ids = torch.randint(100, model.config.vocab_size, (1, tokens), generator=dice)
    with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
        contenders = _contenders(model, ids, Path(folder))
        _check(contenders)
        taken = take_turns(contenders, seconds=seconds)
    return [_result(model, name, tokens, what, taken) for what in taken]


def _contenders(model: Any, ids: Tensor, folder: Path) -> dict[str, Callable[[], Any]]:
    def plain() -> Tensor:
        found: Tensor = model(ids, use_cache=False, logits_to_keep=1).logits
        return found

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
            raise WrongResultError(f"logits of {what} are off by {gap:.2g}; no time is reported")


def _result(model: Any, name: str, tokens: int, what: str, taken: dict[str, Samples]) -> Result:
    config = model.config
    return timed(
        taken[what], 1, taken[what].ratio_to(taken["sdpa"]), suite=f"record {name}", what=what,
        implementation="torch" if what == "sdpa" else "cpu", tokens=tokens,
        dim=config.hidden_size // config.num_attention_heads, heads=config.num_attention_heads,
        causal=True, dtype=str(next(model.parameters()).dtype).removeprefix("torch."), peer="sdpa",
    )  # fmt: skip
