"""The noxfile's sessions name tests and extras that there are; nox itself need not be installed."""

from __future__ import annotations

import re
from pathlib import Path

from tools import environment

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "noxfile.py").read_text(encoding="utf-8")


def test_every_session_names_tests_that_exist():
    named = re.findall(r"\btests/[\w/.]+", TEXT)
    assert len(named) > 8
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_extras_are_those_of_a_clone():
    """Without `gpu`, whose Triton comes with another torch than the oldest."""
    (extras,) = re.findall(r'^EXTRAS = "(.*)"', TEXT, re.MULTILINE)
    assert extras.split(",") == [
        name for name in environment.EVERYTHING.split(",") if name != "gpu"
    ]
