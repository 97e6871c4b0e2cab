"""The command line: one file per verb, results on stdout, progress and errors on stderr."""

from __future__ import annotations

from regard.cli.main import app, main

__all__ = ["app", "main"]
