"""`regard.record(model)`: listens to a model and writes down what its attention did."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from regard import recording
from regard.display import as_html
from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.engine.observers import Request, unheard
from regard.errors import FileError, InputError, RegardWarning
from regard.hear.hooks import Caller
from regard.hear.inputs import is_empty
from regard.hear.intercept import AttentionHooks
from regard.hear.names import LayerNames, has_parts, is_cross_module
from regard.hear.packing import of_packed
from regard.hear.unheard import HEARD, missed_modules, what_ran, why_missed
from regard.hear.weights import check_weights
from regard.hear.wrapped import check_module
from regard.recorder.axes import AxesReader, Heard, declared_axes
from regard.recorder.background_writer import BackgroundWriter, Store
from regard.recorder.batch import batched
from regard.recorder.call_slice import CallPlan, looks_across, matches_in, slice_call
from regard.recorder.facts import first_notes, made_now
from regard.recorder.measure import CallMeasures, recordable
from regard.recorder.pictures import PictureKeeper
from regard.recorder.plan import TOP, Choice, Plan, Size, human, make_plan, parse_budget
from regard.recorder.prompt import Prompts
from regard.recorder.reduce import reduced
from regard.recorder.tokens import reader_of
from regard.recording import Memory, Recording, Writer
from regard.recording.measures import join_of
from regard.summary import RowStatistic, Summary

# The model ended early, and what was taken down until then is sound.
_STOPS = (KeyboardInterrupt, MemoryError, torch.OutOfMemoryError)


def record(
    model: nn.Module,
    path: str | os.PathLike[str] | None = None,
    *,
    tokenizer: Any = None,
    layers: Iterable[int] | int | str | None = None,
    heads: Iterable[int] | int | str | None = None,
    queries: slice | range | int | str | None = None,
    budget: str | int = "2GB",
    statistics: Summary | Iterable[Summary] = (),
    axes: Any = None,
    images: Any = None,
    overwrite: bool = False,
) -> Recorder:
    """Record the attention of a model that runs inside the `with` block.

        with regard.record(model, "run.regard", tokenizer=tokenizer) as rec:
            model(**inputs)
        rec["L5H1"].top(5)

    model      a Hugging Face model, or any module that uses regard's layers, `regard.attend` or
               torch's scaled_dot_product_attention
    path       the file to write; by default the recording is kept in memory
    layers     which layers, such as [0, 5] or "0,5-10"; all by default
    heads      which heads of each layer
    queries    which rows: "100:200", or a number n for the last n
    budget     bytes: statistics of all heads come first, then q and k of the layers that fit
    statistics  row statistics to keep in addition to the standard ones, such as
               [regard.Distance()], or a class of your own (docs/extending.md)
    axes       what positions stand for, where the model does not tell: regard.axes.Grid(14, 14,
               prefix=1), or by layer or stack {"vision": …, "cross.L3": (of queries, of keys)}
    images     the pictures to keep in the file, small: Pillow images, arrays or files in the order
               the model sees them; by default as the model saw them (with Pillow); False for none
    overwrite  replace an existing file. The recording is PATH.partial until the block ends; after
               an error or Ctrl-C it stays there, and the old file is unchanged

    Every call of the model without a cache begins a new prompt, one for each sequence of a batch.
    """
    choice = Choice.of(layers, heads, queries)
    more = recordable(statistics)
    return Recorder(
        model, path, tokenizer, choice, parse_budget(budget),
        overwrite=overwrite, statistics=more, axes=axes, images=images,
    )  # fmt: skip


def _is_on_gpu(model: nn.Module) -> bool:
    return any(one.device.type == "cuda" for one in model.parameters())


class Recorder:
    """A recording in progress; after the block it can be used like the recording itself."""

    def __init__(
        self,
        model: nn.Module,
        path: str | os.PathLike[str] | None,
        tokenizer: Any,
        choice: Choice,
        budget: int,
        *,
        overwrite: bool = False,
        statistics: tuple[RowStatistic, ...] = (),
        axes: Any = None,
        images: Any = None,
    ) -> None:
        check_module(model)
        self.model, self.path, self.budget = model, path, budget
        self.heard_anything = False
        self.watcher: Callable[[], None] | None = None  # told of every attention taken down
        config = getattr(model, "config", None)
        self.name: str = getattr(config, "name_or_path", "") or type(model).__name__
        self.tokenizer = reader_of(tokenizer)
        self._choice, self._overwrite, self._statistics = choice, overwrite, statistics
        self._names = LayerNames(named=has_parts(model))
        self._axes = AxesReader(model, declared_axes(axes))
        self._pictures = PictureKeeper(images, tokenizer)
        self._expected: int | None = None
        self._planned: Plan | None = None
        self._kept_by: Plan | None = None  # the last prompts
        self._stack = ExitStack()
        self._recording: Recording | None = None
        self._entered = False
        # modules that were seen attending by other means, and why they could not be heard
        self._by_hand: dict[str, str] = {}

    # ── the block ────────────────────────────────────────────────────────────────────────────

    def __enter__(self) -> Recorder:
        if self._entered:
            raise InputError("this recorder was used already; call regard.record again")
        check_weights(self.model)
        self._entered = True
        with ExitStack() as stack:
            # before the file: where nothing can be heard, none is made
            hooks = AttentionHooks(self.model, self, self._saw, self._missed)
            self._where = stack.enter_context(hooks)
            self._made = made_now()
            config = getattr(self.model, "config", None)
            facts = first_notes(self.model, config, self.name, self._made, self._statistics)
            self._kept = self._open()
            # a model on the CPU has the cores that threads would write with
            behind = _is_on_gpu(self.model)
            self._store: Store = BackgroundWriter(self._kept) if behind else self._kept
            self._prompts = Prompts(self._store, self.tokenizer, self._axes, self._pictures)
            stack.callback(self._close)
            self._store.note(facts)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        is_whole = False
        try:
            if kind is None or issubclass(kind, _STOPS):
                self._prompts.finish(complete=kind is None)
                self._tell_missed()
            if said := self._axes.unused():
                warnings.warn(said, RegardWarning, stacklevel=2)
            is_whole = kind is None and self._prompts.pages > 0
        finally:
            if isinstance(self._kept, Writer) and self._prompts.pages and not is_whole:
                self._kept.abandon(sys.exception())
            try:
                self._stack.close()
            except FileError:
                if kind is None:  # else the first error is the one to tell
                    raise
        if kind is None and self.heard_anything and not self._prompts.pages:
            raise InputError(
                "no row was recorded: the prompts are empty, or shorter than queries= asks for, or "
                "layers= names layers that were not run"
            )
        if kind is None and not self.heard_anything:
            ran, not_run = self._where.ran, self._where.not_run()
            what = what_ran(self._where, self._by_hand) if ran else not_run
            raise InputError(f"no attention was heard: {what}; {HEARD}")

    def _open(self) -> Memory | Writer:
        if self.path is None:
            return Memory()
        return Writer(self.path, overwrite=self._overwrite)

    def _close(self) -> None:
        if isinstance(self._kept, Memory):
            self._store.close()
            self._recording = Recording(self._kept)
        elif self._prompts.pages:
            self._store.close()
        else:  # a file with nothing in it is not left behind as if it were a recording
            self._kept.abandon()
            try:
                self._store.close()
            finally:
                self._kept.path.unlink()

    # ── what callers may say and ask ─────────────────────────────────────────────────────────

    @property
    def recording(self) -> Recording:
        """The finished recording, open for reading."""
        if self._recording is None:
            if isinstance(self._kept, Memory) or self._store_is_open():
                raise InputError("the recording is being made; ask after the with block")
            self._recording = recording.open(self._kept.path)
        return self._recording

    def _store_is_open(self) -> bool:
        return getattr(self._kept, "_log", None) is not None

    def _repr_html_(self) -> str | None:
        """The finished recording in a notebook; before that, its text alone."""
        try:
            return as_html(self.recording)
        except InputError:
            return None

    def __getitem__(self, which: Any) -> Any:
        """A head of the finished recording: rec["L5H1"]."""
        return self.recording[which]

    def __getattr__(self, name: str) -> Any:
        """Everything else the finished recording answers."""
        if name in ("_kept", "_store", "_prompts", "_where"):
            raise InputError("the recording has not begun; run the model in its with block")
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.recording, name)

    def expect(self, tokens: int, plan: Plan | None = None, *, generate: int = 0) -> None:
        """How long the next prompt is, how much is written on, what is planned for it already."""
        self._expected, self._planned = tokens + generate, plan
        self._prompts.expected = tokens

    def follow(self, before: Tensor) -> None:
        """The next prompt begins with these tokens (a,), which another recording holds: what is
        run here are the tokens behind them, from a cache of so many."""
        self._prompts.before = before.detach().cpu().numpy().astype("int64")

    def steer(self, ids: Tensor) -> None:
        """Token ids (B, S) of the text that a model of diffusion is steered by from now on."""
        self._prompts.steered_by = ids.detach().reshape(-1, ids.shape[-1]).cpu().numpy()

    def show(self, images: Any) -> None:
        """The originals of the pictures that the model is about to see, in that order."""
        self.finish()  # pictures of the prompt before are their own
        self._pictures.show(images)

    def hear(self, sound: Heard, spectrogram: Any = None) -> None:
        """The sound that the model is about to read, and its picture (h, w) of bytes."""
        self.finish()
        self._axes.heard = sound
        self._pictures.hear(spectrogram)

    def finish(self) -> None:
        """The prompts being read are at their end; the next call begins new ones."""
        self._prompts.finish()

    def so_far(self) -> Recording:
        """What is written already, while the recording goes on."""
        self._prompts.settle()
        if isinstance(self._store, BackgroundWriter):
            self._store.flush()
        if isinstance(self._kept, Memory):
            return Recording(self._kept)
        return recording.open(self._kept.path)

    def note(self, **facts: Any) -> None:
        """More about the whole recording, as JSON."""
        self._prompts.settle()
        self._store.note({name: json.dumps(value) for name, value in facts.items()})

    @property
    def begun(self) -> int:
        """How many prompts were begun: the number of the next one."""
        return self._prompts.begun

    @property
    def written_bytes(self) -> int:
        """What the recording takes so far."""
        return self._prompts.spent

    @property
    def left(self) -> Path | None:
        """The file with what was recorded; None where nothing was, or in memory."""
        kept = self.__dict__.get("_kept")
        return kept.path if isinstance(kept, Writer) and self._prompts.pages else None

    def say(self, number: int, **facts: Any) -> None:
        """More about a prompt that is being read: title, bos, generated, next."""
        self._prompts.say(number, **facts)

    # ── listening ────────────────────────────────────────────────────────────────────────────

    def wants(self, call: Call) -> Request[CallPlan]:
        """What the engine is to measure on its way, and whose rows the call holds."""
        if call.pack is not None:
            return Request()
        with _unwatched():
            decided = self._decided(call)
        return Request() if decided is None else Request(decided.summaries(), decided)

    def heard(self, attention: Attention, request: Request[CallPlan]) -> None:
        """An attention of the model."""
        if attention._call.pack is not None:  # sequences that have no batch: replayed as one
            with unheard(), torch.no_grad():
                self._where.see(of_packed(attention))
            return
        with _unwatched():
            self._take(attention, attention._call, attention.output, request.plan)

    def _saw(self, attention: Attention, output: Tensor, value: Tensor) -> None:
        """An attention that torch computed."""
        call = attention._call.with_value(value)
        self._take(attention, call, output, self._decided(call, ours=False))

    def _missed(self, why: str) -> None:
        """An attention that was computed by other means."""
        caller = self._where.caller()
        if caller is not None:
            self._by_hand[caller.path] = self._by_hand.get(caller.path) or why

    def _tell_missed(self) -> None:
        """Name what ran and was not heard, in a warning and in the recording."""
        where = self._where
        missed = missed_modules(where, self._by_hand)
        if missed and self.heard_anything:  # else the error says so
            names, said = why_missed(self.model, missed, where.attended)
            self._store.note({"made": json.dumps(self._made | {"not_recorded": names})})
            if self._kept_by is not None:
                plan = replace(self._kept_by, unheard=tuple(names))
                self._store.note({"plan": json.dumps(plan.to_dict())})
            warnings.warn(f"not recorded, although they ran: {said}", RegardWarning, stacklevel=3)

    def _take(
        self, attention: Attention, call: Call, output: Tensor, decided: CallPlan | None
    ) -> None:
        """What was decided about a call, done; the caller's next call is another one."""
        if decided is not None:
            prompts = self._prompts
            numbers: Any
            if decided.is_batch:
                numbers = batched(attention, output, call.value, decided, prompts.known)
            else:
                numbers = reduced(attention, output, call.value, decided)
            # what comes from a GPU is a copy, which nobody changes behind our back
            prompts.take(call, decided, numbers, late=attention.device.type == "cuda")
            if self.watcher is not None:
                self.watcher()
        caller = self._where.caller()
        if caller is not None:
            self._where.called(caller)

    def _decided(self, call: Call, ours: bool = True) -> CallPlan | None:
        """What is recorded of a call, None for nothing; no row of it is counted before it is
        taken. `ours`: regard computes it."""
        caller = self._where.caller()
        now = self._where.now
        if caller is None or now is None:
            return None
        if channels := self._where.note_channels(caller, call):
            self._missed(channels)
            return None
        spot = self._names.spot(caller)
        if not self.heard_anything:  # the first of all shows whether the layers asked for exist
            self._choice.check_layers(self._places_like(caller))
            self.heard_anything = True
        if is_empty(call):
            return None
        cross = is_cross_module(self.model, caller.path) or looks_across(now, call)
        self._prompts.begin(now, call, caller, cross=cross, ours=ours)
        if not self._choice.has_layer(spot.layer):
            return None
        plan, prompts = self._prompts.plan or self._begin_plan(call, caller), self._prompts
        sequences = prompts.sequences()
        slices = slice_call(
            call, caller, spot, now, sequences, cross=cross,
            choice=self._choice, plan=plan, exact=plan.is_exact(prompts.order_of(spot)),
            announced=prompts.expected, known=prompts.known,
        )  # fmt: skip
        aligned = all(part.whole and part.is_aligned(plan.pool_cell) for part in slices)
        copies, prefix = matches_in(call, caller, sequences, slices, prompts.known)
        cell = plan.pool_cell if aligned else 0
        measures = CallMeasures(TOP, cell, copies, prefix, self._statistics)
        return CallPlan(caller, spot, slices, measures, plan)

    def _begin_plan(self, call: Call, caller: Caller) -> Plan:
        """Made with the first attention of a prompt: the model's other layers are like it."""
        count, chosen = self._places_like(caller), self._choice.layers
        if chosen is not None:  # the same layers of every stack
            stacks = -(-count // (self._config_layers() or count))
            count = min(count, len(chosen) * stacks)
        share = max(self.budget - self._prompts.spent, 1) // self._prompts.count
        plan = self._planned or self._planned_in(share, [self._size(call)] * count)
        plan = replace(plan, joins={one.name: join_of(one) for one in self._statistics})
        self._planned, self._kept_by = None, plan
        self._prompts.keep_by(plan)
        self._store.note({"plan": json.dumps(plan.to_dict())})
        return plan

    def _planned_in(self, share: int, sizes: list[Size]) -> Plan:
        try:
            return make_plan(share, sizes)
        except InputError as error:
            before = self._prompts.begun - self._prompts.count
            if not before:
                raise
            raise InputError(
                f"{before} prompts took {human(self._prompts.spent)} of the budget of "
                f"{human(self.budget)}, and of the next {error}"
            ) from None

    def _size(self, call: Call) -> Size:
        shape = call.shape
        longer = max(self._expected or 0, shape.queries)
        heads = len(self._choice.heads_of(shape.query_heads))
        return Size(
            heads, shape.key_heads, shape.dim, longer, max(longer, shape.keys),
            itemsize=call.query.element_size(), more=len(self._statistics),
        )  # fmt: skip

    def _places_like(self, caller: Caller) -> int:
        module = self.model.get_submodule(caller.path)
        alike = sum(type(other) is type(module) for other in self.model.modules())
        return max(alike, self._config_layers(), 1)

    def _config_layers(self) -> int:
        layers = getattr(getattr(self.model, "config", None), "num_hidden_layers", 0)
        return layers if isinstance(layers, int) else 0


def _unwatched() -> AbstractContextManager[None]:
    """Within the block nobody watches what torch is asked for, which takes time for each call."""
    return torch._C.DisableTorchFunction()
