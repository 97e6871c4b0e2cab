"""`regard.Monitor`: the health of every head while a model trains."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.errors import InputError, RegardWarning
from regard.hear.unheard import HEARD
from regard.hear.wrapped import check_module
from regard.monitor.first_batch import FirstBatch, LeakAlarm, check_options, checked
from regard.monitor.gradients import ADAPTED
from regard.monitor.listen import Snapshots, StepListener
from regard.monitor.loss import Loss, check_loss
from regard.monitor.outputs import AlarmTracker, Limits, Log, as_logs
from regard.monitor.sample import AttentionSite, Collector, Ranks, Sample
from regard.recording import Alarm

if TYPE_CHECKING:
    from regard.check import Report


class Monitor:
    """Statistics of every head while a model trains, step by step.

        with regard.Monitor(model, log="run.csv") as monitor:
            for batch in batches:
                loss = loss_of(model(batch))
                loss.backward()
                monitor.step(loss=loss)
                optimizer.step()
                optimizer.zero_grad()

    every        every n-th step is sampled; between samples it runs as without a monitor
    log          a path (.csv, .regard), a function of (numbers, step), a log of regard.monitor, or
                 several of these
    optimizer    the step closes whenever this optimiser is about to step
    start        the number of the first step, where a run is resumed
    evaluation   forwards without gradients count as well
    limits       when heads cause alarms; `on_alarm` is called with each (default: a warning)
    snapshots    pooled maps of a few heads, for the recording
    group        the process group that trains together: all ranks where torch.distributed is
                 initialised; False for this process alone. Rank 0 writes.
    check_first_batch  True: the first training batch is checked by `regard.check` before it is run;
                 or options of that as a mapping, such as {"causal": True}. Findings are alarms, and
                 `first_batch` is the report

    A step may have several forwards: means are over all their rows. Only summaries are kept, no
    graph, no N×N. Which attention is measured is listed in docs/hearing.md; modules that attend by
    other means are named in a warning and in `unheard`.
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
        check_first_batch: bool | Mapping[str, Any] = False,
    ) -> None:
        _check(model, every)
        self.model, self.every = model, every
        self.latest: Sample | None = None  # the last sampled step
        self.clipped_by: Sample | None = None  # the last sample that qk_clip_ used
        self.alarms: list[Alarm] = []
        self.first_batch: Report | None = None  # where it was to be checked, and was
        self.unheard: tuple[str, ...] = ()  # modules that attend and are not measured, with reasons
        self._now = start  # the current step
        self._losses: list[Loss] = []  # of the current step, if it is sampled
        self._listener = StepListener(model, evaluation, snapshots)
        self._ranks, self._tracker = Ranks(group), AlarmTracker(limits or Limits())
        self._collector = Collector(model, self._ranks)
        self._of_heads: list[Alarm] = []  # those that logs keep
        self._on_alarm = on_alarm or _warn
        self._optimizer = optimizer
        self._hook: Any = None
        self._log = log
        self._logs: list[Log] = []
        self._attached = self._warned = self._named = self._explained = False
        self._options = check_options(check_first_batch)
        self._first = (
            FirstBatch(model, self._check_first) if check_first_batch is not False else None
        )

    def attach(self) -> Monitor:
        """Begin; also done by `with`."""
        if self._attached:
            raise InputError("this monitor is attached already; detach() it first")
        self._logs = as_logs(self._log if self._ranks.is_first else None)
        for log in self._logs:
            log.begin(self._tracker.limits)
        if self._optimizer is not None:
            self._hook = self._optimizer.register_step_pre_hook(self._before_optimizer)
        self._attached = True
        if self._first is not None:
            self._first.attach()
        self._begin()
        return self

    def detach(self) -> None:
        """End: hooks are removed, logs are closed; an unfinished step is dropped."""
        if not self._attached:
            return
        self._attached = False
        self._losses = []
        if self._first is not None:
            self._first.detach()
        self._listener.close()
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

    def step(self, number: int | None = None, *, loss: Loss | None = None) -> Sample | None:
        """Close the current step, after its backward and before zero_grad(): its sample, or None
        where it was not sampled. `number` renames it, and counting continues from there. `loss` is
        kept with the sample, as by `add_loss`."""
        if not self._attached:
            raise InputError("this monitor is not attached; use it in a with block, or attach()")
        if loss is not None:
            self.add_loss(loss)
        if number is not None:
            self._now = number
        return self._close_step()

    def add_loss(self, loss: Loss) -> None:
        """The loss of the current step, or of one of its micro-batches: the sample has their mean,
        over all ranks that give one. A tensor stays on its device until the sample is fetched."""
        checked = check_loss(loss)
        if self.is_sampling:  # a copy: loops that add up a loss reuse its tensor
            self._losses.append(checked.clone() if isinstance(checked, Tensor) else checked)

    @property
    def is_sampling(self) -> bool:
        """Whether the current step is sampled."""
        return self._listener.is_open

    @property
    def reasons(self) -> dict[str, str]:
        """By place: why the latest sample has no gradient norms, where it has none."""
        return self._collector.reasons

    def module_of(self, label: str) -> tuple[nn.Module, AttentionSite]:
        """The module behind a place of a sample, and its heads."""
        for place in self._collector.layout:
            if place.label == label:
                return self.model.get_submodule(place.path), place
        have = ", ".join(place.label for place in self._collector.layout) or "none yet"
        raise InputError(f"there is no place {label!r}; places: {have}")

    def _begin(self) -> None:
        """Install the hooks, if the step is to be sampled."""
        if self._now % self.every == 0 and not self._listener.is_open:
            self._listener.open(self._now)

    def _before_optimizer(self, *_: Any) -> None:
        self._close_step()  # its sample is not returned: torch would take it for new arguments

    def _close_step(self) -> Sample | None:
        sample = None
        if self._listener.is_open:
            self._listener.close()
            losses, self._losses = self._losses, []
            sample = self._collector.sample(
                self._now, self._listener.tally, self._listener.maps, losses
            )
            if sample is None:
                self._warn_without_attention()
            else:
                self.latest = sample
                self._name_unheard()
                self._name_without_gradients()
                self._publish(sample)
        self._now += 1
        self._begin()
        return sample

    def _publish(self, sample: Sample) -> None:
        for alarm in self._tracker.update(sample):
            self._of_heads.append(alarm)
            self._raise(alarm)
        for log in self._logs:
            log.take(sample, self._of_heads)

    def _raise(self, alarm: Alarm) -> None:
        self.alarms.append(alarm)
        self._on_alarm(alarm)

    def _check_first(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Nothing else follows the model meanwhile."""
        self._first = None
        with self._listener.paused():
            self.first_batch = checked(module, args, kwargs, self._options, self._ranks)
        if self.first_batch is None:
            return
        for each in self.first_batch.findings:
            place = each.module or type(module).__name__
            self._raise(LeakAlarm(each.rule, place, self._now, "change", each.change, 0.0, each))
        undecided = self.first_batch.undecided
        if undecided and not self.first_batch.findings:  # which leave more open than they say
            each_rule = "; ".join(f"{rule}: {verdict}" for rule, verdict in undecided.items())
            said = f"the first batch leaves open what the model sees ({each_rule})"
            warnings.warn(said, RegardWarning, stacklevel=2)

    def _warn_without_attention(self) -> None:
        if not self._warned:
            self._warned = True
            said = f"no attention was measured: {self._listener.what_ran()}; {HEARD}"
            warnings.warn(said, RegardWarning, stacklevel=4)

    def _name_unheard(self) -> None:
        """Once: modules are the same in every step."""
        if self._named:
            return
        self._named = True
        names, said = self._listener.unheard()
        self.unheard = tuple(names)
        if names:
            said = f"not measured, although they ran: {said}"
            warnings.warn(said, RegardWarning, stacklevel=4)

    def _name_without_gradients(self) -> None:
        """Once: gradient norms are NaN although the model learns, where adapters do."""
        unknown = {at: why for at, why in self.reasons.items() if why.endswith(ADAPTED)}
        has_any = any(one.grad is not None for one in self.model.parameters())
        if not unknown or not has_any or self._explained:
            return
        self._explained = True
        places: dict[str, list[str]] = {}
        for label, reason in unknown.items():
            places.setdefault(reason, []).append(label)
        each = "; ".join(f"{_ends(labels)}: {reason}" for reason, labels in places.items())
        said = f"grad_w_q and grad_w_k are NaN, as they are not known ({each})"
        warnings.warn(said, RegardWarning, stacklevel=4)


def _ends(labels: list[str]) -> str:
    """All of a few, the ends of many."""
    return ", ".join(labels) if len(labels) < 4 else f"{labels[0]} … {labels[-1]}"


def _warn(alarm: Alarm) -> None:
    warnings.warn(str(alarm), RegardWarning, stacklevel=5)


def _check(model: nn.Module, every: int) -> None:
    check_module(model)
    if type(every) is not int or every < 1:
        raise InputError(f"every={every!r}; give a whole number of steps ≥ 1")
