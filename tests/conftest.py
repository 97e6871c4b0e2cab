"""What holds for every test."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from lanes import is_slow
from outcomes import status_of

# A shell that starts the run in the background makes it, and every process it starts, deaf to
# Ctrl-C; tests that send one would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What the shell says of its terminal, its language and its network is no test's business: each says
# what it needs, to the processes that it starts as well.
_SHELL = (
    "COLUMNS", "LINES", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR",
    "CLICOLOR_FORCE", "LANG", "LANGUAGE", "LC_CTYPE", "PYTHONIOENCODING", "PYTHONUTF8",
    "http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
)  # fmt: skip
for _name in _SHELL:
    os.environ.pop(_name, None)
os.environ["LC_ALL"] = "C.UTF-8"

# No test is about time, and a busy machine makes any example slow.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """Modules and fourteen thousand tests stay until the end: the collector need not go through
    them again and again, nor in every test that asks it what a call leaves behind."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test-fast`."""
    parser.addoption("--fast", action="store_true", help="without the files of tests/lanes.py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file that is left out is not imported either."""
    return True if config.getoption("--fast") and is_slow(collection_path) else None


def pytest_report_teststatus(report: Any) -> tuple[str, str, str] | None:
    """A case that an implementation refuses is no pass."""
    return status_of(report)
