"""The calls of every module of a model: which one is at work, with which tokens, and what its place
is called.

The name of the calling module is the name of the place, whoever calls `attend` from inside it:
a Hugging Face layer, a layer of regard's own, or somebody's module around torch's function.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn

from regard.engine.call import Call
from regard.errors import UnavailableError
from regard.hear.attached import Follower, in_backward
from regard.hear.inputs import (
    IDS,
    MASK,
    ModelInputs,
    argument_names,
    by_name,
    cached_in,
    is_ids,
    is_over_channels,
    real_tokens,
)
from regard.hear.mixing import CallSamples

_COLOURS = 4  # channels of a picture at most
_SHRINK = (nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d)  # may make a picture coarser
_BUSY = threading.Lock()


@dataclass(frozen=True)
class Caller:
    """An attention of a model: a module, and which of its calls within one pass. A layer that a
    model shares (ALBERT) is called many times."""

    path: str
    occurrence: int = 0


@dataclass
class Pass:
    """One call of the model from outside, until it returns or goes on to another text.

    Any part may be called instead: by the model's own methods (`generate`, `get_text_features`), by
    a wrapper's, or one after the other by somebody's loop, whose calls are one pass.
    """

    path: str  # "" for the model itself; else the part that was called
    given: ModelInputs  # what it was called with
    _: KW_ONLY
    streams: dict[str, Tensor] = field(default_factory=dict)  # token ids (B, L) by stream
    padding: dict[str, Tensor] = field(default_factory=dict)  # (B, ≥ L) booleans, True = real
    readers: dict[str, str] = field(default_factory=dict)  # by stream: the module that was given it
    cached: int = 0  # tokens of the main stream that came in earlier passes
    encoded: bool = False  # the encoder ran in an earlier pass
    batch: int | None = None  # how many sequences, where tokens tell
    failed: bool = False  # it ended by an exception
    parts: list[str] = field(default_factory=list)  # what was called from outside, one by one
    left: tuple[int, ...] | None = None  # the shape that the last of them returned
    calls: Counter[str] = field(default_factory=Counter)
    entrance: str = ""  # the first module that read a text or a picture
    reads_again: bool = False  # it was called once more after attention
    laid_out: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By path, the shape (B, C, …, h, w) that a convolution over colours made of pictures."""
    coarser: set[tuple[int, int]] = field(default_factory=set)
    """(h, w) of what convolutions and pooling made on the way."""
    windowed: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By path, the (h, w) that a layer was told it divides into windows (Swin)."""

    def read(self, stream: str, path: str, ids: Tensor | None, mask: Any) -> None:
        """What a module was given of a stream; the padding may be known to a later one only."""
        real = real_tokens(mask)
        if ids is not None:
            self.streams[stream], self.readers[stream] = ids, path
        known = self.streams.get(stream)
        if real is not None and (known is None or len(real) == len(known)):
            self.padding[stream] = real

    def goes_on_with(self, path: str, given: ModelInputs) -> bool:
        """Whether a part that is called now takes up what the one before it returned."""
        apart = not any(_is_inside(path, one) or _is_inside(one, path) for one in self.parts)
        takes_up = given.ids is None and any(shape == self.left for shape, _ in given.data)
        return apart and takes_up and not self.failed


class _WorkPlace(threading.local):
    """Where a model is at work in one thread."""

    def __init__(self) -> None:
        self.stack: list[str] = []  # modules that were called and have not returned
        self.now: Pass | None = None  # the pass that is under way
        self.last: Pass | None = None  # which the next one may go on with
        self.given: dict[str, tuple[int, ...]] = {}  # by path, the shape of what is mixed there


class ModelHooks(Follower):
    """Follows a model while it runs; `now` is the pass that is under way, within `around()`.

    alone  what follows one pass at a time, for the error where two threads run the model at once
    """

    alone = "what follows it"

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self._at = _WorkPlace()
        self._busy: int | None = None  # the thread of the pass that is under way
        self._twofold: list[str] = []  # paths of models that read one text and write another
        self._traits: dict[str, _Traits] = {}
        self.ran: set[str] = set()  # paths of modules that did their work in a pass
        self.attended: set[str] = set()  # of those, the ones whose attention was heard
        self.over_channels: dict[str, str] = {}  # paths of modules that attend so, in words
        self.samples = CallSamples.of(model)  # by which modules that mix tokens are known

    def __enter__(self) -> Self:
        for path, module in self.model.named_modules():
            if getattr(getattr(module, "config", None), "is_encoder_decoder", False):
                self._twofold.append(path)
        self.attach()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.detach()

    def around(self, again: bool) -> AbstractContextManager[Any]:
        """What lasts as long as a pass; `again`: checkpointing runs a part for its gradients."""
        return nullcontext()

    @property
    def now(self) -> Pass | None:
        """The pass that is under way in this thread."""
        return self._at.now if self.attached else None

    def caller(self) -> Caller | None:
        """Who calls attention now; None outside the model, or where a part of it is run again for
        its gradients (checkpointing)."""
        now = self.now
        if now is None:
            return None
        path = self._at.stack[-1]
        return Caller(path, now.calls[path])

    def called(self, caller: Caller) -> None:
        """The attention of this caller is done; its next one in this pass is another."""
        if self.now is not None:
            self.now.calls[caller.path] += 1
            if caller.path not in self.over_channels:
                self.attended.add(caller.path)

    def note_channels(self, caller: Caller, call: Call) -> str:
        """Remember a module whose queries are channels of what it was given, and say so; "" where
        they are positions."""
        if not is_over_channels(self._at.given.get(caller.path, ()), call):
            return ""
        words = f"it attends between {call.shape.queries} channels a head, not positions"
        self.over_channels[caller.path] = words
        return words

    def run(
        self, path: str, module: nn.Module, args: Any, kwargs: Any, call: Callable[[], Any]
    ) -> Any:
        """Follow one call of a module."""
        stack, traits = self._at.stack, self._traits.get(path)
        if traits is None:
            traits = self._traits[path] = _Traits(module)
        self._at.given[path] = _mixed(args, kwargs)
        if stack:
            self._enter(path, module, traits, args, kwargs)
            return self._through(path, traits, call)
        if in_backward():
            with self.around(True):
                return self._through(path, traits, call)
        with self._alone():
            at, given = self._at, by_name(traits.names, args, kwargs)
            at.now = self._begun(path, ModelInputs.of(module, given))
            result = None
            try:
                self._read(at.now, path, module, traits, args, kwargs)
                with self.around(False):
                    result = self._through(path, traits, call)
                return result
            finally:
                at.now.failed = result is None
                at.now.left, at.last, at.now = _shape(result), at.now, None

    def _through(self, path: str, traits: _Traits, call: Callable[[], Any]) -> Any:
        """The call itself, with this module at work."""
        at, depth = self._at, len(self._at.stack)
        at.stack.append(path)
        try:
            result = call()
        finally:
            del at.stack[depth:]
        if at.now is not None and result is not None:
            self.ran.add(path)
            if traits.sees and isinstance(result, Tensor) and result.ndim in (4, 5):
                at.now.laid_out[path] = tuple(result.shape)
            if traits.shrinks and isinstance(result, Tensor) and result.ndim == 4:
                at.now.coarser.add((result.shape[2], result.shape[3]))
        return result

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Within the block no other thread begins a pass."""
        thread = threading.get_ident()
        with _BUSY:
            if self.alone and self._busy not in (None, thread):
                raise UnavailableError(
                    f"{type(self.model).__name__} is run in two threads at once, and {self.alone} "
                    "follows one call at a time; run it in one thread after the other, or give "
                    "each a copy of its own (copy.deepcopy)"
                )
            self._busy = thread
        try:
            yield
        finally:
            self._busy = None

    def _enter(self, path: str, module: nn.Module, traits: _Traits, args: Any, kwargs: Any) -> None:
        """A module inside the one that was called from outside."""
        now = self._at.now
        if now is None:
            return
        if self._may_be_given(traits.names, kwargs):
            self._note(path, module, by_name(traits.names, args, kwargs))
        self._read(self._at.now or now, path, module, traits, args, kwargs)

    def _read(
        self, now: Pass, path: str, module: nn.Module, traits: _Traits, args: Any, kwargs: Any
    ) -> None:
        self.samples.note(module, args, kwargs, first=not self.attended)
        if traits.divides and (size := _size_in((*args, *kwargs.values()))) is not None:
            now.windowed[path] = size
        if traits.may_read:
            self._reads(now, path, args)
        elif now.reads_again and now.calls[path]:
            self._next_text(now)

    def _begun(self, path: str, given: ModelInputs) -> Pass:
        """A call with the tokens, the padding and the cache that came with it."""
        last = self._at.last
        if last is not None and last.goes_on_with(path, given):
            last.parts.append(path)
            return last
        now = Pass(path, given, cached=given.cached or 0, encoded=given.encoded, batch=given.batch)
        now.parts.append(path)
        stream = self._stream_of(path)
        if stream:
            now.read(stream, path, given.ids, given.mask)
        return now

    def _note(self, path: str, module: nn.Module, arguments: dict[str, Any]) -> None:
        """Tokens as a module inside the model is given them."""
        now, stream = self._at.now, self._stream_of(path)
        ids = self._ids(path, module, arguments) if stream else None
        if now is None or ids is None:
            return
        known, reader, mask = now.streams.get(stream), now.readers.get(stream), arguments.get(MASK)
        same = known is not None and (known is ids or torch.equal(known.cpu(), ids.cpu()))
        left = reader not in self._at.stack  # it is done with what it was given
        other = not same and (left or any(ids is one for one in now.given.whole))
        if known is not None and (other or (left and reader == path)):
            # another text within one call of the model, as siamese towers read them
            given = ModelInputs.of(module, arguments)
            given.whole = now.given.whole
            self._at.now = now = Pass(now.path, given, cached=given.cached or 0, batch=given.batch)
        elif same:
            ids, mask = None, None if stream in now.padding else mask
        elif known is not None and (now.calls or known.shape == ids.shape):
            return  # the text that is being read, changed on its way
        now.read(stream, path, ids, mask)
        if not now.calls:
            now.batch = now.batch if ids is None else len(ids)
            now.cached = max(now.cached, cached_in(arguments))

    def _reads(self, now: Pass, path: str, args: tuple[Any, ...]) -> None:
        """Remember the module that reads the input. Where it reads again, modules that attend again
        are not further layers (a layer that is shared reads nothing) but have another text."""
        given = args[0] if args else None
        if not (is_ids(given) or (isinstance(given, Tensor) and given.is_floating_point())):
            return  # the number of a step, which universal transformers embed
        now.entrance = now.entrance or path
        inside = any(_is_inside(path, attending) for attending in now.calls)
        if path == now.entrance and now.calls and not inside and not self._twofold:
            now.reads_again = True

    def _next_text(self, now: Pass) -> None:
        """Siamese towers, several crops of a picture, texts of different lengths one by one."""
        given = replace(now.given, ids=None, mask=None, batch=None)
        self._at.now = Pass(now.path, given, entrance=now.entrance, parts=now.parts)

    def _may_be_given(self, names: tuple[str, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a module inside the model can be given tokens: most cannot, and are many."""
        anything = self._twofold or (self.now is not None and not self.now.given.data)
        return bool(anything) or any(name in names or name in kwargs for name in IDS)

    def _ids(self, path: str, module: nn.Module, arguments: dict[str, Any]) -> Tensor | None:
        """By their name; or the first argument of an encoder, a decoder, and of somebody's model
        where the call from outside brought no tensor."""
        named = next((arguments[name] for name in IDS if is_ids(arguments.get(name))), None)
        if named is not None or not arguments or self.now is None:
            return named
        outside = not self.now.given.data and not type(module).__module__.startswith("torch.nn.")
        part = self._twofold and path.split(".")[-1] in ("encoder", "decoder")
        first = next(iter(arguments.values()))
        return first if (part or outside) and is_ids(first) else None

    def _stream_of(self, path: str) -> str:
        """Which stream of tokens a module's ids belong to; "" where that is not for it to say."""
        last = path.split(".")[-1]
        if not any(_is_inside(path, one) or _is_inside(one, path) for one in self._twofold):
            return "tokens"
        return {"encoder": "encoder", "decoder": "tokens"}.get(last, "")


class _Traits:
    """What is asked about a module once: whether it reads the input, makes a picture of it, makes
    that coarser, or divides it into windows; and how its arguments are called."""

    def __init__(self, module: nn.Module) -> None:
        self.names = argument_names(module)
        self.may_read, self.sees = _may_read(module), _sees(module)
        self.shrinks, self.divides = isinstance(module, _SHRINK), hasattr(module, "shift_size")


def _may_read(module: nn.Module) -> bool:
    """Embeddings of tokens (B, L); convolutions over colours or sound, not over features."""
    sound = isinstance(module, nn.Conv1d) and module.in_channels <= _COLOURS
    return _sees(module) or sound or isinstance(module, nn.Embedding)


def _sees(module: nn.Module) -> bool:
    """Convolutions over the colours of pictures or films."""
    return isinstance(module, nn.Conv2d | nn.Conv3d) and module.in_channels <= _COLOURS


def _mixed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    """The shape of the first tensor of numbers with several axes."""
    for one in (*args, *kwargs.values()):
        if isinstance(one, Tensor) and one.ndim > 2 and one.is_floating_point():
            return tuple(one.shape)
    return ()


def _size_in(arguments: tuple[Any, ...]) -> tuple[int, int] | None:
    """Two whole numbers among a layer's arguments: how many rows and columns it is given."""
    pairs = (one for one in arguments if isinstance(one, tuple | list) and len(one) == 2)
    return next(((a, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int)), None)


def _is_inside(path: str, outer: str) -> bool:
    return outer in ("", path) or path.startswith(f"{outer}.")


def _shape(result: Any) -> tuple[int, ...] | None:
    """Of what a module returned: the first tensor in it."""
    while isinstance(result, Mapping | list | tuple) and result:
        result = next(iter(result.values())) if isinstance(result, Mapping) else result[0]
    return tuple(result.shape) if isinstance(result, Tensor) else None
