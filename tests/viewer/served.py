"""A small recording on disk, and a client of the app that serves it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from regard.recording import Memory, Recording, open
from regard.recording.schema import CONTENTS
from regard.viewer.app import build_app
from regard.viewer.opened import Opened
from support.recordings import WORDS, on_disk

__all__ = ["PORT", "TOKEN", "client_of", "make_empty", "make_opened"]

PORT, TOKEN = 8123, "t" * 32


def client_of(*opened: Opened, **options: Any) -> TestClient:
    """Asks the app that serves these as its page does."""
    served = build_app(opened, TOKEN, PORT, **options)
    return TestClient(served, f"http://127.0.0.1:{PORT}", headers={"x-regard-token": TOKEN})


def make_opened(folder: Path, tokens: Sequence[str] = WORDS, **options: Any) -> Opened:
    """Two layers, the first exact; finished, and open."""
    return Opened(open(on_disk(folder / "run.regard", tokens, **options)))


def make_empty() -> Opened:
    """A recording that was begun, and nothing more."""
    store = Memory()
    store.note({"contents": CONTENTS})
    return Opened(Recording(store))
