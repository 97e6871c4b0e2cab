"""Tidy tables of a recording: `rec.table()`, and what `regard export` writes.

What is asked for is checked when a table is made; its numbers are read, or computed from q and k,
chunk by chunk. Columns of statistics are those that the recording says it has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.errors import FileError, InputError
from regard.recording import Merged, PromptView, Recording, Training
from regard.recording.schema import Place
from regard.recording.training import LOSS
from regard.study import make_report
from regard.summary import RowStatistic
from regard.tidy import Chunk, TableColumn, TidyTable
from regard.views.parts import (
    HeadPart,
    Patterns,
    Selection,
    Span,
    check_exact,
    heaviest,
    known_rows,
    matching,
    received,
    summaries,
)
from regard.views.positions import CoordinateColumns, positions_table, whole_text

_Array: TypeAlias = NDArray[Any]

MOST_WEIGHTS: Final = 20_000_000  # lines
_AT_ONCE: Final = 1 << 20  # weights, or numbers of a training run

_LABEL: Final = re.compile(r"(?:(.*)\.)?L([0-9]{1,15})(?:H([0-9]{1,15}))?", re.DOTALL)

_PROMPT: Final = TableColumn("prompt", "whole", "index of the text")
_HEAD: Final = (
    TableColumn("stack", "text", "stack of layers; empty where the model has one"),
    TableColumn("layer", "whole", "counted within its stack"),
    TableColumn("head", "whole", "query head of the layer"),
)
_WHO: Final = (_PROMPT, *_HEAD)
_NAME: Final = TableColumn("label", "text", "the head's name")
_TOKEN: Final = TableColumn(
    "token", "text", "of the row or key, of the first in a bin; of a patch or moment its name"
)

# What a number of rows means where that is not the mean over rows.
_ROW_WORDS: Final = {
    "lse": "log Σ exp(score), natural log",
    "peak": "weight of the heaviest key",
    "output_norm": "‖o‖",
}


def make_table(
    of: Recording | Merged, what: str = "statistics", *, prompt: int | None = None,
    rows: Span = None, keys: Span = None, heads: Patterns = None, top: int = 8,
) -> TidyTable:  # fmt: skip
    """The table of that name, see `Recording.table`."""
    if isinstance(of, Merged):
        return _merged_table(of, heads, {})
    if what not in TABLES:
        raise InputError(f"no table {what!r}; there are {', '.join(TABLES)}")
    make, takes = TABLES[what]
    for name, given in (("prompt", prompt), ("rows", rows), ("keys", keys)):
        if given is not None and name not in takes:
            raise InputError(f"{name}: {what} cannot be restricted to {name}; leave it out")
    if top < 1:
        raise InputError(f"top {top}: give a number of keys ≥ 1")
    return make(Selection(of, heads, prompt, rows, keys, top))


def _who(prompt: PromptView, place: Place, heads: Sequence[int] | int, count: int) -> Chunk:
    """The first columns of `count` lines."""
    return {
        "prompt": np.full(count, prompt.number),
        "stack": [place.stack] * count,
        "layer": np.full(count, place.layer),
        "head": np.broadcast_to(np.asarray(heads, np.int64), count),
    }


def _of(part: HeadPart, count: int) -> Chunk:
    return _who(part.prompt, part.head.place, part.head.head, count)


def _texts(tokens: list[str] | None, places: _Array) -> list[str]:
    """The tokens at these places; half of a character, which is no text, becomes a mark."""
    known = tokens or []
    return [whole_text(known[n]) if 0 <= n < len(known) else "" for n in places.tolist()]


def _about(of: Selection) -> dict[str, str]:
    """The model, and the texts by number."""
    titles = {one.number: one.title for one in of.prompts}
    return {**_model(of), "prompts": json.dumps(titles)}


def _model(of: Selection) -> dict[str, str]:
    return {"model": str(of.recording.model.get("name", ""))}


def _numbers(
    taken: Iterable[TableColumn], words: Mapping[str, str], known: Mapping[str, RowStatistic]
) -> dict[str, TableColumn]:
    """A column for each statistic; one that is called like a column before it is told apart."""
    used = {one.name for one in taken}
    units = {name: one.unit for name, one in known.items()}
    return {
        name: TableColumn(f"{name}_" if name in used else name, "number", said, units.get(name, ""))
        for name, said in words.items()
    }


def _statistics(of: Selection) -> TidyTable:
    words: dict[str, str] = {}
    known: dict[str, RowStatistic] = {}
    count = 0
    for prompt in of.prompts:
        words |= {name: one.words for name, one in prompt.statistic_kinds.items()}
        known |= summaries(prompt, next(iter(prompt.places))) if prompt.places else {}
        count += len(of.labels(prompt))
    columns = _numbers(_WHO, words, known)

    def chunks() -> Iterator[Chunk]:
        for prompt in of.prompts:
            wanted = set(of.labels(prompt))
            for label, place in prompt.places.items():
                slots = [n for n, h in enumerate(place.heads) if f"{label}H{h}" in wanted]
                numbers = prompt.statistics(label)
                yield {
                    **_who(prompt, place, [place.heads[n] for n in slots], len(slots)),
                    **{one.name: numbers[name][slots] for name, one in columns.items()},
                }

    return TidyTable(
        "statistics", (*_WHO, *columns.values()), chunks, _about(of), count, is_counted=True
    )


def _rows(of: Selection) -> TidyTable:
    where = CoordinateColumns(of, "query")
    first = (
        *_WHO, TableColumn("row", "whole", "the first of a bin"),
        TableColumn("rows", "whole", "how many it stands for"), _TOKEN, *where.columns,
    )  # fmt: skip
    words: dict[str, str] = {}
    known: dict[str, RowStatistic] = {}
    count = 0
    for part in of.parts():
        known |= summaries(part.prompt, part.head.place.label)
        said = {name: one.words for name, one in part.prompt.statistic_kinds.items()}
        said |= {name: one.words for name, one in known.items()} | _ROW_WORDS
        words |= {name: said.get(name, "") for name in part.head.row_numbers}
        count += known_rows(part)[0].size - 1
    columns = _numbers(first, words, known)

    def chunks() -> Iterator[Chunk]:
        for part in of.parts():
            edges, ways = known_rows(part)
            unknown = np.full(edges.size - 1, np.nan)
            yield {
                **_of(part, edges.size - 1),
                "row": edges[:-1],
                "rows": np.diff(edges),
                "token": _texts(part.head.query_names, edges[:-1]),
                **where.of(part.prompt, part.head, query=edges[:-1]),
                **{
                    one.name: ways[name]() if name in ways else unknown
                    for name, one in columns.items()
                },
            }

    return TidyTable("rows", (*first, *columns.values()), chunks, _about(of), count, True)


def _top(of: Selection) -> TidyTable:
    columns = (
        *_WHO, TableColumn("row", "whole"), TableColumn("rank", "whole", "1 for the heaviest key"),
        TableColumn("key", "whole"), TableColumn("weight", "number"), _TOKEN,
    )  # fmt: skip
    where = CoordinateColumns(of, "query", "key")

    def chunks() -> Iterator[Chunk]:
        for part in of.parts():
            found = heaviest(part, of.top)
            row, rank = np.nonzero(found.keys >= 0)
            keys = found.keys[row, rank]
            yield {
                **_of(part, keys.size),
                "row": found.rows[row],
                "rank": rank + 1,
                "key": keys,
                "weight": found.weights[row, rank],
                "token": _texts(part.head.key_names, keys),
                **where.of(part.prompt, part.head, query=found.rows[row], key=keys),
            }

    most = sum(of.top * len(part.rows) for part in of.parts())
    return TidyTable("top", (*columns, *where.columns), chunks, _about(of), most)


def _received(of: Selection) -> TidyTable:
    columns = (
        *_WHO, TableColumn("key", "whole", "the first of a bin"),
        TableColumn("keys", "whole", "how many it stands for"),
        TableColumn("received", "number", "mass from all recorded rows"), _TOKEN,
    )  # fmt: skip
    where = CoordinateColumns(of, "key")

    def chunks() -> Iterator[Chunk]:
        for part in of.parts():
            edges, mass = received(part)
            yield {
                **_of(part, edges.size - 1),
                "key": edges[:-1],
                "keys": np.diff(edges),
                "received": mass(),
                "token": _texts(part.head.key_names, edges[:-1]),
                **where.of(part.prompt, part.head, key=edges[:-1]),
            }

    count = sum(received(part)[0].size - 1 for part in of.parts())
    every = (*columns, *where.columns)
    return TidyTable("received", every, chunks, _about(of), count, is_counted=True)


def _weights(of: Selection) -> TidyTable:
    count = sum(len(part.rows) * len(part.keys) for part in of.parts())
    if count > MOST_WEIGHTS:
        raise InputError(
            f"weights: up to {count:,} lines, more than {MOST_WEIGHTS:,}; name fewer heads, rows "
            "or keys, or write arrays: regard export --to npz"
        )
    for part in of.parts():
        check_exact(part)
    where = CoordinateColumns(of, "query", "key")

    def chunks() -> Iterator[Chunk]:
        for part in of.parts():
            step = max(_AT_ONCE // max(len(part.keys), 1), 1)
            for first in range(part.rows.start, part.rows.stop, step):
                last = min(first + step, part.rows.stop)
                weights = part.head[first:last, part.own_keys]
                row, key = np.nonzero(weights)
                yield {
                    **_of(part, row.size),
                    "query": row + first,
                    "key": key + part.keys.start,
                    "weight": weights[row, key],
                    **where.of(
                        part.prompt, part.head, query=row + first, key=key + part.keys.start
                    ),
                }

    columns = (
        *_WHO, TableColumn("query", "whole", "the row"), TableColumn("key", "whole"),
        TableColumn("weight", "number"), *where.columns,
    )  # fmt: skip
    return TidyTable("weights", columns, chunks, _about(of), count)


def _positions(of: Selection) -> TidyTable:
    return positions_table(of, _about(of))


def _findings(of: Selection) -> TidyTable:
    columns = (
        *_WHO, _NAME, TableColumn("pattern", "text"), TableColumn("score", "number"),
        TableColumn("chance", "number", "what an even spread over the visible keys would give"),
        TableColumn("p_value", "number", "of such a score by chance, at most"),
        TableColumn("surprise", "number", "robust deviations from the other heads of its layer"),
        TableColumn("sentence", "text"),
    )  # fmt: skip
    for prompt in of.prompts:
        of.labels(prompt)  # which refuses heads that are not there

    def chunks() -> Iterator[Chunk]:
        for at in range(len(of.prompts)) if of.prompt is None else [of.prompt]:
            report = make_report(of.recording, at, top=0)
            wanted = set(of.labels(of.recording.prompt(at)))
            yield _chunk(columns, [
                (report.prompt, one.head.stack, one.head.layer, one.head.head, one.head.label,
                 one.finding.name, one.finding.score, one.finding.chance, one.finding.p_value,
                 one.surprise, one.sentence)
                for one in report.found if one.head.label in wanted
            ])  # fmt: skip

    return TidyTable("findings", columns, chunks, _about(of))


def _chunk(columns: Sequence[TableColumn], lines: Sequence[Sequence[Any]]) -> Chunk:
    """Lines as columns."""
    kinds: dict[str, Any] = {"whole": np.int64, "number": np.float64}
    made = {}
    for at, one in enumerate(columns):
        cells = [line[at] for line in lines]
        texts = one.kind == "text"
        made[one.name] = [*map(whole_text, cells)] if texts else np.array(cells, kinds[one.kind])
    return made


def _merged(of: Selection) -> TidyTable:
    return _merged_table(of.recording.merged(), of.heads, _model(of))


def _merged_table(merged: Merged, heads: Patterns, about: Mapping[str, str]) -> TidyTable:
    words = {name: one.words for name, one in merged.statistic_kinds.items()}
    columns = _numbers(_HEAD, words, {})
    wanted = set(matching(merged.labels(), heads))

    def chunks() -> Iterator[Chunk]:
        for label, place in merged.places.items():
            slots = [n for n, h in enumerate(place.heads) if f"{label}H{h}" in wanted]
            yield {
                "stack": [place.stack] * len(slots),
                "layer": np.full(len(slots), place.layer),
                "head": np.array([place.heads[n] for n in slots], np.int64),
                **{one.name: place.number(name)[slots] for name, one in columns.items()},
            }

    facts = {**about, "documents": str(merged.documents), "tokens": str(merged.tokens)}
    return TidyTable("merged", (*_HEAD, *columns.values()), chunks, facts, len(wanted), True)


# ── a training run ───────────────────────────────────────────────────────────────────────────

_STEP: Final = TableColumn("step", "whole")
_STATISTIC: Final = TableColumn("statistic", "text")


def _training(of: Selection) -> TidyTable:
    run = _run(of)
    names = _measured(run)
    labels = matching(list(names), of.heads)
    where = np.array([names[label] for label in labels], np.int64).reshape(-1, 2)
    stacks, layers, heads = zip(*map(_read_label, labels), strict=True) if labels else ([],) * 3
    step = max(_AT_ONCE // max(len(labels), 1), 1)
    has_loss = run.has_loss & (of.heads is None)

    def chunks() -> Iterator[Chunk]:
        for statistic in run.words:
            for first in range(0, len(run) if labels else 0, step):
                values = run[statistic][first : first + step, where[:, 0], where[:, 1]]
                count = len(values)
                yield {
                    "step": np.repeat(run.steps[first : first + step], len(labels)),
                    "stack": [*stacks] * count,
                    "layer": np.tile(np.array(layers), count),
                    "head": np.tile(np.array(heads), count),
                    "label": labels * count,
                    "statistic": [statistic] * values.size,
                    "value": values.reshape(-1),
                }
        if has_loss.any():  # of the model, so of no head
            every = int(has_loss.sum())
            yield {
                "step": run.steps[has_loss],
                "stack": [""] * every,
                "layer": np.full(every, -1),
                "head": np.full(every, -1),
                "label": [""] * every,
                "statistic": [LOSS] * every,
                "value": run.loss[has_loss],
            }

    columns = (_STEP, *_HEAD, _NAME, _STATISTIC, TableColumn("value", "number"))
    about = {**_model(of), "statistics": json.dumps(run.words)}
    count = len(run) * len(labels) * len(run.words) + int(has_loss.sum())
    return TidyTable("training", columns, chunks, about, count, is_counted=True)


def _alarms(of: Selection) -> TidyTable:
    columns = (
        _STEP, *_HEAD, _NAME, TableColumn("kind", "text"), _STATISTIC,
        TableColumn("value", "number", "at that step"), TableColumn("threshold", "number"),
    )  # fmt: skip
    run = _run(of)
    alarms = run.alarms
    wanted = set(matching(list(_measured(run) | {one.head: None for one in alarms}), of.heads))
    lines = [
        (one.step, *_read_label(one.head), one.head, one.kind, one.statistic, one.value,
         one.threshold)
        for one in alarms if one.head in wanted
    ]  # fmt: skip
    try:
        chunk = _chunk(columns, lines)
    except OverflowError:
        raise FileError("an alarm at a step that is no number of ours") from None
    return TidyTable("alarms", columns, lambda: iter([chunk]), _model(of), len(lines), True)


def _run(of: Selection) -> Training:
    run = of.recording.training
    if not len(run) and not run.alarms:
        raise InputError(f"{of.recording.name}: no training was monitored here")
    return run


def _measured(run: Training) -> dict[str, Any]:
    """Place and head of each label; a place may have fewer heads than the widest."""
    known = np.any([(~np.isnan(one)).any(0) for one in run.statistics.values()], axis=0)
    return {f"{run.places[p]}H{h}": (p, h) for p, h in np.argwhere(known).tolist()}


def _read_label(label: str) -> tuple[str, int, int]:
    """stack, layer and head; −1 where it says none."""
    match = _LABEL.fullmatch(label)
    if match is None:
        return label, -1, -1
    return match[1] or "", int(match[2]), int(match[3] or -1)


class _Offered(NamedTuple):
    """How a table is made, and what it can be restricted to beside heads."""

    make: Callable[[Selection], TidyTable]
    takes: tuple[str, ...] = ()


TABLES: Final[dict[str, _Offered]] = {
    "statistics": _Offered(_statistics, ("prompt",)),
    "rows": _Offered(_rows, ("prompt", "rows")),
    "top": _Offered(_top, ("prompt", "rows")),
    "received": _Offered(_received, ("prompt", "keys")),
    "weights": _Offered(_weights, ("prompt", "rows", "keys")),
    "positions": _Offered(_positions, ("prompt",)),
    "findings": _Offered(_findings, ("prompt",)),
    "merged": _Offered(_merged),
    "training": _Offered(_training),
    "alarms": _Offered(_alarms),
}
