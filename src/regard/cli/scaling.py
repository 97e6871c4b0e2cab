"""`regard scaling`."""

from __future__ import annotations


def scaling() -> None:
    """Say what this machine can do."""
