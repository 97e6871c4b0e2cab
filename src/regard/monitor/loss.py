"""The loss of a step: one number of each rank, on its device until the sample is fetched."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, TypeAlias

import torch
from torch import Tensor

from regard.errors import InputError

Loss: TypeAlias = float | Tensor  # of one element


def check_loss(loss: Any) -> Loss:
    """One number, detached, where it is; InputError for anything else."""
    if isinstance(loss, Tensor):
        if loss.numel() == 1 and not loss.is_complex():
            return loss.detach()
        raise InputError(
            f"loss is a {loss.dtype} tensor of shape {tuple(loss.shape)}; give one real number, "
            "as loss.mean() is"
        )
    if isinstance(loss, Real) and not isinstance(loss, bool):
        return float(loss)
    raise InputError(f"loss={loss!r:.60}; give a number, or a tensor that holds one")


def loss_and_count(losses: Sequence[Loss], like: Tensor) -> Tensor:
    """(2,): the mean of this rank's losses, and 1; zeros without any. No device is waited for."""
    if not losses:
        return like.new_zeros(2)
    terms = [
        _whole(one).to(like).reshape(1) if isinstance(one, Tensor) else like.new_full((1,), one)
        for one in losses
    ]
    return torch.cat([torch.cat(terms).mean(0, keepdim=True), like.new_ones(1)])


def _whole(loss: Tensor) -> Tensor:
    """The number itself, where a DTensor holds a share of it on each rank."""
    whole: Tensor = loss.full_tensor() if hasattr(loss, "full_tensor") else loss
    return whole
