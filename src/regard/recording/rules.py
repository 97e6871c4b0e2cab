"""Masks and score rules out of a file: text is parsed as data, doubted, and never run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from regard.declare import Declared, decode, is_portable, is_tag_known, tags_in
from regard.errors import FileError, InputError
from regard.mask import Extent, Mask
from regard.recording import rules_1
from regard.recording.store import Array
from regard.score import ScoreRule

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
        for tag in () if rules_1.wrote(text) else tags_in(text):
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
    if rules_1.wrote(text):
        return rules_1.read(text, arrays, kind)
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
