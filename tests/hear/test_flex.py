"""FlexAttention is heard: its functions of a place become a mask and a bias."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention, noop_mask
from torch.utils.checkpoint import checkpoint

import regard
from regard.errors import UnavailableError
from regard.hear.flex import ScoreChange, read_flex
from regard.recorder import layer_writer

warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
compiled = torch.compile(flex_attention, backend="eager")

SLOPES = torch.tensor([0.1, 0.2, 0.3, 0.4])
TEXT = torch.tensor([0] * 6 + [1] * 3 + [2] * 7)
FACTORS = torch.tensor([[1.0], [0.5]])

Function = Callable[..., Tensor]


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


MASKS: dict[str, Function] = {
    "causal": causal,
    "window": lambda b, h, q, k: (q >= k) & (q - k < 4),
    "texts": lambda b, h, q, k: (TEXT[q] == TEXT[k]) & (q >= k),
    "by head": lambda b, h, q, k: (q - k) % (h + 1) == 0,
    "by entry": lambda b, h, q, k: (q >= k) | (b == 1),
    "nobody first": lambda b, h, q, k: q > k,
}
SCORES: dict[str, Function] = {
    "alibi": lambda s, b, h, q, k: s - SLOPES[h] * (q - k).abs(),
    "cap": lambda s, b, h, q, k: 3 * torch.tanh(s / 3),
    "cap and mask": lambda s, b, h, q, k: torch.where(q >= k, 3 * torch.tanh(s / 3), -math.inf),
    "scale": lambda s, b, h, q, k: s * 1.7,
    "one diagonal": lambda s, b, h, q, k: torch.where(q == k + 5, s - 2, s),
    "factor by key": lambda s, b, h, q, k: s * torch.where(k % 2 == 0, 1.0, 0.3),
    "square": lambda s, b, h, q, k: s * s,
    "factor by entry": lambda s, b, h, q, k: s * FACTORS[b, 0],
    "one key": lambda s, b, h, q, k: torch.where(k == 11, s * 0.5, s),
    "one cell squared": lambda s, b, h, q, k: torch.where((k == 3) & (q == 9), s * s, s),
    "one head": lambda s, b, h, q, k: torch.where(h == 3, s * 2, s),
    "bias by entry": lambda s, b, h, q, k: s - FACTORS[b, 0] * (q - k).abs(),
}


class Flexible(nn.Module):
    """One layer of 4 heads, 2 of them for keys."""

    def __init__(
        self, mask: Function | None = None, score: Function | None = None, *,
        by: Any = flex_attention, entries: int | None = None, heads: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.made, self.mask, self.score, self.by = nn.Linear(32, 64), mask, score, by
        self.sizes = entries, heads

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, H, L, 8) each."""
        made = self.made(x).unflatten(-1, (8, 8)).transpose(1, 2)
        return made[:, :4], made[:, 4:6], made[:, 6:]

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, 32)."""
        size, seen = x.shape[1], None
        if self.mask is not None:
            seen = create_block_mask(self.mask, *self.sizes, size, size, device=x.device)
        q, k, v = self.parts(x)
        out = self.by(q, k, v, score_mod=self.score, block_mask=seen, enable_gqa=True)
        return out.transpose(1, 2).flatten(2)

    def weights(self, x: Tensor) -> Tensor:
        """(B, H, L, S), place by place."""
        q, k, _ = self.parts(x)
        scores = q @ k.repeat_interleave(2, 1).mT / 8**0.5
        at = [t.flatten() for t in torch.meshgrid(*map(torch.arange, scores.shape), indexing="ij")]
        if self.score is not None:
            scores = torch.vmap(self.score)(scores.flatten(), *at).view_as(scores)
        if self.mask is not None:
            seen = torch.vmap(self.mask)(*at).view_as(scores)
            scores = scores.masked_fill(~seen, -math.inf)
        return scores.softmax(-1).nan_to_num(0.0)


def flexible(*args: Any, **kwargs: Any) -> Flexible:
    torch.manual_seed(0)
    return Flexible(*args, **kwargs)


X = torch.randn(2, 16, 32, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def compare(model: Flexible, recording: Any) -> None:
    right = model.weights(X)
    assert recording.unheard == () and len(recording.prompts) == 2
    for number, prompt in enumerate(recording.prompts):
        for head in range(4):
            np.testing.assert_allclose(prompt[0, head][:, :], right[number, head], atol=1e-5)


@pytest.mark.parametrize("name", [*MASKS, *SCORES])
@torch.no_grad()
def test_weights_and_outputs(name: str) -> None:
    sizes = {"by head": {"heads": 4}, "by entry": {"entries": 2}}.get(name, {})
    model = flexible(MASKS.get(name), SCORES.get(name), **sizes)
    plain = model(X)
    with regard.record(model) as rec:
        torch.testing.assert_close(model(X), plain)
    compare(model, rec.recording)


@pytest.mark.parametrize("whole", [False, True])
@torch.no_grad()
def test_compiled(whole: bool) -> None:
    model = flexible(MASKS["causal"], SCORES["alibi"], by=flex_attention if whole else compiled)
    run = torch.compile(model, backend="eager") if whole else model
    with regard.record(run) as rec:
        run(X)
    compare(model, rec.recording)


@torch.no_grad()
def test_the_lse_it_is_asked_for() -> None:
    class Asking(Flexible):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.parts(x)
            return flex_attention(q, k, v, return_lse=True, enable_gqa=True)[1]

    model = Asking()
    plain = model(X)
    with regard.record(model):
        torch.testing.assert_close(model(X), plain)


def test_gradients_of_a_monitored_step(monkeypatch: Any) -> None:
    # on a CPU torch refuses before it begins; regard computes them there too
    monkeypatch.setattr("torch.nn.attention.flex_attention._validate_device", lambda *_: None)
    model = flexible(causal)
    v = model.parts(X)[2].repeat_interleave(2, 1)
    (model.weights(X) @ v).square().sum().backward()
    right = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with regard.Monitor(model) as monitor:
        checkpoint(model, X, use_reentrant=False).square().sum().backward()
        sample = monitor.step()
    for parameter, grad in zip(model.parameters(), right, strict=True):
        torch.testing.assert_close(parameter.grad, grad, rtol=1e-4, atol=1e-4)
    peak = model.weights(X).amax(-1).mean((0, 2)).detach()
    np.testing.assert_allclose(sample["peak"][0], peak, atol=1e-5)


@torch.no_grad()
def test_a_learned_bias_is_left_to_torch_which_knows_its_gradient() -> None:
    model = flexible(causal)
    model.table = nn.Parameter(torch.linspace(-1, 1, 31))
    model.score = lambda s, b, h, q, k: s + model.table[q - k + 15]
    with regard.Monitor(model, evaluation=True) as monitor:
        plain, sample = model(X), monitor.step()
    assert torch.equal(model(X), plain)
    peak = model.weights(X).amax(-1).mean((0, 2))
    np.testing.assert_allclose(sample["peak"][0], peak, atol=1e-5)


@pytest.mark.parametrize("mask", ["causal", "window", "texts"])
@torch.no_grad()
def test_runs_of_keys_and_slopes_are_held_whatever_the_length(
    mask: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(layer_writer, "_MOST_TABLE", 100)
    model = flexible(MASKS[mask], lambda s, b, h, q, k: s - SLOPES[h] * (q - k))
    with regard.record(model, tmp_path / "run.regard") as rec:
        model(X)
    compare(model, rec.recording)


ODD = ("factor by key", "square", "factor by entry", "one head", "bias by entry")


@pytest.mark.parametrize(
    ("name", "kept"), [("one diagonal", False), *product(ODD, [False, True])], ids=str
)
@torch.no_grad()
def test_any_function_is_measured_whatever_the_length(
    name: str, kept: bool, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("regard.hear.flex._MOST_TABLE", 100)
    if not kept:
        monkeypatch.setattr(layer_writer, "_MOST_TABLE", 100)
    model = flexible(causal, SCORES[name])
    plain = model(X)
    with regard.record(model, tmp_path / "run.regard") as rec:
        torch.testing.assert_close(model(X), plain)
    if kept:
        compare(model, rec.recording)
    right = model.weights(X)
    for number, prompt in enumerate(rec.recording.prompts):
        entropy = -(right[number, 1] * right[number, 1].clamp(min=1e-30).log()).sum(-1)
        np.testing.assert_allclose(prompt[0, 1].entropy(), entropy, atol=1e-5)
        if not kept:
            says = "ScoreMod, has no tag .* too large" if name == "one diagonal" else "as a table"
            with pytest.raises(UnavailableError, match=says):
                prompt[0, 1][:, :]


@pytest.mark.parametrize("grad", [False, True])
def test_torch_computes_such_a_function_where_its_gradient_is_asked_for(
    grad: bool, monkeypatch: Any
) -> None:
    monkeypatch.setattr("regard.hear.flex._MOST_TABLE", 100)
    q = torch.randn(1, 2, 5, 8, requires_grad=grad)
    rules = read_flex(q, q, SCORES["square"], (torch.zeros(1, 1, 1), noop_mask), 0.5)
    assert rules.learned == grad and isinstance(rules.bias, ScoreChange)
