"""The mask function: where transformers would build an N×N tensor, a descriptor is made."""

from __future__ import annotations

import inspect
from dataclasses import replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from transformers import masking_utils

from regard.huggingface.descriptor import MaskDescriptor
from regard.huggingface.families import check_config
from regard.huggingface.recognise import MaskFunction, Stand, recognise
from regard.huggingface.reference import reference_of, stands_for
from regard.huggingface.versions import sdpa_gets_no_mask
from regard.mask import Mask, Padding, Table


def regard_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: MaskFunction = masking_utils.causal_mask_function,
    attention_mask: Tensor | MaskDescriptor | None = None,
    allow_is_causal_skip: bool = False,
    allow_is_bidirectional_skip: bool = False,
    local_size: int | None = None,
    use_vmap: bool = False,
    device: torch.device | str = "cpu",
    config: Any = None,
    dtype: torch.dtype = torch.float32,
    **kwargs: Any,
) -> MaskDescriptor | None:
    """The mask of one forward pass; None where every query sees every key and None may say so.

    attention_mask  (batch, tokens so far): True = real. The mask hides padded keys alone; which
                    queries are padding, so that no statistic counts them, is noted beside it.
                    A descriptor is handed back as it is.
    q_offset        tokens before the first query. A static cache counts them in a tensor that
                    it changes in place, so its value is read now.
    """
    if isinstance(attention_mask, MaskDescriptor):
        return attention_mask
    traced = torch.compiler.is_compiling()
    if not traced:
        check_config(config)
    before = _offset(q_offset, traced)
    at = Stand(batch_size, q_length, kv_length, before, kv_offset, device, use_vmap)
    padding = _padded(attention_mask, at)
    mask: Mask | None
    if isinstance(at.q_offset, Tensor):
        mask, reach, counted, causal = _cells(mask_function, padding, at), kv_length, None, False
    else:
        # on a GPU the host waits for the answer: one question for keys and queries
        hidden = None if padding is None or _all(padding) else padding
        mask, reach, causal = _mask(mask_function, hidden, at)
        same = causal or (not traced and _is_self_attention(inspect.currentframe(), at))
        counted = _counted(hidden, at) if same and mask is not None else None
    if mask is None and allow_is_bidirectional_skip:
        return None
    adds = config is not None and reference_of(config) == "eager"
    skipped = (
        allow_is_causal_skip
        and stands_for(config) == "sdpa"
        and sdpa_gets_no_mask(attention_mask, q_length, kv_length, q_offset, kv_offset, local_size)
    )
    return MaskDescriptor(
        mask,
        (batch_size, 1, q_length, kv_length),
        torch.device(device),
        lambda: at.ask(mask_function, padding, dtype if adds else None),
        reach,
        counted,
        dtype if adds else torch.bool,
        causal and counted is None,
        skipped,
    )


def _offset(given: int | Tensor, traced: bool) -> int | Tensor:
    """The offset's value now; traced code cannot know it."""
    return given.clone() if traced and isinstance(given, Tensor) else int(given)


def _cells(function: MaskFunction, padding: Tensor | None, at: Stand) -> Mask:
    """The mask by asking about every cell; of a single query, this is which keys it sees."""
    cells = at.ask(function, padding)  # (batch, 1, queries, keys)
    return Padding(cells[:, 0, 0]) if at.queries == 1 else Table(cells)


def _mask(
    function: MaskFunction, padding: Tensor | None, at: Stand
) -> tuple[Mask | None, int, bool]:
    """The mask over the keys that any query may see, how many those are, and whether queries and
    keys are the same tokens, counted on one axis."""
    known = recognise(function, at)
    if known.reach < at.keys:  # slots of a static cache that are not written yet
        at = replace(at, keys=known.reach)
        known = recognise(function, at)
    real = _padding(padding, at)
    mask = known.mask if real is None else real if known.mask is None else known.mask & real
    return mask, at.keys, known.causal


def _padded(padding: Tensor | None, at: Stand) -> Tensor | None:
    """(batch, positions): the padding as booleans, False where it says nothing of a key."""
    if padding is None:
        return None
    missing = max(0, at.kv_offset + at.keys - padding.shape[-1])
    return torch.nn.functional.pad(padding.bool(), (0, missing))


def _padding(padding: Tensor | None, at: Stand) -> Mask | None:
    """Real keys; None where all are."""
    if padding is None:
        return None
    keys = padding[:, at.kv_offset : at.kv_offset + at.keys]
    return None if _all(keys) else Padding(keys)


def _counted(padding: Tensor | None, at: Stand) -> Tensor | None:
    """(batch, queries): those that are no padding, as they are among the keys; None: all."""
    if padding is None:
        return None
    queries = padding[:, at.q_offset : at.q_offset + at.queries]
    return None if _all(queries) else queries


def _all(flags: Tensor) -> bool:
    """Whether all are True; traced code, which cannot know, does not say so."""
    return not torch.compiler.is_compiling() and bool(flags.all())


def _is_self_attention(here: FrameType | None, at: Stand) -> bool:
    """Whether queries and keys of a bidirectional mask are the same tokens.

    transformers asks for self- and cross-attention in the same words. Only its own function
    knows which it is: its argument `encoder_hidden_states` is None in self-attention. Where that
    is not so, no query is taken for padding.
    """
    while here is not None and here.f_globals.get("__name__") != masking_utils.__name__:
        here = here.f_back
    if here is None or here.f_locals.get("encoder_hidden_states", at) is not None:
        return False
    return at.q_offset + at.queries == at.kv_offset + at.keys
