"""What has to be installed before a model can be converted or loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from regard.errors import MissingExtraError


def require(what: str, *packages: str) -> None:
    """Each of the packages, or an error that names the extra it comes with."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtraError(what, package, "torch" if package == "torch" else "huggingface")


@contextmanager
def without_bars() -> Iterator[None]:
    """Files from the disk take a second; no bars for them. Warnings are shown as ever."""
    from transformers.utils import logging

    were_shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if were_shown:
            logging.enable_progress_bar()
