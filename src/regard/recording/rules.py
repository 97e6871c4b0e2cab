"""Masks and score rules out of a file: text is parsed as data, doubted, and never run.

Files written before tags have the first textual form, which is frozen:

    ('both',('causal','end'),('padding',False))        arrays follow in order
    (scale, softcap, None or a bias, sink?)            a score rule
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

import numpy as np

from regard.declare import Declared, decode, is_portable, is_tag_known, tags_in
from regard.errors import FileError, InputError
from regard.mask import Causal, Documents, Extent, Mask, Padding, Part, Prefix, Table, Window
from regard.mask.base import Both, Either, Not
from regard.recording.stores import Array
from regard.score import ALiBi, BiasTable, PartBias, RelativeBias, ScoreRule

_Kind = TypeVar("_Kind", bound=Declared)

_MOST_TOKENS: Final = 2**24  # of a problem that is told of by a part of it


@dataclass(frozen=True)
class Rules:
    """What one segment's rows may see and how they score it, for one head."""

    mask: Mask | None
    score: ScoreRule
    extent: Extent

    @property
    def hides_by_bias(self) -> bool:
        """Whether a bias may hold −∞, which counts as masked."""
        return self.score.bias is not None and self.score.bias.hides()

    @property
    def sink(self) -> float | None:
        """The head's sink."""
        return None if self.score.sink is None else float(self.score.sink[0])


def not_here(*texts: str) -> str:
    """The first tag in these texts whose class is not defined in this process; "" where all are.
    A text that is none of ours is an error elsewhere."""
    for text in texts:
        for tag in () if _is_first_form(text) else tags_in(text):
            if not is_tag_known(tag):
                return tag
    return ""


def rebuild(mask: str, score: str, arrays: Sequence[Array], extent: Extent, head: int) -> Rules:
    """The rules of one head of `extent.heads`; FileError for any text or array that is not ours."""
    left = iter(arrays)
    try:
        seen = _read(mask, left, Mask)  # type: ignore[type-abstract]
        rule = _read(score, left, ScoreRule)
        if rule is None:
            raise InputError("there is none")
        if (over := len(list(left))) > 0:
            raise InputError(f"{over} arrays more than it names")
        for one in (seen, rule):
            if one is not None:
                _doubt(one, extent)
                one.check(extent)
    except InputError as error:
        raise FileError(f"a mask or score rule that cannot be: {error}") from None
    mine = extent, (), range(head, head + 1)
    alone = Extent(extent.queries, extent.keys, (), 1)
    return Rules(None if seen is None else seen.cut(*mine), rule.cut(*mine), alone)


def _read(text: str, arrays: Iterator[Array], kind: type[_Kind]) -> _Kind | None:
    if _is_first_form(text):
        return _read_first(text, arrays, kind)
    if '"function"' in text:
        raise InputError("a mask with a Rule, whose function is not in the file")
    value = decode(text, arrays, kind)
    if value is not None and not is_portable(value):  # JSON spells the same words in other ways
        raise InputError("a function or a class without a tag, which a file cannot name")
    return value


def _doubt(value: Declared, extent: Extent) -> None:
    """A part may speak of a problem so large that asking about it takes all memory."""
    within = value.within(extent)
    if within != extent:
        most = max(_MOST_TOKENS, extent.queries, extent.keys)
        fits = extent.queries <= within.queries <= most and extent.keys <= within.keys <= most
        start = getattr(value, "query_start", 0), getattr(value, "key_start", 0)
        if (
            not fits
            or min(start) < 0
            or (start[0] + extent.queries > within.queries or start[1] + extent.keys > within.keys)
        ):
            raise InputError(f"a part that does not lie in its problem: {value!r:.80}")
    for inner in value.parts():
        _doubt(inner, within)


_LONGEST: Final = 1 << 16  # characters
_DEEPEST: Final = 64  # brackets
_WORDS: Final = re.compile(r"[a-zA-Z0-9_'(), .+-]*")
_DIGITS: Final = re.compile(r"[0-9]{40}")
_WHOLE: Final = 2**53

# kind → how many constants follow it, how many arrays it takes, and the value of both
_MASKS: Final[dict[str, tuple[int, int, Callable[..., Any]]]] = {
    "causal": (1, 0, Causal),
    "window": (3, 0, Window),
    "prefix": (0, 1, Prefix),
    "documents": (0, 2, Documents),
    "table": (0, 1, Table),
}
_BIASES: Final[dict[str, tuple[int, int, Callable[..., Any]]]] = {
    "alibi": (1, 1, lambda align, slopes: ALiBi(slopes, align)),
    "relative": (3, 1, lambda both, far, align, table: RelativeBias(table, both, far, align)),
    "table": (0, 1, BiasTable),
}


def _is_first_form(text: str) -> bool:
    """Whether a text is of this form."""
    return text == "None" or text.startswith("(")


def _read_first(text: str, arrays: Iterator[Array], kind: type[_Kind]) -> _Kind | None:
    """The value; InputError where the text is none of ours."""
    tree = _parsed(text)
    if kind is Mask:
        return cast(_Kind, None if tree is None else _mask(tree, arrays))
    if not isinstance(tree, tuple) or len(tree) != 4 or not isinstance(tree[3], bool):
        raise _refused(tree)
    scale, softcap, bias, has_sink = tree
    if not all(type(n) in (int, float) for n in (scale, softcap or 1.0)):
        raise _refused(tree)
    made = None if bias is None else _bias(bias, arrays)
    return cast(_Kind, ScoreRule(scale, softcap, made, _next(arrays) if has_sink else None))


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Any:
    """The text as nested tuples of numbers and words."""
    plain = len(text) <= _LONGEST and _WORDS.fullmatch(text) and not _DIGITS.search(text)
    if not plain or _depth(text) > _DEEPEST:
        raise InputError(f"not regard's: {text!r:.60}")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise InputError(f"it cannot be parsed: {text!r:.60}") from None


def _depth(text: str) -> int:
    steps = [1 if c == "(" else -1 for c in text if c in "()"]
    return int(np.cumsum(steps).max()) if steps else 0


def _refused(node: Any) -> InputError:
    if isinstance(node, tuple) and node[:1] == ("rule",):
        return InputError("a mask with a Rule, whose function is not in the file")
    return InputError(f"not regard's: {node!r:.60}")


def _next(arrays: Iterator[Array]) -> Array:
    for array in arrays:
        return array
    raise InputError("fewer arrays than it names")


def _mask(node: Any, arrays: Iterator[Array]) -> Mask:
    kind, *rest = _parts(node)
    if kind in ("both", "either") and len(rest) == 2:
        left, right = (_mask(one, arrays) for one in rest)
        return Both(left, right) if kind == "both" else Either(left, right)
    if kind == "not" and len(rest) == 1:
        return Not(_mask(rest[0], arrays))
    if kind == "part" and len(rest) == 5:
        return Part(_mask(rest[0], arrays), *_places(rest[1:], node))
    if kind == "padding" and len(rest) == 1 and isinstance(rest[0], bool):
        keys = _next(arrays)
        return Padding(keys, _next(arrays) if rest[0] else None)
    return cast(Mask, _leaf(node, _MASKS, arrays))


def _bias(node: Any, arrays: Iterator[Array]) -> Any:
    kind, *rest = _parts(node)
    if kind == "part" and len(rest) == 5:
        return PartBias(_bias(rest[0], arrays), *_places(rest[1:], node))
    return _leaf(node, _BIASES, arrays)


def _parts(node: Any) -> tuple[Any, ...]:
    if not isinstance(node, tuple) or not node or not isinstance(node[0], str):
        raise _refused(node)
    return node


def _places(numbers: list[Any], node: Any) -> tuple[int, int, int, int]:
    if not all(type(n) is int and 0 <= n < _WHOLE for n in numbers):
        raise _refused(node)
    return numbers[0], numbers[1], numbers[2], numbers[3]


def _leaf(
    node: Any, kinds: dict[str, tuple[int, int, Callable[..., Any]]], arrays: Iterator[Array]
) -> Any:
    kind, *rest = node
    constants, count, make = kinds.get(kind, (-1, 0, Causal))
    plain = all(one is None or type(one) in (bool, int, str) for one in rest)
    if len(rest) != constants or not plain:
        raise _refused(node)
    if any(type(one) is int and not 0 <= one < _WHOLE for one in rest):
        raise _refused(node)
    return make(*rest, *(_next(arrays) for _ in range(count)))
