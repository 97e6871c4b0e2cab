"""`regard.Monitor`: the health of every head while a model trains."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch import nn

from regard.errors import InputError, RegardWarning
from regard.monitor.alarms import Limits, Watch
from regard.monitor.ears import Ears
from regard.monitor.gather import Gather
from regard.monitor.logs import as_logs
from regard.monitor.ranks import Ranks
from regard.monitor.sample import Sample, Seat
from regard.monitor.snapshots import Album, Snapshots
from regard.recording import Alarm

__all__ = ["Monitor"]


class Monitor:
    """What every head does while a model trains, step by step.

        with regard.Monitor(model, log="run.csv") as monitor:
            for batch in batches:
                loss(model(batch)).backward()
                monitor.step()
                optimizer.step()
                optimizer.zero_grad()

    every        every n-th step is sampled; between samples nothing listens
    log          a path (.csv, .regard), a function of (numbers, step), a log of regard.monitor, or
                 several of these
    optimizer    closes the step by itself whenever this optimiser is about to step
    start        the number of the first step, where a run is resumed
    evaluation   forwards without gradients count as well
    limits       when heads cause alarms; `on_alarm` is told of each (a warning where not given)
    snapshots    pooled maps of a few heads, for the recording
    group        the process group that trains together: all ranks where torch.distributed is
                 initialised; False for this process alone. Rank 0 writes.

    A step may have several forwards: means are over all their rows. Only summaries are kept, no
    graph, no N×N. Whatever calls `regard.attend` or torch's scaled_dot_product_attention inside
    the model is heard.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        every: int = 1,
        log: Any = None,
        optimizer: torch.optim.Optimizer | None = None,
        start: int = 0,
        evaluation: bool = False,
        limits: Limits | None = None,
        on_alarm: Callable[[Alarm], Any] | None = None,
        snapshots: Snapshots | None = None,
        group: Any = None,
    ) -> None:
        _check(model, every)
        self.model, self.every = model, every
        self.latest: Sample | None = None  # the last sampled step
        self.clipped_by: Sample | None = None  # the sample that qk_clip_ last went by
        self.alarms: list[Alarm] = []
        self._now = start  # the step that is under way
        self._album = Album(snapshots)
        self._ears = Ears(model, evaluation, self._album.look)
        self._ranks, self._watch = Ranks(group), Watch(limits or Limits())
        self._gather = Gather(model, self._ranks)
        self._on_alarm = on_alarm or _warn
        self._optimizer = optimizer
        self._hook: Any = None
        self._log, self._logs = log, as_logs(None)
        self._attached = self._listening = self._warned = False

    # ── from when to when ────────────────────────────────────────────────────────────────────

    def attach(self) -> Monitor:
        """Begin; also done by `with`."""
        if self._attached:
            raise InputError("this monitor is attached already; detach() it first")
        self._logs = as_logs(self._log if self._ranks.is_first else None)
        for log in self._logs:
            log.begin(self._watch.limits)
        if self._optimizer is not None:
            self._hook = self._optimizer.register_step_pre_hook(self._stepping)
        self._attached = True
        self._begin()
        return self

    def detach(self) -> None:
        """End: no hook is left, logs are closed; an unfinished step is dropped."""
        if not self._attached:
            return
        self._attached = False
        self._rest()
        if self._hook is not None:
            self._hook.remove()
        for log in self._logs:
            log.close()
        self._logs = []

    def __enter__(self) -> Monitor:
        return self.attach()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.detach()

    def step(self, number: int | None = None) -> Sample | None:
        """Close the step that is under way, after its backward and before zero_grad(): its sample,
        or None where it was not sampled. `number` renames it, and counting goes on from there."""
        if not self._attached:
            raise InputError("this monitor is not attached; use it in a with block, or attach()")
        if number is not None:
            self._now = number
        return self._close_step()

    @property
    def reasons(self) -> dict[str, str]:
        """By place: why the gradient norms of the latest sample are not known, where they are
        not."""
        return self._gather.reasons

    def module_of(self, label: str) -> tuple[nn.Module, Seat]:
        """The module behind a place that was heard, and its heads."""
        for seat in self._gather.layout:
            if seat.label == label:
                return self.model.get_submodule(seat.path), seat
        have = ", ".join(seat.label for seat in self._gather.layout) or "none yet"
        raise InputError(f"no place {label!r} was heard; heard: {have}")

    def _begin(self) -> None:
        """Listen, where the step is one that is sampled."""
        if self._now % self.every == 0 and not self._listening:
            self._album.begin(self._now)
            self._ears.open()
            self._listening = True

    def _rest(self) -> None:
        if self._listening:
            self._listening = False
            self._ears.close()

    def _stepping(self, *_: Any) -> None:
        """The optimiser is about to step."""
        self._close_step()

    def _close_step(self) -> Sample | None:
        if not self._listening:
            self._now += 1
            self._begin()
            return None
        self._rest()
        sample = self._gather.sample(self._now, self._ears.tally, self._album.maps)
        if sample is None:
            self._say_that_nothing_was_heard()
        else:
            self.latest = sample
            self._tell(sample)
        self._now += 1
        self._begin()
        return sample

    def _tell(self, sample: Sample) -> None:
        for alarm in self._watch.look(sample):
            self.alarms.append(alarm)
            self._on_alarm(alarm)
        for log in self._logs:
            log.take(sample, self.alarms)

    def _say_that_nothing_was_heard(self) -> None:
        if self._warned:
            return
        self._warned = True
        warnings.warn(
            f"no attention was heard: {type(self.model).__name__} was not called itself since the "
            "last step, or only without gradients (evaluation=True counts those), or it computes "
            "attention by other means than regard.attend and torch's "
            "scaled_dot_product_attention (for models of transformers: "
            "attn_implementation='regard' or 'sdpa')",
            RegardWarning,
            stacklevel=4,
        )


def _warn(alarm: Alarm) -> None:
    warnings.warn(str(alarm), RegardWarning, stacklevel=5)


def _check(model: nn.Module, every: int) -> None:
    if not isinstance(model, nn.Module):
        raise InputError(f"model is a {type(model).__name__}; give a torch.nn.Module")
    if hasattr(model, "_orig_mod"):
        raise InputError(
            "compiled code tells nobody what it computes; give the model as it was before "
            "torch.compile, and train that on sampled steps"
        )
    if type(every) is not int or every < 1:
        raise InputError(f"every={every!r}; give a whole number of steps ≥ 1")
