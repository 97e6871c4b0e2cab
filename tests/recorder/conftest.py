"""One small model that reads words, saved once."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorder.texts import save_model


@pytest.fixture(scope="session")
def words_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder it is in."""
    return save_model(tmp_path_factory.mktemp("words"))
