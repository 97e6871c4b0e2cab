"""What `regard.check` finds → docs/check-families.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import transformers

from regard.check.rules import RULES
from support.families.examination import Outcome
from support.families.known import KNOWN, KnownFinding
from support.families.sight import UNCHECKED

_HEAD = """# Model families: what they see

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
    head = _HEAD.format(version=transformers.__version__, counts=counts)
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
