"""Every step of a layer by name, as `regard.attention` defines them. Printed, they are the lesson
for the layer's own weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partialmethod
from typing import Any

import torch
from torch import Tensor, nn

from regard import attention
from regard.attention import Steps
from regard.display import ask
from regard.errors import ShapeError, TooLargeError
from regard.mask import as_mask
from regard.score import as_bias
from regard.shapes import AttentionShape


def _shown(steps: Any, question: str) -> str:
    return str(ask(question, steps))


MOST_CELLS = 2**25  # of the matrix, over all heads; there are eight such matrices


@dataclass(frozen=True, eq=False)
class LayerSteps(Steps):
    """What `regard.attention.Steps` has, of one layer; `output` is what the layer returns.

    `str(…)` and a notebook show the lesson. Dropout is left out.
    """

    layer: nn.Module  # whose w_q, w_k, w_v, and w_o where there is one
    x: Tensor  # (…, L, width)
    sources: tuple[Tensor, Tensor]  # what keys and values are made of: x, or its context
    projected: tuple[Tensor, Tensor]  # queries and keys before they are normalised and turned
    head_outputs: Tensor  # (…, Hq, L, d_v): weights @ values
    tokens: tuple[tuple[str, ...], tuple[str, ...]]  # of queries and of keys
    row: int | str | None = None  # the one that is worked through; None: the first that sees most

    __str__ = partialmethod(_shown, "steps_text")
    _repr_html_ = partialmethod(_shown, "steps_html")

    def __repr__(self) -> str:
        return f"LayerSteps(weights={tuple(self.weights.shape)}); print it to see every step"


@dataclass(frozen=True, eq=False)
class Stage:
    """One step of a block, for all tokens."""

    formula: str
    rows: Tensor  # (…, tokens, width)


@dataclass(frozen=True, eq=False)
class BlockSteps:
    """A whole block: its attention, and what becomes of it, in the order it is computed."""

    attention: LayerSteps
    cross: LayerSteps | None
    stages: Mapping[str, Stage]  # by name: x first, the output of the block last

    __str__ = partialmethod(_shown, "steps_text")
    _repr_html_ = partialmethod(_shown, "steps_html")

    @property
    def output(self) -> Tensor:
        """(…, tokens, dim): what the block returns."""
        return self.stages["output"].rows

    def __repr__(self) -> str:
        return f"BlockSteps({', '.join(self.stages)}); print it to see every step"


class BlockStages:
    """The stages of a block while it is computed. Before each part or after it comes a norm:

    pre-norm    n = norm(r), r = r + part(n)      post-norm    r = n + part(n), n = norm(r)
    """

    def __init__(self, x: Tensor, norm_first: bool) -> None:
        self._stages = {"x": Stage("", x)}
        self._last = "x"  # the name of what goes on along the residual way
        self._norm_first = norm_first

    def attend(
        self, layer: Any, norm: nn.Module, *context: Any, name: str = "attention", **options: Any
    ) -> LayerSteps:
        """By an attention layer."""
        before = self._enter(norm, name)
        steps: LayerSteps = layer.steps(self._stages[before].rows, *context, **options)
        formula = f"{name}({before})" if name == "attention" else f"{name}({before}, context)"
        self._leave(norm, name, formula, steps.output)
        return steps

    def feed_forward(self, layer: Any, norm: nn.Module) -> None:
        """By a feed-forward layer."""
        before = self._enter(norm, "mlp")
        *between, (name, formula, rows) = layer.stages(self._stages[before].rows, before)
        self._stages |= {part: Stage(words, values) for part, words, values in between}
        self._leave(norm, name, formula, rows)

    def finish(self, attention: LayerSteps, cross: LayerSteps | None = None) -> BlockSteps:
        """The last stage is the block's output."""
        stages = dict(self._stages)
        stages["output"] = stages.pop(self._last)
        return BlockSteps(attention, cross, stages)

    def _enter(self, norm: nn.Module, part: str) -> str:
        if not self._norm_first:
            return self._last
        rows = norm(self._stages[self._last].rows)
        return self._put(f"n_{part}", f"norm({self._last})", rows)

    def _leave(self, norm: nn.Module, part: str, formula: str, rows: Tensor) -> None:
        self._put(part, formula, rows)
        total = self._stages[self._last].rows + rows
        self._last = self._put(f"r_{part}", f"{self._last} + {part}", total)
        if not self._norm_first:
            self._last = self._put(f"n_{part}", f"norm(r_{part})", norm(total))

    def _put(self, name: str, formula: str, rows: Tensor) -> str:
        self._stages[name] = Stage(formula, rows)
        return name


def take_steps(
    query: Tensor, key: Tensor, value: Tensor, mask: Any, bias: Any = None, sink: Any = None
) -> Steps:
    """Those of queries (…, Hq, L, d), keys and values; mask and bias as in `regard.attend`."""
    cells = query[..., 0].numel() * key.shape[-2]
    if cells > MOST_CELLS:
        raise TooLargeError(
            f"steps of {query.shape[-2]:,} × {key.shape[-2]:,} tokens are matrices of {cells:,} "
            f"numbers, and at most {MOST_CELLS:,} are computed; give fewer tokens, or ask "
            "look(x), whose matrix is never built"
        )
    exact = torch.promote_types(query.dtype, torch.float32)
    query, key, value = (t.to(exact) for t in (query, key, value))

    def beside(array: Any) -> Tensor:
        return torch.as_tensor(array, device=query.device)

    allowed, rule = None if mask is None else as_mask(mask), as_bias(bias)
    extent = AttentionShape.of(query.shape, key.shape, value.shape).extent
    for given in (allowed, rule):
        if given is not None:
            given.check(extent)
    return attention.attend(
        query, key, value, sink=None if sink is None else sink.to(exact),
        allowed=None if allowed is None else allowed.map(beside),
        rule=None if rule is None else rule.map(beside),
    )  # fmt: skip


def names_of(tokens: Any, queries: int, keys: int | None = None) -> Any:
    """Words of the queries and of the keys, as many as there are; numbers where none are given."""
    pair = tokens if keys is not None and tokens is not None else (tokens, tokens)
    counts = queries, queries if keys is None else keys
    if len(pair) != 2:
        raise ShapeError("tokens: give two lists, the words of x and those of the context")
    return tuple(_named(words, count) for words, count in zip(pair, counts, strict=True))


def _named(words: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if words is None:
        return tuple(f"t{n}" for n in range(count))
    if isinstance(words, str) or len(words) != count:
        raise ShapeError(f"tokens={words!r}: give a list of {count} words, one for each token")
    return tuple(map(str, words))
