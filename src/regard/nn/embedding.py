"""The first line of the chain: ids → x, a token's vector and where it stands."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import torch
from torch import Tensor, nn

from regard.errors import DTypeError, InputError, ShapeError
from regard.nn.config import StackConfig
from regard.nn.norm import make_norm
from regard.nn.positions import LearnedPositions, Positions, sinusoidal
from regard.nn.rotary import Rotary

Placement: TypeAlias = Literal["sinusoidal", "learned", "rotary"]

_KINDS: Final = ("sinusoidal", "learned", "rotary", None)


class TokenEmbedding(nn.Module):
    """ids (…, tokens) → x (…, tokens, dim): a learned row per token, plus its position.

    positions  "sinusoidal"  row + a fixed wave per position
               "learned"     row + a learned row per position, of `longest` positions
               "rotary"      the row alone: a layer turns queries and keys, by `rotary` as in
                             `MultiHeadAttention(dim, heads, rotary=embed.rotary)`
               None          the row alone: an encoder then sees a set of tokens
    longest    tokens a text may have, for "learned"
    head_dim   width of the queries and keys to turn, for "rotary"; dim by default, one head

    `rotary` is None for all other kinds, so a layer may always be given it. Rows start as in the
    models of `regard.nn`, with a spread of 1/√dim, but of 1 beside waves, which would hide smaller
    ones.
    """

    def __init__(
        self,
        vocabulary: int,
        dim: int,
        positions: Placement | bool | None = "sinusoidal",
        *,
        longest: int | None = None,
        head_dim: int | None = None,
    ) -> None:
        super().__init__()
        if isinstance(positions, bool):  # as this layer was called first: with waves, or without
            positions = "sinusoidal" if positions else None
        _check_sizes(positions, vocabulary=vocabulary, dim=dim, longest=longest, head_dim=head_dim)
        self.positions = positions
        self.word = nn.Embedding(vocabulary, dim)
        if positions != "sinusoidal":
            nn.init.normal_(self.word.weight, std=dim**-0.5)
        self.table = LearnedPositions(longest, dim) if longest is not None else None
        self.rotary: Rotary | None = None
        if positions == "rotary":
            self.rotary = Rotary(dim if head_dim is None else head_dim)

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
        if self.table is not None:
            return self.table(x, start)
        if self.positions == "sinusoidal":
            waves = sinusoidal(ids.shape[-1], x.shape[-1], start=start, dtype=x.dtype)
            return x + waves.to(x.device)
        return x

    def extra_repr(self) -> str:
        """The kind of positions; the parts show the rest."""
        return f"positions={self.positions!r}"


class Embedding(nn.Module):
    """What goes into a model's first block: tokens, their positions, a norm, dropout."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.tokens = TokenEmbedding(config.vocabulary, config.dim, None)
        self.positions = Positions(config)
        self.norm: nn.Module = nn.Identity()
        if config.embedding_norm:
            self.norm = make_norm(config.norm, config.dim, config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    @property
    def table(self) -> Tensor:
        """(vocabulary, dim): the tokens' rows."""
        return self.tokens.word.weight

    def forward(self, ids: Tensor, start: int = 0, positions: Tensor | None = None) -> Tensor:
        """positions (…, tokens) where they do not count from `start`."""
        placed = self.positions(self.tokens(ids), start, positions)
        embedded: Tensor = self.dropout(self.norm(placed))
        return embedded


def _check_sizes(positions: object, **sizes: int | None) -> None:
    """A known kind of positions, and the sizes that it needs and no others."""
    if positions not in _KINDS:
        raise InputError(
            f"positions={positions!r}; give one of {', '.join(map(repr, _KINDS))} (ALiBi adds to "
            "scores, not to x: give `bias=regard.ALiBi(…)` to the layer)"
        )
    if positions == "learned" and sizes["longest"] is None:
        raise InputError(
            "positions='learned' keeps a row per position; give longest=N, the most tokens a text "
            "may have"
        )
    for name, kind in (("longest", "learned"), ("head_dim", "rotary")):
        if sizes[name] is not None and positions != kind:
            raise InputError(
                f"{name}={sizes[name]} belongs to positions={kind!r} and changes nothing with "
                f"positions={positions!r}; leave it out"
            )
    for name, size in sizes.items():
        if size is not None and (not isinstance(size, int) or size < 1):
            raise InputError(f"{name}={size!r}; give a whole number of at least 1")


def _check_ids(ids: Tensor) -> None:
    """Whole numbers, one per token."""
    if not isinstance(ids, Tensor):
        raise DTypeError(f"ids are a {type(ids).__name__}; give a tensor of whole numbers")
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        dtype = str(ids.dtype).removeprefix("torch.")
        raise DTypeError(f"ids have dtype {dtype}; give whole numbers, one per token")
    if ids.ndim == 0:
        raise ShapeError("ids are a single number; give (…, tokens)")
