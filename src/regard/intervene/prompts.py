"""What is given to a model that is looked into: token ids, and the rows that count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import DTypeError, InputError, ShapeError
from regard.hear.weights import device_of
from regard.intervene.edges import Places, TokenPositions


def as_ids(given: Tensor | Sequence[int], model: nn.Module) -> Tensor:
    """(B, N) beside the model, which must not be in training."""
    if model.training:
        raise InputError(
            "the model is in training mode, where dropout changes every run; call model.eval()"
        )
    ids = torch.as_tensor(given, device=device_of(model))
    if ids.is_floating_point() or ids.dtype == torch.bool:
        raise DTypeError(f"ids have dtype {ids.dtype}; give token ids, whole numbers")
    ids = ids.unsqueeze(0) if ids.ndim == 1 else ids
    if ids.ndim != 2 or not ids.numel():
        raise ShapeError(f"ids have shape {tuple(ids.shape)}; give (tokens,) or (prompts, tokens)")
    return ids


def as_rows(given: Places, tokens: int) -> list[int]:
    """Which of a prompt's tokens are meant."""
    flags = TokenPositions.of(given, "rows").among(np.arange(tokens))
    if not flags.any():
        raise InputError(
            f"rows={given!r} are none of the prompt's {tokens} tokens; give 0–{tokens - 1}"
        )
    return [int(n) for n in flags.nonzero()[0]]
