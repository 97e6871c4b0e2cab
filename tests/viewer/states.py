"""Recordings in every state that the page has words for, as files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from draw.recorded import WORDS, write
from recording.synthetic import Chunk, write_prompt
from regard.mask import Causal, Window
from regard.recording import Writer
from regard.recording.schema import CONTENTS

__all__ = ["FINISHED", "growing", "make_state"]

_TOKENS = [WORDS[n % len(WORDS)] for n in range(120)]


def make_state(path: Path, name: str) -> Path:
    """One of `FINISHED`, by its name."""
    with Writer(path) as writer:
        FINISHED[name](writer)
    if name == "damaged":
        _tear(path)
    return path


@contextmanager
def growing(path: Path) -> Iterator[Writer]:
    """A recording that is being written: begun, and nothing in it yet."""
    with Writer(path) as writer:
        writer.note({"contents": CONTENTS, "model": '{"name": "tiny"}'})
        yield writer


def _tear(path: Path) -> None:
    """As a power cut leaves it: the last frames gone in the middle of one."""
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * 0.8)])


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


FINISHED: dict[str, Callable[[Writer], None]] = {
    "empty": _empty,
    "exact": _exact,
    "damaged": _exact,
    "stored only": _stored_only,
    "some heads": _some_heads,
    "window": _window,
    "cross": _cross,
    "no maps": _no_maps,
}
