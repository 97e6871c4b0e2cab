"""What the heads do, as it is said everywhere: the same heads in the same order with the same
sentence, most surprising first."""

from __future__ import annotations

from typing import Any, Final, cast

from regard.recording import Merged, Recording
from regard.study import Ranked, Report, make_report
from regard.study.chance import LEAST_TOKENS
from regard.study.outliers import Outlier, outliers
from regard.views.encoding import as_json
from regard.views.schema import FindingAnswer, ManyAnswer, ManyStatisticAnswer, ReportAnswer
from regard.views.text import CAVEAT, count, facts_for_json

STAND_OUT: Final = 5  # findings on an overview


def stands_out(recording: Recording, prompt: int = 0) -> list[Ranked]:
    """The first findings, for an overview."""
    return first_findings(recording, prompt)[0]


def first_findings(recording: Recording, prompt: int = 0) -> tuple[list[Ranked], str]:
    """The same, and why there are none; "" where there are."""
    if not recording.prompts:
        return [], ""
    report = make_report(recording, prompt, top=STAND_OUT)
    first = [one for one in report.told if not one.is_first_sink]
    return first, "" if first else why_nobody(report.tokens, len(report.found), report.withheld)


def why_nobody(tokens: int, labels: int = 0, withheld: str = "") -> str:
    """Said where no head stands out in a text of so many tokens, of whose labels all are about
    the first one; `withheld` is why they are withheld."""
    if withheld:
        return withheld
    if tokens < LEAST_TOKENS:
        return f"{count(tokens, 'token')} show no pattern; labels need {LEAST_TOKENS}"
    words = "no head shows a pattern beyond chance"
    return (
        f"{words}, except that {count(labels, 'head')} park on the first token" if labels else words
    )


def report_answer(report: Report, **told: Any) -> ReportAnswer:
    """The findings that are told, and the scores of all heads; `told` stands instead of what the
    report says itself."""
    apart = min(STAND_OUT, report.discoveries)
    nobody = "" if apart else why_nobody(report.tokens, len(report.found), report.withheld)
    own = {"stand_out": apart, "why_nobody": nobody}
    return cast(ReportAnswer, report.as_dict() | own | told)


def findings_answer(found: list[Ranked]) -> list[FindingAnswer]:
    """Some of them."""
    return [cast(FindingAnswer, one.as_dict()) for one in found]


def many_answer(recording: Recording, merged: Merged) -> ManyAnswer:
    """Every statistic of every head over the documents of a folder."""
    statistics: dict[str, ManyStatisticAnswer] = {
        name: {
            "meaning": merged.statistic_kinds[name].words,
            "values": as_json(values),
            "rows": as_json(merged.counted(name)),
        }
        for name, values in merged.numbers().items()
    }
    apart: list[Outlier] = outliers(merged, STAND_OUT)
    return {
        "folder": recording.name, "model": facts_for_json(recording.model),
        "made": facts_for_json(recording.made), "files": [file.name for file in recording.files],
        "documents": merged.documents, "tokens": merged.tokens, "heads": merged.labels(),
        "statistics": statistics, "surprising": [one.as_dict() for one in apart],
        "caveat": CAVEAT,
    }  # fmt: skip
