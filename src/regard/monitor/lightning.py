"""A monitor for Lightning's Trainer, of the package `lightning` or `pytorch_lightning`."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from regard.errors import MissingExtraError
from regard.monitor.session import Monitor

_HOMES = ("lightning.pytorch", "pytorch_lightning")


def _base() -> Any:
    """The callback of the package whose Trainer is at work: the one that is imported already."""
    there = [name for name in _HOMES if name in sys.modules]
    for name in (*there, *_HOMES):
        try:
            return import_module(name).Callback
        except ModuleNotFoundError as error:
            if error.name != name.partition(".")[0]:
                raise
    raise MissingExtraError("regard.monitor.LightningCallback", "lightning", "lightning")


class LightningCallback(_base()):  # type: ignore[misc]
    """`Trainer(…, callbacks=[regard.monitor.LightningCallback(log="run.csv")])`.

    Options are those of `regard.Monitor`; steps have the Trainer's numbers. Gradient norms are
    taken when the optimiser is about to step. The loss is the one that is differentiated, the mean
    over accumulated batches. `monitor` is set when training begins.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = options
        self.monitor: Monitor | None = None
        self._loss: Tensor | None = None  # of the batches so far

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Attach a monitor to the module."""
        options = {"start": trainer.global_step} | self._options
        self.monitor = Monitor(pl_module, **options).attach()

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Tensor) -> None:
        """Add the loss of a batch, which Lightning has divided by the number of batches."""
        if self.monitor is None or not self.monitor.is_sampling:
            return
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        own = loss.detach().clone()
        if scaler is not None:  # half precision: the loss comes multiplied by its scale
            own = own / scaler.scale(torch.ones_like(own))
        self._loss = own if self._loss is None else self._loss + own

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Close the step: its gradients are complete."""
        if self.monitor is not None:
            loss, self._loss = self._loss, None
            self.monitor.step(trainer.global_step, loss=loss)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Detach the monitor."""
        if self.monitor is not None:
            self.monitor.detach()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Detach it, with its logs closed."""
        self.on_train_end(trainer, pl_module)
