"""The command, run in this process as a shell would."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from regard.cli import main


@pytest.fixture
def shell(monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    """Run the entry point with these words: status, stdout, stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return run
