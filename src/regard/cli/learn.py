"""`regard learn`."""

from __future__ import annotations


def learn() -> None:
    """Say what this machine can do."""
