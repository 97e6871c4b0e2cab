"""Fresh memory full of rubbish, so that whatever was never written shows."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_M_PERTURB = -6  # glibc: fill every new allocation with a byte


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """torch.empty is NaN (or the largest integer), and malloc, where glibc is, is not zero."""
    switch: Any = torch.utils.deterministic
    fill = switch.fill_uninitialized_memory
    was, warn = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    perturb = getattr(libc, "mallopt", None)
    torch.use_deterministic_algorithms(True, warn_only=True)
    switch.fill_uninitialized_memory = True
    if perturb is not None:
        perturb(_M_PERTURB, 1)  # new memory holds 0xFE: −1.7e38 as float
    try:
        yield
    finally:
        if perturb is not None:
            perturb(_M_PERTURB, 0)
        switch.fill_uninitialized_memory = fill
        torch.use_deterministic_algorithms(was, warn_only=warn)
