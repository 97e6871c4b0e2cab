"""What tests of several parts of the engine need."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Whatever dies now dies by reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
