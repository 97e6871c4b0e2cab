"""Where a module keeps w_q and w_k, which rows belong to which head, and their gradient norms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

_PAIRS: Final = (
    ("w_q", "w_k"), ("q_proj", "k_proj"), ("query", "key"), ("q", "k"), ("q_lin", "k_lin"),
    ("to_q", "to_k"), ("wq", "wk"), ("q_proj_weight", "k_proj_weight"),
)  # fmt: skip
_STACKED: Final = ("c_attn", "qkv_proj", "qkv", "Wqkv", "wqkv", "in_proj", "in_proj_weight")
_BY_HEAD: Final = ("query_key_value",)  # for each head its q, its k, its v
_NORMS: Final = (
    "norm_q", "norm_k", "q_norm", "k_norm", "q_layernorm", "k_layernorm", "query_norm",
    "key_norm", "query_layernorm", "key_layernorm",
)  # fmt: skip


ADAPTED: Final = " has an adapter around it"


@dataclass(frozen=True)
class Projection:
    """w_q or w_k: a matrix whose rows belong to heads (x @ weight.T has one column per row)."""

    weight: Tensor
    bias: Tensor | None
    axis: int  # of the rows: 1 where the weight is stored transposed
    owner: Tensor  # (rows,): the head of each row; −1 where it is neither query nor key
    heads: int


class Projections(NamedTuple):
    """Both projections of one attention."""

    query: Projection
    key: Projection


_Matrix = tuple[Tensor, Tensor | None, int]  # weight, bias, axis of its rows


def find_projections(module: nn.Module, heads: int, dim: int) -> Projections | str:
    """w_q and w_k of an attention with this many query heads, or the reason why not."""
    for name in (*(name for names in _PAIRS for name in names), *_STACKED, *_BY_HEAD):
        if _is_adapted(getattr(module, name, None)):  # it computes more than its weight
            return name + ADAPTED
    for names in _PAIRS:
        q, k = (_matrix(module, name) for name in names)
        if q is not None and k is not None:
            return _separate(q, k, names, heads, dim)
    for name in (*_STACKED, *_BY_HEAD):
        both = _matrix(module, name)
        if both is not None:
            return _stacked(both, name, heads, dim)
    known = ", ".join([*(f"{q}/{k}" for q, k in _PAIRS[:4]), *_STACKED[:3], *_BY_HEAD])
    return f"{type(module).__name__} has no projection of a name known here ({known} …)"


def _is_adapted(layer: Any) -> bool:
    """Whether an adapter is around a layer (peft) or within it (torchtune, and by hand)."""
    if not isinstance(layer, nn.Module):
        return False
    parts = (*layer._modules, *layer._parameters)
    return "base_layer" in parts or any(name.lower().startswith("lora") for name in parts)


def find_qk_norm(module: nn.Module) -> str | None:
    """The name of a normalisation of queries or keys, which cancels any scaling of w_q and w_k."""
    for name in _NORMS:
        norm = getattr(module, name, None)
        if isinstance(norm, nn.Module) and not isinstance(norm, nn.Identity):
            return name
    return None


def _matrix(module: nn.Module, name: str) -> _Matrix | None:
    """A projection by name: a layer with a weight, or a parameter of the module itself."""
    layer: Any = getattr(module, name, None)
    if isinstance(layer, Tensor) and layer.ndim == 2:
        bias = module.in_proj_bias if name == "in_proj_weight" else None
        return layer, bias if isinstance(bias, Tensor) else None, 0
    weight, bias = getattr(layer, "weight", None), getattr(layer, "bias", None)
    if not isinstance(layer, nn.Module) or not isinstance(weight, Tensor) or weight.ndim != 2:
        return None
    axis = 1 if type(layer).__name__ == "Conv1D" else 0
    return weight, bias if isinstance(bias, Tensor) else None, axis


def _separate(
    q: _Matrix, k: _Matrix, names: tuple[str, str], heads: int, dim: int
) -> Projections | str:
    rows, key_rows = q[0].shape[q[2]], k[0].shape[k[2]]
    shared = key_rows // dim
    if rows != heads * dim or key_rows % dim or not key_rows or heads % shared:
        return (
            f"{names[0]} and {names[1]} have {rows} and {key_rows} rows, which {heads} heads of "
            f"{dim} do not explain"
        )
    owner = _in_order(rows, dim)
    return Projections(Projection(*q, owner, heads), Projection(*k, owner[:key_rows], shared))


@lru_cache(maxsize=16)
def _in_order(rows: int, dim: int) -> Tensor:
    """The head of each row, head after head."""
    return torch.arange(rows) // dim


def _stacked(both: _Matrix, name: str, heads: int, dim: int) -> Projections | str:
    """q, k and v in one matrix, values as wide as keys."""
    rows = both[0].shape[both[2]]
    shared, odd = divmod(rows - heads * dim, 2 * dim)
    if odd or shared < 1 or heads % shared or (name in _BY_HEAD and shared != heads):
        return f"{name} has {rows} rows, which {heads} heads of {dim} do not explain"
    q, k = _in_stack(rows, heads, shared, dim, name in _BY_HEAD)
    return Projections(Projection(*both, q, heads), Projection(*both, k, shared))


@lru_cache(maxsize=16)
def _in_stack(rows: int, heads: int, shared: int, dim: int, by_head: bool) -> tuple[Tensor, Tensor]:
    """The query head and the key head of each row; −1 where it has none."""
    q, k = torch.full((rows,), -1), torch.full((rows,), -1)
    at = torch.arange(rows)
    if by_head:
        head, part = at // (3 * dim), at // dim % 3
        return torch.where(part == 0, head, q), torch.where(part == 1, head, k)
    q[: heads * dim] = at[: heads * dim] // dim
    k[heads * dim : (heads + shared) * dim] = at[: shared * dim] // dim
    return q, k


class Held(NamedTuple):
    """The part of a tensor that this rank holds: all of it, or a shard (FSDP)."""

    local: Tensor
    start: int  # of the local part along the axis
    shards: int  # number of parts of the tensor; ranks ÷ shards of the ranks hold each


def local_part(tensor: Tensor, axis: int) -> Held | str:
    """The local part, or the reason why its position is not known."""
    whole: Any = tensor
    if not hasattr(whole, "placements"):
        return Held(tensor, 0, 1)
    mesh, start, shards = whole.device_mesh, 0, 1
    for at, placement in enumerate(whole.placements):
        if placement.is_replicate():
            continue
        if type(placement).__name__ != "Shard" or shards > 1:
            return f"a tensor placed as {whole.placements} is not supported"
        shards = mesh.size(at)
        if placement.dim % tensor.ndim == axis:
            length = -(-tensor.shape[axis] // shards)  # as torch.chunk cuts
            start = min(mesh.get_local_rank(at) * length, tensor.shape[axis])
    return Held(whole.to_local(), start, shards)


class HeldRows(NamedTuple):
    """The gradient of a projection, as far as this rank holds it, row by row."""

    norms: Tensor  # (rows,) float32
    start: int  # of these rows among all
    shards: int
    projection: Projection


def gradient_rows(projection: Projection) -> HeldRows | str:
    """The norm of each row; or the reason why it is not known."""
    if not projection.weight.requires_grad:
        return "the projection is frozen"
    gradient = projection.weight.grad
    if gradient is None:
        return "there was no gradient when the step was closed; call step() before zero_grad()"
    held = local_part(gradient.detach(), projection.axis)
    if isinstance(held, str):
        return held
    local = held.local if projection.axis == 0 else held.local.T
    norms = torch.linalg.vector_norm(local, dim=-1, dtype=torch.float32)
    return HeldRows(norms, held.start, held.shards, projection)


def squares_of_gradient(projection: Projection, ranks: int) -> Tensor | str:
    """(heads,) on the gradient's device: this rank's share of the sum of squares, such that the
    shares of all ranks add up to it; or the reason why it is not known."""
    rows = gradient_rows(projection)
    if isinstance(rows, str):
        return rows
    like = rows.norms.new_empty(0, dtype=sum_dtype(rows.norms.device))
    return GradientRows().squares({(0, 0): rows}, [projection.heads], ranks, like)[0, 0]


class GradientRows:
    """Adds up rows by head, of all places at once. Which sum each row belongs to is found when
    places or shapes are new, and then kept on the device: a copy from the host would wait for it.

    A sum has a slot; two more are for rows without a head, and for what is not known.
    """

    def __init__(self) -> None:
        self._kind: Any = None
        self._slots: Tensor  # (rows of all,): where each row is added
        self._found_at: Tensor  # (places, 2, heads): the slot of each answer

    def squares(
        self, found: dict[tuple[int, int], HeldRows], heads: list[int], ranks: int, like: Tensor
    ) -> Tensor:
        """(places, 2, most heads): this rank's shares of the sums of squares of w_q's and w_k's
        gradients; NaN where none is known. `like` has their dtype and device."""
        most = max(heads, default=0)
        count = 2 * len(heads) * most
        self._settle(found, heads, like.device)
        sums = like.new_zeros(count + 2)
        if found:
            shares = {rows.shards / ranks for rows in found.values()}
            norms = [rows.norms.to(like.device) for rows in found.values()]
            if len(shares) > 1:
                each = [(rows.shards / ranks) ** 0.5 for rows in found.values()]
                norms, shares = [n * by for n, by in zip(norms, each, strict=True)], {1.0}
            squares = torch.cat(norms).to(like.dtype).square_()
            sums.index_add_(0, self._slots, squares, alpha=shares.pop())
        sums[-1:].fill_(torch.nan)
        return sums[self._found_at]

    def _settle(
        self, found: dict[tuple[int, int], HeldRows], heads: list[int], device: torch.device
    ) -> None:
        parts = tuple((at, r.start, r.norms.shape, r.projection.heads) for at, r in found.items())
        kind = parts, tuple(heads), device
        if kind == self._kind:
            return
        most = max(heads, default=0)
        count = 2 * len(heads) * most
        found_at = torch.full((len(heads), 2, most), count + 1)
        slots = []
        for (at, n), rows in found.items():
            owner = rows.projection.owner[rows.start : rows.start + rows.norms.shape[0]]
            first = (2 * at + n) * most
            slots.append(torch.where(owner >= 0, first + owner, count))
            group = heads[at] // rows.projection.heads
            found_at[at, n, : heads[at]] = first + torch.arange(heads[at]) // group
        self._slots = torch.cat(slots).to(device) if slots else found_at
        self._found_at, self._kind = found_at.to(device), kind


def sum_dtype(device: torch.device) -> torch.dtype:
    """The dtype in which rows are added up: float64, which MPS does not have."""
    return torch.float32 if device.type == "mps" else torch.float64
