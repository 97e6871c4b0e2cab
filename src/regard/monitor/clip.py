"""QK-clip: w_q and w_k are scaled down where scores have grown beyond τ."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import InputError, ShapeError, UnavailableError
from regard.monitor.gradients import (
    Projection,
    Projections,
    find_projections,
    find_qk_norm,
    local_part,
)
from regard.monitor.session import Monitor

_Grouped = Literal["query", "minimum"]
_Target = tuple[nn.Module, Tensor, int]  # module, (heads,) scores, dim of a head


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
    grouped     heads that share a key head: "query" scales w_q by γ and leaves the shared w_k as it
                is, so each head gets its own γ; "minimum" scales both by √γ, with the group's
                smallest γ

    γ = min(1, τ/S), and 1 where S ≤ τ; without sharing, w_q and w_k are scaled by √γ each. Biases
    are scaled like the rows they belong to. QK-norm cancels any scaling, so it is an error.
    Returns γ by place ("" for a module), (heads,) each.
    """
    _check(tau, grouped)
    if isinstance(target, Monitor):
        if max_score is not None:
            raise InputError("a monitor has its own scores; give max_score with a module only")
        targets = _sampled(target)
        target.clipped_by = target.latest
    else:
        targets = {("",): (target, *_given(target, max_score))}
    for labels, (_, scores, _) in targets.items():
        _check_scores(labels, scores)
    located = [_located(*one) for one in targets.values()]  # all are found, or none is scaled
    gammas: dict[str, Tensor] = {}
    for (labels, (_, scores, _)), projections in zip(targets.items(), located, strict=True):
        gammas |= dict.fromkeys(labels, _clip(projections, _gamma(scores, tau), grouped))
    return gammas


def _sampled(monitor: Monitor) -> dict[tuple[str, ...], _Target]:
    """By the labels of the places: a layer that a model runs several times is scaled once."""
    sample = monitor.latest
    if sample is None:
        raise InputError("the monitor has no sample yet; call its step() first")
    rows_of: dict[str, list[int]] = {}  # by module
    for row, label in enumerate(sample.places):
        rows_of.setdefault(monitor.module_of(label)[1].path, []).append(row)
    targets: dict[tuple[str, ...], _Target] = {}
    for rows in rows_of.values():
        module, place = monitor.module_of(sample.places[rows[0]])
        known = np.nan_to_num(sample["max_score"][rows, : place.heads], nan=-np.inf, posinf=np.inf)
        if sample is monitor.clipped_by:  # its scores belong to weights that have been scaled
            known = np.full_like(known, -np.inf)
        scores = torch.from_numpy(known.max(axis=0))
        targets[tuple(sample.places[row] for row in rows)] = module, scores, place.dim
    return targets


def _given(module: nn.Module, max_score: Any) -> tuple[Tensor, int]:
    """Scores (…, heads, rows) or (heads,) as one number per head, and the dim of a head."""
    if max_score is None:
        raise InputError("a module alone has no scores; give max_score=a.max_score()")
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
        raise InputError(f"{type(module).__name__} has no head_dim; clip by a monitor")
    return scores, weight.shape[0] // scores.numel()


def _check_scores(labels: tuple[str, ...], scores: Tensor) -> None:
    """An overflow would make γ = 0, and the head's weights with it."""
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
    projections = find_projections(module, scores.numel(), dim)
    if isinstance(projections, str):
        raise UnavailableError(f"w_q and w_k cannot be scaled: {projections}")
    return projections


def _gamma(scores: Tensor, tau: float) -> Tensor:
    """(heads,): 1 where a head is at τ or below it, whatever the sign of its scores."""
    over = scores > tau
    return torch.where(over, tau / torch.where(over, scores, 1.0), 1.0)


def _clip(projections: Projections, gamma: Tensor, grouped: _Grouped) -> Tensor:
    heads, shared = projections.query.heads, projections.key.heads
    if shared == heads:
        on_query, on_key = gamma.sqrt(), gamma.sqrt()
    elif grouped == "query":
        on_query, on_key = gamma, torch.ones(shared)
    else:
        least = gamma.reshape(shared, -1).amin(-1)
        gamma = least.repeat_interleave(heads // shared)
        on_query, on_key = gamma.sqrt(), least.sqrt()
    if (gamma < 1).any():
        _scale(projections.query, on_query)
        _scale(projections.key, on_key)
    return gamma


@torch.no_grad()
def _scale(projection: Projection, factor: Tensor) -> None:
    """Multiply the rows of each head by its factor."""
    per_row = torch.cat([factor, torch.ones(1)])[projection.owner]  # owner −1: the last, 1
    parts = [(projection.weight, projection.axis)]
    parts += [] if projection.bias is None else [(projection.bias, 0)]
    for tensor, axis in parts:
        held = local_part(tensor, axis)
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
