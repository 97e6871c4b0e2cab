"""Running a model over a prompt while it is recorded: in chunks, then token by token."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.engine.observers import listening
from regard.errors import InputError
from regard.recorder.encode import Encoded
from regard.recorder.hooks import ModelHooks
from regard.recorder.intercept import intercepted
from regard.recorder.layer_names import LayerNames
from regard.recorder.plan import Plan, Size
from regard.recorder.session import Recorder
from regard.recorder.tokens import texts_of
from regard.recorder.weights import device_of
from regard.summary import Summary

CHUNK = 2048  # tokens of a prompt that go through the model at a time
_PROBE = 128
_GUESSES = 5


@dataclass(frozen=True)
class TrialRun:
    """What a short run shows: the attentions of a model in order, and how fast it is."""

    sizes: tuple[Size, ...]
    layers: tuple[int, ...]  # the layer of each: an encoder-decoder has several of a number
    parameters: int
    rate: float  # floating-point operations a second

    def scaled(self, tokens: int) -> list[Size]:
        """The sizes of a prompt of so many tokens."""
        return [Size(s.heads, s.key_heads, s.dim, tokens, tokens, s.itemsize) for s in self.sizes]

    def seconds(self, tokens: int, generate: int = 0) -> float:
        """About how long the recording of a prompt will take."""
        cells = tokens * tokens / 2 * sum(s.heads * s.dim for s in self.sizes)
        steps = generate * self.parameters * 8  # one token at a time waits for memory
        return (2 * self.parameters * tokens + 10 * cells + steps) / self.rate


class SizeListener:
    """Hears how large each attention is, and in which layer."""

    def __init__(self, where: ModelHooks, names: LayerNames) -> None:
        self._where, self._names = where, names
        self.sizes: list[Size] = []
        self.layers: list[int] = []

    def wants(self, call: Call) -> tuple[Summary, ...]:
        """Nothing."""
        return ()

    def heard(self, attention: Attention) -> None:
        """One more place."""
        call = attention._call
        s = call.shape
        itemsize = call.query.element_size()
        caller = self._where.caller()
        if caller is not None:
            self.sizes.append(Size(s.query_heads, s.key_heads, s.dim, s.queries, s.keys, itemsize))
            self.layers.append(self._names.spot(caller).layer)
            self._where.called(caller)

    def saw(self, attention: Attention, output: Tensor, value: Tensor) -> None:
        """One more place, of torch's function."""
        self.heard(attention)


def survey(model: Any, ids: Tensor) -> TrialRun:
    """Run the first tokens and see."""
    first = ids[:, : min(ids.shape[1], _PROBE)].to(device_of(model))
    where = ModelHooks(model)
    listener = SizeListener(where, LayerNames(named=True))
    with torch.inference_mode(), intercepted(model, listener.saw):
        with where, listening(listener):
            _once(model, first[:, :2])
        _once(model, first)
        begun = time.perf_counter()
        _once(model, first)
        took = max(time.perf_counter() - begun, 1e-4)
    count = sum(p.numel() for p in model.parameters())
    return TrialRun(
        tuple(listener.sizes), tuple(listener.layers), count, 2 * count * first.shape[1] / took
    )


def _once(model: Any, ids: Tensor) -> Any:
    if is_encoder_decoder(model):
        start = model.config.decoder_start_token_id or 0
        return model(input_ids=ids, decoder_input_ids=ids.new_full((ids.shape[0], 1), start))
    return model(input_ids=ids, **({"use_cache": False} if is_causal_model(model) else {}))


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
    with torch.inference_mode():
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
