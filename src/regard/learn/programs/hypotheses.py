"""Which ways to compute attention a call is compared with: the right ones, then mistakes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from regard.learn.programs.observation import Call, Observation
from regard.learn.programs.recipe import Array, Case, Recipe, run, visible

CLOSE: Final = 1.5e-5  # of the largest number: float32 and an epsilon in the denominator pass
_NONE: Final[dict[str, Any]] = {}


@dataclass(frozen=True)
class Base:
    """One right way: how the weights are laid out, how heads are, whether it is causal."""

    weights: dict[str, Array]
    recipe: Recipe


class Comparison:
    """All calls of one observation, compared with recipes."""

    def __init__(self, seen: Observation) -> None:
        self.seen = seen
        self.calls = _graded([call for call in seen.calls if call.outs])
        self.order = self.calls
        self.unmasked = True  # some call without a mask is wrong
        self._cases: dict[tuple[int, int], Case] = {}
        self._results: dict[Any, dict[str, Array] | None] = {}

    @cached_property
    def switched(self) -> bool:
        """Whether a flag or a mask decides what is causal."""
        return any(call.group[:4] in ("mask", "caus") for call in self.seen.calls)

    def bases(self, every: bool = True) -> Iterator[Base]:
        """The right ways; `every` includes other orders of combined and unnamed weights."""
        seen = self.seen
        layouts = [("heads", "heads")]
        if seen.splits and seen.owned:
            layouts.append(("interleaved", "interleaved"))
            if "w_o" in seen.weights:
                layouts += [("heads", "interleaved"), ("interleaved", "heads")]
        triangles = [0] if seen.causal and not self.switched else [None, 0]
        for weights in _weights(seen, every):
            for (split, merge), causal in itertools.product(layouts, triangles):
                yield Base(weights, Recipe(split=split, merge=merge, causal=causal))

    def result(self, call: Call, base: Base, change: dict[str, Any]) -> dict[str, Array] | None:
        """The intermediates of one recipe for one call; None where its shapes do not fit."""
        recipe = self._recipe(call, base, change)
        if recipe.flip and call.keep is None:  # only a mask that was given has two readings
            return None
        key = (id(call), id(base.weights), recipe)
        if key not in self._results:
            try:
                self._results[key] = run(self.case(call, base), recipe)
            except (ValueError, KeyError, IndexError):
                self._results[key] = None
        return self._results[key]

    def _recipe(self, call: Call, base: Base, change: dict[str, Any]) -> Recipe:
        causal = {"causal": 0, "whole": None}.get(call.group, base.recipe.causal)
        if call.group.startswith("mask") and self.seen.causal is False:
            causal = base.recipe.causal
        if "causal" in change and causal is None:
            change = {name: value for name, value in change.items() if name != "causal"}
        elif "causal" not in change:
            change = change | {"causal": causal}
        return replace(base.recipe, **change)

    def case(self, call: Call, base: Base) -> Case:
        """The call's inputs as (batch, heads, tokens, features)."""
        key = (id(call), id(base.weights))
        if key not in self._cases:
            self._cases[key] = _case(call, base.weights, self.seen)
        return self._cases[key]

    def agrees(self, call: Call, base: Base, change: dict[str, Any] = _NONE) -> bool:
        """Whether the call returned what this recipe gives."""
        result = self.result(call, base, change)
        if result is None:
            return False
        blind = self._blind(call, base, change)
        if blind is not None and 2 * blind.sum() > len(blind):
            return False
        outs = [self.returned(call, base)] if change else call.outs[:3]
        return any(close(out, result["output"], blind) for out in outs)

    def returned(self, call: Call, base: Base) -> Array:
        """Of what a call returned, the part that has the output's shape, or the first."""
        right = self.result(call, base, {})
        shape = right["output"].shape if right else ()
        return next((out for out in call.outs if out.shape == shape), call.outs[0])

    def _blind(self, call: Call, base: Base, change: dict[str, Any]) -> Array | None:
        """The queries that see no key at all: their rows may hold anything."""
        recipe = self._recipe(call, base, change)
        case = self.case(call, base)
        if recipe.causal is None and case.keep is None:
            return None
        tokens, keys = case.q.shape[-2], case.k.shape[-2]
        keep = visible(case, recipe, (tokens, keys))
        if keep is None:
            return None
        blind: Array = np.asarray(~keep.any(axis=-1))
        rows = np.asarray(blind.reshape(-1, blind.shape[-1]).any(axis=0))
        return rows if rows.any() else None

    def wrong_first(self) -> None:
        """Compare next with the calls that no right way explains, so that most end there."""
        bases = list(self.bases(every=False))
        wrong = {id(c) for c in self.calls if not any(self.agrees(c, base) for base in bases)}
        self.unmasked = any(id(c) in wrong for c in self.calls if not c.group.startswith("mask"))
        self.order = sorted(
            self.calls,
            key=lambda call: (
                call.group.startswith("mask"),
                id(call) not in wrong,
            ),
        )

    def explains(self, base: Base, variants: tuple[dict[str, Any], ...], masks: bool = True) -> int:
        """How many calls the variants explain, every group of them; 0 where one is not.

        Of a mask's forms one is enough; none where `masks` is off, since what a wrong step does
        to hidden scores depends on the number they were given.
        """
        count = 0
        groups: dict[str, bool] = {}
        for call in self.order:
            form = call.group.startswith("mask")
            if form and groups.get(call.group) and len(variants) > 4:
                continue
            agrees = any(self.agrees(call, base, variant) for variant in variants)
            if not agrees and not form:
                return 0
            groups[call.group] = groups.get(call.group, False) or agrees
            count += agrees
        needed = [ok for group, ok in groups.items() if masks or not group.startswith("mask")]
        return count if all(needed) else 0


def _graded(calls: list[Call]) -> list[Call]:
    """Without calls that only happened to run: one sequence where batches are taken, and masks of
    0 and 1 taken for indices where a boolean mask of this rank is refused."""
    if any(_rank(call) > 2 for call in calls):
        calls = [call for call in calls if _rank(call) > 2]
    masked = [call for call in calls if call.group.startswith("mask")]
    plain = {call.group for call in masked if "0/1" not in call.form}
    return [call for call in calls if not call.form or not plain or call.group in plain]


def _rank(call: Call) -> int:
    return next(iter(call.inputs.values())).ndim


def close(out: Array, right: Array, blind: Array | None = None) -> bool:
    """Equal but for rounding, and but for rows that see nothing."""
    if out.shape != right.shape:
        if out.size != right.size or tuple(n for n in out.shape if n > 1) != tuple(
            n for n in right.shape if n > 1
        ):
            return False
        out = out.reshape(right.shape)
    if blind is not None and right.ndim > 1 and right.shape[-2] == len(blind):
        out, right = out[..., ~blind, :], right[..., ~blind, :]
    finite = np.isfinite(right)
    if not finite.any():
        return False
    if not np.array_equal(finite, np.isfinite(out)):
        return False
    largest = np.abs(right[finite]).max(initial=0.0)
    return bool(np.abs(out[finite] - right[finite]).max(initial=0.0) <= CLOSE * max(largest, 0.1))


def _weights(seen: Observation, every: bool) -> Iterator[dict[str, Array]]:
    held = seen.weights
    joined = next((one for one in ("qkv", "kv") if f"w_{one}" in held), "")
    if joined:
        yield from _combined(seen, every, joined)
        return
    yield held
    if seen.free and every:
        names = [n for n in held if n.startswith("w_") and held[n].shape[0] == held[n].shape[-1]]
        for turned in itertools.product((False, True), repeat=len(names)):
            if any(turned):
                flips = {n: held[n].T for n, t in zip(names, turned, strict=True) if t}
                yield held | flips
    if not seen.named and every and {"w_q", "w_k", "w_v"} <= set(held):
        letters = [one for one in "qkvo" if f"w_{one}" in held]
        for order in itertools.permutations(letters):
            yield {f"{kind}_{new}": held[f"{kind}_{old}"]
                   for new, old in zip(letters, order, strict=True) for kind in "wb"
                   if f"{kind}_{old}" in held}  # fmt: skip


def _combined(seen: Observation, every: bool, letters: str) -> Iterator[dict[str, Array]]:
    """W_qkv or W_kv taken apart: in one block each, per head, or feature by feature."""
    matrix, bias = seen.weights[f"w_{letters}"], seen.weights.get(f"b_{letters}")
    count = len(letters)
    width, heads = matrix.shape[1] // count, seen.heads
    if matrix.shape[1] % count:
        return
    others = {n: value for n, value in seen.weights.items() if n[2:] != letters}
    at = np.arange(count * width)
    layouts = [at.reshape(count, width)]
    if heads > 1 and width % heads == 0:
        layouts.append(at.reshape(heads, count, -1).swapaxes(0, 1).reshape(count, -1))
        layouts.append(at.reshape(heads, -1, count).transpose(2, 0, 1).reshape(count, -1))
    if every:
        layouts.append(at.reshape(-1, count).T)
    orders = itertools.permutations(range(count)) if every else [tuple(range(count))]
    for order, layout in itertools.product(list(orders), layouts):
        split = dict(others)
        for letter, part in zip(letters, order, strict=True):
            split[f"w_{letter}"] = matrix[:, layout[part]]
            if bias is not None:
                split[f"b_{letter}"] = bias[layout[part]]
        yield split


def _case(call: Call, weights: dict[str, Array], seen: Observation) -> Case:
    first = next(iter(call.inputs.values()))
    rank = first.ndim
    three = [np.asarray(call.inputs.get(name, first), dtype=np.float64) for name in "qkv"]
    if rank == 2:
        three = [one[None, None] for one in three]
    elif rank == 3:
        three = [one[:, None] for one in three]
    keep = call.keep
    if keep is not None:
        keep = keep[None, None] if keep.ndim == 2 else keep[:, None] if keep.ndim == 3 else keep
    heads = seen.heads if seen.splits else 1
    return Case(three[0], three[1], three[2], weights, heads, keep, rank)
