"""Small models of every kind, in double precision, with weights that matter."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.nn import (
    Encoder,
    EncoderConfig,
    LanguageModel,
    LanguageModelConfig,
    Seq2Seq,
    Seq2SeqConfig,
)

__all__ = ["SIZES", "encoder", "ids", "language_model", "learnt", "seq2seq"]

SIZES: dict[str, Any] = {"vocabulary": 23, "layers": 2, "dim": 16, "heads": 4, "longest": 64}


def learnt(model: nn.Module) -> nn.Module:
    """Scales and shifts away from 1 and 0, so that a forgotten one shows."""
    dice = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += 0.3 * torch.randn(parameter.shape, generator=dice)
    return model.double().eval()


def language_model(**options: Any) -> LanguageModel:
    """A language model of two layers."""
    torch.manual_seed(0)
    return learnt(LanguageModel(LanguageModelConfig(**SIZES | options)))


def encoder(**options: Any) -> Encoder:
    """An encoder of two layers."""
    torch.manual_seed(0)
    return learnt(Encoder(EncoderConfig(**SIZES | options)))


def seq2seq(**options: Any) -> Seq2Seq:
    """Two encoder and two decoder layers."""
    torch.manual_seed(0)
    return learnt(Seq2Seq(Seq2SeqConfig(**SIZES | options)))


def ids(*shape: int, seed: int = 0) -> Tensor:
    """Random tokens from 1 on; 0 is free for padding."""
    dice = torch.Generator().manual_seed(seed)
    return torch.randint(1, SIZES["vocabulary"], shape, generator=dice)
