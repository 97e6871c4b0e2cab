"""A missing package is one line; bars are put back as they were."""

from __future__ import annotations

import pytest

from regard.errors import MissingExtraError
from regard.models.extra import require, without_bars


def test_what_is_there_is_not_mentioned():
    require("this", "json", "zipfile")


def test_a_missing_package_names_its_extra(monkeypatch):
    with pytest.raises(MissingExtraError, match=r"this needs .*'nope'.*'regard\[huggingface\]'"):
        require("this", "json", "nope")
    monkeypatch.setattr("regard.models.extra.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"this needs .*'torch'.*'regard\[torch\]'"):
        require("this", "torch")


@pytest.mark.parametrize("shown", [True, False])
def test_bars_are_left_as_they_were(shown):
    from transformers.utils import logging

    (logging.enable_progress_bar if shown else logging.disable_progress_bar)()
    try:
        with pytest.raises(KeyError), without_bars():
            assert not logging.is_progress_bar_enabled()
            raise KeyError
        assert logging.is_progress_bar_enabled() is shown
    finally:
        logging.enable_progress_bar()
