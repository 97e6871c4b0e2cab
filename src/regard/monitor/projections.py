"""Where a module keeps w_q and w_k, and which of their rows belong to which head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

__all__ = ["Projection", "Projections", "find_projections", "find_qk_norm"]

_PAIRS: Final = (
    ("w_q", "w_k"), ("q_proj", "k_proj"), ("query", "key"), ("q", "k"), ("q_lin", "k_lin"),
    ("to_q", "to_k"), ("wq", "wk"), ("q_proj_weight", "k_proj_weight"),
)  # fmt: skip
_STACKED: Final = ("c_attn", "qkv_proj", "qkv", "Wqkv", "wqkv", "in_proj", "in_proj_weight")
_BY_HEAD: Final = ("query_key_value",)  # head after head: its q, its k, its v
_NORMS: Final = (
    "norm_q", "norm_k", "q_norm", "k_norm", "q_layernorm", "k_layernorm", "query_norm",
    "key_norm", "query_layernorm", "key_layernorm",
)  # fmt: skip


@dataclass(frozen=True)
class Projection:
    """w_q or w_k: a matrix of which each head owns some rows (x @ weight.T has a column a row)."""

    weight: Tensor
    bias: Tensor | None
    axis: int  # of the weight, along which rows are counted: 1 where it is stored transposed
    owner: Tensor  # (rows,): the head of every row; −1 where it is no query or key
    heads: int


@dataclass(frozen=True)
class Projections:
    """Both of one attention."""

    query: Projection
    key: Projection


def find_projections(module: nn.Module, heads: int, dim: int) -> Projections | str:
    """w_q and w_k of an attention with so many query heads, or the reason why they are not
    known."""
    adapted = [n for names in _PAIRS for n in names if hasattr(_get(module, n), "base_layer")]
    if adapted:  # what it computes is more than its weight
        return f"{adapted[0]} has an adapter around it"
    for names in _PAIRS:
        found = [_matrix(module, name) for name in names]
        if found[0] is not None and found[1] is not None:
            return _apart(found[0], found[1], names, heads, dim)
    for name in (*_STACKED, *_BY_HEAD):
        both = _matrix(module, name)
        if both is not None:
            return _stacked(both, name, heads, dim)
    known = ", ".join([*(f"{q}/{k}" for q, k in _PAIRS[:4]), *_STACKED[:3], *_BY_HEAD])
    return f"{type(module).__name__} has no projection of a name known here ({known} …)"


def find_qk_norm(module: nn.Module) -> str | None:
    """The name of a normalisation of queries or keys, which undoes any scaling of w_q and w_k."""
    for name in _NORMS:
        one = getattr(module, name, None)
        if isinstance(one, nn.Module) and not isinstance(one, nn.Identity):
            return name
    return None


def _get(module: nn.Module, name: str) -> Any:
    return getattr(module, name, None)


_Matrix = tuple[Tensor, Tensor | None, int]  # weight, bias, axis of its rows


def _matrix(module: nn.Module, name: str) -> _Matrix | None:
    """A projection by name: a layer with a weight, or a parameter of the module itself."""
    one: Any = _get(module, name)
    if isinstance(one, Tensor) and one.ndim == 2:
        bias = module.in_proj_bias if name == "in_proj_weight" else None
        return one, bias if isinstance(bias, Tensor) else None, 0
    weight = getattr(one, "weight", None)
    if not isinstance(one, nn.Module) or not isinstance(weight, Tensor) or weight.ndim != 2:
        return None
    bias = getattr(one, "bias", None)
    axis = 1 if type(one).__name__ == "Conv1D" else 0
    return weight, bias if isinstance(bias, Tensor) else None, axis


def _apart(
    q: _Matrix, k: _Matrix, names: tuple[str, str], heads: int, dim: int
) -> Projections | str:
    rows = [one[0].shape[one[2]] for one in (q, k)]
    if rows[0] != heads * dim or rows[1] % dim or not rows[1] or heads % (rows[1] // dim):
        return (
            f"{names[0]} and {names[1]} have {rows[0]} and {rows[1]} rows; {heads} heads of "
            f"{dim} were heard"
        )
    every = torch.arange(heads * dim) // dim
    shared = rows[1] // dim
    return Projections(Projection(*q, every, heads), Projection(*k, every[: shared * dim], shared))


def _stacked(both: _Matrix, name: str, heads: int, dim: int) -> Projections | str:
    """q, k and v in one matrix, values as wide as keys."""
    rows = both[0].shape[both[2]]
    shared, odd = divmod(rows - heads * dim, 2 * dim)
    if odd or shared < 1 or heads % shared or (name in _BY_HEAD and shared != heads):
        return f"{name} has {rows} rows, which {heads} heads of {dim} do not explain"
    q, k = torch.full((rows,), -1), torch.full((rows,), -1)
    at = torch.arange(rows)
    if name in _BY_HEAD:
        head, part = at // (3 * dim), at // dim % 3
        q, k = torch.where(part == 0, head, q), torch.where(part == 1, head, k)
    else:
        q[: heads * dim] = at[: heads * dim] // dim
        k[heads * dim : (heads + shared) * dim] = at[: shared * dim] // dim
    return Projections(Projection(*both, q, heads), Projection(*both, k, shared))
