"""Gluon as the kernel uses it: one name for what Triton's releases call differently, and a test
for the shape they share."""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module
from typing import Any

_HOME = "triton.experimental.gluon.language"


def copy_in(tma: Any) -> Any:
    """The copy engine's load: descriptor, place, barrier, shared memory."""
    return tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared


@cache
def why_not() -> str | None:
    """What this Triton's Gluon lacks; None where it has the shape that the kernel needs."""
    try:
        language, hopper = import_module(_HOME), import_module(f"{_HOME}.nvidia.hopper")
    except ImportError as error:
        return f"this Triton has no Gluon for Hopper ({error})"
    needed = {
        "warp_specialize": (
            language,
            ["functions_and_args", "worker_num_warps", "worker_num_regs"],
        ),
        "warpgroup_mma": (hopper, ["a", "b", "acc", "use_acc", "is_async"]),
        "warpgroup_mma_wait": (hopper, ["num_outstanding", "deps"]),
    }
    for name, (home, words) in needed.items():
        found = getattr(home, name, None)
        given = [] if found is None else list(inspect.signature(found).parameters)
        if [word for word in given if word in words] != words:
            return f"this Triton's Gluon has no {name}({', '.join(words)})"
    return None
