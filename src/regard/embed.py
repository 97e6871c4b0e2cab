"""Token ids → vectors: a learned embedding per token, plus a fixed wave per position."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import DTypeError, InputError, ShapeError


def sinusoidal(
    tokens: int,
    dim: int,
    *,
    start: int = 0,
    base: float = 10000.0,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """(tokens, dim): sines and cosines whose wavelength grows with the dimension.

    Computed in double precision and rounded once to `dtype`, torch's default where not given.
    """
    positions = torch.arange(start, start + tokens, dtype=torch.float64)[:, None]
    frequencies = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    waves = torch.empty(tokens, dim, dtype=torch.float64)
    waves[:, 0::2] = torch.sin(positions * frequencies)
    waves[:, 1::2] = torch.cos(positions * frequencies[: dim // 2])
    return waves.to(torch.get_default_dtype() if dtype is None else dtype)


class TokenEmbedding(nn.Module):
    """ids (…, tokens) → x (…, tokens, dim): word embedding plus position."""

    def __init__(self, vocabulary: int, dim: int, *, positions: bool = True) -> None:
        super().__init__()
        self.word = nn.Embedding(vocabulary, dim)
        self.positions = positions

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        """Positions count from `start`, for tokens that continue a sequence."""
        _check_ids(ids)
        try:
            x: Tensor = self.word(ids.long())
        except IndexError as error:  # torch's own check; looking at the values first costs time
            raise InputError(
                f"ids run from {int(ids.min())} to {int(ids.max())}; "
                f"this embedding knows 0 to {self.word.num_embeddings - 1}"
            ) from error
        if not self.positions:
            return x
        waves = sinusoidal(ids.shape[-1], x.shape[-1], start=start, dtype=x.dtype)
        return x + waves.to(x.device)


def _check_ids(ids: Tensor) -> None:
    """Whole numbers, one per token."""
    if not isinstance(ids, Tensor):
        raise DTypeError(f"ids are a {type(ids).__name__}; give a tensor of whole numbers")
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        said = str(ids.dtype).removeprefix("torch.")
        raise DTypeError(f"ids have dtype {said}; give whole numbers, one per token")
    if ids.ndim == 0:
        raise ShapeError("ids are a single number; give (…, tokens)")
