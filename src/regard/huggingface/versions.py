"""Where versions of transformers from 5.0 on differ: one value or function for each difference.

What a version has is found by looking, at import, never by its number, so that a release between
two known ones is treated by what it does. No other file of the package tells versions apart.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from transformers import masking_utils

from regard.errors import InputError


def _takes(function: Callable[..., Any], name: str) -> bool:
    return name in inspect.signature(function).parameters


# ── masks ────────────────────────────────────────────────────────────────────────────────────

# 5.4 and newer: a mask function takes q_length, q_offset and device. Up to 5.3: `cache_position`,
# (queries,), the positions of the queries on the mask's device.
TAKES_LENGTHS = _takes(masking_utils.sdpa_mask, "q_length")

# 5.14 and newer: whether sdpa would get no mask depends on q_offset too.
_SKIP_TAKES_OFFSET = _takes(masking_utils._ignore_causal_mask_sdpa, "q_offset")


def as_interface(mask: Callable[..., Any]) -> Callable[..., Any]:
    """A mask function of lengths, as the installed transformers calls it."""
    if TAKES_LENGTHS:
        return mask

    @wraps(mask)
    def of_positions(batch_size: int, cache_position: Tensor, *args: Any, **kwargs: Any) -> Any:
        names = ("kv_length", "kv_offset", "mask_function", "attention_mask")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        _check_consecutive(cache_position)
        return mask(
            batch_size=batch_size,
            q_length=cache_position.shape[0],
            q_offset=cache_position[0],
            device=cache_position.device,
            **given,
        )

    return of_positions


def _check_consecutive(positions: Tensor) -> None:
    """Lengths and an offset say everything about positions that go up by one."""
    if torch.compiler.is_compiling() or positions.shape[0] == 1:
        return
    if not bool((positions.diff() == 1).all()):
        raise InputError(
            f"cache_position is {positions.tolist()}; attn_implementation='regard' takes "
            "consecutive positions, or a mask (batch, heads, queries, keys)"
        )


def build_mask(
    make: Callable[..., Tensor],
    q_length: int,
    q_offset: int | Tensor,
    device: torch.device | str,
    **given: Any,
) -> Tensor:
    """(batch, 1, queries, keys): the mask that a function of `masking_utils` makes."""
    if TAKES_LENGTHS:
        return make(q_length=q_length, q_offset=q_offset, device=device, **given)
    return make(cache_position=torch.arange(q_length, device=device) + q_offset, **given)


def sdpa_gets_no_mask(
    padding: Tensor | None,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor,
    kv_offset: int,
    local_size: int | None,
) -> bool:
    """Whether transformers would leave a causal mask to sdpa's `is_causal`."""
    offsets = (q_offset, kv_offset) if _SKIP_TAKES_OFFSET else (kv_offset,)
    skip = masking_utils._ignore_causal_mask_sdpa
    return bool(skip(padding, q_length, kv_length, *offsets, local_size))


# ── what a model collects ────────────────────────────────────────────────────────────────────

# 5.2 and newer: a variable lists the outputs that a forward pass collects, while it runs. Before,
# only the decorator of that forward knew, in a variable of its own.
_HAS_COLLECTOR = find_spec("transformers.utils.output_capturing") is not None
if _HAS_COLLECTOR:
    from transformers.utils import output_capturing

_DECORATOR = "check_model_inputs.<locals>.wrapped_fn.<locals>.wrapper"


def collected_outputs() -> Iterable[str] | None:
    """The names of the outputs that the running model collects; None: it does not say."""
    if _HAS_COLLECTOR:
        listed: Iterable[str] | None = output_capturing._active_collector.get()
        return listed
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_qualname != _DECORATOR:
        frame = frame.f_back
    asked = None if frame is None else frame.f_locals.get("recordable_keys")
    return None if asked is None else [name for name, wanted in asked.items() if wanted]
