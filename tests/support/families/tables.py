"""Outcomes → docs/families.md; what `regard.check` finds → docs/check-families.md."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import transformers

from regard.check.rules import RULES
from support.families.examination import KINDS, Kind, Outcome
from support.families.known import KNOWN, KnownFinding
from support.families.sight import UNCHECKED

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


_SIGHT_HEAD = """# Model families: what they see

Look up here whether a model type of transformers sees what it must not. Each type of transformers
{version} that could be built tiny and random ([families.md](families.md)) was given to
`regard.check` with inputs of its kind: two sequences as they are, padded on the right, on the left
where texts are generated, and both packed into one row whose `position_ids` start again. It runs on
a CPU with the implementation of attention that the type has by default; kernels of GPUs may differ.
Every finding was confirmed without regard.

`make test-families` repeats this, fails where a finding has no cause listed here, and writes the
page.

| rule | ok | found | not decided | not asked |
| --- | --- | --- | --- | --- |
{counts}
"""
_SHORT = {"ok": "ok", "found": "**found**", "not decided": "?", "not asked": "·"}


def sight_page(outcomes: Iterable[Outcome]) -> str:
    """The page: counts, causes with what was found, what is not decided, and every type."""
    built = sorted(
        (outcome for outcome in outcomes if outcome.kind != "not built"),
        key=lambda outcome: outcome.name,
    )
    every = [outcome for outcome in built if outcome.verdicts]
    kinds = {rule: Counter(_kind(outcome.verdicts[rule]) for outcome in every) for rule in RULES}
    counts = "\n".join(
        f"| {rule} | {' | '.join(str(kinds[rule][kind]) for kind in _SHORT)} |" for rule in RULES
    )
    head = _SIGHT_HEAD.format(version=transformers.__version__, counts=counts)
    lines = [head, *_causes(every), *_open(every), *_unchecked(built), *_types(every)]
    return "\n".join(lines) + "\n"


def _kind(verdict: str) -> str:
    return verdict.partition(":")[0]


def _causes(every: list[Outcome]) -> Iterator[str]:
    """A section per cause, its types with the sentence of each."""
    by_name = {outcome.name: outcome for outcome in every}
    for cause in KNOWN:
        names = [name for name in cause.names.split() if cause.rule in _findings(by_name, name)]
        if names:
            yield f"## {cause.title}: {len(names)}\n\n{cause.reason}\n"
            yield "| model type | what was found |\n| --- | --- |"
            yield from (f"| `{name}` | {_cell(by_name[name], cause)} |" for name in names)
            yield ""


def _findings(by_name: dict[str, Outcome], name: str) -> dict[str, str]:
    return by_name[name].findings if name in by_name else {}


def _cell(outcome: Outcome, cause: KnownFinding) -> str:
    return outcome.findings[cause.rule].removeprefix(f"{cause.rule}: ").replace("|", "·")


def _open(every: list[Outcome]) -> Iterator[str]:
    """Types by the reason why a rule was not decided."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for outcome in every:
        for rule, verdict in outcome.verdicts.items():
            if _kind(verdict) == "not decided":
                reasons[f"{rule}: {verdict.partition(': ')[2]}".replace("|", "·")].append(
                    outcome.name
                )
    yield f"## Not decided: {len({name for names in reasons.values() for name in names})}\n"
    yield "| why | model types |\n| --- | --- |"
    for why, names in sorted(reasons.items(), key=lambda each: (-len(each[1]), each[0])):
        yield f"| {why} | {', '.join(f'`{name}`' for name in names)} |"
    yield ""


def _unchecked(built: list[Outcome]) -> Iterator[str]:
    """Types without any verdict, with the reason."""
    left = [outcome for outcome in built if not outcome.verdicts]
    yield f"## Not checked: {len(left) or 'none'}\n"
    if left:
        yield "| model type | why |\n| --- | --- |"
    for outcome in left:
        notes = [note for note in outcome.notes if note.startswith(UNCHECKED)] or [outcome.said]
        yield f"| `{outcome.name}` | {notes[0].removeprefix(UNCHECKED).replace('|', '·')} |"
    yield ""


def _types(every: list[Outcome]) -> Iterator[str]:
    """Every type in short."""
    yield f"## Every type: {len(every)}\n"
    yield "?: not decided. ·: not asked.\n"
    yield f"| model type | {' | '.join(RULES)} |\n| --- |{' --- |' * len(RULES)}"
    for outcome in every:
        cells = (_SHORT[_kind(outcome.verdicts[rule])] for rule in RULES)
        yield f"| `{outcome.name}` | {' | '.join(cells)} |"
