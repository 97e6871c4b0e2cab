"""What heads give to what must be hidden, in the findings of `regard.check`."""

from __future__ import annotations

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


PACK = {"input_ids": tokens(24), "position_ids": torch.arange(24)[None] % 12}


# weights of random layers are nearly even, and a third or half of the keys are hidden
@pytest.mark.parametrize(("rule", "share"), [("padding", 1 / 3), ("documents", 1 / 2)])
def test_at_most_eight_heads_of_a_model_the_heaviest_first(rule: str, share: float) -> None:
    model, batch = tiny("bert", num_hidden_layers=1, num_attention_heads=16), PACK
    if rule == "padding":  # as a port that leaves out the mask
        attention = model.encoder.layer[0].attention.self
        attention.register_forward_pre_hook(
            lambda _, args, kwargs: (args[:1], {n: None for n in kwargs if "mask" in n}),
            with_kwargs=True,
        )
        mask = torch.ones_like(IDS)
        mask[1, 8:] = 0
        batch = {"input_ids": IDS, "attention_mask": mask}
    findings = regard.check(model, batch, rules=[rule]).findings
    assert findings
    for finding in findings:
        masses = list(finding.hidden.values())
        assert len(masses) == 8 and masses == sorted(masses, reverse=True)
        assert masses == pytest.approx([share] * 8, abs=0.05)


class Conv(nn.Module):
    """Sees one token ahead."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.conv = nn.Embedding(50, 8), nn.Conv1d(8, 8, 3, padding=1)

    def forward(self, ids: Tensor) -> Tensor:
        return self.conv(self.embed(ids).mT).mT


def test_what_cannot_be_heard_has_none_and_the_finding_stays() -> None:
    (finding, *_) = regard.check(Conv(), IDS, causal=True).findings
    assert finding.hidden == {}
    # regard, in place of eager, tells its documents apart
    eager = tiny("bert", attn_implementation="eager")
    (finding, *_) = regard.check(eager, PACK, causal=False).findings
    assert finding.hidden == {}
