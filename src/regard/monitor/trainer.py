"""A monitor for the Trainer of transformers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

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
    taken when the optimiser is about to step, after clipping. The loss is the one that the model
    returns, over all micro-batches; none where the Trainer computes it outside the model. `monitor`
    is set when training begins.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self.monitor: Monitor | None = None
        self._hook: Any = None
        self._losses: list[Tensor] = []  # of the step's micro-batches
        self._adds_up = False  # whether they are shares of the step's loss

    def __deepcopy__(self, _: dict[int, Any]) -> TrainerCallback:
        """Itself, as part of a copy of the model, which has its hook."""
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Attach a monitor to the model."""
        options = {"start": state.global_step} | self._options
        self.monitor = Monitor(given["model"], **options).attach()

    def on_step_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Install a hook for the loss, if the step is sampled."""
        if self.monitor is not None and self.monitor.is_sampling and self._hook is None:
            self._hook = given["model"].register_forward_hook(self._keep_loss, with_kwargs=True)

    def _keep_loss(self, _: Any, __: Any, given: dict[str, Any], output: Any) -> None:
        named = output.get("loss") if isinstance(output, dict) else None
        if isinstance(output, tuple) and given.get("labels") is not None:
            named = output[0]
        if isinstance(named, Tensor) and torch.is_grad_enabled():
            self._adds_up = given.get("num_items_in_batch") is not None
            self._losses.append(named.detach().clone())  # the Trainer scales it in place

    def _step_loss(self, args: Any, model: Any) -> Tensor | None:
        """This rank's loss: the mean over ranks is the step's."""
        self._remove_hook()
        losses, self._losses = self._losses, []
        if not losses:
            return None
        total = torch.stack(losses).sum(0)
        if not self._adds_up:
            return total / len(losses)
        # divided by the tokens of all ranks
        is_over_ranks = getattr(args, "average_tokens_across_devices", False)
        ranks = args.world_size // (getattr(model, "tp_size", None) or 1)
        return total * ranks if is_over_ranks else total

    def _remove_hook(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Close the step: its gradients are complete."""
        if self.monitor is not None:
            loss = self._step_loss(args, given["model"])
            self.monitor.step(state.global_step, loss=loss)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Detach the monitor."""
        self._remove_hook()
        if self.monitor is not None:
            self.monitor.detach()
