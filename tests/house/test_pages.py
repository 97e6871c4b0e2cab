"""docs/cli says exactly what --help says: one page per verb."""

from __future__ import annotations

import os
import subprocess
import sys


def test_the_pages_equal_the_help(repository):
    """How a difference is found is tested with the tool, in tests/tools/test_cli_pages.py."""
    command = [sys.executable, str(repository / "tools" / "cli_pages.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_page_is_what_a_terminal_shows(repository):
    """The tool renders inside one process; here the command itself is asked."""
    page = (repository / "docs" / "cli" / "doctor.md").read_text(encoding="utf-8")
    command = [sys.executable, "-m", "regard", "doctor", "--help"]
    wide = os.environ | {"COLUMNS": "100"}
    shown = subprocess.run(command, env=wide, capture_output=True, text=True, check=True).stdout
    # `python -m regard` calls itself so; installed, it is `regard`.
    assert shown.strip().replace("python -m regard", "regard") in page


def test_make_docs_calls_the_tool(repository):
    assert "tools/cli_pages.py" in (repository / "Makefile").read_text(encoding="utf-8")
