"""A training step of a Llama of a billion weights, plain and under `regard.Monitor`.

sdpa, regard            forward, backward and AdamW on transformers' attention, and on regard's
… monitored             every step sampled: all statistics of all heads, and a table written
… monitored, 1 in 10    every tenth step sampled

Ten steps are timed together, so that the tenth is part of each turn.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import regard
from bench.gpu.generate import SHAPE
from bench.gpu.llama import new_model
from bench.gpu.reference import expect
from bench.gpu.stage import Stage
from regard.bench.results import Result, WrongResultError, timed
from regard.bench.timing import Samples, take_turns

_ALLOWED = 0.1
_PEER = "sdpa"
_STEPS = 10
_ROUNDS = 3


def measure(
    stage: Stage, batch: int, tokens: int, shape: dict[str, Any] | None = None
) -> list[Result]:
    """Losses are compared before anything is timed."""
    model = new_model(stage.device, tuple((shape or SHAPE).items())).train()
    dice = torch.Generator(device=stage.device).manual_seed(0)
    ids = torch.randint(
        100, model.config.vocab_size, (batch, tokens), generator=dice, device=stage.device
    )
    # the same loss every time
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.0)
    try:
        with tempfile.TemporaryDirectory() as folder:
            runs = _runs(model, ids, optimizer, Path(folder))
            _check(model.config, runs)
            each = {name: partial(run, _STEPS) for name, (run, _) in runs.items()}
            taken = take_turns(each, seconds=0, rounds=_ROUNDS, warm=False)
    finally:
        model.set_attn_implementation(_PEER)
        model.zero_grad()
        model.eval()
    return [_row(stage, model.config, batch, tokens, name, taken) for name in taken]


_Runs = dict[str, tuple[Callable[[int], Tensor], regard.Monitor | None]]


def _runs(model: Any, ids: Tensor, optimizer: torch.optim.Optimizer, folder: Path) -> _Runs:
    runs: _Runs = {}
    for name in (_PEER, "regard"):
        path = folder / f"{name}.csv"
        every = regard.Monitor(model, log=path, on_alarm=lambda alarm: None)
        tenth = regard.Monitor(model, every=10, log=path, on_alarm=lambda alarm: None)
        monitors = {"": None, " monitored": every, " monitored, 1 in 10": tenth}
        for what, monitor in monitors.items():
            run = partial(_trained, model, ids, optimizer, name, monitor)
            runs[f"{name}{what}"] = run, monitor
    return runs


def _trained(
    model: Any,
    ids: Tensor,
    optimizer: torch.optim.Optimizer,
    name: str,
    monitor: regard.Monitor | None,
    steps: int,
) -> Tensor:
    """So many steps, until their last loss is with the host."""
    model.set_attn_implementation(name)
    if monitor is not None:
        monitor.attach()
    for _ in range(steps):
        loss = model(ids, labels=ids).loss
        loss.backward()
        if monitor is not None:
            monitor.step()
        optimizer.step()
        optimizer.zero_grad()
    if monitor is not None:
        monitor.detach()
    found: Tensor = loss.detach().float().cpu()
    return found


def _check(config: Any, runs: _Runs) -> None:
    """Monitored, the same loss to the bit and statistics of every head; with regard, the same
    loss as with sdpa up to rounding."""
    heads = config.num_hidden_layers * config.num_attention_heads
    losses = {name: run(_STEPS) for name, (run, _) in runs.items()}
    for name, (_, monitor) in runs.items():
        plain = losses[name.split()[0]]
        expect(losses[name], losses[_PEER].double(), _ALLOWED, f"loss of {name}")
        if monitor is None:
            continue
        seen = 0 if monitor.latest is None else len(list(monitor.latest.heads()))
        if not torch.equal(losses[name], plain) or seen != heads:
            raise WrongResultError(
                f"{name}: a loss of {float(losses[name])} and {seen} heads instead of "
                f"{float(plain)} and {heads}; no time is reported"
            )


def _row(
    stage: Stage, config: Any, batch: int, tokens: int, name: str, taken: dict[str, Samples]
) -> Result:
    step = Samples([one / _STEPS for one in taken[name].seconds])
    return timed(
        step, 2, taken[name].ratio_to(taken[_PEER]), suite="gpu monitor", what=name,
        implementation="torch" if name.startswith(_PEER) else "regard", tokens=tokens, batch=batch,
        dim=config.hidden_size // config.num_attention_heads, heads=config.num_attention_heads,
        causal=True, dtype="bfloat16", peer=_PEER, machine=stage.name,
    )  # fmt: skip
