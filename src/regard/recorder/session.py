"""`regard.record(model)`: listens to a model and writes down what its attention did."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from regard import recording
from regard.declare import encode, is_portable
from regard.display import as_html
from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.engine.observers import listeners, listening
from regard.errors import FileError, InputError, RegardWarning
from regard.recorder.background_writer import BackgroundWriter
from regard.recorder.call_slice import CallSlice, read_pages
from regard.recorder.choice import Choice
from regard.recorder.hooks import Caller, ModelHooks
from regard.recorder.intercept import intercepted
from regard.recorder.layer_names import LayerNames, Spot, is_cross
from regard.recorder.layer_writer import Store
from regard.recorder.measure import CallMeasures, recordable
from regard.recorder.missed import missed_modules, why_missed
from regard.recorder.plan import TOP, Plan, Size, human, make_plan, parse_budget
from regard.recorder.prompt import Prompts
from regard.recorder.tokens import reader_of
from regard.recorder.weights import check_weights, device_of
from regard.recording import Memory, Recording, Writer
from regard.recording.contents import CONTENTS, STATISTICS_NOTE
from regard.summary import RowStatistic, Summary


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
    overwrite: bool = False,
) -> Recorder:
    """Record where a model looks, while it runs inside the block.

        with regard.record(model, "run.regard", tokenizer=tokenizer) as rec:
            model(**inputs)
        rec["L5H1"].top(5)

    model      a Hugging Face model, or any module that uses regard's layers, `regard.attend` or
               torch's scaled_dot_product_attention
    path       the file to write; in memory without one
    layers     which layers, such as [0, 5] or "0,5-10"; all where not given
    heads      which heads of each layer
    queries    which rows: "100:200", or a number n for the last n
    budget     bytes: statistics of all heads come first, then q and k of the layers that fit
    statistics  statistics of rows to keep beside those of every recording, such as
               [regard.Distance()], or a class of one's own (CONTRIBUTING.md)
    overwrite  replace a file that exists. Until the block has ended without an error the recording
               is PATH.partial beside it; after an error, or Ctrl-C, it stays there and the old
               file stays as it was

    Every call of the model without a cache begins a new prompt, one for each sequence of a batch.
    """
    choice = Choice.of(layers, heads, queries)
    more = recordable(statistics)
    return Recorder(model, path, tokenizer, choice, parse_budget(budget), overwrite, more)


class Recorder:
    """A recording being made; afterwards it answers as the recording itself."""

    def __init__(
        self,
        model: nn.Module,
        path: str | os.PathLike[str] | None,
        tokenizer: Any,
        choice: Choice,
        budget: int,
        overwrite: bool = False,
        statistics: tuple[RowStatistic, ...] = (),
    ) -> None:
        if not isinstance(model, nn.Module):
            raise InputError(f"model is a {type(model).__name__}; give a torch.nn.Module")
        self.model, self.path, self.budget = model, path, budget
        self.heard_anything = False
        self.watcher: Callable[[], None] | None = None  # told of every attention taken down
        config = getattr(model, "config", None)
        self.name: str = getattr(config, "name_or_path", "") or type(model).__name__
        self.tokenizer = reader_of(tokenizer)
        self._choice, self._overwrite, self._statistics = choice, overwrite, statistics
        self._names = LayerNames(named=_has_parts(model))
        self._expected: int | None = None
        self._planned: Plan | None = None
        self._asked: Call | None = None  # the call that `_turn` is about
        self._turn: _PendingCall | None = None
        self._stack = ExitStack()
        self._recording: Recording | None = None
        self._entered = False
        self._by_hand: set[str] = set()  # modules that were seen attending by other means

    # ── the block ────────────────────────────────────────────────────────────────────────────

    def __enter__(self) -> Recorder:
        if self._entered:
            raise InputError("this recorder was used already; call regard.record again")
        check_weights(self.model)
        self._entered = True
        with ExitStack() as stack:
            self._where = stack.enter_context(ModelHooks(self.model))
            # before the file: where nothing can be heard, none is made
            stack.enter_context(intercepted(self.model, self._saw, self._missed))
            self._kept = self._open()
            on_gpu = any(p.device.type == "cuda" for p in self.model.parameters())
            self._store: Store = BackgroundWriter(self._kept) if on_gpu else self._kept
            self._prompts = Prompts(self._store, self.tokenizer)
            stack.callback(self._close)
            self._store.note(self._facts())
            stack.enter_context(listening(self))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        is_whole = False
        try:
            if kind is None or issubclass(kind, KeyboardInterrupt):
                self._prompts.finish(complete=kind is None)
                self._tell_missed()
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
                "no row was recorded: the prompts are shorter than queries= asks for, or layers= "
                "names layers that were not run"
            )
        if kind is None and not self.heard_anything:
            raise InputError(
                f"no attention was heard: {type(self.model).__name__} was not run inside the "
                "block, or computes its attention by other means than regard, transformers' "
                "attention interface or torch's scaled_dot_product_attention"
            )

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

    def wants(self, call: Call) -> tuple[Summary, ...]:
        """What the engine is to measure on its way."""
        with _unwatched():
            self._asked, self._turn = call, self._arrange(call)
        if self._turn is None or not any(share.kept for share in self._turn.shares):
            return ()
        wanted = self._turn.wanted
        whole = all(share.whole for share in self._turn.shares)
        return wanted.summaries() if whole else tuple(wanted.matches.values())

    def heard(self, attention: Attention) -> None:
        """An attention of the model."""
        call = attention._call
        with _unwatched():
            # a call is arranged once: that counts its rows
            turn = self._turn if self._asked is call else self._arrange(call)
            self._asked = self._turn = None
            if turn is not None:
                self._take(attention, attention.output, call.value, turn)
        self._pass_on()

    def _saw(self, attention: Attention, output: Tensor, value: Tensor) -> None:
        """An attention that torch computed."""
        turn = self._arrange(attention._call.with_value(value), ours=False)
        if turn is not None:
            self._take(attention, output, value, turn)
        self._pass_on()

    def _missed(self) -> None:
        """An attention that was computed by other means, while somebody listens."""
        caller = self._where.caller()
        if caller is not None and self in listeners():
            self._by_hand.add(caller.path)

    def _tell_missed(self) -> None:
        """Name what ran and was not heard, in a warning and in the recording."""
        where = self._where
        missed = missed_modules(self.model, where.ran, where.attended, self._by_hand)
        if missed:
            names, said = why_missed(self.model, missed)
            self._store.note({"made": json.dumps(self._made | {"not_recorded": names})})
            warnings.warn(said, RegardWarning, stacklevel=3)

    def _pass_on(self) -> None:
        caller = self._where.caller()
        if caller is not None:
            self._where.called(caller)

    def _take(
        self, attention: Attention, output: Tensor, value: Tensor, turn: _PendingCall
    ) -> None:
        pages = read_pages(attention, output, value, turn.wanted, turn.shares, turn.plan)
        # what comes from a GPU is a copy, which nobody changes behind our back
        self._prompts.take(turn.spot, pages, late=attention.device.type == "cuda")
        if self.watcher is not None:
            self.watcher()

    def _arrange(self, call: Call, ours: bool = True) -> _PendingCall | None:
        """Whose call this is; None where nobody wants it. `ours`: regard computes it."""
        caller = self._where.caller()
        now = self._where.now
        if caller is None or now is None:
            return None
        spot = self._names.spot(caller)
        cross = is_cross(caller.path) or self._prompts.is_cross(now, call)
        self._check_layers(caller)
        self._prompts.begin(now, call, caller.path, ours)
        if not self._choice.has_layer(spot.layer):
            return None
        plan = self._plan(call, caller)
        shares = self._prompts.shares(caller, spot, now, call, cross, self._choice, plan)
        aligned = all(share.whole and _is_aligned(share, plan.pool_cell) for share in shares)
        copies, prefix = self._prompts.matches(caller, call, shares)
        cell = plan.pool_cell if aligned else 0
        measures = CallMeasures(TOP, cell, copies, prefix, self._statistics)
        return _PendingCall(spot, shares, measures, plan)

    def _plan(self, call: Call, caller: Caller) -> Plan:
        """Made when a prompt's first attention is heard: the model's other layers are like it."""
        if self._prompts.plan is None:
            count, chosen = self._places_like(caller), self._choice.layers
            if chosen is not None:  # the same layers of every stack
                stacks = -(-count // (self._config_layers() or count))
                count = min(count, len(chosen) * stacks)
            size = self._size(call)
            left = self.budget - self._prompts.spent
            share = max(left, 1) // self._prompts.count
            plan = self._planned or self._planned_in(share, [size] * count)
            self._prompts.plan, self._planned = plan, None
            self._store.note({"plan": json.dumps(plan.to_dict())})
        return self._prompts.plan

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
            call.query.element_size(), len(self._statistics),
        )  # fmt: skip

    def _places_like(self, caller: Caller) -> int:
        module = self.model.get_submodule(caller.path)
        alike = sum(type(other) is type(module) for other in self.model.modules())
        return max(alike, self._config_layers(), 1)

    def _config_layers(self) -> int:
        layers = getattr(getattr(self.model, "config", None), "num_hidden_layers", 0)
        return layers if isinstance(layers, int) else 0

    def _check_layers(self, caller: Caller) -> None:
        """Once, when the model begins to speak: the layers asked for exist."""
        if not self.heard_anything:
            self._choice.check_layers(self._places_like(caller))
            self.heard_anything = True

    def _facts(self) -> dict[str, str]:
        """About the model and about how the recording was made."""
        config = getattr(self.model, "config", None)
        parameters = sum(p.numel() for p in self.model.parameters())
        one = next(self.model.parameters(), torch.empty(0))
        text = getattr(config, "text_config", config)
        about = {
            "name": self.name,
            "class": type(self.model).__name__,
            "family": getattr(config, "model_type", ""),
            "layers": getattr(text, "num_hidden_layers", None),
            "heads": getattr(text, "num_attention_heads", None),
            "positions": getattr(text, "max_position_embeddings", None),
            "parameters": parameters,
            "dtype": str(one.dtype).removeprefix("torch."),
            "device": str(device_of(self.model)),
        }
        self._made = {
            "regard": _version("regard"),
            "torch": torch.__version__,
            "transformers": _version("transformers"),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        declared = {
            one.name: {
                "words": one.words or one.name,
                "unit": one.unit,
                "statistic": encode(one) if is_portable(one) else "",
            }
            for one in self._statistics
        }
        return {
            "contents": CONTENTS,
            "model": json.dumps(about),
            "made": json.dumps(self._made),
            **({STATISTICS_NOTE: json.dumps(declared)} if declared else {}),
        }


class _PendingCall:
    """A call that is about to be computed, and what will be written about it."""

    def __init__(
        self, spot: Spot, shares: list[CallSlice], wanted: CallMeasures, plan: Plan
    ) -> None:
        self.spot, self.shares, self.wanted, self.plan = spot, shares, wanted, plan


def _unwatched() -> AbstractContextManager[None]:
    """Within the block nobody watches what torch is asked for, which takes time for each call."""
    return torch._C.DisableTorchFunction()


def _is_aligned(share: CallSlice, cell: int) -> bool:
    """Whether the sweep's own cells are the prompt's: nothing cut off in front, and both begin
    with a whole cell."""
    return (
        share.rows.start == share.keys.start == 0
        and share.row_start % cell == 0
        and share.key_start % cell == 0
    )


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _has_parts(model: nn.Module) -> bool:
    config = getattr(model, "config", None)
    several = [n for n in ("vision_config", "text_config", "audio_config") if hasattr(config, n)]
    return bool(getattr(config, "is_encoder_decoder", False)) or len(several) > 1
