"""What heads give to what must be hidden, in the findings of `regard.check`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regard
from recorder.models import tiny, tokens

IDS = tokens(12, batch=2)


class Reader(nn.Module):
    """A layer of torch's whose mask lets row `row` see key `key` of the future, in two heads of
    three, and every key of the last `window`."""

    def __init__(self, row: int, key: int, window: int = 99) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.out = nn.Embedding(50, 24), nn.Linear(24, 50)
        self.attention = nn.MultiheadAttention(24, 3, batch_first=True)
        self.cell, self.window = (row, key), window

    def mask(self, length: int) -> Tensor:
        """(3, L, L): True is hidden."""
        places = torch.arange(length)
        back = places[:, None] - places
        mask = ((back < 0) | (back >= self.window)).expand(3, -1, -1).clone()
        mask[:2, self.cell[0], self.cell[1]] = False
        return mask

    def forward(self, ids: Tensor) -> Tensor:
        """(B, L) → (B, L, 50)."""
        x = self.embed(ids)
        mask = self.mask(ids.shape[1]).repeat(len(ids), 1, 1)
        return self.out(x + self.attention(x, x, x, attn_mask=mask, need_weights=False)[0])

    def weights(self, ids: Tensor) -> Tensor:
        """(B, 3, L, L), as torch gives them."""
        x, mask = self.embed(ids), self.mask(ids.shape[1]).repeat(len(ids), 1, 1)
        return self.attention(x, x, x, attn_mask=mask, average_attn_weights=False)[1]


def test_heads_of_a_leak_are_named_with_their_mass() -> None:
    model = Reader(4, 9)
    report = regard.check(model, IDS, causal=True, rules=["future"])
    (finding,) = report.findings
    assert finding.rows == (4,) and finding.module == "attention"
    wanted = model.weights(IDS)[:, :, 4, 9].amax(0)  # of the sequence in which it is largest
    assert set(finding.hidden) == {"L0H0", "L0H1"}  # the third head gives none
    for head, mass in finding.hidden.items():
        assert mass == pytest.approx(float(wanted[int(head[-1])]), rel=1e-4)
    assert list(finding.hidden.values()) == sorted(finding.hidden.values(), reverse=True)
    assert f"L0H0 gives {finding.hidden['L0H0']:.2g} to what it must not see" in str(report)


def test_of_a_window_it_is_the_mass_beyond_it() -> None:
    model = Reader(0, 0, window=4)
    (finding,) = regard.check(model, IDS, causal=True, window=3, rules=["window"]).findings
    weights = model.weights(IDS)
    places = torch.arange(12)
    beyond = places[:, None] - places >= 3
    wanted = (weights * beyond).sum(-1)[:, :, 3:].mean(-1).amax(0)
    assert set(finding.hidden) == {"L0H0", "L0H1", "L0H2"}
    for head, mass in finding.hidden.items():
        assert mass == pytest.approx(float(wanted[int(head[-1])]), rel=1e-4)


@pytest.mark.parametrize("rule", ["padding", "documents"])
def test_a_model_of_transformers(rule: str) -> None:
    model = tiny("bert", num_hidden_layers=1, num_attention_heads=8)
    batch: dict[str, Any] = {"input_ids": tokens(24), "position_ids": torch.arange(24)[None] % 12}
    if rule == "padding":
        _forget_masks(model)
        mask = torch.ones_like(IDS)
        mask[1, 8:] = 0
        batch = {"input_ids": IDS, "attention_mask": mask}
    findings = regard.check(model, batch, rules=[rule]).findings
    assert findings
    for finding in findings:
        assert len(finding.hidden) == 8
        # weights of random layers are nearly even, and half the pack or a third are hidden
        share = {"documents": 1 / 2, "padding": 1 / 3}[rule]
        assert all(abs(mass - share) < 0.05 for mass in finding.hidden.values()), finding.hidden


def _forget_masks(model: Any) -> None:
    """As a port that leaves out the mask."""
    attention = model.encoder.layer[0].attention.self

    def without(module: nn.Module, args: Any, kwargs: Any) -> Any:
        kwargs = {name: None if "mask" in name else x for name, x in kwargs.items()}
        return args[:1], kwargs

    attention.register_forward_pre_hook(without, with_kwargs=True)


def test_what_cannot_be_heard_has_none_and_the_finding_stays() -> None:
    class Conv(nn.Module):
        """Sees one token ahead."""

        def __init__(self) -> None:
            super().__init__()
            self.embed, self.conv = nn.Embedding(50, 8), nn.Conv1d(8, 8, 3, padding=1)

        def forward(self, ids: Tensor) -> Tensor:
            return self.conv(self.embed(ids).mT).mT

    for model in (Conv(), tiny("bert", attn_implementation="eager")):
        batch: Any = IDS
        if not isinstance(model, Conv):  # regard, in place of eager, tells its documents apart
            batch = {"input_ids": IDS.view(1, -1), "position_ids": torch.arange(24)[None] % 12}
        (finding, *_) = regard.check(model, batch, causal=isinstance(model, Conv)).findings
        assert finding.hidden == {}


def test_at_most_eight_heads_the_heaviest_first() -> None:
    model = tiny("bert", num_attention_heads=16, num_hidden_layers=1)
    batch = {"input_ids": tokens(24), "position_ids": torch.arange(24)[None] % 12}
    masses = list(regard.check(model, batch, rules=["documents"]).findings[0].hidden.values())
    assert len(masses) == 8 and masses == sorted(masses, reverse=True)
