"""Small recordings of several layers with tokens of one's choice, and the dense truth of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.mask import Causal
from regard.recording import Memory, Recording, Writer
from regard.recording.schema import CONTENTS, PROMPT_NOTE, Prompt, tensor_name
from regard.testing.recordings.synthetic import Chunk, WrittenPlace, write_prompt

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
