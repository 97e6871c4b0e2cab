"""The attention function: what transformers passes → `regard.attend` → what it expects back."""

from __future__ import annotations

import inspect
import sys
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.engine import api
from regard.engine.attention import Attention
from regard.errors import UnavailableError
from regard.huggingface.asked import is_wanted
from regard.huggingface.descriptor import MaskDescriptor
from regard.huggingface.families import asks_for_sdpa
from regard.huggingface.reference import reference_of, stands_for
from regard.huggingface.restrict import CallSize, Restriction, described, restriction
from regard.huggingface.unseen import with_unseen_rows


def regard_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: MaskDescriptor | Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    cache: Any = None,
    **kwargs: Any,
) -> tuple[Tensor, Attention | None]:
    """One layer's attention: the output (B, L, Hq, Dv), and the Attention where it is wanted.

    query (B, Hq, L, D), key (B, Hkv, S, D), value (B, Hkv, S, Dv): key heads are not repeated.
    The keyword `is_causal` wins over the module's own.
    """
    _refuse(cache, module, kwargs)
    size = CallSize(query.shape[0], query.shape[2], key.shape[2])
    mask = None if _is_skipped(attention_mask, module) else attention_mask
    packed, indices = kwargs.get("cu_seq_lens_q"), kwargs.get("indices")
    if isinstance(mask, MaskDescriptor) and position_bias is packed is indices is None:
        told = described(mask, size)
    else:
        told = restriction(
            mask,
            size,
            causal=_is_causal(module, is_causal),
            window=sliding_window,
            position_bias=position_bias,
            cu_seq_lens_q=packed,
            cu_seq_lens_k=kwargs.get("cu_seq_lens_k"),
            indices=indices,
            positions=kwargs.get("position_ids"),
            adds=stands_for(module) == "eager",
        )
    wanted = is_wanted(kwargs)
    part, values = key, value
    if told.reach < key.shape[2]:
        part, values = key[:, :, : told.reach], value[:, :, : told.reach]
    rules: dict[str, Any] = {
        "mask": told.mask, "scale": scaling, "bias": told.bias, "softcap": softcap, "sink": s_aux,
        "dropout": dropout,
    }  # fmt: skip
    found = None
    if told.is_plain and not wanted:
        output = api.output_alone(query, part, values, **rules)
    else:
        part = _kept(part, key) if wanted else part
        found = api.attend_counting(query, part, values, counted=told.counted, **rules)
        output = _with_unseen_rows(found, value, told, module)
    # (B, Hq, L, Dv) → (B, L, Hq, Dv)
    output = output.transpose(1, 2).contiguous()
    return output, found if wanted else None


def _with_unseen_rows(
    found: Attention, value: Tensor, told: Restriction, module: nn.Module
) -> Tensor:
    """The output, as what regard stands for in this module computes it."""
    reference, kind = stands_for(module) or "eager", cast(Any, type(module))
    if told.additive is not None and reference == "sdpa" and asks_for_sdpa(kind):
        told = told._replace(additive=None, bias=None)  # on sdpa it would have been booleans
    return with_unseen_rows(found, value, told, reference)


def _is_causal(module: nn.Module, given: bool | None) -> bool:
    """Whether a call without a mask is causal. Eager attention never is."""
    if reference_of(module) == "eager":
        return False
    return getattr(module, "is_causal", True) if given is None else given


def _is_skipped(mask: Any, module: nn.Module) -> bool:
    """Whether sdpa would go by the layer's own word, which is that it is not causal."""
    return (
        isinstance(mask, MaskDescriptor) and mask.skipped and not getattr(module, "is_causal", True)
    )


def _kept(part: Tensor, key: Tensor) -> Tensor:
    """Keys that an Attention may be asked about later; part: those of `key` that count.

    A static cache writes into its keys in place. They are copied; so are tensors of inference
    mode and of traced code, which do not tell when they were changed.
    """
    # the mark by which compiled code knows a buffer that stays where it is
    static = hasattr(key, "_dynamo_static_input_type")
    silent = torch.compiler.is_compiling() or key.is_inference()
    return part.clone() if static or silent else part


def _refuse(cache: Any, module: nn.Module, given: dict[str, Any]) -> None:
    if cache is not None:
        raise UnavailableError(
            f"continuous batching (cache is a {type(cache).__name__}) is not offered by "
            "attn_implementation='regard'; use generate(), or 'sdpa' for the server"
        )
    for name in _own_rules(type(module)):
        if given.get(name) is not None:
            raise UnavailableError(
                f"{type(module).__name__} gives its attention {name!r}, which "
                "attn_implementation='regard' does not follow; 'eager' does"
            )


# What is followed, or says nothing about weights.
_FOLLOWED = {
    *inspect.signature(regard_attention).parameters,
    "cu_seq_lens_q", "cu_seq_lens_k", "indices", "position_ids", "output_attentions", "training",
}  # fmt: skip


_OWN_RULES: dict[type, tuple[str, ...]] = {}  # not functools': compiled code warns of its caches


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _own_rules(kind: type[nn.Module]) -> tuple[str, ...]:
    """Arguments by which a family's eager attention changes weights, and that mean nothing here."""
    if kind not in _OWN_RULES:
        eager = getattr(sys.modules.get(kind.__module__), "eager_attention_forward", None)
        named = inspect.signature(eager).parameters if callable(eager) else {}
        own = (name for name in named if name not in _FOLLOWED)
        _OWN_RULES[kind] = ("block_indices", *own)
    return _OWN_RULES[kind]
