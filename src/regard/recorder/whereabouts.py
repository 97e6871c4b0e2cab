"""Which module is at work, and with which tokens: hooks on every module of a model.

The name of the calling module is the name of the place, whoever calls `attend` from inside it:
a Hugging Face layer, a layer of regard's own, or somebody's module around torch's function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from regard.recorder.padding import real_tokens

__all__ = ["Caller", "Pass", "Whereabouts"]

_IDS = ("input_ids", "decoder_input_ids")


@dataclass(frozen=True)
class Caller:
    """An attention of a model: a module, and which of its calls within one pass. A layer that a
    model shares (ALBERT) is called many times."""

    path: str
    occurrence: int = 0


@dataclass
class Pass:
    """One call of the model from outside, until it returns."""

    path: str  # "" for the model itself; else the part that was called alone, such as its encoder
    streams: dict[str, Tensor] = field(default_factory=dict)  # token ids (B, L) by stream
    padding: dict[str, Tensor] = field(default_factory=dict)  # (B, ≥ L) booleans, True = real
    cached: int = 0  # tokens of the main stream that came in earlier passes
    encoded: bool = False  # the encoder ran in an earlier pass
    batch: int = 1  # how many sequences the model was given
    failed: bool = False  # it ended by an exception
    calls: Counter[str] = field(default_factory=Counter)


class Whereabouts:
    """Follows a model while it runs; `now` is the pass that is under way."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._stack: list[str] = []
        self._handles: list[Any] = []
        self.now: Pass | None = None

    def __enter__(self) -> Whereabouts:
        for path, module in self._model.named_modules():
            enter = module.register_forward_pre_hook(self._entering(path), with_kwargs=True)
            leave = module.register_forward_hook(self._leaving(path), always_call=True)
            self._handles += [enter, leave]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles, self._stack, self.now = [], [], None

    def caller(self) -> Caller | None:
        """Who calls attention now; None outside the model, or where a part of it is run again for
        its gradients (checkpointing)."""
        if self.now is None or not self._stack:
            return None
        path = self._stack[-1]
        return Caller(path, self.now.calls[path])

    def called(self, caller: Caller) -> None:
        """The attention of this caller is done; its next one in this pass is another."""
        if self.now is not None:
            self.now.calls[caller.path] += 1

    def _entering(self, path: str) -> Callable[..., None]:
        def enter(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if not self._stack and (path == "" or _is_whole_part(path)):
                self.now = Pass(path)
            if self.now is not None:
                self._note(path, args, kwargs)
            self._stack.append(path)

        return enter

    def _leaving(self, path: str) -> Callable[..., None]:
        def leave(_: nn.Module, __: Any, result: Any) -> None:
            while self._stack and self._stack.pop() != path:
                pass  # modules that ended by an exception have left no word
            if not self._stack and self.now is not None:
                self.now.failed = result is None  # what torch hands on after an exception
                self.now = None

        return leave

    def _note(self, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Ids, padding and cache, as far as this module is told of them."""
        now = self.now
        assert now is not None
        both = _is_encoder_decoder(self._model)
        ids = next((kwargs[n] for n in _IDS[:1] if _is_ids(kwargs.get(n))), None)
        if ids is None and args and _is_ids(args[0]):
            ids = args[0]
        stream = _stream_of(path, both)
        if stream and stream not in now.streams and (ids is not None or not self._stack):
            if ids is not None:
                now.streams[stream] = ids.detach()
            real = real_tokens(kwargs.get("attention_mask"))
            if real is not None:
                now.padding[stream] = real
        if self._stack:
            return
        past = kwargs.get("past_key_values")
        if past is not None and hasattr(past, "get_seq_length"):
            now.cached = int(past.get_seq_length())
        if isinstance(length := getattr(kwargs.get("cache"), "length", None), int):
            now.cached = length  # of regard.nn
        now.encoded = kwargs.get("encoder_outputs") is not None
        given = [v for v in (*args, *kwargs.values()) if isinstance(v, Tensor) and v.ndim > 1]
        now.batch = given[0].shape[0] if given else 1


def _is_ids(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and value.ndim == 2
        and not value.is_floating_point()
        and value.dtype != torch.bool
    )


def _is_encoder_decoder(model: nn.Module) -> bool:
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def _is_whole_part(path: str) -> bool:
    """Parts that a model's own methods run alone: `generate` runs the encoder first."""
    return path.split(".")[-1] == "encoder"


def _stream_of(path: str, encoder_decoder: bool) -> str:
    """Which stream of tokens a module's ids belong to; "" where that is not for it to say."""
    last = path.split(".")[-1]
    if not encoder_decoder:
        return "tokens"
    return {"encoder": "encoder", "decoder": "tokens"}.get(last, "")
