"""What a layer accepts, checked before anything is projected; which tokens of a batch are real, as
tokenizers tell it, and where they stand."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import DTypeError, ShapeError


def check_input(x: Tensor, project: nn.Linear, name: str) -> None:
    """Raise unless `project` takes x (…, tokens, width)."""
    if not isinstance(x, Tensor):
        raise DTypeError(f"{name} is a {type(x).__name__}; give a torch.Tensor")
    if x.ndim < 2 or x.shape[-1] != project.in_features:
        raise ShapeError(
            f"{name} has shape {tuple(x.shape)}; this layer takes (…, tokens, "
            f"{project.in_features})"
        )
    if x.dtype == project.weight.dtype:
        return
    # autocast casts on its own, and a Linear of another make may take what it likes
    if type(project) is nn.Linear and not torch.is_autocast_enabled(x.device.type):
        given, held = (str(t.dtype).removeprefix("torch.") for t in (x, project.weight))
        raise DTypeError(
            f"{name} has dtype {given}, the layer {held}; cast with {name}.to(torch.{held}) "
            "or move the layer with layer.to(dtype)"
        )


def read_padding(attention_mask: Tensor | None, ids: Tensor, before: int = 0) -> Tensor | None:
    """(…, before + tokens) booleans, True = real; None where all are.

    attention_mask  what a tokenizer gives: not 0 where a token is real. With a cache it speaks of
                    the `before` tokens in it as well
    """
    if attention_mask is None:
        return None
    if not isinstance(attention_mask, Tensor):
        raise DTypeError(
            f"attention_mask is a {type(attention_mask).__name__}; give a tensor, 1 where a token "
            "is real"
        )
    wanted = (*ids.shape[:-1], before + ids.shape[-1])
    if tuple(attention_mask.shape) != wanted:
        cached = f" and {before} tokens are in the cache" if before else ""
        raise ShapeError(
            f"attention_mask has shape {tuple(attention_mask.shape)}, ids {tuple(ids.shape)}"
            f"{cached}; give one number per token: {wanted}"
        )
    return attention_mask != 0


def count_positions(real: Tensor | None, tokens: int) -> Tensor | None:
    """(…, tokens): positions of the last tokens, counted from the first real one; None where they
    simply count. So padding on either side changes nothing."""
    if real is None:
        return None
    counted = real.to(torch.long).cumsum(-1) - 1
    return counted.clamp(min=0)[..., counted.shape[-1] - tokens :]
