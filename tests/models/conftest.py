"""What the tests of the model cache share."""

from __future__ import annotations

import pytest

from models.toy import Toy, make_toy


@pytest.fixture
def toy(tmp_path, monkeypatch) -> Toy:
    """A model of a few bytes, the only one known, fetched without a network."""
    return make_toy(tmp_path, monkeypatch)
