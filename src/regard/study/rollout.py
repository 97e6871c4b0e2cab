"""Attention rollout: which of the first tokens a token of the last layer is made of, if attention
and the residual stream were all there is.

    R ← R · (½ mean over heads of A + ½ I)        Abnar & Zuidema 2020

From one token this is a chain of products Aᵀ @ y, last layer first: no N × N matrix, O(N) numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from regard.errors import InputError, UnavailableError
from regard.recording import Head, PromptView, Recording
from regard.recording.stores import Array
from regard.recording.visibility import visible_spans
from regard.study.heads import Recorded, opened, prompt_of

CAUTION: Final = (
    "rollout was published for encoders; in a causal model every layer can only pass mass to "
    "earlier tokens, so it drifts to the sink, mostly the first token, and more with every layer: "
    "read it as a picture of paths, not as importance"
)
_SPARSE: Final = 64  # rows with any mass: fewer are computed one by one instead of all


@dataclass(frozen=True)
class Rollout:
    """The share of each input token in one token of the last layer."""

    token: int
    shares: Array  # (tokens,) float64; they add up to 1 where no learned sink took any
    layers: int
    caution: str  # "" where every layer may look ahead as well as back


def roll_out(
    layers: Sequence[Any], token: int, *, size: int | None = None, residual: float = 0.5
) -> Rollout:
    """From `token` of the last layer down to the first.

    layers     first to last; each a list of heads, or one object with all heads (a live
               `regard.Attention` of one sequence). All they need is `.shape` and `.T @ y`.
    size       the number of tokens; by default that of the last layer
    residual   the share of the residual stream
    """
    if not len(layers):
        raise InputError("no layers; give at least one")
    last = layers[-1] if hasattr(layers[-1], "shape") else layers[-1][0]
    count = int(last.shape[-2]) if size is None else size
    start = token + count if token < 0 else token
    if not 0 <= start < count:
        raise InputError(f"token {token} does not exist; there are 0–{count - 1}")
    y = np.zeros(count)
    y[start] = 1
    return Rollout(start, rolled(layers, y, residual), len(layers), CAUTION)


def rolled(layers: Sequence[Any], y: Array, residual: float = 0.5) -> Array:
    """(tokens,): the shares of the first layer's tokens in a mixture y of the last layer's."""
    if not 0 <= residual <= 1:
        raise InputError(f"residual={residual}; give a share between 0 and 1")
    for layer in reversed(layers):
        y = (1 - residual) * _spread(layer, y) + residual * y
    return y


def _spread(layer: Any, y: Array) -> Array:
    """mean over heads of Aᵀ @ y."""
    heads = [layer] if hasattr(layer, "shape") else list(layer)
    parts = [_times(head, y) for head in heads]
    found: Array = np.mean(parts, axis=0)
    if found.shape != y.shape:
        raise InputError(
            f"a layer turns {y.size} tokens into shape {found.shape}; rollout needs "
            "self-attention of one sequence"
        )
    return found


def _times(head: Any, y: Array) -> Array:
    """Aᵀ @ y as (keys,) doubles; of an object with all heads, their mean."""
    rows = np.flatnonzero(y)
    if isinstance(head, Head) and rows.size <= _SPARSE:
        return np.asarray(y[rows] @ head.rows(rows).astype(np.float64))
    found = head.T @ y
    for step in ("detach", "float", "cpu"):  # what a tensor needs before numpy can read it
        found = getattr(found, step)() if hasattr(found, step) else found
    numbers = np.asarray(found, np.float64)
    return numbers.reshape(-1, numbers.shape[-1]).mean(0)


def roll_out_recording(
    recording: Recording | Recorded, token: int = -1, *, prompt: int = 0, stack: str | None = None
) -> Rollout:
    """The same from recorded q and k of every layer of a stack."""
    view = prompt_of(opened(recording), prompt)
    name = next(iter(view.stacks)) if stack is None else stack
    layers = list(layers_of(view, name))
    found = roll_out(layers, token)
    is_causal = any(looks_back(view, heads[0]) for heads in layers)
    return found if is_causal else Rollout(found.token, found.shares, found.layers, "")


def layers_of(view: PromptView, stack: str) -> Iterator[list[Head]]:
    """Every layer of a stack, first to last; UnavailableError where one cannot be computed."""
    places = [place for place in view.places.values() if place.stack == stack]
    count = view.stacks.get(stack, (0, 0))[0]
    missing = sorted(set(range(count)) - {place.layer for place in places})
    if missing or not places:
        raise UnavailableError(
            f"rollout needs every layer of the stack {stack!r}; not recorded: "
            f"{', '.join(map(str, missing)) or 'all'}"
        )
    for place in places:
        heads = [view[f"{place.label}H{head}"] for head in place.heads]
        for one in heads:
            whole = one.recorded == range(one.shape[0]) and one.shape[0] == one.shape[1]
            if one.why_not or not whole:
                why = one.why_not or "it has not all rows, or is no self-attention"
                raise UnavailableError(
                    f"rollout needs q and k of every layer: {one.label}: {why}; record again with "
                    "a larger --budget"
                )
        yield heads


def looks_back(view: PromptView, head: Head) -> bool:
    """Whether no row sees beyond itself."""
    reach = visible_spans(view.held(head.place.label), head.head)
    return reach is None or bool(np.all(reach.high <= reach.rows + 1))
