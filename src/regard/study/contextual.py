"""How the vector of a token changes from layer to layer, and by whom.

Vectors of one layer share a large common part (they point into a narrow cone), which makes any two
of them look alike. It is taken off first: `centred` subtracts each layer's mean. Then

    h_next − h = attention + mlp

holds for centred vectors as well, and each half's share of a step is its projection onto it.
Which tokens the attention took it from, `regard.study.output_attribution` says: ‖p_ij v_j w_o‖.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from regard.errors import InputError, ShapeError
from regard.recording.stores import Array


@dataclass(frozen=True)
class Change:
    """Layer by layer and token by token; layer l leads from hidden state l to l + 1.

    stays      (layers, N): cosine of each vector with the one before
    origin     (layers + 1, N): cosine with the embedding it began as
    step       (layers, N): length of the step ÷ length of the vector before
    attention  (layers, N): the attention's share of the step; with `mlp` it makes 1. A share
               below 0 is a half that pulled the other way
    mlp        (layers, N)
    """

    stays: Array
    origin: Array
    step: Array
    attention: Array
    mlp: Array


@dataclass(frozen=True)
class Senses:
    """How well each layer tells occurrences of a word apart by sense, (layers + 1,) each.

    nearest  share of occurrences whose nearest other one has the same sense
    within   mean cosine of pairs of one sense
    across   mean cosine of pairs of two senses
    """

    nearest: Array
    within: Array
    across: Array

    @property
    def gap(self) -> Array:
        """within − across: 0 where the layer does not tell them apart."""
        gap: Array = self.within - self.across
        return gap

    @property
    def separates(self) -> int | None:
        """The first hidden state from which on every nearest neighbour has the same sense."""
        wrong = np.flatnonzero(self.nearest < 1)
        first = int(wrong[-1]) + 1 if wrong.size else 0
        return first if first < len(self.nearest) else None


def centred(states: ArrayLike, around: ArrayLike | None = None) -> Array:
    """(layers, N, D) less each layer's mean over its tokens, or less the mean of `around`: states
    (layers, M, D) of a larger text, where these are a few of its tokens."""
    vectors = _states(states, "states")
    others = vectors if around is None else _states(around, "around")
    if (len(others), others.shape[-1]) != (len(vectors), vectors.shape[-1]):
        raise ShapeError(
            f"states {vectors.shape} and around {others.shape}; both need the same layers and width"
        )
    found: Array = vectors - others.mean(axis=1, keepdims=True)
    return found


def contextual_change(hidden: ArrayLike, attention: ArrayLike, mlp: ArrayLike) -> Change:
    """What each layer did to each token.

    hidden     (layers + 1, N, D): hidden states, from the embedding on
    attention  (layers, N, D): what the attention of each layer added to them
    mlp        (layers, N, D): what its MLP added
    """
    states, by_attention, by_mlp = (centred(given) for given in (hidden, attention, mlp))
    steps = np.diff(states, axis=0)
    if by_attention.shape != steps.shape or by_mlp.shape != steps.shape:
        raise ShapeError(
            f"hidden {states.shape}, attention {by_attention.shape}, mlp {by_mlp.shape}; give "
            "(layers + 1, tokens, width) and (layers, tokens, width) twice"
        )
    length = np.linalg.norm(states, axis=-1)
    return Change(
        stays=cosine(states[1:], states[:-1]),
        origin=cosine(states, states[:1]),
        step=_over(np.linalg.norm(steps, axis=-1), length[:-1]),
        attention=_share(by_attention, steps),
        mlp=_share(by_mlp, steps),
    )


def told_apart(vectors: ArrayLike, senses: Sequence[Any]) -> Senses:
    """Whether occurrences of one word lie by sense, layer by layer.

    vectors  (layers + 1, M, D): the word's M occurrences, centred around the text they stand in
    senses   M names, each at least twice
    """
    states = _states(vectors, "vectors")
    names = np.asarray(senses)
    _, counts = np.unique(names, return_counts=True)
    if names.shape != states.shape[1:2]:
        raise ShapeError(f"{states.shape[1]} vectors and senses {names.shape}; give one for each")
    if len(counts) < 2 or counts.min() < 2:
        raise InputError(f"senses {list(senses)}; give at least two, each at least twice")
    same = names[:, None] == names[None, :]
    oneself = np.eye(len(names), dtype=bool)
    alike = cosine(states[:, :, None], states[:, None, :])  # (layers + 1, M, M)
    others = np.where(oneself, -np.inf, alike)
    nearest = names[others.argmax(-1)] == names
    return Senses(
        nearest.mean(-1), alike[:, same & ~oneself].mean(-1), alike[:, ~same].mean(-1)
    )  # fmt: skip


def cosine(a: Array, b: Array) -> Array:
    """(…,): the cosine of vectors along the last axis; 0 where one has no length."""
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return _over((a * b).sum(-1), lengths)


def _share(part: Array, whole: Array) -> Array:
    """How much of `whole` is `part`: its projection onto it, over its length."""
    return _over((part * whole).sum(-1), (whole * whole).sum(-1))


def _over(above: Array, below: Array) -> Array:
    found: Array = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    return found


def _states(given: ArrayLike, name: str) -> Array:
    states: Array = np.asarray(given, np.float64)
    if states.ndim != 3 or not states.size:
        raise ShapeError(f"{name} has shape {states.shape}; give (layers, tokens, width)")
    return states
