"""Rows become bins and sums where they are measured, so that a GPU hands over little.

Shapes: H recorded heads, n rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.recorder.bins import folded, grain
from regard.recorder.plan import Plan
from regard.recording.measures import KINDS, TOTALS

SHARP = 0.99  # a row is, whose heaviest weight is above this


def in_bins(
    rows: dict[str, Tensor], plan: Plan, begins: bool
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """By name, whole bins (H, b, …) and the rows behind them, which fill none; of each only those
    that are there. Where the first row does not begin a bin, all rows are such."""
    bins, loose = {}, {}
    for name, numbers in rows.items():
        size, how = grain(name, plan)
        count = numbers.shape[1]
        whole = count // size * size if begins or size == 1 else 0
        if whole < count:
            loose[name] = numbers[:, whole:] if whole else numbers
        if whole:
            bins[name] = _binned(numbers if whole == count else numbers[:, :whole], size, how)
    return bins, loose


def _binned(numbers: Tensor, size: int, how: str) -> Tensor:
    if size == 1:
        return numbers
    if how == "every":
        return numbers[:, ::size]
    if how != "sum":
        return folded(numbers, size, torch.maximum if how == "max" else torch.minimum)
    return folded(numbers.double(), size, torch.add).to(numbers.dtype)  # summed in float64


def totals(
    rows: dict[str, Tensor], normalized: Tensor, visible: Tensor, plan: Plan
) -> tuple[tuple[str, ...], Tensor]:
    """Names, and (H, names) in float64: the rows, joined as the plan says.

    normalized   (H, n)
    visible      (H or 1, n): how many keys each row may see
    """
    heads, several = len(normalized), visible > 1
    known = rows | {
        "normalized_entropy": torch.where(several, normalized, 0.0),
        "sharp": rows["peak"] > SHARP,
    }
    sums = {
        name: _whole(plan.join(name), numbers)
        for name, numbers in known.items()
        if name not in KINDS or KINDS[name].has_total
    }
    for name, which in (("rows", visible > 0), ("normalized_rows", several)):
        sums[name] = _sum(which).expand(heads)
    for name in set(TOTALS) - set(sums):  # 0: what depends on token ids, without them
        sums[name] = normalized.new_zeros(heads, dtype=torch.float64)
    names = tuple(dict.fromkeys((*TOTALS, *sums)))
    return names, torch.stack([sums[name] for name in names], dim=1)


def _whole(join: str, numbers: Tensor) -> Tensor:
    if join == "sum":
        return _sum(numbers)
    return (numbers.amax(dim=1) if join == "max" else numbers.amin(dim=1)).double()


def _sum(numbers: Tensor) -> Tensor:
    return numbers.sum(dim=1, dtype=torch.float64)
