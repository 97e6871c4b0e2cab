"""Objects of other libraries around a model: what to give instead."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import regard
from regard.errors import InputError


def _of(package: str, name: str, *bases: type) -> type:
    """A stand-in for a class of a package that is not installed."""
    return type(name, bases, {"__module__": f"{package}.models.{name.lower()}"})


def _wrapped() -> object:
    lm = _of("nnsight", "LanguageModel")()
    lm._model = nn.Linear(2, 2)
    return lm


@pytest.mark.parametrize("ask", [regard.record, regard.Monitor, regard.knock_out])
def test_nnsight(ask):
    with pytest.raises(InputError, match=r"nnsight's LanguageModel.* model\._model"):
        ask(_wrapped())


@pytest.mark.parametrize("ask", [regard.record, regard.Monitor, regard.knock_out])
def test_anything_else_is_told_what_it_is(ask):
    with pytest.raises(InputError, match=r"model is a dict; give a torch\.nn\.Module"):
        ask({})


class _ByHand(nn.Module):
    """Attention step by step, with hooks in between."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ x.mT, -1) @ x


def test_transformer_lens():
    bridge = _of("transformer_lens", "TransformerBridge", _ByHand)()
    words = r"TransformerBridge computes attention by itself.*replay"
    with pytest.raises(InputError, match=words), regard.record(bridge):
        bridge(torch.randn(1, 4, 8))
    named = pytest.warns(regard.errors.RegardWarning, match="regard.models.load")
    with named, regard.Monitor(bridge, evaluation=True) as monitor:
        bridge(torch.randn(1, 4, 8))
        monitor.step()
