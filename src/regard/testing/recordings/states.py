"""Recordings in every state that the page has words for, as files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.mask import Causal, Window
from regard.recording import Writer
from regard.recording.schema import CONTENTS
from regard.testing.recordings.small import WORDS, write
from regard.testing.recordings.synthetic import Chunk, write_prompt

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
