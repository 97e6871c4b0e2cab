"""`regard doctor`."""

from __future__ import annotations


def doctor() -> None:
    """Say what this machine can do."""
