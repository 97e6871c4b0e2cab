"""Hooks on the model during a sampled step: every attention of its forwards is measured."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.engine.observers import Request, unheard
from regard.engine.torch_state import unintercepted
from regard.errors import InputError
from regard.hear.follows import hides_padding
from regard.hear.hooks import Caller, Pass
from regard.hear.inputs import is_empty, margins, sequences
from regard.hear.intercept import AttentionHooks
from regard.hear.names import LayerNames, is_cross_module, stream_of
from regard.hear.unheard import missed_modules, what_ran, why_missed
from regard.monitor.sample import (
    AttentionSite,
    Tally,
    measured,
    rows_of,
    wanted,
)

_HEARD_AS_THEY_ARE = ("sdpa", "regard")  # implementations of transformers


@dataclass(frozen=True)
class Snapshots:
    """Pooled maps of a few heads, from the first sequence of a step's first batch.

    heads   labels, such as ("L0H3", "L5H1")
    every   steps between snapshots; only sampled steps count
    cells   at most this many per side
    """

    heads: tuple[str, ...]
    every: int = 100
    cells: int = 64

    def __post_init__(self) -> None:
        wrong = [label for label in self.heads if not label.rpartition("H")[2].isdecimal()]
        if wrong or isinstance(self.heads, str) or not self.heads:
            raise InputError(f"Snapshots(heads={self.heads!r}); give labels such as ('L0H3',)")
        if self.every < 1 or self.cells < 1:
            raise InputError(f"every={self.every}, cells={self.cells}; give numbers ≥ 1")


class StepListener:
    """Installs its hooks with `open` and removes all of them with `close`. Within a forward of the
    model itself, every attention is added to the tally, except in forwards that checkpointing runs
    again during the backward."""

    def __init__(self, model: nn.Module, evaluation: bool, snapshots: Snapshots | None) -> None:
        self.tally = Tally()
        self.maps: dict[str, NDArray[np.float32]] = {}  # pooled maps of the step, by head
        self.is_open = False
        self._model, self._evaluation, self._snapshots = model, evaluation, snapshots
        self._takes_maps = False
        self._names = LayerNames(named=_has_parts(model))
        self._padding: dict[str, Tensor | None] = {}  # of the current pass, by stream
        self._pass: Pass | None = None
        self._by_hand: dict[str, str] = {}  # modules that attended by other means, and why

    def open(self, step: int) -> None:
        """Install the hooks, and begin a new tally."""
        self.tally, self.maps, self._by_hand = Tally(), {}, {}
        self._takes_maps = self._snapshots is not None and step % self._snapshots.every == 0
        # until the step is closed: checkpointing runs the same forward again in its backward
        self._where = _StepHooks(self._model, self)
        self._where.attach()
        self.is_open = True

    def close(self) -> None:
        """Remove the hooks."""
        if self.is_open:
            self.is_open = False
            self._where.detach()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within the block the model is not followed; the tally goes on afterwards."""
        if self.is_open:
            self._where.detach()
        try:
            yield
        finally:
            if self.is_open:
                self._where.attach()

    @contextmanager
    def around(self, hearing: AbstractContextManager[None]) -> Iterator[None]:
        """During a pass of the model, which is heard within `hearing`."""
        if not (self._evaluation or torch.is_grad_enabled()):
            before = set(self._where.ran)
            yield
            self._where.ran = before
            return
        with hearing:
            yield
        with torch.no_grad(), self._where.lock:
            self.tally.settle()

    def missed(self, why: str) -> None:
        """Attention of the model that cannot be measured."""
        caller = self._where.caller()
        if caller is not None:
            self._by_hand[caller.path] = self._by_hand.get(caller.path) or why

    def unheard(self) -> tuple[list[str], str]:
        """Modules that attended in this step and were not measured, and the end of a warning."""
        where = self._where
        missed = missed_modules(where, self._by_hand)
        if not missed:
            return [], ""
        return why_missed(self._model, missed, where.attended)

    def what_ran(self) -> str:
        """Of a step in which nothing was measured."""
        if self._where.attended:
            return f"{type(self._model).__name__} ran on an empty batch"
        if self._where.ran:
            return what_ran(self._where, self._by_hand)
        return (
            f"{type(self._model).__name__} was not run since the last step, or only without "
            "gradients (evaluation=True counts those)"
        )

    # ── the engine's listener protocol ───────────────────────────────────────────────────────

    def wants(self, call: Call) -> Request[None]:
        """The summaries to compute in the forward itself, where the implementation can."""
        return Request(() if self._where.caller() is None else wanted(call))

    def heard(self, attention: Attention, request: Request[None]) -> None:
        """Measure an attention of the model."""
        with self._where.lock:
            self._measure(attention, ours=True)

    def _measure(self, attention: Attention, ours: bool) -> None:
        """`ours`: regard computed it."""
        caller, now = self._where.caller(), self._where.now
        if caller is None or now is None:
            return
        if channels := self._where.note_channels(caller, attention._call):
            self.missed(channels)
        if channels or is_empty(attention._call):
            self._where.called(caller)
            return
        spot, shape = self._names.spot(caller), attention._call.shape
        packed = attention._call.pack is not None
        if not shape.batch and shape.query_heads > 1 and not packed:  # heads, or sequences?
            sequences(now.given, attention._call, now.batch, caller.path, ours=ours)
        label = f"{spot.stack}.L{spot.layer}" if spot.stack else f"L{spot.layer}"
        place = AttentionSite(label, caller.path, shape.query_heads, shape.dim)
        device = attention.device.type
        whole = torch.autocast(device, enabled=False)
        with unheard(), torch.no_grad(), whole, unintercepted():
            self.tally.note(place, rows_of(attention, self._real(now, caller, attention)))
            if self._takes_maps and self._snapshots is not None:
                self._take_maps(place, attention, self._snapshots)
        self._where.called(caller)

    def from_torch(self, attention: Attention, _: Tensor, __: Tensor) -> None:
        """The same, of one that others computed."""
        with self._where.lock:
            self._measure(attention, ours=False)

    def _real(self, now: Pass, caller: Caller, attention: Attention) -> Tensor | None:
        """Which rows are not padding, where the model was given a padding mask and follows it."""
        stream = stream_of(now.padding, caller)
        if stream not in now.padding:
            return None
        if now is not self._pass:
            self._pass, self._padding = now, {}
        if stream not in self._padding:  # once per pass, not in every layer
            self._padding[stream] = _real_tokens(now.padding[stream].to(attention.device))
        real, call = self._padding[stream], attention._call
        batch = call.query.shape[:-3].numel()
        if real is None or tuple(real.shape) != (batch, call.shape.queries):
            return None
        if call.shape.queries == call.shape.keys and not is_cross_module(self._model, caller.path):
            parts = margins(now.padding[stream].cpu().numpy())
            return real if hides_padding(call, parts, parts, call.shape.keys) else None
        return real

    def _take_maps(self, place: AttentionSite, attention: Attention, snapshots: Snapshots) -> None:
        """Keep the maps of the chosen heads, from the first forward that has them."""
        labels = {n: f"{place.label}H{n}" for n in range(place.heads)}
        chosen = {n: label for n, label in labels.items() if label in snapshots.heads}
        if not chosen or not self.maps.keys().isdisjoint(chosen.values()):
            return
        pooled = attention.pooled(-(-max(attention.shape[-2:]) // snapshots.cells)).detach()
        first = pooled.reshape(-1, place.heads, *pooled.shape[-2:])[0].float().cpu().numpy()
        self.maps |= {label: first[n] for n, label in chosen.items()}


class _StepHooks(AttentionHooks):
    """Follows the model wherever it is run."""

    everywhere, alone = True, ""

    def __init__(self, model: nn.Module, listener: StepListener) -> None:
        super().__init__(
            model, listener, listener.from_torch, listener.missed, measured, _HEARD_AS_THEY_ARE
        )
        self._step = listener
        self.lock = threading.Lock()  # the model may be run in several threads

    def around(self, again: bool) -> AbstractContextManager[None]:
        """A pass that counts is listened to."""
        hearing = super().around(again)
        return hearing if again else self._step.around(hearing)


def _real_tokens(flags: Tensor) -> Tensor | None:
    """(B, L) flags; None where every token is real."""
    return None if bool(flags.all()) else flags


def _has_parts(model: nn.Module) -> bool:
    """Whether every stack needs a name: encoder-decoders, models with several towers."""
    config = next((m.config for m in model.modules() if hasattr(m, "config")), None)
    towers = [n for n in ("vision_config", "text_config", "audio_config") if hasattr(config, n)]
    return bool(getattr(config, "is_encoder_decoder", False)) or len(towers) > 1
