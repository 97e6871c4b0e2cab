"""The notes of a recording, those of all ranks merged; what ablations of heads changed is one."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from regard.errors import FileError
from regard.recording.pictures import PICTURES_NOTE, Picture, read_pictures
from regard.recording.positions import AXES_NOTE, Positions
from regard.recording.schema import (
    CONTENTS,
    PLACE_NOTE,
    PROMPT_NOTE,
    READS,
    Place,
    Prompt,
    read_json,
    version_of,
)
from regard.recording.stores import Folder, Store

_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_SAME: Final = (
    "stack", "layer", "kind", "heads", "total_heads", "key_heads", "dim", "value_dim",
    "query_tokens", "key_tokens", "row_bin", "key_bin", "top_every", "pool_cell",
)  # fmt: skip


@dataclass(frozen=True)
class Notes:
    """What a recording says of itself."""

    facts: dict[str, dict[str, Any]]  # the JSON notes: model, made, plan, check
    prompts: dict[int, Prompt]
    places: dict[int, dict[str, Place]]  # by prompt and label
    knocked: dict[int, Knocked]  # by prompt: what knock-outs changed, by head
    positions: dict[int, Positions]  # by prompt: what positions stand for
    pictures: dict[int, tuple[Picture, ...]]


def read_notes(store: Store, name: str) -> Notes:
    """The notes of a store; FileError where it is no recording of attention that we can read."""
    told = _by_rank(store)
    _check_contents(store.metadata, name)
    if len({version_of(notes) for notes in told.values()}) > 1:
        raise FileError(f"{name}: the ranks do not agree about contents; open them one by one")
    facts = {key: _json(store.metadata, key) for key in ("model", "made", "plan", "check")}
    prompts: dict[int, Prompt] = {}
    places: dict[int, dict[str, Place]] = {}
    knocked: dict[int, Knocked] = {}
    positions: dict[int, Positions] = {}
    pictures: dict[int, tuple[Picture, ...]] = {}
    for rank, notes in told.items():
        for key, text in notes.items():
            number, label = _parts(key)
            if key.startswith(PROMPT_NOTE) and number is not None and not label:
                prompts[number] = _joined_prompt(prompts.get(number), Prompt.from_json(text))
            elif key.startswith(PLACE_NOTE) and number is not None:
                place = _named(Place.from_json(text), label, rank)
                known = places.setdefault(number, {})
                known[label] = _joined_place(known[label], place) if label in known else place
            elif key.startswith(KNOCKED_NOTE) and number is not None and not label:
                knocked[number] = read_knocked(text) | dict(knocked.get(number, {}))
            elif key.startswith(AXES_NOTE) and number is not None and not label:
                positions[number] = Positions.from_json(text)
            elif key.startswith(PICTURES_NOTE) and number is not None and not label:
                pictures[number] = read_pictures(text)
    return Notes(facts, dict(sorted(prompts.items())), places, knocked, positions, pictures)


def _by_rank(store: Store) -> Mapping[str, Mapping[str, str]]:
    """Notes by the prefix that a rank's tensors have."""
    if isinstance(store, Folder):
        return {f"rank-{rank:04}/": reader.metadata for rank, reader in store.readers.items()}
    return {"": store.metadata}


def _check_contents(metadata: Mapping[str, str], name: str) -> None:
    said = metadata.get("contents")
    if said is None:
        raise FileError(
            f"{name}: holds no attention (its notes do not say what it holds); give a file that "
            "regard.record or `regard record` has written"
        )
    version = version_of(metadata)
    if not version:
        raise FileError(f"{name}: holds {said!r:.40}, not attention; give a recording of attention")
    if version not in READS:
        raise FileError(
            f"{name}: holds {said!r:.40}; this regard reads up to {CONTENTS!r}: upgrade it"
        )


def _json(metadata: Mapping[str, str], key: str) -> dict[str, Any]:
    """A note that is a JSON object; empty where there is none."""
    try:
        value = json.loads(metadata.get(key, "{}"))
    except (ValueError, RecursionError):
        raise FileError(f"the note {key!r} is no JSON") from None
    if not isinstance(value, dict):
        raise FileError(f"the note {key!r} is no JSON object")
    return value


def _parts(key: str) -> tuple[int | None, str]:
    """`place/0/L5` → 0, "L5"."""
    _, _, rest = key.partition("/")
    number, _, label = rest.partition("/")
    return (int(number), label) if _NUMBER.fullmatch(number) else (None, label)


def _named(place: Place, label: str, rank: str) -> Place:
    """The place with its arrays called as the store calls them."""
    if place.label != label:
        raise FileError(f"the note of {label!r:.40} is about {place.label!r:.40}")
    if not rank:
        return place
    return replace(
        place,
        segments=tuple(
            replace(one, arrays=tuple(rank + name for name in one.arrays)) for one in place.segments
        ),
    )


def _joined_place(a: Place, b: Place) -> Place:
    """One place that several ranks have parts of."""
    for name in _SAME:
        if getattr(a, name) != getattr(b, name):
            raise FileError(f"{a.label}: the ranks do not agree about {name}; open them one by one")
    segments = {(one.rows, one.keys): one for one in (*b.segments, *a.segments)}
    return replace(
        a,
        rows=(min(a.rows[0], b.rows[0]), max(a.rows[1], b.rows[1])),
        queries=max(a.queries, b.queries),
        keys=max(a.keys, b.keys),
        segments=tuple(segments[key] for key in sorted(segments)),
        exact=a.exact and b.exact,
        why_not=a.why_not or b.why_not,
    )


def _joined_prompt(a: Prompt | None, b: Prompt) -> Prompt:
    if a is None:
        return b
    return replace(
        a,
        tokens=max(a.tokens, b.tokens),
        next=a.next or b.next,  # the rank with the last tokens knows
        finished=a.finished and b.finished,
    )


KNOCKED_NOTE: Final = "knocked/"  # of prompt 0: `knocked/0`
_PARTS: Final = ("text", "copying")
_CHANGES: Final = ("delta_logit", "delta_logprob", "kl")
_NUMBERS: Final = (*_CHANGES, *(f"typical_{name}" for name in _CHANGES))

# By head, as `regard.intervene.Evidence.to_dict` says it.
Knocked: TypeAlias = Mapping[str, Mapping[str, Any]]


def write_knocked(found: Knocked) -> str:
    """As the note has it."""
    return json.dumps({label: dict(one) for label, one in found.items()}, separators=(",", ":"))


def read_knocked(text: str) -> dict[str, dict[str, Any]]:
    """Read back; FileError where a number is missing or is none."""
    value = read_json(text, "knock-outs")
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        raise FileError("knock-outs whose note is no JSON object of heads")
    for label, one in value.items():
        for part in _PARTS:
            numbers = one.get(part)
            fine = isinstance(numbers, dict) and all(_is_number(numbers.get(n)) for n in _NUMBERS)
            if not fine:
                raise FileError(f"the knock-out of {label!r:.40} without the numbers of {part!r}")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
