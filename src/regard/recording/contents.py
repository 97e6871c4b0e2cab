"""What a recording of attention says: its notes as values, its tensors by name. CONTENTS.md is
the page.

    prompt    one text that went through the model, with its streams of tokens
    place     one attention module: a stack, a layer, heads
    segment   rows of a place that share one mask and one score rule
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field, fields
from typing import Any, Final, Literal, NamedTuple, TypeVar

from regard.errors import FileError

CONTENTS: Final = "attention/1"  # the note `contents`

# Notes about prompt 0 and about its place L5 are called `prompt/0` and `place/0/L5`.
PROMPT_NOTE: Final = "prompt/"
PLACE_NOTE: Final = "place/"
STATISTICS_NOTE: Final = "statistics"  # of rows, declared by whoever recorded
STATISTIC_NAME: Final = "[a-z][a-z0-9_]{0,63}"

# One number a row, float32 (heads, ⌈rows/row_bin⌉), see `joins_by`; lse is never binned.
ROW_NUMBERS: Final = (
    "lse", "entropy", "max_score", "peak", "concentration", "first", "duplicate", "prefix",
    "output_norm",
)  # fmt: skip
# Names that no statistic of a recording's own may have: those of other tensors and totals.
TAKEN: Final = (
    *ROW_NUMBERS, "q", "k", "top_weights", "top_keys", "value_norm", "received", "offsets",
    "offset_edges", "pooled", "totals", "heavy_keys", "heavy_received", "rows", "normalized_rows",
)  # fmt: skip

# Bits of a token's flags.
DELIMITER: Final = 1  # punctuation or line break
SPECIAL: Final = 2  # not part of the text: BOS, chat marks

UNKNOWN: Final = "?"  # a mask or score rule that could not be written down

Kind = Literal["self", "cross"]


def joins_by(name: str) -> Literal["mean", "max"]:
    """How the rows of a bin, and of a whole recording, become one number."""
    return "max" if name.startswith("max_") else "mean"


@dataclass(frozen=True)
class Segment:
    """Rows that were computed against the same keys under one mask and one score rule.

    Mask and score rule count queries from rows[0] and keys from keys[0]; their extent is
    (rows[1] − rows[0]) × (keys[1] − keys[0]).
    """

    rows: tuple[int, int]
    keys: tuple[int, int]
    mask: str = "null"  # as `regard.declare.encode` writes it; UNKNOWN where it cannot be
    score: str = '["score/1",{"scale":1.0}]'
    arrays: tuple[str, ...] = ()  # names of tensors: the mask's, then the score rule's


@dataclass(frozen=True, kw_only=True)
class Place:
    """One attention module in one prompt."""

    name: str  # path of the module
    stack: str  # "" where the model has one stack; else "encoder", "decoder", "cross" …
    layer: int  # counted within the stack
    kind: Kind
    heads: tuple[int, ...]  # the query heads recorded, of `total_heads`
    total_heads: int
    key_heads: int  # of the module; query heads share them in contiguous groups
    dim: int
    value_dim: int
    rows: tuple[int, int]  # the queries recorded, of `queries`
    queries: int
    keys: int
    segments: tuple[Segment, ...] = ()
    exact: bool = False  # q, k and every segment's mask are here: any cell can be computed
    why_not: str = ""  # where not exact
    query_tokens: str = "tokens"  # the stream its queries stand for; "" where there is none
    key_tokens: str = "tokens"
    row_bin: int = 1  # rows a bin of ROW_NUMBERS other than lse
    key_bin: int = 1  # keys a bin of received and value_norm
    top_every: int = 1  # rows 0, n, 2n … have top keys
    pool_cell: int = 0  # tokens a cell of the pooled map; 0: no map

    @property
    def label(self) -> str:
        """`L5`, or `cross.L5`."""
        return place_label(self.stack, self.layer)

    def to_json(self) -> str:
        """As the note has it."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Place:
        """Read back; FileError where a field is missing or of another kind."""
        value = _object(text, "a place")
        segments = value.pop("segments", [])
        if not isinstance(segments, list):
            raise FileError("a place whose segments are no list")
        return _made(cls, value | {"segments": tuple(_made(Segment, one) for one in segments)})


@dataclass(frozen=True)
class Prompt:
    """One text that went through the model."""

    tokens: int  # of the main stream, generated ones included
    generated: int = 0  # how many of them the model wrote itself
    title: str = ""
    bos: str = ""  # which token was put in front of the text; "" for none
    next: tuple[tuple[str, float], ...] = ()  # the model's own next tokens and probabilities
    _: KW_ONLY
    streams: tuple[str, ...] = ("tokens",)
    finished: bool = False  # every place is complete
    facts: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """As the note has it."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Prompt:
        """Read back; FileError where a field is missing or of another kind."""
        value = _object(text, "a prompt")
        pairs = value.get("next", [])
        if not isinstance(pairs, list) or not all(map(_is_guess, pairs)):
            raise FileError("a prompt whose next tokens are no pairs of text and probability")
        return _made(cls, value | {"next": tuple((str(t), float(p)) for t, p in pairs)})


class DeclaredStatistic(NamedTuple):
    """A statistic of rows that whoever recorded declared."""

    words: str
    text: str  # as `regard.declare` writes it; "" where it cannot


def declared_statistics(metadata: Mapping[str, str]) -> dict[str, DeclaredStatistic]:
    """What the note declares, by the name of its tensors."""
    if STATISTICS_NOTE not in metadata:
        return {}
    found = {}
    for name, facts in _object(metadata[STATISTICS_NOTE], "declared statistics").items():
        given = facts if isinstance(facts, dict) else {}
        one = DeclaredStatistic(given.get("words", ""), given.get("statistic", ""))
        fine = re.fullmatch(STATISTIC_NAME, name) and name not in TAKEN
        if not fine or not all(isinstance(text, str) for text in one):
            raise FileError(f"a statistic {name!r:.40} that cannot be, or without words")
        found[name] = one
    return found


def place_label(stack: str, layer: int) -> str:
    """How a place is called in names: `L5`, `cross.L5`."""
    return f"{stack}.L{layer}" if stack else f"L{layer}"


def tensor_name(prompt: int, of: str, what: str, start: int | None = None) -> str:
    """`P0/L5/lse/2048`: the piece from row 2048 on; without a start: all there is.
    `of` is a place's label or the name of a stream of tokens."""
    return f"P{prompt}/{of}/{what}" + ("" if start is None else f"/{start}")


_NAME = re.compile(r"P([0-9]{1,9})/([^/]+)/([a-z_0-9]+)(?:/([0-9]{1,15}))?")


def split_name(name: str) -> tuple[int, str, str, int | None] | None:
    """prompt, place or stream, what, start; None where the name is of another kind."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return int(match[1]), match[2], match[3], None if match[4] is None else int(match[4])


_Note = TypeVar("_Note", Segment, Place, Prompt)


def _object(text: str, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise FileError(f"{what} whose note is no JSON") from None
    if not isinstance(value, dict):
        raise FileError(f"{what} whose note is no JSON object")
    return value


def _made(kind: type[_Note], value: Any) -> _Note:
    """The dataclass from JSON; unknown fields are of a later minor version and are passed over."""
    if not isinstance(value, dict):
        raise FileError(f"a {kind.__name__.lower()} that is no JSON object")
    given = {}
    for one in fields(kind):
        if one.name in value:
            given[one.name] = _checked(kind.__name__.lower(), one.name, one.type, value[one.name])
    try:
        return kind(**given)
    except TypeError:
        missing = [one.name for one in fields(kind) if one.name not in given]
        raise FileError(f"a {kind.__name__.lower()} without {missing[0]}") from None


def _checked(kind: str, name: str, hint: Any, value: Any) -> Any:
    """The value as the field's type has it, or FileError."""
    if hint in ("str", "bool", "Kind"):
        fine = isinstance(value, bool if hint == "bool" else str)
    elif hint == "int":
        fine = _is_count(value)
    elif hint == "tuple[int, int]":
        fine = _is_list(value) and len(value) == 2 and all(map(_is_count, value))
        fine = fine and value[0] <= value[1]
    elif hint == "tuple[int, ...]":
        fine = _is_list(value) and all(map(_is_count, value))
    elif hint == "tuple[str, ...]":
        fine = _is_list(value) and all(isinstance(one, str) for one in value)
    else:
        fine = isinstance(value, dict | tuple)
    if not fine:
        raise FileError(f"a {kind} whose {name} is {value!r:.40}")
    return tuple(value) if isinstance(value, list) else value


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _is_guess(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and isinstance(value[1], int | float)
        and math.isfinite(value[1])
    )
