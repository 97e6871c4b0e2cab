"""Small recordings of several layers with tokens of one's choice, and the dense truth of each; also
files of ranks, and training runs as a monitor writes them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from regard.mask import Causal, Window
from regard.recording import Alarm, Limit, Memory, Recording, Writer
from regard.recording.schema import CONTENTS, PROMPT_NOTE, Prompt, tensor_name
from regard.recording.training import ALARMS_NOTE, LOSS, TRAINING_NOTE, map_name, series_name
from support.recordings.synthetic import Chunk, WrittenPlace, write_prompt, write_recording

WORDS = ["<s>", "The", " cat", " sat", " on", " the", " mat", ".", "\n", "It", " slept", " the"]
HOSTILE = [
    "<s>", "\x1b[2J", "\x9b31m", "\u202eabc", "\x00", "a\rb", "\x07", "猫", "\ud800", "[red]", "\t",
    "\u200b",
]  # fmt: skip


def causal(count: int) -> list[Chunk]:
    """One segment in which every token sees itself and those before."""
    return [Chunk((0, count), (0, count), Causal())]


def write(
    store: Any,
    tokens: Sequence[str] = WORDS,
    *,
    layers: int = 2,
    exact: Sequence[int] = (0,),
    prompts: int = 1,
    chunks: list[Chunk] | None = None,
    **options: Any,
) -> dict[tuple[int, int], WrittenPlace]:
    """Layers 0 … of each prompt; the truth by prompt and layer."""
    model = {"name": "tiny", "layers": layers, "parameters": 1_230_000, "dtype": "float32"}
    store.note({"contents": CONTENTS, "model": json.dumps(model)})
    made = {}
    for prompt in range(prompts):
        for layer in range(layers):
            made[prompt, layer] = write_prompt(
                store, chunks or causal(len(tokens)), prompt=prompt, layer=layer,
                seed=10 * prompt + layer, exact=layer in exact, tokens=False, note=False,
                spread=2.0, **options,
            )  # fmt: skip
        _write_tokens(store, prompt, tokens)
    return made


def _write_tokens(store: Any, prompt: int, tokens: Sequence[str]) -> None:
    known = {token: n for n, token in enumerate(dict.fromkeys(tokens))}
    ids = np.array([known[token] for token in tokens], np.int32)
    text = np.frombuffer(json.dumps(list(tokens)).encode(), np.uint8)
    for what, array in (("ids", ids), ("text", text)):
        store.add(tensor_name(prompt, "tokens", what, 0), array)
    said = Prompt(
        len(tokens), generated=2, title=f"text {prompt}", next=((" mat", 0.5), ("\n", 0.25)),
        finished=True,
    )  # fmt: skip
    store.note({f"{PROMPT_NOTE}{prompt}": said.to_json()})


def in_memory(tokens: Sequence[str] = WORDS, **options: Any) -> tuple[Recording, Any]:
    """A recording without a file."""
    store = Memory()
    made = write(store, tokens, **options)
    store.close()
    return Recording(store), made


def on_disk(path: Path, tokens: Sequence[str] = WORDS, **options: Any) -> Path:
    """The same as a file."""
    with Writer(path) as writer:
        write(writer, tokens, **options)
    return path


_TOKENS = [WORDS[n % len(WORDS)] for n in range(120)]


def make_state(path: Path, name: str) -> Path:
    """One of `STATES`, by its name."""
    with Writer(path) as writer:
        STATES[name](writer)
    if name == "damaged":
        tear(path)
    return path


@contextmanager
def growing(path: Path) -> Iterator[Writer]:
    """A recording that is being written: begun, and nothing in it yet."""
    with Writer(path) as writer:
        writer.note({"contents": CONTENTS, "model": '{"name": "tiny"}'})
        yield writer


def tear(path: Path, share: float = 0.8) -> Path:
    """As a power cut leaves it: only this share of its bytes, cut in the middle of a frame."""
    os.truncate(path, int(path.stat().st_size * share))
    return path


def _empty(writer: Writer) -> None:
    writer.note({"contents": CONTENTS, "model": '{"name": "tiny"}'})


def _exact(writer: Writer) -> None:
    write(writer, _TOKENS, layers=3, exact=(0, 1, 2))


def _stored_only(writer: Writer) -> None:
    write(writer, _TOKENS, layers=3, exact=())


def _some_heads(writer: Writer) -> None:
    write(writer, _TOKENS, layers=2, exact=(0,), recorded=(0, 3))


def _window(writer: Writer) -> None:
    seen = [Chunk((0, 120), (0, 120), Causal() & Window(24, 0))]
    write(writer, _TOKENS, layers=2, exact=(0, 1), chunks=seen)


def _unheard(writer: Writer) -> None:
    write(writer, _TOKENS, layers=2, exact=(0, 1))
    writer.note({"made": json.dumps({"not_recorded": ["layers.*.attn (ByHand), 3 of them"]})})


def _no_maps(writer: Writer) -> None:
    write(writer, _TOKENS, layers=2, exact=(), statistics=False)


def _cross(writer: Writer) -> None:
    writer.note({"contents": CONTENTS, "model": '{"name": "tiny"}'})
    shapes = {"encoder": (120, 120), "decoder": (40, 40), "cross": (40, 120)}
    for seed, (stack, (rows, keys)) in enumerate(shapes.items()):
        mask = Causal() if stack == "decoder" else None
        write_prompt(
            writer, [Chunk((0, rows), (0, keys), mask)], stack=stack, seed=seed, spread=2.0,
            kind="cross" if stack == "cross" else "self", tokens=stack == "encoder",
        )  # fmt: skip


STATES: dict[str, Callable[[Writer], None]] = {
    "empty": _empty,
    "exact": _exact,
    "damaged": _exact,
    "stored only": _stored_only,
    "some heads": _some_heads,
    "window": _window,
    "cross": _cross,
    "no maps": _no_maps,
    "unheard": _unheard,
}


def write_training(
    store: Any,
    values: Any = None,
    statistics: Mapping[str, str] | None = None,
    *,
    steps: Any = None,
    start: int = 0,
    places: Sequence[str] = ("L0", "L1"),
    alarms: Sequence[Alarm] = (),
    limits: Mapping[str, Limit] | None = None,
    maps: Iterable[tuple[str, int, Any]] = (),
    loss: Any = None,
) -> Any:
    """A piece of a run that begins with sample `start`, with the notes of the whole run; the store.

    values       (samples, places, heads) of every statistic, or a mapping by name
    statistics   name → words about it
    steps        (samples,), counted from `start` if None
    maps         (head, step, pooled map)
    loss         (samples,), if the run gave one
    """
    words = {"peak": "heaviest key"} if statistics is None else dict(statistics)
    run: dict[str, Any] = {"places": list(places), "statistics": words}
    if limits is not None:
        run["limits"] = {name: limit.to_dict() for name, limit in limits.items()}
    store.note({"contents": CONTENTS, TRAINING_NOTE: json.dumps(run)})
    if alarms:
        store.note({ALARMS_NOTE: json.dumps([alarm.to_dict() for alarm in alarms])})
    if values is not None:
        series = values if isinstance(values, Mapping) else dict.fromkeys(words, values)
        count = len(next(iter(series.values())))
        when = np.arange(start, start + count) if steps is None else np.asarray(steps, np.int64)
        store.add(series_name("steps", start), when)
        if loss is not None:
            store.add(series_name(LOSS, start), np.asarray(loss, np.float32))
        for name in words:
            store.add(series_name(name, start), np.asarray(series[name], np.float32))
    for head, step, pooled in maps:
        store.add(map_name(head, step), np.asarray(pooled, np.float32))
    return store


def write_rank(
    folder: Path, rank: int, chunks: Sequence[Chunk], *, close: bool = True, **options: Any
) -> Writer:
    """The rows of chunk number `rank` with the keys that are new in it; rank 0 has the tokens."""
    rows = chunks[rank].rows
    part, own = write_recording(chunks=chunks, rows=rows, **({"pieces": 8} | options))
    place = json.loads(own.place.to_json())
    place["segments"] = place["segments"][rank : rank + 1]
    writer = Writer(folder / f"rank-{rank:04}.regard")
    writer.note(part.metadata | {"place/0/L0": json.dumps(place)})
    for name, entry in part.entries.items():
        what, start = name.split("/")[-2:]
        if "tokens" in name and rank:
            continue
        if what == "k":
            whole, first = part.words(name), int(start)
            here = np.arange(first, first + whole.shape[1])
            new = (here >= rows[0]) & (here < rows[1])
            if new.any():
                at = name.rpartition("/")[0] + f"/{here[new][0]}"
                writer.add(at, np.ascontiguousarray(whole[:, new]), entry.metadata)
            continue
        writer.add(name, part.words(name), entry.metadata)
    if close:
        writer.close()
    return writer
