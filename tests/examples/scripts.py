"""Example scripts as modules and as processes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import typer
from typer.testing import CliRunner

import warm

__all__ = ["EXAMPLES", "call", "load", "run"]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load(name: str) -> ModuleType:
    """A script as a module. It finds its neighbours as it does when it is run."""
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return importlib.import_module(name)


def call(script: ModuleType, *options: str) -> tuple[int, str]:
    """Status and output of a script that was loaded, called with options in this process."""
    app = typer.Typer(add_completion=False)
    app.command()(script.main)
    done = CliRunner().invoke(app, options, env={"NO_COLOR": "1", "TERM": "dumb"})
    return done.exit_code, done.output


def run(name: str, *options: str) -> tuple[int, str, str]:
    """Status, stdout and stderr of a script run through pipes."""
    done = warm.run(EXAMPLES / f"{name}.py", *options, NO_COLOR="1", FORCE_COLOR="")
    return done.returncode, done.stdout, done.stderr
