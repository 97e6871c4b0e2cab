"""QK-clip: w_q and w_k shrunk where scores have grown beyond τ."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import InputError, ShapeError, UnavailableError
from regard.monitor.projections import Projection, Projections, find_projections, find_qk_norm
from regard.monitor.session import Monitor
from regard.monitor.shards import held_here

__all__ = ["qk_clip_"]

_Grouped = Literal["query", "minimum"]


def qk_clip_(
    target: Monitor | nn.Module,
    tau: float = 100.0,
    *,
    max_score: Any = None,
    grouped: _Grouped = "query",
) -> dict[str, Tensor]:
    """Scale w_q and w_k in place so that the largest score S of each head comes down to τ.

        monitor.step(); optimizer.step(); regard.monitor.qk_clip_(monitor, tau=100.0)

    target      a monitor, whose latest sample has the scores of every place (each sample is used
                once: between samples nothing is scaled); or one attention module, with `max_score`
                (heads,) or as `a.max_score()` gives it
    grouped     heads that share a key head: "query" puts γ on w_q and leaves the shared w_k as it
                is, so each head gets its own γ; "minimum" puts √γ on both, with the group's
                smallest γ

    γ = min(1, τ/S), and 1 where S ≤ τ; heads of their own get √γ on w_q and on w_k. Biases are
    scaled like the rows they belong to. Queries and keys that are normalised (QK-norm) undo any
    scaling, which is an error. Returns γ by place ("" for a module), (heads,) each.
    """
    _check(tau, grouped)
    if isinstance(target, Monitor):
        if max_score is not None:
            raise InputError("a monitor knows its scores; give max_score with a module only")
        todo = _heard(target)
        target.clipped_by = target.latest
    else:
        todo = {("",): (target, *_given(target, max_score))}
    for labels, (_, scores, _) in todo.items():
        _check_scores(labels, scores)
    found = [_located(*one) for one in todo.values()]  # all are there, or none is scaled
    gammas = [
        _clip(where, _gamma(scores, tau), grouped)
        for where, (_, scores, _) in zip(found, todo.values(), strict=True)
    ]
    return {label: gamma for labels, gamma in zip(todo, gammas, strict=True) for label in labels}


_Todo = tuple[nn.Module, Tensor, int]  # module, (heads,) scores, dim of a head


def _heard(monitor: Monitor) -> dict[tuple[str, ...], _Todo]:
    """By the labels of the places: a layer that a model runs several times is scaled once."""
    sample = monitor.latest
    if sample is None:
        raise InputError("the monitor has no sample yet; call its step() first")
    places: dict[str, list[int]] = {}
    for place, label in enumerate(sample.places):
        places.setdefault(monitor.module_of(label)[1].path, []).append(place)
    todo: dict[tuple[str, ...], _Todo] = {}
    for rows in places.values():
        module, seat = monitor.module_of(sample.places[rows[0]])
        known = np.nan_to_num(sample["max_score"][rows, : seat.heads], nan=-np.inf, posinf=np.inf)
        if sample is monitor.clipped_by:  # its scores are those of weights that are no more
            known = np.full_like(known, -np.inf)
        scores = torch.from_numpy(known.max(axis=0))
        todo[tuple(sample.places[row] for row in rows)] = module, scores, seat.dim
    return todo


def _given(module: nn.Module, max_score: Any) -> tuple[Tensor, int]:
    """Scores (…, heads, rows) or (heads,) as one number a head, and the width of a head."""
    if max_score is None:
        raise InputError("a module alone does not know its scores; give max_score=a.max_score()")
    scores = torch.as_tensor(max_score).detach().float().cpu()
    if scores.ndim > 1:
        scores = scores.flatten(0, -3).amax((0, -1)) if scores.ndim > 2 else scores.amax(-1)
    if scores.ndim != 1 or not scores.numel():
        raise ShapeError(f"max_score has shape {tuple(scores.shape)}; give (heads,)")
    dim = getattr(module, "head_dim", None)
    if isinstance(dim, int):
        return scores, dim
    weight = getattr(getattr(module, "w_q", None), "weight", None)
    if weight is None or weight.shape[0] % scores.numel():
        raise InputError(f"{type(module).__name__} does not say its head_dim; clip by a monitor")
    return scores, weight.shape[0] // scores.numel()


def _check_scores(labels: tuple[str, ...], scores: Tensor) -> None:
    """An overflow would make γ = 0, and wipe the head out."""
    broken = torch.nonzero(scores.isnan() | (scores == torch.inf)).flatten().tolist()
    if broken:
        heads = ", ".join(f"{' '.join(labels)}H{n}" for n in broken)
        raise InputError(
            f"the largest score of {heads} is {scores[broken[0]].item()}: it has overflowed, and "
            "scaling w_q and w_k cannot bring it back; go back to a checkpoint, and clip earlier"
        )


def _located(module: nn.Module, scores: Tensor, dim: int) -> Projections:
    norm = find_qk_norm(module)
    if norm is not None:
        raise UnavailableError(
            f"{type(module).__name__} normalises its queries or keys ({norm}), so that scaling "
            "w_q and w_k changes no score; QK-norm bounds them already"
        )
    found = find_projections(module, scores.numel(), dim)
    if isinstance(found, str):
        raise UnavailableError(f"w_q and w_k cannot be scaled: {found}")
    return found


def _gamma(scores: Tensor, tau: float) -> Tensor:
    """(heads,): 1 where a head is at τ or below it, whatever the sign of its scores."""
    over = scores > tau
    return torch.where(over, tau / torch.where(over, scores, 1.0), 1.0)


def _clip(found: Projections, gamma: Tensor, grouped: _Grouped) -> Tensor:
    heads, shared = found.query.heads, found.key.heads
    if shared == heads:
        on_query, on_key = gamma.sqrt(), gamma.sqrt()
    elif grouped == "query":
        on_query, on_key = gamma, torch.ones(shared)
    else:
        least = gamma.reshape(shared, -1).amin(-1)
        gamma = least.repeat_interleave(heads // shared)
        on_query, on_key = gamma.sqrt(), least.sqrt()
    if (gamma < 1).any():
        _scale(found.query, on_query)
        _scale(found.key, on_key)
    return gamma


@torch.no_grad()
def _scale(projection: Projection, factor: Tensor) -> None:
    """Rows of each head times its factor."""
    per_row = torch.cat([factor, torch.ones(1)])[projection.owner]  # owner −1: the last, 1
    parts = [(projection.weight, projection.axis)]
    parts += [] if projection.bias is None else [(projection.bias, 0)]
    for tensor, axis in parts:
        held = held_here(tensor, axis)
        if isinstance(held, str):
            raise UnavailableError(f"w_q and w_k cannot be scaled: {held}")
        count = held.local.shape[axis]
        own = per_row[held.start : held.start + count].to(held.local)
        held.local.mul_(own[:, None] if held.local.ndim == 2 and axis == 0 else own)


def _check(tau: float, grouped: str) -> None:
    if not isinstance(tau, int | float) or not tau > 0:
        raise InputError(f"tau={tau!r}; give a number above 0, such as 100")
    if grouped not in ("query", "minimum"):
        raise InputError(f"grouped={grouped!r}; give 'query' or 'minimum'")
