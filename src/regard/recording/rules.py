"""Masks and score rules out of a file: text is parsed as data, doubted, and never run.

Only what `regard.mask.spec.describe` and `regard.score.describe` write is taken. A `Rule` is a
function of the process that recorded it and cannot be read back.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from regard.errors import FileError, InputError
from regard.mask import Extent, Mask
from regard.mask import spec as mask_spec
from regard.recording.store import Array
from regard.score import ALiBi, Bias, BiasTable, PartBias, RelativeBias, ScoreRule
from regard.score import rebuild as rebuild_score

__all__ = ["Rules", "rebuild"]

_LONGEST: Final = 1 << 16  # characters
_DEEPEST: Final = 64  # brackets
_WORDS: Final = re.compile(r"[a-zA-Z0-9_'(), .+-]*")
_DIGITS: Final = re.compile(r"[0-9]{40}")
_WHOLE: Final = 2**53
_MOST_TOKENS: Final = 2**24  # of a problem that is told of by a part of it
_FARTHEST: Final = 2**20  # of a relative bias, which tables every distance

_Check = Callable[[Any], bool]
_Size = tuple[int, int]  # queries, keys


@dataclass(frozen=True)
class Rules:
    """What one segment's rows may see and how they score it, for one head."""

    mask: Mask | None
    score: ScoreRule
    extent: Extent

    @property
    def hides_by_bias(self) -> bool:
        """Whether a bias may hold −∞, which counts as masked."""
        bias = self.score.bias
        while isinstance(bias, PartBias):
            bias = bias.bias
        if isinstance(bias, RelativeBias):
            return bool(np.any(bias.table == -np.inf))
        return isinstance(bias, BiasTable)

    @property
    def sink(self) -> float | None:
        """The head's sink."""
        return None if self.score.sink is None else float(self.score.sink[0])


def rebuild(mask: str, score: str, arrays: Sequence[Array], extent: Extent, head: int) -> Rules:
    """The rules of one head of `extent.heads`; FileError for any text or array that is not ours."""
    mask_tree, score_tree = _parsed(mask), _parsed(score)
    size = extent.queries, extent.keys
    needed = _count_mask(mask_tree, size), _count_score(score_tree, size)
    if sum(needed) != len(arrays):
        raise FileError(f"a mask and score rule of {sum(needed)} arrays; {len(arrays)} are named")
    try:
        seen = mask_spec.rebuild(mask, arrays[: needed[0]])
        rule = rebuild_score(score, iter(arrays[needed[0] :]))
        if seen is not None:
            seen.check(extent)
        rule.check(extent)
    except InputError as error:
        raise FileError(f"a mask or score rule that cannot be: {error}") from None
    alone = Extent(extent.queries, extent.keys, (), 1)
    return Rules(_mask_of(seen, head), _score_of(rule, head), alone)


def _mask_of(mask: Mask | None, head: int) -> Mask | None:
    """The mask as one head sees it: only a table has heads, and three axes."""

    def own(array: Array) -> Array:
        return _slot(array, head) if array.ndim == 3 else array

    return None if mask is None else mask.map(own)


def _slot(table: Array, head: int) -> Array:
    """(1, L, S) of a table (heads or 1, L, S)."""
    return table if table.shape[0] == 1 else table[head : head + 1]


def _score_of(rule: ScoreRule, head: int) -> ScoreRule:
    sink = None if rule.sink is None else rule.sink[head : head + 1]
    bias = None if rule.bias is None else _bias_of(rule.bias, head)
    return ScoreRule(rule.scale, rule.softcap, bias, sink)


def _bias_of(bias: Bias, head: int) -> Bias:
    if isinstance(bias, ALiBi):
        return bias.map(lambda slopes: slopes[head : head + 1])
    if isinstance(bias, RelativeBias):
        return bias.map(lambda table: table[:, head : head + 1])
    if isinstance(bias, BiasTable):
        return bias.map(lambda table: _slot(table, head) if table.ndim == 3 else table)
    if isinstance(bias, PartBias):
        return PartBias(
            _bias_of(bias.bias, head), bias.query_start, bias.key_start, bias.queries, bias.keys
        )
    raise FileError(f"a bias of the kind {type(bias).__name__}")


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Any:
    """The text as nested tuples of numbers and words."""
    plain = len(text) <= _LONGEST and _WORDS.fullmatch(text) and not _DIGITS.search(text)
    if not plain or _depth(text) > _DEEPEST:
        raise FileError(f"a mask or score rule that is not regard's: {text!r:.60}")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise FileError(f"a mask or score rule that cannot be read: {text!r:.60}") from None


def _depth(text: str) -> int:
    steps = [1 if c == "(" else -1 for c in text if c in "()"]
    return int(np.cumsum(steps).max()) if steps else 0


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _WHOLE


def _is_side(value: Any) -> bool:
    return value is None or _is_count(value)


def _is_align(value: Any) -> bool:
    return value in ("start", "end")


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_distance(value: Any) -> bool:
    return _is_count(value) and value <= _FARTHEST


# kind → what follows it, and how many arrays it takes
_MASKS: Final[dict[str, tuple[tuple[_Check, ...], int]]] = {
    "causal": ((_is_align,), 0),
    "window": ((_is_side, _is_side, _is_align), 0),
    "prefix": ((), 1),
    "padding": ((_is_flag,), 1),
    "documents": ((), 2),
    "table": ((), 1),
}
_BIASES: Final[dict[str, tuple[tuple[_Check, ...], int]]] = {
    "alibi": ((_is_align,), 1),
    "relative": ((_is_flag, _is_distance, _is_align), 1),
    "table": ((), 1),
}


def _refused(node: Any) -> FileError:
    if isinstance(node, tuple) and node[:1] == ("rule",):
        return FileError("a mask with a Rule, whose function is not in the file")
    return FileError(f"a mask or score rule that is not regard's: {node!r:.60}")


def _leaf(node: Any, kinds: dict[str, tuple[tuple[_Check, ...], int]]) -> int:
    """How many arrays a node without parts takes."""
    kind, *rest = node
    checks, arrays = kinds[kind]
    if len(rest) != len(checks) or not all(c(r) for c, r in zip(checks, rest, strict=True)):
        raise _refused(node)
    return arrays + (kind == "padding" and rest[0])


def _kind(node: Any) -> str:
    if not isinstance(node, tuple) or not node or not isinstance(node[0], str):
        raise _refused(node)
    return node[0]


def _whole(node: Any, size: _Size) -> _Size:
    """The size of the problem that a part of this size is taken from."""
    if len(node) != 6 or not all(map(_is_count, node[2:])):
        raise _refused(node)
    query_start, key_start, queries, keys = node[2:]
    most = max(_MOST_TOKENS, *size)
    fits = query_start + size[0] <= queries <= most and key_start + size[1] <= keys <= most
    if not fits:
        raise _refused(node)
    return queries, keys


def _count_mask(node: Any, size: _Size, top: bool = True) -> int:
    """Arrays a mask takes; FileError where it is no mask."""
    if node is None and top:
        return 0
    kind = _kind(node)
    if kind in ("both", "either") and len(node) == 3:
        return _count_mask(node[1], size, False) + _count_mask(node[2], size, False)
    if kind == "not" and len(node) == 2:
        return _count_mask(node[1], size, False)
    if kind == "part":
        return _count_mask(node[1], _whole(node, size), False)
    if kind not in _MASKS:
        raise _refused(node)
    return _leaf(node, _MASKS)


def _count_score(node: Any, size: _Size) -> int:
    """Arrays a score rule takes; FileError where it is none."""
    if not isinstance(node, tuple) or len(node) != 4 or not _is_flag(node[3]):
        raise _refused(node)
    scale, softcap, bias, has_sink = node
    numbers = [one for one in (scale, softcap) if one is not None]
    if scale is None or not all(type(n) in (int, float) and math.isfinite(n) for n in numbers):
        raise _refused(node)
    return (0 if bias is None else _count_bias(bias, size)) + int(has_sink)


def _count_bias(node: Any, size: _Size) -> int:
    kind = _kind(node)
    if kind == "part":
        return _count_bias(node[1], _whole(node, size))
    if kind not in _BIASES:
        raise _refused(node)
    return _leaf(node, _BIASES)
