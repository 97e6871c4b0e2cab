"""Evidence sets a head beside heads drawn by lot."""

from __future__ import annotations

import json

import pytest
import torch

from real_models import smollm2
from recorder.models import Stack, tiny, tokens
from regard.errors import InputError
from regard.intervene import Compared, Evidence, causal_evidence, effect

NOTHING = Compared(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_its_shape() -> None:
    model, ids = tiny("llama"), tokens(20)
    found = causal_evidence(model, ids, ["L0H1", (1, 2)], rows=8, others=3)
    assert list(found) == ["L0H1", "L1H2"]
    one = found["L0H1"]
    own = effect(model, ids, heads="L0H1", rows=range(11, 19))
    assert one.text.delta_logit == own.delta_logit
    assert one.text.kl == own.kl
    assert one.text.typical_kl == found["L1H2"].text.typical_kl > 0
    assert one.lowers_copied == -one.copying.delta_logprob
    told = json.loads(json.dumps(one.to_dict()))
    assert set(told) == {"label", "text", "copying", "copies"}
    assert set(told["copying"]) == {
        "delta_logit", "delta_logprob", "kl", "typical_delta_logit", "typical_delta_logprob",
        "typical_kl",
    }  # fmt: skip


def test_the_lot_is_drawn_from_the_others() -> None:
    model, ids = tiny("llama"), tokens(6)
    labels = [f"L{layer}H{head}" for layer in range(2) for head in range(4)]
    found = causal_evidence(model, ids, labels)  # nobody is left
    assert all(one.text.typical_kl == 0 for one in found.values())
    again = [causal_evidence(model, ids, ["L0H0"], seed=3)["L0H0"] for _ in range(2)]
    assert again[0] == again[1]


@pytest.mark.parametrize(
    ("lost", "usual", "copies"), [(1.0, 0.1, True), (1.0, 0.5, False), (0.05, 0.0, False)]
)
def test_when_a_head_copies(lost: float, usual: float, copies: bool) -> None:
    compared = Compared(-2.0, -lost, 0.5, 0.0, -usual, 0.0)
    assert Evidence("L0H0", NOTHING, compared).copies is copies


def test_words_need_a_tokenizer() -> None:
    model = tiny("llama")
    with pytest.raises(InputError, match="tokenizer="):
        causal_evidence(model, "some words", ["L0H0"])
    with pytest.raises(InputError, match="give at least 2"):
        causal_evidence(model, [3], ["L0H0"])
    with pytest.raises(InputError, match="vocab_size"):
        causal_evidence(Language().eval(), [3, 4], ["L0H0"])


class Language(torch.nn.Module):
    """A language model without a configuration."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.stack = torch.nn.Embedding(50, 32), Stack()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """(B, L, 50)."""
        return self.stack(self.embed(ids)) @ self.embed.weight.T


def test_an_induction_head_of_a_real_model() -> None:
    loaded = smollm2()
    text = "The tide follows the moon, and the moon, which moves along its own path, is late."
    found = causal_evidence(
        loaded.model, text, ["L18H6", "L0H0"], tokenizer=loaded.tokenizer, rows=8, others=3
    )
    copier, other = found["L18H6"], found["L0H0"]
    assert copier.copies
    assert copier.copying.delta_logprob < -0.5
    assert copier.copying.kl > 10 * copier.copying.typical_kl
    assert not other.copies or other.copying.delta_logprob > copier.copying.delta_logprob
