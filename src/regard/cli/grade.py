"""`regard grade`."""

from __future__ import annotations


def grade() -> None:
    """Say what this machine can do."""
