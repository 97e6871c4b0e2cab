"""Outcomes → docs/families.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import transformers

from regard.testing.families.outcome import KINDS, Kind, Outcome

_HEAD = """# Families: right, or refused

Every model type that transformers {version} knows was built from a tiny random configuration and
given inputs of its own: tokens, images, videos, sound, time series. transformers' implementation
(the one a model has by default, and eager) was compared with regard: all rows of all outputs,
without padding, padded on the left and on the right; a short `generate` with a cache;
`output_attentions`; `regard.record`, which changes neither outputs nor weights nor the
implementation. `make test-families` does it again and writes this page;
`python -m regard.testing.families llama` examines one model type.

| {kinds} | all |
| {lines} | --- |
| {counts} | {all} |
"""
_TITLES: dict[Kind, str] = {
    "right": "As transformers computes it. *In part*: some modules compute attention by "
    "themselves, and a warning names them.",
    "refused": "The sentence each is refused with.",
    "wrong": "Which check, and by how much.",
    "crashed": "What was raised.",
    "not built": "No small model, or no inputs for one, were found automatically, so nothing is "
    "known.",
}


def page(outcomes: Iterable[Outcome]) -> str:
    """The page, a section per kind."""
    found = sorted(outcomes, key=lambda one: one.name)
    counts = Counter(one.kind for one in found)
    head = _HEAD.format(
        version=transformers.__version__,
        kinds=" | ".join(KINDS),
        lines=" | ".join("---" for _ in KINDS),
        counts=" | ".join(str(counts[kind]) for kind in KINDS),
        all=len(found),
    )
    sections = (_section(kind, [one for one in found if one.kind == kind]) for kind in KINDS)
    return "\n".join([head, *sections])


def _section(kind: Kind, found: list[Outcome]) -> str:
    title = f"## {kind.capitalize()}: {len(found) or 'none'}\n"
    if not found:
        return title
    return "\n".join([title, _TITLES[kind], "", *_rows(kind, found)]) + "\n"


def _rows(kind: Kind, found: list[Outcome]) -> Iterator[str]:
    if kind == "right":
        whole = [one for one in found if not one.said]
        yield ", ".join(f"`{one.name}`" for one in whole) + "."
        found = [one for one in found if one.said]
        yield ""
    if found:
        yield f"| model type | {'in part' if kind == 'right' else 'said'} |"
        yield "| --- | --- |"
    yield from (f"| `{one.name}` | {_short(one.said)} |" for one in found)


def _short(said: str) -> str:
    """A sentence in a cell: one line, without the advice that every refusal ends with."""
    line = re.split(r"; \d+ families do", " ".join(said.split()))[0].replace("|", "·")
    return line if len(line) <= 300 else f"{line[:299]}…"
