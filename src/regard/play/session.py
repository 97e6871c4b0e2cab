"""One model and its readings: a state is computed once, by one thread at a time."""

from __future__ import annotations

import copy
import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from threading import Lock
from typing import Any, Final, Literal, TypeAlias, TypeVar

import numpy as np
import torch

from regard.engine.observers import listening
from regard.errors import InputError, UnavailableError
from regard.hear.intercept import prepared
from regard.hear.weights import device_of
from regard.intervene import Probe, estimated_effects, knock_out
from regard.models import Loaded
from regard.play.follow import Advanced, LayerFollower, nothing
from regard.play.reading import FRAMES, Part, Reading
from regard.play.requests import PromptState, ReadRequest
from regard.play.sound import one_clip
from regard.recorder import record
from regard.recorder.drive import guesses, is_causal_model, keeps_last_logits
from regard.recorder.sound import Clip, drive_clip
from regard.recorder.tokens import check_length, positions_of, texts_of
from regard.recording import Recording
from regard.recording.stores import Array
from regard.recording.token_text import readable
from regard.viewer.work import GivenUpError

_Made = TypeVar("_Made")
Kind: TypeAlias = Literal["text", "pair", "sound"]
KEPT_BYTES: Final = 2**30  # of readings; the newest is kept whatever it takes
_KEPT: Final = 256
SHORT: Final = 64  # tokens up to which all weights are kept
LONG: Final = 200  # tokens from which on layers are shown as they come
_SOUNDS: Final = 4
_MOST_EFFECTS: Final = 128  # tokens
_CANDIDATES: Final = 12
_MOMENT: Final = 0.005  # seconds


class _OvertakenError(Exception):
    """Somebody waits for a reading, which goes first."""


class ForgottenError(UnavailableError):
    """A reading that this process does not have, or no longer; to be read again."""


class Session:
    """A model that answers one page, or several."""

    def __init__(self, loaded: Loaded) -> None:
        self.model, self.tokenizer, self.name = loaded.model, loaded.tokenizer, loaded.name
        self._loaded = loaded
        self.kind: Kind = _kind_of(loaded)
        self._run_lock, self._kept_lock = Lock(), Lock()
        self._waiting = 0  # readings that somebody waits for
        self._is_closed = False
        # layers and heads, once it is known that each of them can be heard without a recording
        self._heard: tuple[int, int] | None = None
        self._kept: OrderedDict[str, Reading] = OrderedDict()
        self._sounds: OrderedDict[str, Clip] = OrderedDict()

    # ── what was asked ───────────────────────────────────────────────────────────────────────

    def state_of(self, asked: ReadRequest) -> PromptState:
        """The tokens of a text, then those that were appended."""
        pair: tuple[int, ...] = ()
        if asked.more and self.kind != "text":
            raise InputError(f"more: {self.name} writes no text, so no token can be appended")
        if self.kind == "sound":
            if asked.sound not in self._sounds:
                raise ForgottenError("this sound is not here; choose the file again")
            ids: tuple[int, ...] = ()
        else:
            ids, pair = self._encoded(asked)
            ids += asked.more
            check_length(self.model, len(ids), 0)
        size = getattr(self.model.config, "vocab_size", None) or len(self.tokenizer)
        for number in asked.more:
            if number >= size:
                raise InputError(f"token {number} does not exist; the vocabulary has {size}")
        return PromptState(ids, asked.heads, asked.edges, asked.sound, pair)

    def _encoded(self, asked: ReadRequest) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if not asked.text.strip():
            raise InputError("the prompt is empty; type a few words")
        quiet: dict[str, Any] = {"truncation": False, "verbose": False}
        if self.kind != "pair" or not asked.pair.strip():
            return tuple(self.tokenizer(asked.text, **quiet).input_ids), ()
        found = self.tokenizer(asked.text, asked.pair, **quiet)
        return tuple(found.input_ids), tuple(found["token_type_ids"])

    def about(self) -> dict[str, Any]:
        """The model, for the page."""
        start = next(iter(self.aligned), None)
        return {
            "model": self.name, "kind": self.kind, "positions": positions_of(self.model),
            "start": start,
        }  # fmt: skip

    def warm_up(self) -> None:
        """A short prompt, while the browser starts: kernels are compiled and memory is touched."""
        if self.kind == "text":
            self.read(self.state_of(ReadRequest(text="The cat sat on the mat.")))

    # ── readings ─────────────────────────────────────────────────────────────────────────────

    def get(self, key: str) -> Reading:
        """One that was read before."""
        with self._kept_lock:
            if key not in self._kept:
                raise ForgottenError("this prompt is not here any more; read it again")
            self._kept.move_to_end(key)
            return self._kept[key]

    def has(self, state: PromptState) -> Reading | None:
        """The reading of a state, where it was kept."""
        with self._kept_lock:
            return self._kept.get(state.key)

    def read(
        self,
        state: PromptState,
        go_on: Callable[[], None] = nothing,
        advanced: Advanced = nothing,
    ) -> Reading:
        """A state's reading: kept, a step behind one that is kept, or from the start."""
        with self._running(go_on):
            known = self.has(state)
            if known is not None:
                return known
            before = self.has(state.before()) if state.ids[1:] and self.kind == "text" else None
            if self.kind == "sound":
                made = self._listen(state, go_on, advanced)
            elif before is not None and before.cache is not None:
                made = self._step(state, before, go_on, advanced)
            else:
                made = self._from_start(state, go_on, advanced)
        self._keep(made)
        return made

    def recording(
        self, reading: Reading, go_on: Callable[[], None] = nothing, *, urgent: bool = True
    ) -> Recording:
        """Of all rows at once: a reading that grew token by token, or whose weights alone were
        kept, is read once more and recorded. What is not urgent begins anew when somebody waits
        for a reading."""
        if len(reading.parts) == 1 and reading.parts[0].recording is not None:
            return reading.parts[0].recording

        def make() -> Recording:
            if reading.full is None:
                again = self._from_start(reading.state, go_on, nothing, recorded=True)
                reading.full = again.parts[0].recording
            assert reading.full is not None
            return reading.full

        if not urgent:
            return self._in_background(make, go_on)
        with self._running(go_on):
            return make()

    def effects(
        self, reading: Reading, go_on: Callable[[], None] = nothing
    ) -> list[tuple[str, float, float]]:
        """Heads that matter for the likeliest token, as (label, its probability, its probability
        without the head), largest change first. A gradient names candidates and a knock-out of
        each measures them; none for long prompts, and where nothing is written."""
        ids = reading.state.ids
        if reading.logits is None or not reading.state.is_whole or len(ids) > _MOST_EFFECTS:
            return []
        about = self._in_background(lambda: estimated_effects(self.model, ids), go_on)
        probe = self._in_background(lambda: Probe(self.model, ids), go_on)
        target = int(probe.targets[0, 0])
        before = float(probe.logits[0, -1].softmax(-1)[target])
        measured = []
        for label in sorted(about, key=lambda one: -abs(about[one]))[:_CANDIDATES]:
            change = self._in_background(partial(probe.effect, label), go_on).delta_logprob
            measured.append((label, before, before * math.exp(change)))
        return sorted(measured, key=lambda one: -abs(one[2] - one[1]))

    @property
    def aligned(self) -> list[str]:
        """Heads that follow the sound, as a model of speech names them itself."""
        written = getattr(self.model, "generation_config", None)  # encoders have none
        heads = getattr(written, "alignment_heads", None) or ()
        return [f"cross.L{layer}H{head}" for layer, head in heads] if self.kind == "sound" else []

    def _in_background(self, make: Callable[[], _Made], go_on: Callable[[], None]) -> _Made:
        """What runs the model and is not urgent: it lets every reading that waits go first, and
        begins anew when one comes while a layer is computed."""

        def go_on_alone() -> None:
            go_on()
            if self._waiting:
                raise _OvertakenError

        follower = LayerFollower(0, go_on_alone, nothing)
        while True:
            with suppress(_OvertakenError), self._running(go_on, urgent=False), listening(follower):
                return make()

    @contextmanager
    def _running(self, go_on: Callable[[], None], *, urgent: bool = True) -> Iterator[None]:
        """One at a time: hooks are on the model while it runs. What is not urgent lets every
        reading that waits go first."""
        with self._kept_lock:
            self._waiting += urgent
        try:
            while not urgent and self._waiting:
                time.sleep(_MOMENT)
                go_on()
            self._run_lock.acquire()
        finally:
            with self._kept_lock:
                self._waiting -= urgent
        try:
            self._check_open()
            go_on()
            yield
        finally:
            self._run_lock.release()

    def close(self) -> None:
        """The model is not run again; returns when it is at rest. A process that ended while a
        thread of it runs torch would abort."""
        self._is_closed = True
        self._run_lock.acquire()

    def _check_open(self) -> None:
        if self._is_closed:
            raise GivenUpError

    def _keep(self, made: Reading) -> None:
        with self._kept_lock:
            self._kept[made.key] = made
            self._kept.move_to_end(made.key)
            while len(self._kept) > 1 and (
                len(self._kept) > _KEPT
                or sum(one.nbytes() for one in self._kept.values()) > KEPT_BYTES
            ):
                self._kept.popitem(last=False)

    # ── running the model ────────────────────────────────────────────────────────────────────

    def _texts(self, ids: Sequence[int]) -> list[str]:
        """Tokens as they are shown: a character that several of them hold stands once."""
        return readable(texts_of(self.tokenizer, ids))

    def _from_start(
        self,
        state: PromptState,
        go_on: Callable[[], None],
        advanced: Advanced,
        recorded: bool = False,
    ) -> Reading:
        ids = torch.tensor([state.ids], device=device_of(self.model))
        texts = self._texts(state.ids)
        if not is_causal_model(self.model):
            alike = self._similarity(state) if state.pair else None
            kinds = {"token_type_ids": ids.new_tensor([state.pair])} if state.pair else {}
            part, _ = self._run(
                state, lambda: {"input_ids": ids, **kinds}, go_on, advanced, recorded
            )
            return Reading(state, texts, (part,), similarity=alike)
        from transformers import DynamicCache

        def inputs() -> dict[str, Any]:
            return {"input_ids": ids, "past_key_values": DynamicCache(config=self.model.config)}

        part, found = self._run(state, inputs, go_on, advanced, recorded)
        return Reading(state, texts, (part,), _last_logits(found), found.past_key_values)

    def _step(
        self, state: PromptState, before: Reading, go_on: Callable[[], None], advanced: Advanced
    ) -> Reading:
        """One more token; what was there before stays as it is, for whoever goes back."""
        ids = torch.tensor([state.ids[-1:]], device=device_of(self.model))

        def inputs() -> dict[str, Any]:
            return {"input_ids": ids, "past_key_values": copy.deepcopy(before.cache)}

        part, found = self._run(state, inputs, go_on, advanced)
        parts = (*before.parts, part)
        return Reading(
            state, self._texts(state.ids), parts, _last_logits(found), found.past_key_values
        )

    def _run(
        self,
        state: PromptState,
        inputs: Callable[[], dict[str, Any]],
        go_on: Callable[[], None],
        advanced: Advanced,
        recorded: bool = False,
    ) -> tuple[Part, Any]:
        """The model on these inputs, whose tokens are the last ones of the state: what is known of
        their rows, and what the model returned.

        A short prompt needs no recording: its weights are everything that is looked at first.
        """
        if not recorded and self._heard is not None and len(state.ids) <= SHORT:
            given = inputs()
            with self._listened(state, go_on, advanced, prepared(self.model)) as weights:
                found = self._forward(given)
            if [one.shape[0] for one in weights] == [self._heard[1]] * self._heard[0]:
                return Part(_rows(state, given), weights=np.stack(weights)), found
            self._heard = None  # a model that attends otherwise in some prompts
        given = inputs()
        recorder = record(self.model, tokenizer=self.tokenizer)
        recorder.name = self.name
        with self._listened(state, go_on, advanced, recorder) as weights:
            found = self._forward(given)
            title = " ".join(self.tokenizer.decode(state.ids).split())[:80]
            likely = {}
            if is_causal_model(self.model):
                likely = {"next": guesses(found.logits[0, -1].float(), self.tokenizer)}
            recorder.say(0, title=title, **likely)
        recording = recorder.recording
        stacks = recording.prompts[0].stacks
        if not weights or list(stacks.items()) != [("", (len(weights), len(weights[0])))]:
            return Part(_rows(state, given), recording), found
        self._heard = stacks[""]
        return Part(_rows(state, given), recording, np.stack(weights)), found

    def _forward(self, given: dict[str, Any]) -> Any:
        few = keeps_last_logits(self.model) if "past_key_values" in given else {}
        return self.model(**given, **few)

    @contextmanager
    def _listened(
        self,
        state: PromptState,
        go_on: Callable[[], None],
        advanced: Advanced,
        heard: AbstractContextManager[Any],
    ) -> Iterator[list[Array]]:
        """The model, without what is switched off, while it can be heard. Between layers it is seen
        whether anybody still waits; of a short prompt all weights are kept on the way, which takes
        less time than to ask for them head by head."""
        edges = [edge.as_edge() for edge in state.edges]
        without = nullcontext() if state.is_whole else knock_out(self.model, state.heads, edges)

        def go_on_here() -> None:
            self._check_open()
            go_on()

        follower = LayerFollower(self._places(), go_on_here, advanced)
        follower.keeps_weights = 0 < len(state.ids) <= SHORT
        if len(state.ids) >= LONG:
            follower.texts = self._texts(state.ids)
        with torch.inference_mode(), without, heard, listening(follower):
            yield follower.weights

    def _places(self) -> int:
        config = getattr(self.model.config, "text_config", None) or self.model.config
        return int(getattr(config, "num_hidden_layers", 1))

    def _similarity(self, state: PromptState) -> float:
        """The cosine of the two sentences, each encoded alone: their mean vectors."""
        first, last = state.ids[0], state.ids[-1]
        vectors = []
        with torch.inference_mode():
            for side in (0, 1):
                own = [n for n, of in zip(state.ids, state.pair, strict=True) if of == side]
                inner = [n for n in own if n not in (first, last)]
                ids = torch.tensor([[first, *inner, last]], device=device_of(self.model))
                vectors.append(self.model(input_ids=ids).last_hidden_state[0].float().mean(0))
        return float(torch.cosine_similarity(vectors[0], vectors[1], dim=0))

    # ── sound ────────────────────────────────────────────────────────────────────────────────

    def add_sound(self, content: bytes) -> str:
        """The name of a sound file that was sent; a few are kept."""
        if self.kind != "sound":
            raise InputError(f"{self.name} reads text, no sound")
        name = hashlib.sha256(content).hexdigest()[:24]
        clip = one_clip(self._loaded, content)
        with self._kept_lock:
            self._sounds[name] = clip
            while len(self._sounds) > _SOUNDS:
                self._sounds.popitem(last=False)
        return name

    def _listen(self, state: PromptState, go_on: Callable[[], None], advanced: Advanced) -> Reading:
        """What a model of speech writes down, and where in the sound each word looks."""
        with self._kept_lock:
            clip = self._sounds[state.sound]
        recorder = record(self.model, tokenizer=self.tokenizer)
        recorder.name = self.name
        with self._listened(state, go_on, advanced, recorder):
            drive_clip(recorder, clip, 0)
        view = recorder.recording.prompts[0]
        part = Part(range(len(view.tokens)), recorder.recording)
        return Reading(state, view.tokens, (part,), frames=max(round(clip.seconds * FRAMES), 1))


def _rows(state: PromptState, given: dict[str, Any]) -> range:
    stop = len(state.ids)
    return range(stop - given["input_ids"].shape[1], stop)


def _last_logits(found: Any) -> Array:
    """(vocabulary,) float32 of the next token."""
    return found.logits[0, -1].float().cpu().numpy().copy()


def _kind_of(loaded: Loaded) -> Kind:
    """How it is asked: by a text that goes on, by one or two sentences, or by a sound."""
    wanted = getattr(loaded.model, "main_input_name", "input_ids")
    if wanted == "input_features" and loaded.tokenizer is not None:
        return "sound"
    if wanted != "input_ids" or loaded.tokenizer is None:
        raise InputError(
            f"{loaded.name} reads {wanted.replace('_', ' ')}; `regard play` takes models of text "
            "and of speech, such as smollm2, minilm and whisper-tiny.en"
        )
    return "text" if is_causal_model(loaded.model) else "pair"
