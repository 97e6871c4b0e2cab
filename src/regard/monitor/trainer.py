"""A monitor for the Trainer of transformers."""

from __future__ import annotations

from typing import Any

from regard.errors import MissingExtraError
from regard.monitor.session import Monitor

try:
    import transformers
except ModuleNotFoundError as error:
    if error.name != "transformers":
        raise
    raise MissingExtraError(
        "regard.monitor.TrainerCallback", "transformers", "huggingface"
    ) from None


class TrainerCallback(transformers.TrainerCallback):  # type: ignore[misc]
    """`Trainer(…, callbacks=[regard.monitor.TrainerCallback(log="run.csv")])`.

    Options are those of `regard.Monitor`; steps have the Trainer's numbers. Gradient norms are
    taken when the optimiser is about to step, after clipping. `monitor` is set when training
    begins.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self.monitor: Monitor | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Attach a monitor to the model."""
        options = {"start": state.global_step} | self._options
        self.monitor = Monitor(given["model"], **options).attach()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Close the step: its gradients are complete."""
        if self.monitor is not None:
            self.monitor.step(state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Detach the monitor."""
        if self.monitor is not None:
            self.monitor.detach()
