"""Attention as the definition has it, with one field per step; wrong values are mistakes.

All arrays are (batch, heads, tokens, features). A field's first value is the right one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_AXES: Final[dict[str, Any]] = {
    "keys": -1, "queries": -2, "heads": 1, "batch": 0, "all": (-1, -2), "everything": None,
    "keysheads": (1, 3), "headqueries": (1, 2), "perbatch": (1, 2, 3),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """What one call was given: inputs, weights, heads, and which keys each query may see."""

    q: Array  # (B, H, N, D), or (B, 1, N, E) where weights or heads follow
    k: Array
    v: Array
    weights: dict[str, Array] = field(default_factory=dict)  # w_q … (in, out), b_q …
    heads: int = 1  # to split into
    keep: Array | None = None  # (B|1, H|1, N, Nk), True where a query may see a key
    rank: int = 4  # of the inputs as given


@dataclass(frozen=True)
class Recipe:
    """One way to compute it; the defaults are the definition."""

    sources: str = "qkv"  # which projection makes q, k and v; x for none
    inputs: str = "qkv"  # which input each of them is computed from
    bias: str = "all"
    split: str = "heads"
    scores: str = "qk"
    scale: str = "d"
    factor: float = 0.0  # with scale "fixed"
    mask: str = "before"
    causal: int | None = None  # the last key a query may see, from its own; None for no triangle
    fill: float = -np.inf
    flip: bool = False
    softmax: str = "keys"
    sum: str = "wv"
    merge: str = "heads"
    output: str = "once"
    batch: str = "each"


def run(case: Case, recipe: Recipe) -> dict[str, Array]:
    """Every intermediate by name; `output` in the shape of the inputs."""
    q, k, v = (_projected(case, recipe, at) for at in range(3))
    q, k, v = (
        _split(one, recipe.split, case, letter)
        for one, letter in zip((q, k, v), "qkv", strict=True)
    )
    if k.shape[1] != q.shape[1] and q.shape[1] % k.shape[1] == 0:  # grouped queries
        times = q.shape[1] // k.shape[1]
        k, v = (_repeated(one, times, recipe.split) for one in (k, v))
    if recipe.batch.startswith("first"):
        k = k if recipe.batch == "first v" else k[:1]
        v = v if recipe.batch == "first k" else v[:1]
    scores = _scores(q, k, v, recipe.scores)
    scaled = scores * _factor(case, recipe, q, v)
    keep = visible(case, recipe, scaled.shape)
    masked = _masked(scaled, keep, recipe)
    with np.errstate(all="ignore"):
        weights = _softmax(masked, recipe.softmax)
        weights = _after(weights, keep, recipe, q.shape[-1])
        out = _weighted(weights, q, k, v, recipe.sum)
        output = _finished(out, case, recipe)
    return {
        "Q": q, "K": k, "V": v, "scores": scores, "scaled": scaled, "masked": masked,
        "weights": weights, "heads": out, "output": output,
    }  # fmt: skip


def _projected(case: Case, recipe: Recipe, at: int) -> Array:
    letter = recipe.sources[at]
    x = {"q": case.q, "k": case.k, "v": case.v}[recipe.inputs[at]]
    transposed = letter.isupper()
    letter = letter.lower()
    if letter == "x" or f"w_{letter}" not in case.weights:
        return x
    matrix = case.weights[f"w_{letter}"]
    bias = case.weights.get(f"b_{letter}")
    x = x @ (matrix.T if transposed else matrix)
    left_out = recipe.bias == "none" or recipe.bias == letter
    return x if bias is None or left_out else x + bias


def _split(x: Array, how: str, case: Case, letter: str) -> Array:
    heads = case.heads
    if heads == 1 or x.shape[1] != 1:
        return x
    x = x[:, 0]  # (B, N, H·D)
    batch, tokens, width = x.shape
    per_head = case.weights["w_q"].shape[1] // heads if "w_q" in case.weights else width // heads
    if width % per_head:
        raise ValueError("the width does not divide")
    count = width // per_head
    if how == "interleaved":
        return x.reshape(batch, tokens, -1, count).transpose(0, 3, 1, 2)
    if how.startswith("unpermuted") and letter in (how.removeprefix("unpermuted") or "qkv"):
        return x.reshape(batch, count, tokens, -1)
    if how == "swapped":  # (B, H, D, N) taken for (B, H, N, D)
        turned = x.reshape(batch, tokens, count, -1).transpose(0, 2, 3, 1)
        return turned.reshape(batch, count, tokens, -1)
    x = x.reshape(batch, tokens, count, -1)
    if how == "tokens":
        return x
    if how == "whole":
        return x.reshape(batch, 1, tokens, width)
    x = x.swapaxes(1, 2)
    first = how.startswith("first") and letter in how  # head 1 in every head's place
    return np.repeat(x[:, :1], count, 1) if first else x


def _repeated(x: Array, times: int, how: str) -> Array:
    return np.tile(x, (1, times, 1, 1)) if how == "tiled" else np.repeat(x, times, 1)


def _scores(q: Array, k: Array, v: Array, how: str) -> Array:
    if how == "distance":
        return -((q[..., :, None, :] - k[..., None, :, :]) ** 2).sum(-1)
    if how == "cosine":
        q, k = (one / np.linalg.norm(one, axis=-1, keepdims=True) for one in (q, k))
        return q @ k.swapaxes(-1, -2)
    if how == "added":
        return (q[..., :, None, :] + k[..., None, :, :]).sum(-1)
    if how == "nextbatch":
        return q @ np.roll(k, 1, 0).swapaxes(-1, -2)
    named = {"q": q, "k": k, "v": v}
    minus = how.startswith("-")
    left, right = (named[letter] for letter in how.lstrip("-"))
    scores = left @ right.swapaxes(-1, -2)
    return -scores if minus else scores


def _factor(case: Case, recipe: Recipe, q: Array, v: Array) -> float:
    d, embed = q.shape[-1], case.q.shape[-1]
    width = case.weights["w_q"].shape[1] if "w_q" in case.weights else embed
    tokens, keys = case.q.shape[-2], case.k.shape[-2]
    return float({
        "d": d**-0.5, "none": 1.0, "1/d": 1.0 / d, "*d": d**0.5, "**d": d, "embed": embed**-0.5,
        "width": width**-0.5, "heads": max(case.heads, q.shape[1]) ** -0.5, "tokens": tokens**-0.5,
        "keys": keys**-0.5, "d_v": v.shape[-1] ** -0.5, "batch": case.q.shape[0] ** -0.5,
        "d/2": (d / 2) ** -0.5, "1/d2": 1.0 / d**2, "d**.25": d**-0.25, "late": 1.0,
        "both": d**-0.5, "1/embed": 1.0 / embed, "1/width": 1.0 / width, "fixed": recipe.factor,
        "1/2d": 0.5 / d, "1/keys": 1.0 / keys, "*embed": embed**0.5,
    }[recipe.scale])  # fmt: skip


def visible(case: Case, recipe: Recipe, shape: tuple[int, ...]) -> Array | None:
    """True where a query may see a key, for this recipe's scores."""
    keep = case.keep
    tokens, keys = shape[-2:]
    if recipe.causal is not None:
        at = np.arange(tokens)[:, None] + recipe.causal
        triangle = np.arange(keys)[None, :] <= at
        keep = triangle[None, None] if keep is None else keep & triangle
    if keep is None:
        return None
    if recipe.flip:
        keep = ~keep
    if recipe.mask == "inverted":
        keep = ~keep
    if recipe.mask == "transposed" and keep.shape[-1] == keep.shape[-2]:
        keep = keep.swapaxes(-1, -2)
    return keep


def _masked(scores: Array, keep: Array | None, recipe: Recipe) -> Array:
    if keep is None or recipe.mask in ("missing", "after", "afterfill"):
        return scores
    if recipe.mask == "added":
        return scores + keep
    if recipe.mask == "taken":
        return scores + ~keep
    if recipe.mask == "times":
        return scores * keep
    return np.where(keep, scores, recipe.fill)


def _softmax(x: Array, how: str) -> Array:
    if how.startswith("shifted "):  # the row's maximum is subtracted first, as it should be
        x = x - x.max(-1, keepdims=True)
        how = how.removeprefix("shifted ")
        if how not in _AXES:
            return _softmax(x, how)
        return np.exp(x) / np.exp(x).sum(_AXES[how], keepdims=True)
    if how in ("none", "sigmoid", "relu"):
        return {"none": x, "sigmoid": 1 / (1 + np.exp(-x)), "relu": np.maximum(x, 0)}[how]
    if how == "log":
        return np.log(_softmax(x, "keys"))
    if how == "twice":
        return _softmax(_softmax(x, "keys"), "keys")
    if how == "linear":
        return x / x.sum(-1, keepdims=True)
    if how == "abs":
        return x / np.abs(x).sum(-1, keepdims=True)
    if how == "argmax":
        return (x == x.max(-1, keepdims=True)) * 1.0
    if how in ("exp", "expmax"):
        return np.exp(x - (x.max(-1, keepdims=True) if how == "expmax" else 0))
    if how in ("sumflat", "maxflat"):  # keepdims left out: row j's number lands in column j
        if x.shape[-1] != x.shape[-2]:
            raise ValueError("does not broadcast")
        if how == "sumflat":
            e = np.exp(x)
            return e / e.sum(-1)[..., None, :]
        e = np.exp(x - x.max(-1)[..., None, :])
        return e / e.sum(-1, keepdims=True)
    if how == "base2":
        return _softmax(x * np.log(2), "keys")
    if how == "negative":
        return _softmax(-x, "keys")
    axes = _AXES[how]
    top = x.max(axes, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(top), top, 0))
    return e / e.sum(axes, keepdims=True)


def _after(w: Array, keep: Array | None, recipe: Recipe, d: int) -> Array:
    if keep is not None and recipe.mask == "after":
        w = w * keep
    if keep is not None and recipe.mask == "afterfill":
        w = np.where(keep, w, recipe.fill)
    return w * d**-0.5 if recipe.scale in ("late", "both") else w


def _weighted(w: Array, q: Array, k: Array, v: Array, how: str) -> Array:
    if how == "mean":
        return np.broadcast_to(v.mean(-2, keepdims=True), (*w.shape[:-1], v.shape[-1]))
    if how == "weights":
        return w
    if how == "nextbatch":
        return w @ np.roll(v, 1, 0)
    if how == "diagonal":
        return np.diagonal(w, axis1=-2, axis2=-1)[..., None] * v
    if how == "columnsum":
        return w.sum(-2)[..., None] * v
    if how == "rowsum":
        return w.sum(-1, keepdims=True) * v
    other = {"v": v, "k": k, "q": q}[how[-1]]
    return (w.swapaxes(-1, -2) if how.startswith("t") else w) @ other


def _finished(out: Array, case: Case, recipe: Recipe) -> Array:
    splits = case.heads > 1 and case.q.shape[1] == 1
    if recipe.sum == "weights":
        return out if case.rank == 4 or splits else _as_given(out, case)
    if splits or case.weights:
        out = _merged(out, recipe)[:, None]
        out = _through(out, case, recipe)
    if recipe.batch == "only":
        out = np.broadcast_to(out[:1], out.shape)
    return _as_given(out, case)


def _merged(x: Array, recipe: Recipe) -> Array:
    if recipe.split == "tokens":
        if recipe.merge == "unpermuted":
            x = x.swapaxes(1, 2).reshape(x.shape)
        return x.reshape(*x.shape[:2], -1)
    batch, heads, tokens, _ = x.shape
    how = recipe.merge
    if how in ("mean", "sum", "first", "last"):
        return {"mean": x.mean(1), "sum": x.sum(1), "first": x[:, 0], "last": x[:, -1]}[how]
    if how == "unpermuted":
        return x.reshape(batch, tokens, -1)
    if how == "interleaved":
        return x.transpose(0, 2, 3, 1).reshape(batch, tokens, -1)
    if how == "turned":
        return x.swapaxes(-1, -2).reshape(batch, tokens, -1)
    if how == "reversed":
        x = x[:, ::-1]
    if how == "batchmixed":
        x = x.reshape(heads, batch, tokens, -1).transpose(1, 0, 2, 3)
    if how == "batchlast":
        return x.transpose(2, 0, 1, 3).reshape(batch, tokens, -1)
    return x.swapaxes(1, 2).reshape(batch, tokens, -1)


def _through(x: Array, case: Case, recipe: Recipe) -> Array:
    matrix, bias = case.weights.get("w_o"), case.weights.get("b_o")
    if matrix is None or recipe.output == "missing":
        return x
    if recipe.output == "transposed":
        matrix = matrix.T
    for _ in range(2 if recipe.output == "twice" else 1):
        x = x @ matrix
        x = x if bias is None or recipe.bias in ("none", "o") else x + bias
    if recipe.output == "residual":
        x = x + case.q
    return x


def _as_given(x: Array, case: Case) -> Array:
    if case.rank == 4:
        return x
    return x[:, 0] if case.rank == 3 else x[0, 0]
