"""A layer's own steps as a lesson: the numbers of `regard.nn`, told as those of the notes."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from regard.arrays import Array
from regard.errors import InputError
from regard.learn.languages import Phrase, listing
from regard.learn.lesson.embeddings import Embedding
from regard.learn.lesson.head import Head
from regard.learn.lesson.make import GivenLayer, Lesson, Options
from regard.learn.lesson.projections import Projections, Triple
from regard.learn.lesson.sentence import Sentence, find_token
from regard.learn.text import labels_of

LayerSteps: TypeAlias = Any  # of regard.nn, which needs torch and stands beside the lesson

_PER_HEAD = (
    "queries", "keys", "values", "scores", "scaled", "capped", "biased", "visible", "masked",
    "lse", "weights", "sink",
)  # fmt: skip


def lesson_of(steps: LayerSteps) -> Lesson:
    """Steps of a layer or of a block: the first sequence of a batch, in English."""
    stages = getattr(steps, "stages", {})
    of = steps.attention if stages else steps
    first = _FirstSequence(of)
    x = first(of.x)
    tokens, key_tokens = of.tokens
    sentence = Sentence(tokens, labels_of(tokens), _row(of, first))
    keys = None if tokens == key_tokens else Sentence(key_tokens, labels_of(key_tokens))
    heads, w_o, b_o = _heads(of, first)
    concat = np.concatenate([head.output for head in heads], axis=1)
    output = concat if w_o is None else concat @ w_o + (0.0 if b_o is None else b_o)
    own, given = Phrase("story.layer_own"), Phrase("story.layer_given")
    triples = tuple(Triple(head.w_q, head.w_k, head.w_v) for head in heads)
    return Lesson(
        Options(" ".join(tokens)), sentence, Embedding(x, None, (), given),
        Projections(triples, w_o, own, b_o=b_o), heads, concat, output, None,
        layer=GivenLayer(
            whole=type(steps).__name__, remarks=_remarks(of, first, keys), keys=keys,
            sources=(first(of.sources[0]), first(of.sources[1])),
            stages=tuple((name, s.formula, first(s.rows)) for name, s in stages.items()),
        ),
    )  # fmt: skip


class _FirstSequence:
    """Tensors → numpy: the first sequence of a batch."""

    def __init__(self, steps: LayerSteps) -> None:
        self._axis = 0 if getattr(steps.layer, "batch_first", True) else -2

    def __call__(self, rows: Any) -> Array:
        """(…, tokens, width) → (tokens, width)."""
        while rows.ndim > 2:
            rows = rows.select(self._axis, 0)
        return self.numbers(rows)

    def head(self, steps: Any, h: int) -> Array:
        """(…, H, tokens[, width]) of head h; one without the axis of heads is all heads'."""
        return self.numbers(steps[(0,) * (steps.ndim - 3) + (h,)] if steps.ndim > 2 else steps)

    def row(self, rows: Any, h: int) -> Array:
        """(…, H, tokens) of head h."""
        return self.numbers(rows[(0,) * (rows.ndim - 2) + (h,)] if rows.ndim > 1 else rows)

    def numbers(self, tensor: Any) -> Array:
        """As the lesson computes: doubles, but for booleans."""
        tensor = tensor.detach().cpu()
        return np.asarray(tensor if str(tensor.dtype) == "torch.bool" else tensor.double())

    def matrix(self, linear: Any) -> tuple[Array, Array | None]:
        """(width, columns) and the bias of x ↦ x @ w + b, whatever kind of module computes it."""
        if hasattr(linear, "base_layer"):  # an adapter: what it does to the unit vectors
            zero = linear.weight.new_zeros(1, linear.in_features)
            bias = linear(zero)[0]
            unit = linear(zero.new_ones(linear.in_features).diag()) - bias
            return self.numbers(unit), self.numbers(bias) if bias.any() else None
        bias = None if linear.bias is None else self.numbers(linear.bias)
        return self.numbers(linear.weight.T), bias


def _heads(
    of: LayerSteps, first: _FirstSequence
) -> tuple[tuple[Head, ...], Array | None, Array | None]:
    layer: Any = of.layer
    count = of.head_outputs.shape[-3] if of.head_outputs.ndim > 2 else 1
    q, k, v = (first.matrix(w) for w in (layer.w_q, layer.w_k, layer.w_v))
    groups = of.projected[1].shape[-3] if of.projected[1].ndim > 2 else 1
    mixer = getattr(layer, "w_o", None)
    w_o, b_o = (None, None) if mixer is None else first.matrix(mixer)
    heads = []
    for h in range(count):
        shared = h * groups // count  # the key head of this query head
        (w_q, b_q), (w_k, b_k), (w_v, b_v) = (
            (_part(w, number, of_), _part(b, number, of_))
            for (w, b), number, of_ in ((q, h, count), (k, shared, groups), (v, shared, groups))
        )
        plain = first.head(of.projected[0], h), first.head(of.projected[1], shared)
        values = {
            name: (first.row if name in ("lse", "sink") else first.head)(getattr(of, name), h)
            for name in _PER_HEAD
        }
        changed = not (
            np.allclose(plain[0], values["queries"]) and np.allclose(plain[1], values["keys"])
        )
        heads.append(
            Head(
                **values, output=first.head(of.head_outputs, h), position=of.position, w_q=w_q,
                w_k=w_k, w_v=w_v, biases=(b_q, b_k, b_v), plain=plain if changed else None,
            )
        )  # fmt: skip
    return tuple(heads), w_o, b_o


def _part(array: Array | None, number: int, of: int) -> Any:
    """The columns of one head."""
    return None if array is None else np.split(array, of, axis=-1)[number]


def _row(of: LayerSteps, first: _FirstSequence) -> int:
    """The row that is worked through: as asked, or the first of those that see most keys."""
    tokens, asked = of.tokens[0], of.row
    if isinstance(asked, str):
        return find_token(asked, tokens, labels_of(tokens), "row=")
    if asked is None:
        seen = first.head(of.visible.expand(of.weights.shape), 0).sum(-1)
        return int(seen.argmax())
    if not -len(tokens) <= asked < len(tokens):
        raise InputError(f"row={asked}: give a word, or a place from 0 to {len(tokens) - 1}")
    return asked % len(tokens)


def _remarks(of: LayerSteps, first: _FirstSequence, keys: Sentence | None) -> tuple[Phrase, ...]:
    layer: Any = of.layer
    remarks = []
    batch = of.x.ndim > 2 and of.x[..., 0].numel() // len(of.tokens[0])
    if batch > 1:
        remarks.append(Phrase("story.layer_batch", {"count": batch}))
    if keys is not None:
        remarks.append(Phrase("story.layer_context", {"names": listing(keys.labels)}))
    count = of.weights.shape[-3] if of.weights.ndim > 2 else 1
    groups = of.projected[1].shape[-3] if of.projected[1].ndim > 2 else 1
    if groups < count:
        remarks.append(Phrase("story.layer_groups", {"heads": count, "keys": groups}))
    if getattr(layer, "norm_q", None) is not None:
        remarks.append(Phrase("story.layer_norms"))
    if getattr(layer, "rotary", None) is not None:
        remarks.append(Phrase("story.layer_rotary"))
    return tuple(remarks)
