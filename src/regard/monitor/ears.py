"""Hears the attention of a model's forwards while a step is sampled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from regard.engine.listen import listening, unheard
from regard.engine.matrix import Attention
from regard.engine.problem import Call
from regard.monitor.measure import Real, measure, wanted
from regard.monitor.sample import Seat
from regard.monitor.tally import Tally
from regard.recorder.atlas import Atlas, part_of
from regard.recorder.sdpa import SeeTorch
from regard.recorder.sequences import sequences
from regard.recorder.whereabouts import Pass, Whereabouts
from regard.summary import Summary

__all__ = ["Ears"]

_Look = Callable[[Seat, Attention], None]


class Ears:
    """Hooks on every module between `open` and `close`, none else. Within a forward of the model
    itself, every attention is added to the tally. What checkpointing runs again in the backward
    is not heard."""

    def __init__(self, model: nn.Module, evaluation: bool, look: _Look) -> None:
        self.tally = Tally()
        self._model, self._evaluation, self._look = model, evaluation, look
        self._atlas = Atlas(named=_has_parts(model))
        self._open = ExitStack()
        self._forward = ExitStack()
        self._depth = 0  # a model that calls itself
        self._padding: dict[str, Real | None] = {}  # of the text being read, by stream
        self._text: Pass | None = None

    def open(self) -> None:
        """From now on forwards are heard, into a new tally."""
        self.tally = Tally()
        with ExitStack() as stack:
            self._where = stack.enter_context(Whereabouts(self._model))
            enter = self._model.register_forward_pre_hook(self._entering)
            stack.callback(enter.remove)
            leave = self._model.register_forward_hook(self._leaving, always_call=True)
            stack.callback(leave.remove)
            self._open = stack.pop_all()

    def close(self) -> None:
        """From now on nothing is."""
        self._open.close()

    def _entering(self, _: nn.Module, __: Any) -> None:
        self._depth += 1
        counts = (self._evaluation or torch.is_grad_enabled()) and not _in_backward()
        if self._depth == 1 and counts:
            self._forward.enter_context(listening(self))
            self._forward.enter_context(SeeTorch(self._saw))

    def _leaving(self, *_: Any) -> None:
        self._depth = max(self._depth - 1, 0)
        if self._depth == 0:
            self._forward.close()

    # ── listening ────────────────────────────────────────────────────────────────────────────

    def wants(self, call: Call) -> tuple[Summary, ...]:
        """Asked for in the forward itself, where that may measure on its way."""
        return () if self._where.caller() is None else wanted(call)

    def heard(self, attention: Attention, ours: bool = True) -> None:
        """An attention of the model; `ours`: regard computed it."""
        caller, now = self._where.caller(), self._where.now
        if caller is None or now is None or attention._call.shape.queries == 0:
            return
        spot, shape = self._atlas.spot(caller), attention._call.shape
        if not shape.batch and shape.query_heads > 1:  # are these heads, or sequences?
            sequences(now.given, attention._call, now.batch, caller.path, ours=ours)
        label = f"{spot.stack}.L{spot.layer}" if spot.stack else f"L{spot.layer}"
        seat = Seat(label, caller.path, shape.query_heads, shape.dim)
        device = attention.device.type
        with unheard(), torch.no_grad(), torch.autocast(device, enabled=False):
            self.tally.add(seat, measure(attention, self._real(caller.path, attention)))
            self._look(seat, attention)
        self._where.called(caller)

    def _saw(self, attention: Attention, _: Tensor, __: Tensor) -> None:
        """An attention that torch computed."""
        self.heard(attention, ours=False)

    def _real(self, path: str, attention: Attention) -> Real | None:
        """Which rows are no padding, where the model was told so."""
        now, call = self._where.now, attention._call
        stream = "encoder" if part_of(path) == "encoder" else "tokens"
        if now is None or stream not in now.padding:
            return None
        if now is not self._text:
            self._text, self._padding = now, {}
        if stream not in self._padding:  # looked at once a text, not in every layer
            self._padding[stream] = _real_tokens(now.padding[stream].to(attention.device))
        real = self._padding[stream]
        batch = call.query.shape[:-3].numel()
        fits = real is not None and tuple(real.rows.shape) == (batch, call.shape.queries)
        return real if fits else None


def _in_backward() -> bool:
    """Whether autograd is at work: then a forward is one that checkpointing runs again."""
    return torch._C._current_graph_task_id() != -1


def _real_tokens(flags: Tensor) -> Real | None:
    """(B, L) flags; None where every token is real."""
    if bool(flags.all()):
        return None
    start = flags.to(torch.uint8).argmax(-1, keepdim=True)
    return Real(flags, start if bool(start.any()) else None)


def _has_parts(model: nn.Module) -> bool:
    """Whether stacks have names from the first one on: encoder-decoders, several towers."""
    config = next((m.config for m in model.modules() if hasattr(m, "config")), None)
    towers = [n for n in ("vision_config", "text_config", "audio_config") if hasattr(config, n)]
    return bool(getattr(config, "is_encoder_decoder", False)) or len(towers) > 1
