"""The report as a page; nothing in a token becomes markup."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from regard import study
from regard.study import Ranked


def test_the_page(planted: Any) -> None:
    page = study.report_markdown(study.make_report(planted, top=4))
    assert page.startswith("# What the heads do: ") and page.endswith("\n")
    assert "> Weights show where a head looks" in page and "knock the head out" in page
    assert "| previous | 2 | L0H0 0.9" in page
    assert "(4 of " in page and re.search(r"^4\. \*\*", page, re.MULTILINE)
    assert not re.search(r"^5\. ", page, re.MULTILINE)
    assert "- retrieval: no needle was given" in page


def test_no_label_without_its_number(planted: Any) -> None:
    page = study.report_markdown(study.make_report(planted, top=100))
    items = re.findall(r"^\d+\. \*\*.*$", page, re.MULTILINE)
    assert items and all(re.search(r"\(\d\.\d\d? ?.*of ", item) for item in items)


def test_tokens_are_text(planted: Any) -> None:
    report = study.make_report(planted, top=1)
    one = report.told[0]
    evil = replace(one.finding.rows[0], token="|<b>`*x*\n# [a](http://b)")
    finding = replace(one.finding, rows=(evil,), counter=None)
    page = study.report_markdown(
        replace(report, found=[Ranked(one.head, finding, 1.0)], title="</p>\n# T")
    )
    assert r"\|\<b\>\`\*x\*" in page and "<b>" not in page.replace(r"\<b\>", "")
    assert "\n# T" not in page and r"\</p\> \# T" in page
