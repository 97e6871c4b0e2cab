"""One model and its readings: a state is computed once, by one thread at a time."""

from __future__ import annotations

import copy
import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.engine.observers import Request, listening
from regard.errors import InputError, UnavailableError
from regard.hear.weights import device_of
from regard.intervene import Probe, estimated_effects, knock_out
from regard.models import Loaded
from regard.play.reading import FRAMES, Part, Reading
from regard.play.requests import ReadRequest
from regard.play.sound import one_clip
from regard.play.state import PromptState
from regard.recorder import Recorder, record
from regard.recorder.drive import guesses, is_causal_model, keeps_last_logits
from regard.recorder.sound import Clip, drive_clip
from regard.recorder.tokens import check_length, positions_of, texts_of
from regard.recording import Recording
from regard.recording.stores import Array
from regard.recording.token_text import readable
from regard.viewer.work import GivenUpError

Kind: TypeAlias = Literal["text", "pair", "sound"]
KEPT_BYTES: Final = 2**30  # of readings; the newest is kept whatever it takes
_KEPT: Final = 256
SHORT: Final = 64  # tokens up to which all weights are kept
LONG: Final = 200  # tokens from which on layers are shown as they come
_HEAVY: Final = 24
_SOUNDS: Final = 4
_MOST_EFFECTS: Final = 128  # tokens
_CANDIDATES: Final = 12
_MOMENT: Final = 0.005  # seconds


@dataclass(frozen=True)
class Progress:
    """A layer that is done, of so many; of a long prompt also its words, and the heaviest keys of
    the last one in this layer, as a mean over heads."""

    done: int
    of: int
    texts: Sequence[str] | None = None  # with the first layer
    heavy: Sequence[tuple[int, float]] = ()


Advanced: TypeAlias = Callable[[Progress], None]


class ForgottenError(UnavailableError):
    """A reading that this process does not have, or no longer; to be read again."""


def nothing(*_: Progress) -> None:
    """Nobody follows."""


class LayerFollower:
    """Follows the layers of a running model; between two of them it can be given up."""

    def __init__(self, places: int, go_on: Callable[[], None], advanced: Advanced) -> None:
        self._places, self._go_on, self._advanced = places, go_on, advanced
        self._done = 0
        self.keeps_weights = False
        self.weights: list[Array] = []  # (heads, rows, keys) of each layer, of a short prompt
        self.texts: Sequence[str] | None = None

    def wants(self, call: Call) -> Request[None]:
        """Nothing more than what is recorded."""
        return Request()

    def heard(self, attention: Attention, request: Request[None]) -> None:
        """One more layer."""
        self._go_on()
        self._done += 1
        if self.keeps_weights:
            self.weights.append(attention.dense()[0].float().cpu().numpy())
        first = self._done == 1
        heavy = self._heavy(attention) if self.texts is not None else ()
        texts = self.texts if first else None
        self._advanced(Progress(self._done, self._places, texts, heavy))

    def _heavy(self, attention: Attention) -> Sequence[tuple[int, float]]:
        """The keys of the last row with the largest mean weight."""
        last = attention.shape[-2] - 1
        mean = attention.rows([last]).float().flatten(0, -2).mean(0)
        best = mean.topk(min(_HEAVY, len(mean)))
        return list(zip(best.indices.tolist(), best.values.tolist(), strict=True))


class Session:
    """A model that answers one page, or several."""

    def __init__(self, loaded: Loaded) -> None:
        self.model, self.tokenizer, self.name = loaded.model, loaded.tokenizer, loaded.name
        self._loaded = loaded
        self.kind: Kind = _kind_of(loaded)
        self._run_lock, self._kept_lock = Lock(), Lock()
        self._waiting = 0  # readings that somebody waits for
        self._is_closed = False
        self._kept: OrderedDict[str, Reading] = OrderedDict()
        self._sounds: OrderedDict[str, Clip] = OrderedDict()

    # ── what was asked ───────────────────────────────────────────────────────────────────────

    def state_of(self, asked: ReadRequest) -> PromptState:
        """The tokens of a text, then those that were appended."""
        pair: tuple[int, ...] = ()
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

    def recording(self, reading: Reading, go_on: Callable[[], None] = nothing) -> Recording:
        """Of all rows at once: a reading that grew token by token is recorded once more."""
        if len(reading.parts) == 1:
            return reading.parts[0].recording
        with self._running(go_on):
            if reading.full is None:
                reading.full = self._from_start(reading.state, go_on, nothing).parts[0].recording
            return reading.full

    def effects(
        self, reading: Reading, go_on: Callable[[], None] = nothing
    ) -> list[tuple[str, float, float]]:
        """Heads that matter for the likeliest token, as (label, its probability, its probability
        without the head), largest change first. A gradient names candidates and a knock-out of
        each measures them; none for long prompts, and where nothing is written."""
        ids = reading.state.ids
        if reading.logits is None or not reading.state.is_whole or len(ids) > _MOST_EFFECTS:
            return []
        with self._running(go_on, urgent=False):
            about = estimated_effects(self.model, ids)
            probe = Probe(self.model, ids)
        target = int(probe.targets[0, 0])
        before = float(probe.logits[0, -1].softmax(-1)[target])
        measured = []
        for label in sorted(about, key=lambda one: -abs(about[one]))[:_CANDIDATES]:
            with self._running(go_on, urgent=False):
                change = probe.effect(label).delta_logprob
            measured.append((label, before, before * math.exp(change)))
        return sorted(measured, key=lambda one: -abs(one[2] - one[1]))

    @property
    def aligned(self) -> list[str]:
        """Heads that follow the sound, as a model of speech names them itself."""
        heads = getattr(self.model.generation_config, "alignment_heads", None) or ()
        return [f"cross.L{layer}H{head}" for layer, head in heads] if self.kind == "sound" else []

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
        self, state: PromptState, go_on: Callable[[], None], advanced: Advanced
    ) -> Reading:
        ids = torch.tensor([state.ids], device=device_of(self.model))
        texts = self._texts(state.ids)
        if not is_causal_model(self.model):
            return self._encode(state, ids, texts, go_on, advanced)
        from transformers import DynamicCache

        cache = DynamicCache(config=self.model.config)
        part, logits = self._run(state, ids, cache, go_on, advanced)
        return Reading(state, texts, (part,), logits, cache)

    def _step(
        self, state: PromptState, before: Reading, go_on: Callable[[], None], advanced: Advanced
    ) -> Reading:
        """One more token; what was there before stays as it is, for whoever goes back."""
        ids = torch.tensor([state.ids[-1:]], device=device_of(self.model))
        cache = copy.deepcopy(before.cache)
        part, logits = self._run(state, ids, cache, go_on, advanced)
        texts = self._texts(state.ids)
        return Reading(state, texts, (*before.parts, part), logits, cache)

    def _run(
        self, state: PromptState, ids: Tensor, cache: Any, go_on: Callable[[], None],
        advanced: Advanced,
    ) -> tuple[Part, Any]:  # fmt: skip
        """These tokens as the last ones of the state, and the logits (vocabulary,) behind them."""
        few = keeps_last_logits(self.model)
        with self._recorded(state, go_on, advanced) as (recorder, weights):
            found = self.model(input_ids=ids, past_key_values=cache, use_cache=True, **few)
            logits = found.logits[0, -1].float()
            title = " ".join(self.tokenizer.decode(state.ids).split())[:80]
            recorder.say(0, title=title, next=guesses(logits, self.tokenizer))
        stop = len(state.ids)
        part = _part(recorder.recording, range(stop - ids.shape[1], stop), weights)
        return part, logits.cpu().numpy().copy()

    @contextmanager
    def _recorded(
        self, state: PromptState, go_on: Callable[[], None], advanced: Advanced
    ) -> Iterator[tuple[Recorder, list[Array]]]:
        """The model, recorded in memory without what is switched off. Between layers it is seen
        whether anybody still waits; of a short prompt all weights are kept on the way, which takes
        less time than to ask for them head by head."""
        edges = [edge.as_edge() for edge in state.edges]
        without = nullcontext() if state.is_whole else knock_out(self.model, state.heads, edges)
        recorder = record(self.model, tokenizer=self.tokenizer)
        recorder.name = self.name

        def go_on_here() -> None:
            self._check_open()
            go_on()

        follower = LayerFollower(self._places(), go_on_here, advanced)
        follower.keeps_weights = 0 < len(state.ids) <= SHORT
        if len(state.ids) >= LONG:
            follower.texts = self._texts(state.ids)
        with torch.inference_mode(), without, recorder, listening(follower):
            yield recorder, follower.weights

    def _places(self) -> int:
        config = getattr(self.model.config, "text_config", None) or self.model.config
        return int(getattr(config, "num_hidden_layers", 1))

    def _encode(
        self, state: PromptState, ids: Tensor, texts: list[str], go_on: Callable[[], None],
        advanced: Advanced,
    ) -> Reading:  # fmt: skip
        """A model that reads and writes nothing; of two sentences, how alike it makes them."""
        kinds = {"token_type_ids": ids.new_tensor([state.pair])} if state.pair else {}
        with self._recorded(state, go_on, advanced) as (recorder, weights):
            self.model(input_ids=ids, **kinds)
            recorder.say(0, title=" ".join(self.tokenizer.decode(state.ids).split())[:80])
        part = _part(recorder.recording, range(len(state.ids)), weights)
        alike = self._similarity(state) if state.pair else None
        return Reading(state, texts, (part,), similarity=alike)

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
        with self._recorded(state, go_on, advanced) as (recorder, _):
            drive_clip(recorder, clip, 0)
        view = recorder.recording.prompts[0]
        part = Part(recorder.recording, range(len(view.tokens)))
        return Reading(state, view.tokens, (part,), frames=max(round(clip.seconds * FRAMES), 1))


def _part(recording: Recording, rows: range, weights: Sequence[Array]) -> Part:
    """With the weights (layers, heads, rows, keys) where every layer was kept."""
    stacks = recording.prompts[0].stacks
    is_whole = list(stacks.values()) == [(len(weights), weights[0].shape[0])] if weights else False
    return Part(recording, rows, np.stack(weights) if is_whole else None)


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
