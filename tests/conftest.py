"""What holds for every test."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from lanes import is_slow, is_unchanged, left_out, write_released
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
    """The lanes of lanes.py."""
    parser.addoption("--lane", choices=["fast", "usual", "all"], default="all")
    parser.addoption(
        "--share", metavar="COMMIT", help="a seventh of what the usual lane leaves out"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sampled(n): n of its cases in the usual lane")
    config.addinivalue_line("markers", "rest: not in the usual lane")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file that is left out is not imported either; one that is named is not left out."""
    lane = config.getoption("--lane")
    if lane == "fast":
        return True if is_slow(collection_path) else None
    skips = lane == "usual" and not config.getoption("--share") and not _is_named(config)
    return True if skips and is_unchanged(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The usual lane samples products, and leaves the rest."""
    if config.getoption("--lane") != "usual" or _is_named(config):
        return
    out = set(left_out(items, config.getoption("--share")))
    config.hook.pytest_deselected(items=[item for item in items if item in out])
    items[:] = [item for item in items if item not in out]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """The whole suite passed: what is only run when it changes need not be run until it does."""
    config = session.config
    is_whole = config.getoption("--lane") == "all" and not _is_named(config) and exitstatus == 0
    if is_whole and not hasattr(config, "workerinput"):
        write_released()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Workers are always given paths: whether the user gave some, they are told."""
    node.workerinput["is_named"] = _is_named(node.config)


def _is_named(config: pytest.Config) -> bool:
    """Whether files or tests were named on the command line."""
    here = config.args_source is pytest.Config.ArgsSource.ARGS
    told: dict[str, bool] = getattr(config, "workerinput", {})
    return told.get("is_named", here)


def pytest_report_teststatus(report: Any) -> tuple[str, str, str] | None:
    """A case that an implementation refuses is no pass."""
    return status_of(report)
