"""From the heads back to the tokens."""

from __future__ import annotations

from typing import Final

from regard.learn.programs.mistake import Mistake, mistake

_LEFT: Final = ["once", "missing"]
_BATCH: Final = "every entry of a batch attends to itself alone"

AFTER: Final[tuple[Mistake, ...]] = (
    mistake(
        "merge",
        "heads merged without permuting",
        "heads are merged by a reshape alone, so tokens mix",
        "swap heads and tokens back before the reshape",
        merge=["unpermuted", "turned"],
    ),
    mistake(
        "merge",
        "heads not concatenated",
        "heads are averaged, not concatenated",
        "concatenate the heads",
        merge="mean",
        output=_LEFT,
    ),
    mistake(
        "merge",
        "heads not concatenated",
        "heads are added, not concatenated",
        "concatenate the heads",
        merge="sum",
        output=_LEFT,
    ),
    mistake(
        "merge",
        "heads not concatenated",
        "only one head is returned",
        "concatenate the heads",
        merge=["first", "last"],
        output=_LEFT,
    ),
    mistake(
        "merge",
        "heads out of order",
        "the features of the heads are in the wrong order",
        "head 1's features, then head 2's",
        merge=["interleaved", "reversed"],
    ),
    mistake(
        "merge",
        "batch mixed up",
        "heads and batch are mixed up when merging",
        _BATCH,
        merge=["batchmixed", "batchlast"],
    ),
    mistake(
        "output projection",
        "output projection missing",
        "the output projection is missing",
        "multiply the merged heads by W_o",
        output="missing",
    ),
    mistake(
        "output projection",
        "output projection twice",
        "the output projection is applied twice",
        "once",
        output="twice",
    ),
    mistake(
        "output projection",
        "weight transposed",
        "the output projection's weights are transposed",
        "heads W_o",
        output="transposed",
    ),
    mistake(
        "output projection",
        "bias left out",
        "the output projection's bias is not added",
        "add it",
        bias="o",
    ),
    mistake(
        "output projection",
        "input added",
        "the input is added to the output",
        "the residual belongs to the block around it",
        output="residual",
    ),
)
