"""Outcomes → docs/families.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import transformers

from support.families.examination import KINDS, Kind, Outcome

_HEAD = """# Model families: right, or refused

Look up here whether regard computes and records the attention of a model type. Every model type
of transformers {version} was built from a tiny random configuration and given inputs of its kind:
tokens, images, videos, sound or time series. Then regard was compared with transformers (the
model's default implementation, and eager):

- all rows of all outputs, without padding, padded on the left and padded on the right;
- a short `generate` with a cache;
- `output_attentions`;
- `regard.record`, which must change neither outputs nor weights nor the implementation.

What the types see, by `regard.check`, is on [a page of its own](check-families.md).

`make test-families` repeats this and writes the page. In a clone,
`PYTHONPATH=tests python -m support.families llama` tests one model type.

| {kinds} | all |
| {lines} | --- |
| {counts} | {all} |
"""
_TITLES: dict[Kind, str] = {
    "right": "The results equal those of transformers. *In part*: some modules compute attention "
    "by themselves, and a warning names them.",
    "refused": "regard raises an error that says why.",
    "wrong": "The check that failed, and by how much.",
    "crashed": "The exception.",
    "not built": "No small model, or no inputs for one, could be made automatically, so these were "
    "not tested.",
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
        yield f"| model type | {'in part' if kind == 'right' else 'reason'} |"
        yield "| --- | --- |"
    yield from (f"| `{one.name}` | {_short(one.said)} |" for one in found)


def _short(said: str) -> str:
    """A sentence in a cell: one line, without the advice that every refusal ends with."""
    line = re.split(r"; \d+ families do", " ".join(said.split()))[0].replace("|", "·")
    return line if len(line) <= 300 else f"{line[:299]}…"
