"""Effects are differences of the model with and without."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from recorder.models import Stack, tiny, tokens
from regard.errors import InputError, ShapeError
from regard.intervene import Edge, Probe, effect, effects_of_heads, knock_out


def test_an_effect_is_the_difference() -> None:
    model, ids = tiny("llama"), tokens(12, batch=2)
    rows = [3, 10]
    targets = ids[:, [4, 11]]
    found = effect(model, ids, heads=["L0H1"], edges=Edge(10, 2), rows=rows)
    with torch.no_grad():
        whole = model(ids).logits[:, rows].double()
        with knock_out(model, "L0H1", Edge(10, 2)):
            less = model(ids).logits[:, rows].double()
    wanted = (less - whole).gather(-1, targets[..., None])[..., 0]
    p, q = whole.log_softmax(-1), less.log_softmax(-1)
    kl = torch.nn.functional.kl_div(q, p, log_target=True, reduction="none").sum(-1)
    torch.testing.assert_close(found.by_row.delta_logit, wanted, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(found.by_row.kl, kl, atol=1e-7, rtol=1e-3)
    logprob = (q - p).gather(-1, targets[..., None])[..., 0]
    torch.testing.assert_close(found.by_row.delta_logprob, logprob, atol=1e-6, rtol=1e-4)
    assert found.delta_logit == pytest.approx(wanted.mean().item(), abs=1e-6)
    assert found.kl > 0


def test_nothing_knocked_out_changes_nothing() -> None:
    found = effect(tiny("gpt2", n_embd=32, n_head=4, n_layer=2), tokens(9))
    assert (found.delta_logit, found.delta_logprob, found.kl) == (0, 0, 0)


def test_many_heads_one_by_one() -> None:
    model, ids = tiny("llama"), tokens(12)
    found = effects_of_heads(model, ids, ["L0H1", (1, 2), "L1"], rows=slice(4, None))
    assert list(found) == ["L0H1", "L1H2", "L1"]
    for label, one in found.items():
        assert one.by_row.kl.shape == (1, 8)
        again = effect(model, ids, heads=label, rows=slice(4, None))
        assert again.delta_logit == one.delta_logit
    assert found["L1"].kl > found["L1H2"].kl


def test_targets() -> None:
    model, ids = tiny("llama"), tokens(12)
    probe = Probe(model, ids, rows=[5, 11])
    assert probe.targets.tolist() == [[ids[0, 6].item(), probe.logits[0, 1].argmax().item()]]
    assert Probe(model, ids, rows=[5, 11], targets=7).targets.tolist() == [[7, 7]]
    assert Probe(model, ids, rows=[5, 11], targets=[3, 4]).targets.tolist() == [[3, 4]]
    with pytest.raises(ShapeError, match=r"give one token, or \(prompts, rows\) = \(1, 2\)"):
        Probe(model, ids, rows=[5, 11], targets=[1, 2, 3])


def test_models_without_logits_are_refused() -> None:
    with pytest.raises(InputError, match="BertModel gives no logits"):
        effect(tiny("bert"), tokens(5), heads="L0")
    with pytest.raises(InputError, match="training mode"):
        effect(tiny("llama").train(), tokens(5), heads="L0")


class Language(nn.Module):
    """A model that knows nothing of transformers and gives a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.stack = nn.Embedding(50, 32), Stack()

    def forward(self, ids: Tensor) -> Tensor:
        """(B, L, 50)."""
        return self.stack(self.embed(ids)) @ self.embed.weight.T


def test_models_of_one_s_own() -> None:
    model, ids = Language().eval(), tokens(8)
    found = effect(model, ids, heads="L0H1", rows=[2, 7])
    assert found.by_row.delta_logit.shape == (1, 2)
    assert found.kl > 0
