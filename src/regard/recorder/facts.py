"""What a recording says of its model, and of how it was made."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import torch
from torch import nn

from regard.hear.weights import device_of
from regard.recording.schema import CONTENTS, STATISTICS_NOTE, statistics_note
from regard.summary import RowStatistic


def made_now() -> dict[str, str]:
    """With which software, and when."""
    return {
        "regard": _version("regard"),
        "torch": torch.__version__,
        "transformers": _version("transformers"),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def first_notes(
    model: nn.Module,
    config: Any,
    name: str,
    made: dict[str, Any],
    statistics: tuple[RowStatistic, ...] = (),
    *,
    counted: bool = True,
) -> dict[str, str]:
    """The notes that every recording begins with; `counted`: the model's parameters are all its
    weights, which a server may have packed otherwise."""
    one = next(model.parameters(), torch.empty(0))
    text = getattr(config, "text_config", config)
    about = {
        "name": name,
        "class": type(model).__name__,
        "family": getattr(config, "model_type", ""),
        "layers": _said(text, "num_hidden_layers"),
        "heads": _said(text, "num_attention_heads"),
        "positions": _said(text, "max_position_embeddings"),
        "parameters": sum(p.numel() for p in model.parameters()) if counted else None,
        "dtype": str(one.dtype).removeprefix("torch."),
        "device": str(device_of(model)),
    }
    return {
        "contents": CONTENTS,
        "model": json.dumps(about),
        "made": json.dumps(made),
        STATISTICS_NOTE: statistics_note(statistics),
    }


def _said(config: Any, name: str) -> Any:
    """What a configuration says of all layers; None where it does not, or where layers differ."""
    try:
        return getattr(config, name, None)
    except RuntimeError:  # transformers' answer where a layer has a value of its own
        return None
