"""The recording held against transformers' eager attention on the first tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.engine.observers import unheard
from regard.huggingface.families import calls_torch
from regard.recorder.drive import eager, is_causal_model
from regard.recorder.weights import device_of
from regard.recording import Recording

FIRST = 256  # tokens


@dataclass(frozen=True)
class Agreement:
    """How well replayed weights agree with eager ones."""

    rows: int
    heads: int
    max_error: float

    def line(self) -> str:
        """In words."""
        return (
            f"replay against eager on the first {self.rows} tokens: max error "
            f"{self.max_error:.1e} ({self.heads} heads)"
        )


def compare_with_eager(
    model: Any, recording: Recording, ids: Tensor, prompt: int = 0
) -> Agreement | None:
    """Every exact head, on the first tokens; None where nothing can be compared: no exact head,
    a model whose early rows depend on later tokens and a longer prompt, or one that cannot be
    switched to eager attention."""
    if calls_torch(model) or (ids.shape[1] > FIRST and not is_causal_model(model)):
        return None
    first = ids[:, :FIRST].to(device_of(model))
    with torch.inference_mode(), unheard(), eager(model):
        weights = model(input_ids=first, output_attentions=True).attentions
    count, errors = first.shape[1], []
    for head in recording.prompts[prompt]:
        rows = range(head.recorded.start, min(head.recorded.stop, count))
        if head.exact and rows:
            truth = weights[head.layer][0, head.head, rows.start : rows.stop]
            mine = head[rows.start : rows.stop, :count]
            errors.append(float(np.abs(mine - truth.float().cpu().numpy()).max()))
    return Agreement(count, len(errors), max(errors)) if errors else None
