"""Masks and score rules of a whole problem, as seen from some of its entries and heads.

Arrays inside are cut along batch and heads; an axis of size one speaks for all. Some of the
queries or keys are another matter: there `Part` and `PartBias` keep the places in the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.errors import UnavailableError
from regard.mask import Causal, Documents, Extent, Mask, Padding, Prefix, Rule, Window
from regard.mask.algebra import Both, Either, Not, Table
from regard.mask.arrays import is_bool
from regard.mask.part import Part
from regard.score import ALiBi, Bias, BiasTable, PartBias, RelativeBias, ScoreRule

__all__ = ["Some", "cut"]


@dataclass(frozen=True)
class Some:
    """Some entries and heads of a problem."""

    whole: Extent
    batch: tuple[range, ...]  # neighbours along each batch axis
    heads: range  # query heads

    def mask(self, mask: Mask) -> Mask:
        """A mask, about these alone."""
        if isinstance(mask, Causal | Window):
            return mask
        if isinstance(mask, Both | Either):
            return replace(mask, left=self.mask(mask.left), right=self.mask(mask.right))
        if isinstance(mask, Not | Part):
            return replace(mask, mask=self.mask(mask.mask))
        if isinstance(mask, Table):
            return Table(cut(mask.table, (*self.batch, self.heads), 2))
        if isinstance(mask, Padding):
            return mask.map(lambda array: cut(array, self.batch, 1 if is_bool(array) else 0))
        if isinstance(mask, Documents):
            return mask.map(lambda ids: cut(ids, self.batch, 1))
        if isinstance(mask, Prefix):
            return mask.map(lambda n: cut(n, self.batch, 0))
        if isinstance(mask, Rule):
            return self._rule(mask)
        raise UnavailableError(f"a {type(mask).__name__} mask cannot be split over ranks")

    def score(self, rule: ScoreRule) -> ScoreRule:
        """A score rule, about these alone."""
        sink = None if rule.sink is None else cut(rule.sink, (self.heads,), 0)
        return replace(rule, bias=None if rule.bias is None else self._bias(rule.bias), sink=sink)

    def _rule(self, rule: Rule) -> Rule:
        """The function is told the entries and heads of the whole problem."""
        if not rule._places(torch.arange(1), self.whole):  # it asks for queries and keys alone
            return rule
        sizes = torch.Size(self.whole.batch)
        mine = cut(torch.arange(sizes.numel()).reshape(sizes), self.batch, 0).reshape(-1)
        first = self.heads.start

        def there(batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
            found: Tensor = rule.fn(mine.to(batch.device)[batch], head + first, i, j)
            return found

        return Rule(there)

    def _bias(self, bias: Bias) -> Bias:
        if isinstance(bias, PartBias):
            return replace(bias, bias=self._bias(bias.bias))
        if isinstance(bias, BiasTable):
            return BiasTable(cut(bias.table, (*self.batch, self.heads), 2))
        if isinstance(bias, ALiBi | RelativeBias):  # (heads,), (buckets, heads)
            return bias.map(lambda numbers: cut(numbers, (self.heads,), 0))
        raise UnavailableError(f"a {type(bias).__name__} cannot be split over ranks")


def cut(array: Tensor, lead: Sequence[range], tail: int) -> Tensor:
    """The axes before the last `tail`, cut to these ranges from the right; an axis of size one
    speaks for all."""
    last = array.ndim - tail
    for n, span in enumerate(reversed(lead), 1):
        if n <= last and array.shape[last - n] != 1:
            array = array.narrow(last - n, span.start, len(span))
    return array
