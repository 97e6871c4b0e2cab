"""Outcomes of tests beyond pytest's own: refused.

A case that an implementation refuses in words was not tested: it counts neither as passed nor as
one of the skips of SKIPS.md that wait for a machine.
"""

from __future__ import annotations

from typing import Any

__all__ = ["REFUSED", "status_of"]

REFUSED = "refused by "  # begins the reason of such a skip


def status_of(report: Any) -> tuple[str, str, str] | None:
    """(category, letter, word) of a report that is about a refusal."""
    if report.skipped and isinstance(report.longrepr, tuple) and REFUSED in report.longrepr[2]:
        return "refused", "r", "REFUSED"
    return None
