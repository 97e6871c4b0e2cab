"""What the heads do, on a terminal."""

from __future__ import annotations

from regard.draw.finish import finished, wrapped
from regard.draw.paper import Paper, StyledLine
from regard.draw.table import Column, aligned
from regard.study import Ranked, Report
from regard.study.words import KNOCK_OUT, in_figures, knock_out_sentence
from regard.views.text import CAVEAT, count


def finding_lines(one: Ranked, paper: Paper, indent: int | None = None) -> list[StyledLine]:
    """A label of a head, in a sentence."""
    first = "" if indent is None else " " * indent
    return wrapped(first + one.sentence, paper, indent=2 if indent is None else indent)


def report_lines(found: Report, paper: Paper) -> list[StyledLine]:
    """All that a report tells."""
    lines = wrapped(_about(found), paper, "bold")
    for doubt in found.doubts:
        lines += wrapped(doubt, paper, "bold")
    lines += [[], *_labels(found, paper), []]
    shown, every = len(found.told), len(found.found)
    some = f" ({shown} of {every}; --top tells more)" if shown < every else ""
    lines += [[(f"findings, most surprising first{some}", "bold")]]
    lines += wrapped(f"{CAVEAT}. {KNOCK_OUT}", paper, "dim")
    if found.withheld:
        lines += [[], *wrapped(found.withheld, paper)]
    for one in found.told:
        head = f"{one.finding.name}, {one.surprise:.1f} deviations from its layer"
        lines += [[], [(head, "")], *finding_lines(one, paper, indent=2)]
        if one.head.label in found.knocked:
            words = knock_out_sentence(found.knocked[one.head.label])
            lines += wrapped(f"  {words}", paper, indent=2)
    missing = found.unknown()
    if missing:
        words = "; ".join(f"{name}: {why}" for name, why in missing.items())
        lines += [[], *wrapped(f"not known, or not looked for: {words}", paper, "dim")]
    return finished(lines, paper)


def _about(found: Report) -> str:
    title = f" {found.title!r}" if found.title else ""
    return (
        f"{found.model or found.file}: prompt {found.prompt}{title}, "
        f"{count(found.tokens, 'token')}, {count(len(found.heads), 'head')}"
    )


def _labels(found: Report, paper: Paper) -> list[StyledLine]:
    counts = found.counts()
    strongest = [
        ", ".join(f"{head} {in_figures(score)}" for head, score in found.strongest(label))
        for label in counts
    ]
    numbers = [str(count) for count in counts.values()]
    columns = Column("label", list(counts)), Column("heads", numbers, True)
    return aligned([*columns, Column("strongest", strongest)], paper)
