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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import Any, Final, Literal, TypeVar

import numpy as np

from regard.declare import encode, is_portable
from regard.errors import FileError
from regard.recording.measures import COUNTS, KINDS, Kind, default_join, join_of
from regard.recording.stores import Array, Listed
from regard.summary import RowStatistic

CONTENTS: Final = "attention/3"  # the note `contents`; READS says which versions are read
READS: Final = (1, 2, 3)

# Notes about prompt 0 and about its place L5 are called `prompt/0` and `place/0/L5`.
PROMPT_NOTE: Final = "prompt/"
PLACE_NOTE: Final = "place/"
STATISTICS_NOTE: Final = "statistics"  # of rows, declared by whoever recorded
STATISTIC_NAME: Final = "[a-z][a-z0-9_]{0,63}"
_TEXTS: Final = ("words", "unit", "of", "joins", "counts", "statistic")  # of a statistic, all texts

# Names that no statistic of a recording's own may have: those of other tensors and totals.
TENSORS: Final = (
    "q", "k", "top_weights", "top_keys", "value_norm", "received", "offsets", "offset_edges",
    "pooled", "totals", "heavy_keys", "heavy_received",
)  # fmt: skip
TAKEN: Final = (*KINDS, *TENSORS, *COUNTS)

# Bits of a token's flags.
DELIMITER: Final = 1  # punctuation or line break
SPECIAL: Final = 2  # not part of the text: BOS, chat marks

UNKNOWN: Final = "?"  # a mask or score rule that could not be written down

Relation = Literal["self", "cross"]


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
    kind: Relation
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
        return json.dumps(vars(self), default=vars, separators=(",", ":"))

    def texts(self, rest: Iterable[tuple[Segment, str, tuple[str, str]]]) -> Iterator[str]:
        """The notes of many prompts that have this place in common, each with rows from 0 on in one
        segment, why it is not exact, and the streams of its queries and keys."""
        shared = json.dumps(
            {name: value for name, value in vars(self).items() if name not in _OWN},
            separators=(",", ":"),
        )
        known: dict[Any, str] = {}
        for key in rest:
            if key not in known:
                segment, why_not, streams = key
                own = replace(
                    self, rows=segment.rows, queries=segment.rows[1], keys=segment.keys[1],
                    segments=(segment,), exact=self.exact and not why_not,
                    why_not=self.why_not or why_not, query_tokens=streams[0], key_tokens=streams[1],
                )  # fmt: skip
                text = json.dumps(
                    {name: getattr(own, name) for name in _OWN}, default=vars, separators=(",", ":")
                )
                known[key] = f"{shared[:-1]},{text[1:]}"
            yield known[key]

    @classmethod
    def from_json(cls, text: str) -> Place:
        """Read back; FileError where a field is missing or of another kind."""
        value = read_object(text, "a place")
        segments = value.pop("segments", [])
        if not isinstance(segments, list):
            raise FileError("a place whose segments are no list")
        return _made(cls, value | {"segments": tuple(_made(Segment, one) for one in segments)})


# Fields of a place that differ between prompts of one batch.
_OWN: Final = (
    "rows", "queries", "keys", "segments", "exact", "why_not", "query_tokens", "key_tokens",
)  # fmt: skip


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
        return json.dumps(vars(self), default=vars, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Prompt:
        """Read back; FileError where a field is missing or of another kind."""
        value = read_object(text, "a prompt")
        pairs = value.get("next", [])
        if not isinstance(pairs, list) or not all(map(_is_guess, pairs)):
            raise FileError("a prompt whose next tokens are no pairs of text and probability")
        return _made(cls, value | {"next": tuple((str(t), float(p)) for t, p in pairs)})


def version_of(metadata: Mapping[str, str]) -> int:
    """The version of the contents; 0 where the notes do not say that they are of attention."""
    match = re.fullmatch(r"attention/([0-9]{1,9})", metadata.get("contents", ""))
    return 0 if match is None else int(match[1])


def holds_sums(metadata: Mapping[str, str]) -> bool:
    """Whether bins and the pooled map hold sums; in version 1 they hold means."""
    return version_of(metadata) != 1


def statistics_note(statistics: Iterable[RowStatistic]) -> str:
    """What the recorder says of every statistic: those of each recording, and these."""
    own = [
        Kind(
            one.name, one.words or one.name, joins=join_of(one), unit=one.unit,
            text=encode(one) if is_portable(one) else "",
        )
        for one in statistics
    ]  # fmt: skip
    kept = [kind for kind in KINDS.values() if kind.of == "rows" or kind.has_total]
    return json.dumps({kind.name: _said(kind) for kind in (*kept, *own)}, separators=(",", ":"))


def _said(kind: Kind) -> dict[str, str]:
    """What differs from the defaults of `_declared`."""
    said = {"words": kind.words, "unit": kind.unit, "of": kind.of, "joins": kind.joins,
            "counts": kind.counts, "statistic": kind.text}  # fmt: skip
    usual = {"unit": "", "of": "rows", "joins": "sum", "counts": "rows", "statistic": ""}
    return {key: value for key, value in said.items() if usual.get(key) != value}


def statistics_in(metadata: Mapping[str, str]) -> dict[str, Kind]:
    """The statistics that a recording's note names, beside `KINDS`: whatever is known of them
    here. How their rows join is the file's word."""
    if STATISTICS_NOTE not in metadata:
        return {}
    is_first, found = version_of(metadata) <= 1, {}
    for name, facts in read_object(metadata[STATISTICS_NOTE], "declared statistics").items():
        is_ours = name in KINDS and not is_first
        fine = re.fullmatch(STATISTIC_NAME, name) and (is_ours or name not in TAKEN)
        given = facts if isinstance(facts, dict) else {}
        texts = {key: given.get(key, "") for key in _TEXTS}
        if not fine or not all(isinstance(text, str) for text in texts.values()):
            raise FileError(f"a statistic {name!r:.40} that cannot be, or without words")
        joins = texts["joins"] or (default_join(name) if is_first else "sum")
        counts = texts["counts"] or "rows"
        if is_ours:
            found[name] = replace(KINDS[name], joins=joins, counts=counts)  # as the file has it
            continue
        found[name] = Kind(
            name, texts["words"] or name, texts["of"] or "rows", joins=joins, counts=counts,
            unit=texts["unit"], span="spread", text=texts["statistic"],
        )  # fmt: skip
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


def read_json(text: str, what: str) -> Any:
    """A note; FileError where it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise FileError(f"{what} whose note is no JSON") from None


def read_object(text: str, what: str) -> dict[str, Any]:
    """The same of one that is an object."""
    value = read_json(text, what)
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
    if hint in ("str", "bool", "Relation"):
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


_MOST_LAYERS: Final = 4096  # more than so many of these are not believed
_MOST_HEADS: Final = 2**16
_MOST_BIN: Final = 2**20
_FLOATS: Final = ("F64", "F32", "F16", "BF16")
_WHOLE: Final = ("I64", "I32", "I16", "I8", "U32", "U16", "U8")


def check_place(place: Place) -> None:
    """Sizes that can be, and segments that follow each other inside them."""
    label = place.label
    if place.kind not in ("self", "cross"):
        raise FileError(f"{label}: a place of the kind {place.kind!r:.20}")
    heads = place.heads
    if not (1 <= place.total_heads <= _MOST_HEADS and 1 <= place.key_heads <= place.total_heads):
        raise FileError(f"{label}: {place.total_heads} heads over {place.key_heads} key heads")
    if place.total_heads % place.key_heads or place.layer >= _MOST_LAYERS:
        raise FileError(f"{label}: heads that do not share key heads evenly, or too high a layer")
    if not heads or sorted(set(heads)) != list(heads) or heads[-1] >= place.total_heads:
        raise FileError(f"{label}: heads {heads!r:.40} of {place.total_heads}")
    if place.rows[1] > place.queries:
        raise FileError(f"{label}: rows up to {place.rows[1]} of {place.queries}")
    bins = place.row_bin, place.key_bin, place.top_every
    if not all(1 <= one <= _MOST_BIN for one in bins) or place.pool_cell > 2**31:
        raise FileError(f"{label}: bins of {bins} rows, keys, rows")
    _check_segments(place)


def _check_segments(place: Place) -> None:
    reached = 0
    for one in place.segments:
        if one.rows[0] < reached or one.rows[1] > place.queries or one.keys[1] > place.keys:
            raise FileError(
                f"{place.label}: a segment of rows {one.rows} and keys {one.keys} out of place"
            )
        reached = one.rows[1]


def check_piece(place: Place, what: str, entry: Listed, is_number: bool) -> None:
    """The axes and the kind of number that the page says; `is_number`: it is one a row."""
    heads, shape, floats = len(place.heads), entry.shape, entry.dtype in _FLOATS
    fine = True
    if is_number or what == "received":
        fine = len(shape) == 2 and shape[0] == heads and floats
    elif what in ("top_weights", "top_keys"):
        fine = len(shape) == 3 and shape[0] == heads
        fine = fine and (floats if what == "top_weights" else entry.dtype in _WHOLE)
    elif what == "q":
        fine = len(shape) == 3 and (shape[0], shape[2]) == (heads, place.dim) and floats
    elif what == "k":
        fine = len(shape) == 3 and (shape[0], shape[2]) == (place.key_heads, place.dim) and floats
    elif what == "value_norm":
        fine = len(shape) == 2 and shape[0] == place.key_heads and floats
    elif what in ("heavy_keys", "heavy_received"):
        fine = len(shape) == 2 and shape[0] == heads
        fine = fine and (floats if what == "heavy_received" else entry.dtype in _WHOLE)
    elif what in ("offsets", "totals"):
        fine = len(shape) == 2 and shape[0] == heads and floats
    elif what == "offset_edges":
        fine = len(shape) == 1 and shape[0] >= 1 and entry.dtype in _WHOLE
    elif what == "pooled":
        fine = len(shape) == 3 and shape[0] == heads and floats
    if not fine:
        raise FileError(f"{entry.name!r}: {entry.dtype} {shape} does not fit its place")


def check_columns(place: Place, what: str, entries: Sequence[Listed]) -> None:
    """Tensors of sums are as long as the keys; those of single ranks may be shorter."""
    wanted: tuple[int, ...]
    if what == "received":
        wanted = (len(place.heads), -(-place.keys // place.key_bin))
    else:
        cell = max(place.pool_cell, 1)
        wanted = (len(place.heads), -(-place.queries // cell), -(-place.keys // cell))
    for entry in entries:
        longer = any(n > w for n, w in zip(entry.shape, wanted, strict=True))
        if longer or (len(entries) == 1 and entry.shape != wanted):
            raise FileError(f"{entry.name!r}: shape {entry.shape} does not fit its place")


def check_heavy(place: Place, keys: Array, masses: Array) -> None:
    """(H, m) each: different keys of the place, and what they got."""
    ordered = np.sort(keys, axis=1)
    fine = keys.shape == masses.shape and bool(((keys >= 0) & (keys < place.keys)).all())
    fine = fine and not (ordered[:, 1:] == ordered[:, :-1]).any()
    if not fine or not (masses >= 0).all() or not np.isfinite(masses).all():
        raise FileError(f"{place.label}: heavy_keys that are none of its keys, or without masses")
