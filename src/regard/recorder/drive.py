"""Running a model over a prompt while it is recorded: in chunks, then token by token."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.engine.api import attend
from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.engine.observers import Request, unheard
from regard.errors import InputError, TooLargeError
from regard.hear.intercept import AttentionHooks, prepared
from regard.hear.names import LayerNames
from regard.hear.unheard import missed_modules, why_missed
from regard.hear.weights import device_of
from regard.mask import Causal
from regard.recorder.measure import CallMeasures
from regard.recorder.plan import TOP, Choice, Plan, Size, make_plan
from regard.recorder.session import Recorder
from regard.recorder.tokens import Encoded, texts_of
from regard.recording import Recording
from regard.summary import Matching

CHUNK = 2048  # tokens of a prompt that go through the model at a time
_PROBE = 128  # tokens that the model reads for an estimate, and four times as many while …
_LAYER = 1024  # … and one layer of attention
_BRIEF = 0.1  # … that takes fewer seconds: a GPU, or many cores, are not busy with so few
_ROUNDS, _SHORT = 5, 0.5  # runs of it, as long as they take no more seconds than that
_CELLS = 64  # of its pooled map, a side
_PER_HEAD = 5e-3  # seconds for a look at a head
_GUESSES = 5


def _once(model: Any, ids: Tensor) -> Any:
    if is_encoder_decoder(model):
        start = model.config.decoder_start_token_id or 0
        return model(input_ids=ids, decoder_input_ids=ids.new_full((ids.shape[0], 1), start))
    if not is_causal_model(model):
        return model(input_ids=ids)
    return model(input_ids=ids, use_cache=False, **keeps_last_logits(model))


def is_encoder_decoder(model: Any) -> bool:
    """Whether it reads one text and writes another."""
    return bool(getattr(model.config, "is_encoder_decoder", False))


def is_causal_model(model: Any) -> bool:
    """Whether it writes on where the prompt ends."""
    return bool(getattr(model, "can_generate", lambda: False)()) and not is_encoder_decoder(model)


def check_writes(model: Any, name: str, generate: int) -> None:
    """Refuse to have tokens written by a model that only reads."""
    if generate and not (is_causal_model(model) or is_encoder_decoder(model)):
        raise InputError(
            f"--generate {generate}: {name} ({type(model).__name__}) only reads, it writes no "
            "text; leave out --generate, or give a model that writes, such as smollm2"
        )


def drive(
    recorder: Recorder,
    encoded: Encoded,
    *,
    generate: int = 0,
    plan: Plan | None = None,
    advanced: Callable[[float], None] = lambda _: None,
) -> list[int]:
    """Record one prompt and, where asked, what the model writes on; the generated tokens.

    `advanced` is told of tokens that are done, in parts of one as well: a layer's share of a chunk.
    """
    model = recorder.model
    check_writes(model, recorder.name, generate)
    ids = encoded.ids.to(device_of(model))
    recorder.expect(encoded.tokens, plan, generate=generate)
    number = recorder.begun
    with torch.inference_mode(), _room_on(ids.device):
        if is_encoder_decoder(model):
            with _advancing(recorder, encoded.tokens, plan, advanced):
                written = _translate(model, ids, generate)
            logits = None
        elif is_causal_model(model):
            written, logits = _read_and_write(recorder, ids, generate, plan, advanced)
        else:
            with _advancing(recorder, encoded.tokens, plan, advanced):
                _once(model, ids)
            written, logits = [], None
    likely = guesses(logits, recorder.tokenizer) if logits is not None else ()
    recorder.say(number, title=encoded.title, bos=encoded.bos, generated=len(written), next=likely)
    return written


@contextmanager
def _room_on(device: torch.device) -> Iterator[None]:
    """A device whose memory is full is one sentence instead of the allocator's page."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise TooLargeError(
            f"out of memory on {device}: the model and what is measured of it do not fit; record "
            "fewer tokens, heads or layers, or use a device with more memory"
        ) from error


def _translate(model: Any, ids: Tensor, generate: int) -> list[int]:
    most = {"max_new_tokens": max(generate, 1), "num_beams": 1, "do_sample": False}
    found = model.generate(input_ids=ids, **most)
    return [int(n) for n in found[0].tolist()[1:]]


@contextmanager
def _advancing(
    recorder: Recorder, tokens: int, plan: Plan | None, advanced: Callable[[float], None]
) -> Iterator[None]:
    """Each place that is heard is its share of these tokens; the end is the rest of them."""
    places, heard = plan.places if plan else 1, 0

    def one_more() -> None:
        nonlocal heard
        if heard < places - 1:
            heard += 1
            advanced(tokens / places)

    recorder.watcher = one_more
    try:
        yield
    finally:
        recorder.watcher = None
    advanced(tokens * (places - heard) / places)


def _read_and_write(
    recorder: Recorder,
    ids: Tensor,
    generate: int,
    plan: Plan | None,
    advanced: Callable[[float], None],
) -> tuple[list[int], Tensor]:
    """Prefill in chunks, then greedily; logits (vocabulary,) of what would come next."""
    from transformers import DynamicCache

    model, chunk = recorder.model, max(CHUNK, plan.pool_cell if plan else 0)
    cache = DynamicCache(config=model.config)
    few = keeps_last_logits(model)
    written: list[int] = []
    logits: Any = None
    for start in range(0, ids.shape[1], chunk):
        part = ids[:, start : start + chunk]
        with _advancing(recorder, part.shape[1], plan, advanced):
            found = model(input_ids=part, past_key_values=cache, use_cache=True, **few)
        logits = found.logits[0, -1].float()
    ends = _ends(model)
    while len(written) < generate and (not written or written[-1] not in ends):
        token = int(logits.argmax())
        step = ids.new_tensor([[token]])
        logits = model(input_ids=step, past_key_values=cache, use_cache=True).logits[0, -1].float()
        written.append(token)
        advanced(1)
    return written, logits


def keeps_last_logits(model: Any) -> dict[str, int]:
    """Logits of a whole chunk are its largest tensor, and only the last row is of use."""
    from inspect import signature

    return {"logits_to_keep": 1} if "logits_to_keep" in signature(model.forward).parameters else {}


def _ends(model: Any) -> set[int]:
    end = getattr(model.generation_config, "eos_token_id", None)
    return set(end) if isinstance(end, list) else set() if end is None else {end}


def guesses(logits: Tensor, tokenizer: Any) -> tuple[tuple[str, float], ...]:
    """What the model would write next: tokens and how likely each is."""
    best = logits.softmax(-1).topk(_GUESSES)
    texts = texts_of(tokenizer, best.indices.tolist())
    return tuple(zip(texts, best.values.tolist(), strict=True))


@contextmanager
def eager(model: Any) -> Iterator[None]:
    """The model with transformers' own eager attention, which hands out its weights."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


# ── what will be kept, and about how long it takes ─────────────────────────────────────────────


@dataclass(frozen=True)
class Estimate:
    """Plans for prompts of any length, from a short run of the model."""

    every: tuple[Size, ...]  # all attentions of the model, in order
    chosen: tuple[Size, ...]  # those that are to be recorded, with the heads that are
    per_token: float  # seconds of the model itself, attention to few keys included
    per_cell: float  # seconds of a query, key, head and dimension, with what is measured of it
    per_step: float  # seconds of a generated token
    _: KW_ONLY
    per_chunk: float = 0.0  # seconds of a call of the model, however few its tokens
    per_layer: float = 0.0  # seconds of an attention and what is measured, however few its keys
    unheard: tuple[str, ...] = ()  # modules that attended by other means

    def plan(self, tokens: int, budget: int) -> Plan:
        """What is kept of a prompt of so many tokens, generated ones included."""
        sizes = [replace(size, queries=tokens, keys=tokens) for size in self.chosen]
        return replace(make_plan(budget, sizes), unheard=self.unheard)

    def seconds(self, tokens: int, generate: int = 0) -> float:
        """About how long the recording of a prompt takes."""
        cells = tokens * tokens / 2 * sum(s.heads * s.dim for s in self.every)
        layers = self.per_layer * len(self.every)
        calls = -(-tokens // CHUNK) * (self.per_chunk + layers)
        return calls + self.per_token * tokens + self.per_cell * cells + self.per_step * generate

    def looking(self, tokens: int) -> float:
        """About how long it takes to compare a recording with eager attention and to say what
        stands out."""
        heads = sum(size.heads for size in self.chosen)
        return 2 * (self.per_chunk + self.per_token * min(tokens, FIRST)) + _PER_HEAD * heads


class SizeListener:
    """Hears how large each attention is, and in which layer."""

    def __init__(self, model: nn.Module) -> None:
        self.where = AttentionHooks(model, self, self.saw, self._miss)
        self._names = LayerNames(named=True)
        self.missed: dict[str, str] = {}  # modules that attended by other means, and why
        self.sizes: list[tuple[int, Size]] = []  # with the layer of each, in order

    def wants(self, call: Call) -> Request[None]:
        """Nothing."""
        return Request()

    def heard(self, attention: Attention, request: Request[None]) -> None:
        """One more place."""
        self._count(attention._call)

    def saw(self, attention: Attention, output: Tensor, value: Tensor) -> None:
        """One more place, of torch's function."""
        self._count(attention._call)

    def _miss(self, why: str) -> None:
        if (caller := self.where.caller()) is not None:
            self.missed[caller.path] = self.missed.get(caller.path) or why

    def _count(self, call: Call) -> None:
        s, caller = call.shape, self.where.caller()
        if caller is not None:
            size = Size(
                s.query_heads, s.key_heads, s.dim, s.queries, s.keys,
                itemsize=call.query.element_size(),
            )  # fmt: skip
            self.sizes.append((self._names.spot(caller).layer, size))
            self.where.called(caller)

    def chosen(self, choice: Choice) -> tuple[Size, ...]:
        """Those of the chosen layers with the chosen heads; InputError where one does not exist."""
        choice.check_layers(max((layer for layer, _ in self.sizes), default=-1) + 1)
        return tuple(
            replace(size, heads=len(choice.heads_of(size.heads)))
            for layer, size in self.sizes
            if choice.has_layer(layer)
        )


def estimate(model: Any, ids: Tensor, choice: Choice) -> Estimate:
    """Run the first tokens and see; InputError where a chosen layer or head does not exist."""
    first = ids[:, : min(ids.shape[1], CHUNK)].to(device_of(model))
    listener = SizeListener(model)
    where, noticed = listener.where, listener.missed
    with torch.inference_mode(), prepared(model):
        with where:
            _once(model, first[:, :2])

        def read(count: int) -> float:
            return _seconds(lambda: _once(model, first[:, :count]), first.device)

        step = read(1)
        call, token = _line(read, (1, step), _PROBE, first.shape[1])
    every = tuple(size for _, size in listener.sizes)
    modules = missed_modules(where, noticed)
    deaf = why_missed(model, modules, where.attended)[0] if modules else ()
    chosen = listener.chosen(choice)
    layer, cell = _per_cell(every, ids.shape[1], first.device) if every else (0.0, 0.0)
    return Estimate(
        every, chosen, token, cell, step, per_chunk=call, per_layer=layer, unheard=tuple(deaf)
    )


def _line(
    measure: Callable[[int], float], start: tuple[int, float], size: int, most: int, power: int = 1
) -> tuple[float, float]:
    """(seconds of any call, seconds of each token) through two measured sizes; with power=2 of each
    cell, tokens · tokens / 2. The sizes grow while they take no time to speak of."""
    (few, before), size = start, min(size, most)
    took = measure(size) if size > few else before
    while took < _BRIEF and size < most:
        few, before, size = size, took, min(4 * size, most)
        took = measure(size)
    work = size**power - few**power
    slope = max((took - before) / work, 0.0) if work else took / size**power
    return max(took - slope * size**power, 0.0), slope * power


def _per_cell(sizes: tuple[Size, ...], tokens: int, device: torch.device) -> tuple[float, float]:
    """Seconds of any attention, and of one query, key, head and dimension: one layer of the model's
    sizes, measured as it is when it is recorded."""
    largest = max(sizes, key=lambda size: size.heads * size.dim)
    kind = torch.float32 if largest.itemsize == 4 else torch.bfloat16

    def measure(count: int) -> float:
        query, key = (
            torch.randn(1, heads, count, largest.dim, device=device, dtype=kind)
            for heads in (largest.heads, largest.key_heads)
        )
        marks = torch.arange(count, device=device)[None]
        copies = Matching(marks, marks)
        kept = CallMeasures(TOP, max(count // _CELLS, 1), duplicate=copies, prefix=copies)
        summaries = kept.summaries()

        def run() -> None:
            attend(query, key, key, mask=Causal(), summaries=summaries)

        run()  # which compiles
        return _seconds(run, device)

    with unheard():
        few = min(tokens, _CELLS)
        call, cell = _line(measure, (few, measure(few)), _LAYER, min(tokens, 4 * CHUNK), power=2)
    return call, cell / (largest.heads * largest.dim)


def _seconds(run: Callable[[], object], device: torch.device) -> float:
    """Of one run, or of the best of a few where they are short and other work would show."""
    found: list[float] = []
    while not found or (len(found) < _ROUNDS and sum(found) < _SHORT):
        _wait_for(device)
        begun = time.perf_counter()
        run()
        _wait_for(device)
        found.append(max(time.perf_counter() - begun, 1e-6))
    return min(found)


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# ── against transformers' eager attention ──────────────────────────────────────────────────────


FIRST = 256  # tokens


@dataclass(frozen=True)
class Agreement:
    """How well replayed weights agree with eager ones."""

    rows: int
    heads: int
    max_error: float

    def line(self) -> str:
        """In words."""
        return (
            f"replay against eager on the first {self.rows} tokens: max error "
            f"{self.max_error:.1e} ({self.heads} heads)"
        )


def compare_with_eager(
    model: Any, recording: Recording, ids: Tensor, prompt: int = 0
) -> Agreement | None:
    """Every exact head, on the first tokens; None where nothing can be compared: no exact head,
    a model whose early rows depend on later tokens and a longer prompt, or one that cannot be
    switched to eager attention."""
    from regard.huggingface.families import calls_torch

    if calls_torch(model) or (ids.shape[1] > FIRST and not is_causal_model(model)):
        return None
    first = ids[:, :FIRST].to(device_of(model))
    with torch.inference_mode(), unheard(), eager(model):
        weights = model(input_ids=first, output_attentions=True).attentions
    count, errors = first.shape[1], []
    for head in recording.prompts[prompt]:
        rows = range(head.recorded.start, min(head.recorded.stop, count))
        if head.exact and rows:
            truth = weights[head.layer][0, head.head, rows.start : rows.stop]
            mine = head[rows.start : rows.stop, :count]
            errors.append(float(np.abs(mine - truth.float().cpu().numpy()).max()))
    return Agreement(count, len(errors), max(errors)) if errors else None
