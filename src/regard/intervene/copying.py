"""Does a model copy, and by which heads: sequences told twice, of tokens that mean nothing.

On BOS + r + r, with r distinct random tokens, nothing but the first copy tells what comes next in
the second. A head that looks at what followed the earlier copy (prefix-matching) is called an
induction head only where its knock-out lowers the log-probability of the copied token.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.hear.weights import device_of
from regard.intervene.effects import Probe
from regard.intervene.names import Heads
from regard.recorder import record


def told_twice(
    vocabulary: int | range,
    count: int = 24,
    seeds: Iterable[int] = (0, 1),
    first: int | None = None,
) -> Tensor:
    """(seeds, 2 × count) ids of distinct random tokens, told twice; `first` in front if given."""
    tokens = range(vocabulary) if isinstance(vocabulary, int) else vocabulary
    if not 1 < count <= len(tokens):
        raise InputError(f"count={count}; give 2 to {len(tokens)}, as many tokens as there are")
    start = [] if first is None else [first]
    made = []
    for seed in seeds:
        chosen = np.random.default_rng(seed).choice(len(tokens), count, replace=False)
        once = [tokens[n] for n in chosen]
        made.append([*start, *once, *once])
    return torch.tensor(made)


def copying_probe(model: nn.Module, ids: Tensor) -> Probe:
    """Follows the copied tokens through the second copy of `told_twice`; its last row, which no
    token follows, is left out."""
    tokens = ids.shape[-1]
    return Probe(model, ids, rows=range(tokens - tokens // 2, tokens - 1))


def prefix_matching(model: nn.Module, ids: Tensor) -> dict[str, float]:
    """Every head's mean mass on what followed earlier copies, by label, the largest first."""
    with torch.no_grad(), record(model) as made:
        model(ids.to(device_of(model)))
    found: dict[str, float] = {}
    for stack in made.stacks:
        several = [made.grid("prefix", stack, prompt=n) for n in range(len(made.prompts))]
        for (layer, head), mass in np.ndenumerate(np.mean(several, axis=0)):
            if np.isfinite(mass):
                found[Heads(stack, layer, head).label] = float(mass)
    return dict(sorted(found.items(), key=lambda item: -item[1]))
