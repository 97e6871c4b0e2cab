"""What a report must say."""

from __future__ import annotations

from regard.check import Report

__all__ = ["broken", "clean", "open_rules"]


def clean(report: Report, *decided: str) -> None:
    """Nothing found; the rules named are decided, and no asked one is left open."""
    report.raise_for_findings()
    assert {rule: report.checked[rule] for rule in decided} == dict.fromkeys(decided, "ok")
    assert report.ok, report


def broken(report: Report, rule: str, module: str) -> None:
    """The rule and the place of all findings."""
    assert {(each.rule, each.module) for each in report.findings} == {(rule, module)}, report


def open_rules(report: Report) -> dict[str, str]:
    """The rules that are not decided, of a report without findings."""
    assert not report.findings and not report.ok, report
    return {rule: own for rule, own in report.checked.items() if own.startswith("not decided")}
