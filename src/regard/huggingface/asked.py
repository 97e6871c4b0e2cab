"""Whether anybody wants the Attention that a layer hands out beside its output."""

from __future__ import annotations

from typing import Any

import torch

from regard.huggingface.versions import collected_outputs


def is_wanted(kwargs: dict[str, Any]) -> bool:
    """Whether what an attention layer returns second is kept by its model.

    Most models collect outputs by hooks, into a dictionary that is there during their forward
    and lists what was asked for; few of them pass `output_attentions` down. Without such a
    dictionary (older models, a layer called by hand) it has to be assumed.
    """
    if kwargs.get("output_attentions") or torch.compiler.is_compiling():
        return True
    collected = collected_outputs()
    return collected is None or any("attentions" in name for name in collected)
