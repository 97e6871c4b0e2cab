"""What holds for every test."""

from __future__ import annotations

import signal
from typing import Any

from hypothesis import settings

from outcomes import status_of

# A shell that starts the run in the background makes it, and every process it starts, deaf to
# Ctrl-C; tests that send one would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test is about time, and a busy machine makes any example slow.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_report_teststatus(report: Any) -> tuple[str, str, str] | None:
    """A case that an implementation refuses is no pass."""
    return status_of(report)
