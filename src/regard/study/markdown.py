"""The report as Markdown. Tokens are somebody else's text: what could be markup is escaped."""

from __future__ import annotations

import re
from typing import Final

from regard.study.report import Report
from regard.study.words import CAVEAT, KNOCK_OUT, in_figures, knock_out_sentence, sentence

_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>#|~&!$])")


def report_markdown(report: Report) -> str:
    """One page."""
    lines = [f"# What the heads do: {_escaped(report.model or report.file)}", ""]
    lines += [_about(report), "", f"> {CAVEAT[0].upper()}{CAVEAT[1:]}. {KNOCK_OUT}", ""]
    lines += [f"**{_escaped(doubt)}**\n" for doubt in report.doubts]
    lines += ["## Labels", "", "| label | heads | strongest |", "| --- | --- | --- |"]
    lines += [f"| {label} | {n} | {_strongest(report, label)} |" for label, n in _counted(report)]
    lines += ["", f"## Findings, most surprising first{_of(report)}", ""]
    for n, one in enumerate(report.told, 1):
        words = sentence(one.head, one.finding, lambda token: _escaped(repr(token)))
        away = f"{one.surprise:.1f} deviations from its layer"
        lines.append(f"{n}. **{one.finding.name}**, {away}: {words}.")
        if one.head.label in report.knocked:
            lines.append(f"   {knock_out_sentence(report.knocked[one.head.label])}.")
    if not report.told:
        lines.append("None." if not report.found else "None asked for.")
        lines += (
            ["", f"{report.withheld[0].upper()}{report.withheld[1:]}."] if report.withheld else []
        )
    missing = report.unknown()
    if missing:
        lines += ["", "## Not known, or not looked for", ""]
        lines += [f"- {name}: {_escaped(why)}" for name, why in missing.items()]
    return "\n".join(lines) + "\n"


def _about(report: Report) -> str:
    title = f" “{_escaped(report.title)}”" if report.title else ""
    return (
        f"Recording `{report.file.replace('`', '')}`, prompt {report.prompt}{title}, "
        f"{report.tokens:,} tokens, {len(report.heads):,} heads."
    )


def _counted(report: Report) -> list[tuple[str, int]]:
    return list(report.counts().items())


def _strongest(report: Report, label: str) -> str:
    return ", ".join(f"{head} {in_figures(score)}" for head, score in report.strongest(label))


def _of(report: Report) -> str:
    shown, every = len(report.told), len(report.found)
    return f" ({shown} of {every})" if shown < every else ""


def _escaped(text: str) -> str:
    """As text: nothing in it is markup, and it is one line."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
