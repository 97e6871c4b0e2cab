"""What a model made of a prompt: weights of every word, and the logits of the next token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Final

import numpy as np

from regard.errors import InputError
from regard.play.requests import PromptState
from regard.recording import PromptView, Recording
from regard.recording.stores import Array

FRAMES: Final = 50  # keys of cross-attention a second: two windows of 10 ms each


@dataclass(frozen=True)
class Part:
    """Some rows: a whole prompt, or one token that was appended to it. What is recorded of them,
    or all their weights, or both."""

    rows: range
    recording: Recording | None = None
    weights: Array | None = None  # (layers, heads, rows, keys) float32, of a short prompt

    @property
    def view(self) -> PromptView:
        """Its only prompt, of a part that is recorded."""
        assert self.recording is not None
        return self.recording.prompts[0]


@dataclass
class Reading:
    """One state of a prompt. Whoever reads weights holds `lock`.

    parts   the prompt, then each token that was appended to it with the cache kept
    logits  (vocabulary,) float32 of the next token; None where the model writes no text
    cache   keys and values of all tokens, from which an appended token goes on
    similarity  the cosine of two sentences, of an encoder
    """

    state: PromptState
    texts: Sequence[str]
    parts: tuple[Part, ...]
    logits: Array | None = None
    cache: Any = None
    similarity: float | None = None
    frames: int | None = None  # keys of the cross-attention that hold sound
    lock: RLock = field(default_factory=RLock)
    full: Recording | None = None  # of all rows at once, where no part is that

    @property
    def key(self) -> str:
        """Its name in addresses."""
        return self.state.key

    @property
    def stacks(self) -> dict[str, tuple[int, int]]:
        """Layers and heads by stack, the one to begin with first: those whose rows are words."""
        if self._glanced is not None:
            layers, heads = self._glanced.shape[:2]
            return {"": (layers, heads)}
        view = self.parts[0].view
        worded = {
            name: size
            for name, size in view.stacks.items()
            if _head(view, name, 0, 0).query_tokens is not None
        }
        return worded or view.stacks

    @property
    def _glanced(self) -> Array | None:
        """The weights of the last rows where nothing else is known of them: layers and heads of
        a single stack, over all words."""
        last = self.parts[-1]
        return last.weights if last.recording is None else None

    def nbytes(self) -> int:
        """About what it holds in memory."""
        own = [one for one in (self.parts[-1].recording, self.full) if one is not None]
        kept = sum(entry.nbytes for one in own for entry in one.store.entries.values())
        kept += sum(part.weights.nbytes for part in self.parts if part.weights is not None)
        return kept * 2 + (0 if self.logits is None else self.logits.nbytes)

    def size(self, stack: str) -> tuple[int, int]:
        """Rows and keys of a stack."""
        self._check_stack(stack)
        if self._glanced is not None:
            return self.parts[-1].rows.stop, self._glanced.shape[-1]
        with self.lock:
            rows, keys = _head(self.parts[-1].view, stack, 0, 0).shape
        return rows, keys

    def stream_texts(self, stack: str) -> tuple[Sequence[str], Sequence[str]]:
        """The words of a stack's rows and of its keys."""
        rows, keys = self.size(stack)
        if rows == keys == len(self.texts):
            return self.texts, self.texts
        head = _head(self.parts[-1].view, stack, 0, 0)
        numbered = [[str(n) for n in range(count)] for count in (rows, keys)]
        return head.query_tokens or numbered[0], head.key_tokens or numbered[1]

    def key_text(self, stack: str, key: int) -> str:
        """One word of the keys, for a sentence."""
        if self.is_over_sound(stack):
            return f"{key / FRAMES:.1f} s"
        return self.stream_texts(stack)[1][key].strip()

    def is_over_sound(self, stack: str) -> bool:
        """Whether keys are moments of a sound."""
        rows, keys = self.size(stack)
        return self.frames is not None and keys != rows

    def weights(
        self, stack: str, rows: range, layer: int | None = None, head: int | None = None
    ) -> Array:
        """(layers, heads, rows, keys) float32: what these rows attend to; 0 where they may not.
        With `layer` or `head`, of these alone."""
        layers, heads = self._check_stack(stack)
        count, keys = self.size(stack)
        if not (0 <= rows.start < rows.stop <= count):
            raise InputError(f"words {rows.start}–{rows.stop - 1}: there are 0–{count - 1}")
        chosen = _chosen(layer, layers, "layer"), _chosen(head, heads, "head")
        made = np.zeros((len(chosen[0]), len(chosen[1]), len(rows), keys), np.float32)
        for part in self.parts:
            self._fill(made, part, stack, rows, *chosen)
        return made

    def _fill(
        self, made: Array, part: Part, stack: str, rows: range, layers: range, heads: range
    ) -> None:
        """What one part knows of these rows."""
        own = range(max(rows.start, part.rows.start), min(rows.stop, part.rows.stop))
        if not own:
            return
        to = slice(own.start - rows.start, own.stop - rows.start)
        if part.weights is not None:
            at = slice(own.start - part.rows.start, own.stop - part.rows.start)
            kept = part.weights[layers.start : layers.stop, heads.start : heads.stop, at]
            made[:, :, to, : kept.shape[-1]] = kept
            return
        for i, layer in enumerate(layers):
            for j, head in enumerate(heads):
                with self.lock:  # for one head: whoever asks for one alone does not wait for all
                    found = _head(part.view, stack, layer, head).rows(own)
                made[i, j, to, : found.shape[-1]] = found

    def _check_stack(self, stack: str) -> tuple[int, int]:
        if stack not in self.stacks:
            names = ", ".join(map(repr, self.stacks))
            raise InputError(f"there is no stack {stack!r}; this model has {names}")
        return self.stacks[stack]


def _head(view: PromptView, stack: str, layer: int, head: int) -> Any:
    return view[(stack, layer, head) if stack else (layer, head)]


def _chosen(one: int | None, count: int, what: str) -> range:
    if one is None:
        return range(count)
    if not 0 <= one < count:
        raise InputError(f"{what} {one} does not exist; this model has 0–{count - 1}")
    return range(one, one + 1)
