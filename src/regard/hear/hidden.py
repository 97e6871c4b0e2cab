"""The mass that heads give to what must be hidden: a finding of `regard.check`, heard once more."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from regard.check.batch import GivenBatch
from regard.check.rules import RunPair
from regard.check.runs import Feed, Runner, plain
from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.engine.observers import Request
from regard.hear.intercept import AttentionHooks
from regard.hear.names import LayerNames

_HEADS = 8  # that give most
_ROWS = 64  # that are measured, spread over all
_ALIKE = 0.02  # of the largest entry: how far outputs are apart in bfloat16


def of_trial(runner: Runner, trial: RunPair, module: str) -> dict[str, float]:
    """By head of a module, or of the model where that is not known: the mean mass, over rows that
    moved, on positions that they must not see; {} where it cannot be heard."""
    if trial.rule not in ("future", "padding", "documents"):
        return {}
    # of two lengths the longer one has what must be hidden
    n = int(trial.runs[1].batch.shape[1] > trial.runs[0].batch.shape[1])
    batch, rows = trial.runs[n].batch, trial.still[n]
    if trial.changed is not None:
        moved = torch.zeros_like(rows)
        moved[tuple(zip(*trial.rows, strict=True))] = True
        rows = rows & moved
    if batch.documents is not None:
        hidden = batch.documents[:, :, None] != batch.documents[:, None]
    else:
        keys = ~batch.real if trial.changed is None else trial.changed
        hidden = keys[:, None].expand(-1, batch.shape[1], -1)
    return _masses(runner, batch, module, rows, hidden)


def of_window(runner: Runner, batch: GivenBatch, module: str, size: int) -> dict[str, float]:
    """The same of a window, over all rows."""
    places = torch.arange(batch.shape[1], device=batch.real.device)
    beyond = (places[:, None] - places >= size).expand(len(batch.real), -1, -1)
    return _masses(runner, batch, module, batch.real & beyond.any(-1), beyond)


def _masses(
    runner: Runner, batch: GivenBatch, module: str, rows: Tensor, hidden: Tensor
) -> dict[str, float]:
    """rows (B, L), hidden (B, L, L) of rows and keys: both bool."""
    heard = _Masses(plain(runner.model), module, rows, hidden)
    try:
        own = runner.rows(Feed(batch))
        with heard.hooks:
            others = runner.rows(Feed(batch))
    except Exception:  # noqa: BLE001 - what cannot be heard is no reason to lose a finding
        return {}
    scale = float(own.abs().nan_to_num().max())
    if not torch.allclose(own, others, rtol=0, atol=_ALIKE * scale, equal_nan=True):
        return {}  # regard stands for the model's attention, and its mask there is another
    heaviest = sorted(heard.by_head.items(), key=lambda item: -item[1])[:_HEADS]
    return {head: mass for head, mass in heaviest if mass > 0}


class _Masses:
    """Listens to one module."""

    def __init__(self, model: Any, module: str, rows: Tensor, hidden: Tensor) -> None:
        self.by_head: dict[str, float] = {}
        self._module, self._rows, self._hidden = module, rows, hidden
        self._names = LayerNames(named=False)
        self.hooks = AttentionHooks(
            model, self, lambda attention, *_: self._take(attention), leave=("sdpa", "regard")
        )

    def wants(self, call: Call) -> Request[None]:
        """Nothing along the way: few rows are read afterwards."""
        return Request()

    def heard(self, attention: Attention, request: Request[None]) -> None:
        """One that regard computes."""
        self._take(attention)

    def _take(self, attention: Attention) -> None:
        caller = self.hooks.caller()
        if caller is None:
            return
        count, length = self._rows.shape
        spot, shape = self._names.spot(caller), attention.shape
        self.hooks.called(caller)
        is_inside = not self._module or f"{caller.path}.".startswith(f"{self._module}.")
        sequences = math.prod(shape[:-3]) if is_inside else 0
        if sequences != count or shape[-2:] != (length, length):
            return  # of another module, or of other rows and keys than the batch's positions
        places = self._rows.any(0).nonzero().flatten()
        places = places[:: -(-len(places) // _ROWS)]
        weights = attention.rows(places).reshape(count, shape[-3], len(places), length)
        mass = (weights * self._hidden[:, None, places]).sum(-1)  # (B, H, n)
        own = self._rows[:, None, places].to(mass)
        mean = ((mass * own).sum(-1) / own.sum(-1).clamp_min(1)).amax(0)
        stack = f"{spot.stack}." if spot.stack else ""
        for head, value in enumerate(mean.tolist()):
            self.by_head[f"{stack}L{spot.layer}H{head}"] = value
