"""What workers of `tests/recorder/test_jobs.py` do; found by name in their own processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import torch

from regard.errors import FileError, InputError, MissingExtraError


def make(number: int) -> dict[str, Any]:
    """A tool that knows whose it is and how often it was used."""
    return {"number": number, "used": 0, "interrupts": signal.getsignal(signal.SIGINT)}


def refuse(number: int) -> None:
    """A model that is not there."""
    raise InputError("no such model; there is smollm2")


def square(tool: dict[str, Any], given: float, advanced: Callable[[float], None]) -> dict[str, Any]:
    """The square, and what the worker is like."""
    tool["used"] += 1
    advanced(given)
    time.sleep(0.05)
    return tool | {
        "square": given**2, "pid": os.getpid(), "threads": torch.get_num_threads(),
        "interrupts": tool["interrupts"] == signal.SIG_IGN,
    }  # fmt: skip


def fail(tool: object, given: str, advanced: object) -> None:
    """In one of several ways."""
    if given == "file":
        raise FileError("the disk is full")
    if given == "extra":
        raise MissingExtraError("loading", "transformers", "huggingface")
    if given == "bug":
        raise ZeroDivisionError("a bug")
