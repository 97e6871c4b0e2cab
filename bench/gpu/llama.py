"""A model of the shape of an 8B Llama reading a prompt: its plain forward, and being recorded.

sdpa         transformers' sdpa attention
statistics   the same forward under `regard.record`, until the file is closed, with a budget that
             holds the statistics of all heads and little else
recorded     the same with the default budget, most of which is q and k

What the disk needs to take as many bytes is measured beside it, and said in the note. The weights
are drawn at random on the GPU: where they look does not matter, what it costs does. Only the last
token's logits are computed, by all.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import regard
from bench.gpu.reference import expect
from bench.gpu.stage import Stage
from regard.bench.results import Result, timed
from regard.bench.timing import Samples, take_turns
from regard.errors import MissingExtraError

SHAPE: dict[str, Any] = {
    "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    "max_position_embeddings": 131072,
}  # fmt: skip
_ALLOWED = 0.1  # 32 layers of half precision lie between two kernels' outputs and the logits
_ROUNDS = 3
_PEER = "sdpa"
_BUDGETS = {"statistics": "100MB", "recorded": "2GB"}


@lru_cache(maxsize=1)  # two lengths, one model
def new_model(device: str, shape: tuple[tuple[str, Any], ...]) -> Any:
    """Random weights in half precision, made where they stay."""
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise MissingExtraError("the part llama", "transformers", "huggingface") from None
    config = LlamaConfig(**dict(shape), attn_implementation=_PEER, dtype=torch.bfloat16)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        torch.manual_seed(0)
        with torch.device(device):
            return LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(before)


def measure(stage: Stage, tokens: int, shape: dict[str, Any] | None = None) -> list[Result]:
    """Logits are compared before anything is timed."""
    model = new_model(stage.device, tuple((shape or SHAPE).items()))
    dice = torch.Generator(device=stage.device).manual_seed(0)
    ids = torch.randint(
        100, model.config.vocab_size, (1, tokens), generator=dice, device=stage.device
    )
    with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
        runs = _runs(model, ids, Path(folder))
        right = runs[_PEER]().double()
        notes = {}
        for name in _BUDGETS:
            expect(runs[name](), right, _ALLOWED, f"logits at {tokens} tokens, {name}")
            notes[name] = _about(_file(Path(folder), name))
        extra = {name: stage.peak(partial(_alone, run)) for name, run in runs.items()}
        taken = take_turns(
            {name: partial(_read, run) for name, run in runs.items()},
            seconds=0, rounds=_ROUNDS, warm=False,
        )  # fmt: skip
    return [
        _row(stage, model.config, tokens, name, taken, extra[name], notes.get(name, ""))
        for name in taken
    ]


def _runs(model: Any, ids: Tensor, folder: Path) -> dict[str, Callable[[], Tensor]]:
    def plain() -> Tensor:
        found: Tensor = model(ids, use_cache=False, logits_to_keep=1).logits
        return found

    def recorded(name: str) -> Tensor:
        with regard.record(model, _file(folder, name), budget=_BUDGETS[name], overwrite=True):
            return plain()

    return {_PEER: plain} | {name: partial(recorded, name) for name in _BUDGETS}


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.regard"


def _about(file: Path) -> str:
    """How large a file is, and how long the disk takes for as many bytes."""
    size = file.stat().st_size
    block, other = os.urandom(2**24), file.with_suffix(".plain")
    start = time.perf_counter()
    with other.open("wb") as plain:
        for _ in range(0, size, len(block)):
            plain.write(block)
        plain.flush()
        os.fsync(plain.fileno())
    taken = time.perf_counter() - start
    other.unlink()
    return f"a file of {size / 1e9:.2f} GB, which this disk takes {taken:.2f} s to write"


def _read(run: Callable[[], Tensor]) -> Tensor:
    """Until the logits are with the host, by the clock on the wall: a file takes no GPU's time."""
    return run().cpu()


def _alone(run: Callable[[], Tensor]) -> list[Tensor]:
    return [run()]


def _row(
    stage: Stage,
    config: Any,
    tokens: int,
    what: str,
    taken: dict[str, Samples],
    extra: int | None,
    note: str,
) -> Result:
    return timed(
        taken[what], 1, taken[what].ratio_to(taken[_PEER]), suite="gpu llama", what=what,
        implementation="torch" if what == _PEER else "regard", tokens=tokens,
        dim=config.hidden_size // config.num_attention_heads, heads=config.num_attention_heads,
        causal=True, dtype="bfloat16", peer=_PEER, machine=stage.name,
        extra_mib=None if extra is None else round(extra / 2**20, 1), note=note,
    )  # fmt: skip
