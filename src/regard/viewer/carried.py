"""A recording as a page carries it: what the server would answer, for some of its heads, with as
many of its pictures as there is room for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from regard.errors import FileError, InputError
from regard.recording import PromptView, Recording
from regard.recording.visibility import Sight
from regard.study import Report, make_report
from regard.viewer import answers
from regard.viewer.carried_heads import Carrying, Source, carry, fits_whole
from regard.viewer.carried_training import carry_training
from regard.viewer.opened import Opened
from regard.viewer.packing import deflated
from regard.viewer.questions import QUESTIONS, Asked
from regard.views.encoding import as_text
from regard.views.findings import report_answer
from regard.views.sightlines import Sightlines
from regard.views.text import count


@dataclass(frozen=True)
class CarriedPictures:
    """Blobs, and by picture which of them it is; None where it is not carried."""

    blobs: list[bytes]
    places: list[int | None]

    def numbered(self, first: int) -> list[int | None]:
        """Numbers of blobs that begin at `first`."""
        return [None if one is None else first + one for one in self.places]

    @property
    def words(self) -> list[str]:
        """What a reader must know."""
        missing = sum(one is None for one in self.places)
        if not missing:
            return []
        return [f"{count(missing, 'picture')} did not fit; patches are drawn without."]


def carry_pictures(view: PromptView, room: int) -> CarriedPictures:
    """The first ones that fit into so many bytes; one that cannot be read is left out."""
    blobs: list[bytes] = []
    places: list[int | None] = []
    for number in range(len(view.pictures)):
        blob = _blob(view, number)
        fits = blob is not None and len(blob) <= room
        places.append(len(blobs) if fits else None)
        if blob is not None and fits:
            blobs.append(blob)
            room -= len(blob)
    return CarriedPictures(blobs, places)


def _blob(view: PromptView, number: int) -> bytes | None:
    try:
        return deflated(view.picture(number))
    except FileError:
        return None


LIMIT: Final = 2_000_000  # bytes of what is carried, in base64
_TOLD: Final = 12  # findings
_RUN: Final = 1 / 4  # of the room, at most: a training run beside heads
_PICTURES: Final = 1 / 2  # likewise: pictures beside heads
_DIGITS: Final = 9  # of a number in JSON: all that float32 has
_PART_BYTES: Final = 96  # of JSON about one head's parts, deflated


def carried_recording(
    recording: Recording,
    *,
    prompt: int = 0,
    heads: str | Sequence[str] | None = None,
    limit: int = LIMIT,
    report: Report | None = None,
) -> tuple[dict[str, Any], list[bytes]]:
    """The data and the blobs of a page (see `make_page`).

    heads    "all", or labels of heads and layers: "L5H1", ["L5", "L7H0"]. Without any: all of them
             where their weights fit, else those that the findings name
    limit    bytes in the page, the page's own script and style not counted
    report   what stands out, where the caller has it

    A training run comes along where no heads are named; where no text was recorded, it alone.
    """
    opened = Opened(recording)
    room = limit * 3 // 4  # base64 takes four bytes for three
    alone = _run_alone(opened, room) if heads is None and not recording.prompts else None
    if alone is not None:
        return alone
    prompt += len(recording.prompts) if prompt < 0 else 0
    view = opened.prompt(prompt)
    told = make_report(recording, prompt, top=_TOLD) if report is None else report
    run = carry_training(opened, int(room * _RUN)) if heads is None else None
    run_blobs = [] if run is None else run.blobs
    pictures = carry_pictures(view, int(room * _PICTURES))
    before = [*run_blobs, *pictures.blobs]
    room -= sum(map(len, before))
    sources = _sources(opened, prompt, chosen_labels(view, heads), told)
    if heads is None and not fits_whole(sources, room):
        named = {one.head.label for one in told.told}
        # where no head has a label, as many as findings would name
        some = sources[: max(told.top, 1)]
        sources = [one for one in sources if one.head.label in named] or some
    facts = _facts(opened, prompt, told, [one.head.label for one in sources])
    facts["training"] = None if run is None else run.facts
    facts["pictures"] = pictures.numbered(1 + len(run_blobs))
    spent = len(deflated(_text(facts))) + _PART_BYTES * len(sources)
    form, step, carried = carry(sources, room - spent)
    facts |= _parts(facts["heads"], carried, 1 + len(before))
    for short in facts["overview"]["heads"]:
        short["exact"] = facts["heads"][short["label"]]["exact"]
    words = [*_words(opened, prompt, carried, form, step), *pictures.words]
    words += [] if run is None else [f"The training run is here: {run.size}.", *run.words]
    data = {"kind": "recording", "carries": {"form": form, "step": step, "words": words,
            "heads": [one.source.head.label for one in carried]}}  # fmt: skip
    return data, [deflated(_text(facts)), *before, *(one.content for one in carried)]


def _run_alone(opened: Opened, room: int) -> tuple[dict[str, Any], list[bytes]] | None:
    """A training run, of a recording that holds nothing else; None where not even that."""
    own: dict[str, Any] = {"recording": 0, "live": False}
    facts: dict[str, Any] = {
        "listing": answers.listing(opened) | own,
        "overview": answers.overview(opened) | own,
        "findings": None, "tokens": {}, "heads": {}, "sights": [], "pictures": [],
        "sight": {"pictures": [], "axes": [], "places": {}},
    }  # fmt: skip
    run = carry_training(opened, room - len(deflated(_text(facts))))
    if run is None:
        return None
    words = [f"This file carries the training run of {opened.name}: {run.size}.", *run.words]
    data = {"kind": "recording", "carries": {"form": "exact", "step": 0.0, "words": words,
            "heads": []}}  # fmt: skip
    return data, [deflated(_text(facts | {"training": run.facts})), *run.blobs]


def chosen_labels(view: PromptView, heads: str | Sequence[str] | None) -> list[str]:
    """Labels of heads, in their order; a layer stands for its heads."""
    every = view.labels()
    given = [heads] if isinstance(heads, str) else heads
    if given is None or list(given) == ["all"]:
        return every
    found: set[str] = set()
    layers = {label.lower(): place for label, place in view.places.items()}
    for name in given:
        if name.lower() in layers:
            place = layers[name.lower()]
            found |= {f"{place.label}H{head}" for head in place.heads}
        elif "h" not in name.lower().rsplit(".", 1)[-1]:
            have = ", ".join(view.places)
            raise InputError(f"{name!r} is no layer of this recording, which has {have}")
        else:
            found.add(view[name].label)
    if not found:
        raise InputError("no head was named; give labels such as L5H1, L5 or all")
    return [label for label in every if label in found]


def _sources(opened: Opened, prompt: int, labels: Sequence[str], told: Report) -> list[Source]:
    view = opened.prompt(prompt)
    if not labels:
        raise InputError(f"{opened.name}: no head was recorded yet, so there is nothing to carry")
    evidence: dict[str, list[int]] = {}
    for one in told.found:
        rows = [*one.finding.rows, *([one.finding.counter] if one.finding.counter else [])]
        evidence.setdefault(one.head.label, []).extend(row.row for row in rows)
    found = []
    for label in labels:
        head = view[label]
        sight = Sight(view.held(head.place.label), head.head)
        make_map = lambda own=head.label: opened.head_map(prompt, own)  # noqa: E731
        found.append(Source(head, sight, make_map, evidence.get(label, [])))
    return found


# ── what the server would answer ─────────────────────────────────────────────────────────────


def _facts(opened: Opened, prompt: int, told: Report, labels: Sequence[str]) -> dict[str, Any]:
    """Of one prompt, which in the page is number 0."""
    view, kept = opened.prompt(prompt), set(labels)
    asked = Asked({"prompt": str(prompt)}, [opened])
    facts = {name: one.answer(opened, asked) for name, one in QUESTIONS.items() if one.carried}
    overview = facts["overview"]
    own = {"recording": 0, "live": False}
    shown = overview | own | {
        "prompt": 0,
        "prompts": [overview["prompts"][prompt]],
        "heads": [dict(one) for one in overview["heads"] if one["label"] in kept],
    }  # fmt: skip
    every = replace(told, top=len(told.found))  # all findings of the heads that are here
    report = report_answer(every, file=opened.name, prompt=0)
    report["findings"] = [one for one in report["findings"] if one["label"] in kept]
    report["heads"] = [one for one in report["heads"] if one["label"] in kept]
    return facts | {
        "listing": answers.listing(opened) | own | {"prompts": 1},
        "overview": shown,
        "findings": report,
        "tokens": {name: _stream(opened, prompt, name) for name in view.streams},
        "heads": {label: _head(opened, prompt, label) for label in labels},
    }


def _stream(opened: Opened, prompt: int, name: str) -> dict[str, Any]:
    stream = opened.prompt(prompt).streams[name]
    return {"stream": name, "start": 0, "total": len(stream), "tokens": stream.tokens,
            "ids": stream.ids.tolist(), "flags": stream.flags.tolist()}  # fmt: skip


def _head(opened: Opened, prompt: int, label: str) -> dict[str, Any]:
    """Without what the page works out again from what it carries."""
    facts = answers.head_facts(opened, prompt, label) | {"prompt": 0}
    return {key: value for key, value in facts.items() if key not in ("tracks", "scale", "caveat")}


# ── what is carried of heads ─────────────────────────────────────────────────────────────────


def _parts(facts: dict[str, Any], carried: Sequence[Carrying], first: int) -> dict[str, Any]:
    """Facts of heads with where their numbers lie, from blob `first` on, and what their rows see,
    each kind once."""
    sights: dict[str, int] = {}
    heads = {}
    for number, one in enumerate(carried, first):
        head, lines = one.source.head, one.lines
        is_whole = lines is not None and lines.rows.size == len(head.recorded)
        heads[head.label] = facts[head.label] | {
            "levels": one.levels,
            "exact": is_whole,
            "why_not": None if is_whole else _why_not(one),
            "tracks": one.tracks,
            "carried": {"blob": number, "parts": one.packed.parts, "sight": _kept(sights, lines)},
        }
    return {"heads": heads, "sights": [json.loads(text) for text in sights]}


def _kept(sights: dict[str, int], lines: Sightlines | None) -> int | None:
    if lines is None:
        return None
    return sights.setdefault(json.dumps(lines.as_dict()), len(sights))


def _why_not(one: Carrying) -> str:
    if not one.source.head.exact:
        return one.source.head.why_not
    levels, rows = one.levels["mean"], [] if one.lines is None else one.lines.rows.tolist()
    has = f"a map from {count(levels[0], 'token')} a pixel on" if levels else "no map"
    some = f" and the rows {', '.join(map(str, rows))}" if rows else ""
    return f"this file carries {has}{some}; the recording has every weight"


def _words(
    opened: Opened, prompt: int, carried: Sequence[Carrying], form: str, step: float
) -> list[str]:
    """What a reader must know of this file, in sentences."""
    tokens, total = opened.prompt(prompt).note.tokens, len(opened.prompt(prompt))
    some = "every head" if len(carried) == total else f"{len(carried)} of {total} heads"
    texts = len(opened.recording.prompts)
    which = f", prompt {prompt} of its {texts}" if texts > 1 else ""
    told = [f"This file carries {some} of {opened.name}{which}."]
    if form == "rounded":
        digits = np.format_float_positional(step, precision=2, fractional=False)
        told += [f"Weights are rounded to {digits}; the recording holds all digits."]
    elif form == "exact":
        told += ["Weights are exact: every digit of float32."]
    else:
        level = min((one.levels["mean"][0] for one in carried if one.levels["mean"]), default=0)
        rows = sum(0 if one.lines is None else one.lines.rows.size for one in carried)
        read = f", and {count(rows, 'row')} can be read weight by weight" if rows else ""
        told += [
            f"{count(tokens, 'token')} are too many for every weight to be here: maps begin at "
            f"{count(level, 'token')} a pixel{read}. The recording zooms into every cell."
        ]
    return told


def _text(facts: dict[str, Any]) -> bytes:
    return as_text(_short(json.loads(as_text(facts))))


def _short(value: Any) -> Any:
    """Numbers without digits that float32 does not have."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, list):
        return [_short(one) for one in value]
    if isinstance(value, dict):
        return {key: _short(one) for key, one in value.items()}
    return value
