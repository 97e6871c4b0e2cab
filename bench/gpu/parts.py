"""What `python -m bench gpu` measures, part by part.

forward    output and statistics on the sizes that kernels are usually compared on
length     one to many thousand tokens, with everything asked for: time and memory as curves
short      sizes at which the host counts, as they are called and as CUDA graphs
columns    column sums alone, against flash-colreduce where it is installed
evict      scores of keys beyond a forward at 32k keys; the largest of columns beside their sum
decode     one query a sequence over a long cache, grouped heads
backward   gradients on the sizes of forward
distance   an attention that learns to imitate another, against the backward of attention itself
llama      a model of 8 billion random weights, recorded while it reads a prompt
generate   a model of a billion writing, with sdpa and with regard in its place
monitor    the same model training, under `regard.Monitor`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bench.gpu.distance import measure as measure_distance
from bench.gpu.generate import measure as measure_generate
from bench.gpu.llama import measure as measure_llama
from bench.gpu.monitor import measure as measure_monitor
from bench.gpu.race import (
    race_backward,
    race_columns,
    race_evict,
    race_forward,
    race_short,
)
from bench.gpu.size import Size
from bench.gpu.stage import Stage
from regard.bench.results import Result
from regard.errors import InputError

PARTS = (
    "forward", "length", "short", "columns", "evict", "decode", "backward", "distance", "llama",
    "generate",
    "monitor",
)  # fmt: skip

_SHAPES = (
    Size(128, 4, 16, 4096, False),
    Size(128, 1, 16, 16384, False),
    Size(128, 1, 4, 32768, False),
    Size(64, 1, 16, 16384, False),
)
_SHORT = (
    Size(128, 1, 32, 2048, True, key_heads=8),
    Size(128, 8, 32, 2048, True, key_heads=8),
    Size(64, 32, 12, 512, False),
    Size(128, 4, 16, 4096, True),
    Size(128, 1, 16, 16384, True),
    Size(128, 1, 4, 32768, True),
    *[Size(128, 8, 32, tokens, False, key_heads=8, decoding=True) for tokens in (8192, 32768)],
)
_COLUMNS = (
    Size(128, 1, 16, 16384, True),
    Size(128, 1, 32, 4096, False, some=128),
    Size(64, 8, 16, 512, True),
)
_EVICTED = (
    Size(128, 1, 32, 32768, True, key_heads=8),
    Size(128, 1, 4, 32768, True),
    Size(128, 1, 16, 16384, False),
)
_FLEX = _SHAPES[1]  # compiled for this one only, with and without a mask
_CACHES = (8192, 32768, 131072)
_PROMPTS = (8192, 32768)
_WRITING = (1024, 128)  # tokens of the prompt, tokens written
_TRAINING = (2, 4096)  # sequences, tokens
_ON_CURVES = ("cudnn", "bare", "everything", "eager with weights")


@dataclass(frozen=True)
class Job:
    """One thing to measure."""

    part: str
    label: str
    run: Callable[[], list[Result]]


def jobs(stage: Stage, only: Sequence[str], lengths: Sequence[int], seconds: float) -> list[Job]:
    """Of the parts that are named; of all where none is."""
    unknown = [name for name in only if name not in PARTS]
    if unknown:
        raise InputError(f"there is no part {unknown[0]!r}; there are: {', '.join(PARTS)}")
    made: dict[str, Callable[[], Iterator[Job]]] = {
        "forward": lambda: _forward(stage, seconds),
        "length": lambda: _length(stage, lengths, seconds),
        "short": lambda: _short(stage, seconds),
        "columns": lambda: _columns(stage, seconds),
        "evict": lambda: _evict(stage, seconds),
        "decode": lambda: _decode(stage, seconds),
        "backward": lambda: _backward(stage, seconds),
        "distance": lambda: _distance(stage, seconds),
        "llama": lambda: _llama(stage),
        "generate": lambda: _generate(stage),
        "monitor": lambda: _monitor(stage),
    }
    return [job for part in PARTS if part in (only or PARTS) for job in made[part]()]


def _sizes() -> Iterator[Size]:
    for shape in _SHAPES:
        yield shape
        yield replace(shape, causal=True)


def _forward(stage: Stage, seconds: float) -> Iterator[Job]:
    for size in _sizes():
        with_flex = replace(size, causal=False) == _FLEX
        run = partial(
            race_forward, stage, size, suite="gpu forward", seconds=seconds, with_flex=with_flex
        )
        yield Job("forward", str(size), run)


def _length(stage: Stage, lengths: Sequence[int], seconds: float) -> Iterator[Job]:
    for tokens in lengths:
        size = Size(128, 1, 8, tokens, True)
        run = partial(
            race_forward, stage, size, suite="gpu length", seconds=seconds, only=_ON_CURVES
        )
        yield Job("length", str(size), run)


def _short(stage: Stage, seconds: float) -> Iterator[Job]:
    for size in _SHORT:
        run = partial(race_short, stage, size, suite="gpu short", seconds=seconds)
        yield Job("short", str(size), run)


def _columns(stage: Stage, seconds: float) -> Iterator[Job]:
    for size in _COLUMNS:
        run = partial(race_columns, stage, size, suite="gpu columns", seconds=seconds)
        yield Job("columns", str(size), run)


def _evict(stage: Stage, seconds: float) -> Iterator[Job]:
    for size in _EVICTED:
        run = partial(race_evict, stage, size, suite="gpu evict", seconds=seconds)
        yield Job("evict", str(size), run)


def _decode(stage: Stage, seconds: float) -> Iterator[Job]:
    for tokens in _CACHES:
        size = Size(128, 8, 32, tokens, False, key_heads=8, decoding=True)
        run = partial(race_forward, stage, size, suite="gpu decode", seconds=seconds)
        yield Job("decode", str(size), run)


def _backward(stage: Stage, seconds: float) -> Iterator[Job]:
    for size in _sizes():
        run = partial(race_backward, stage, size, suite="gpu backward", seconds=seconds)
        yield Job("backward", str(size), run)


def _distance(stage: Stage, seconds: float) -> Iterator[Job]:
    for size in (Size(128, 1, 8, 4096, True), _FLEX, replace(_FLEX, causal=True)):
        run = partial(measure_distance, stage, size, seconds, with_flex=size.tokens == _FLEX.tokens)
        yield Job("distance", str(size), run)


def _llama(stage: Stage) -> Iterator[Job]:
    for tokens in _PROMPTS:
        yield Job("llama", f"{tokens} tokens", partial(measure_llama, stage, tokens))


def _generate(stage: Stage) -> Iterator[Job]:
    prompt, written = _WRITING
    run = partial(measure_generate, stage, prompt, written)
    yield Job("generate", f"{written} tokens after {prompt}", run)


def _monitor(stage: Stage) -> Iterator[Job]:
    batch, tokens = _TRAINING
    yield Job("monitor", f"{batch}×{tokens} tokens", partial(measure_monitor, stage, batch, tokens))
