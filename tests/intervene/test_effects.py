"""Effects are differences of the model with and without; evidence sets heads beside heads drawn by
lot; the estimate for all heads at once is a slope. On sequences told twice, SmolLM2 copies."""

from __future__ import annotations

import json
import statistics
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import regard
from play.tiny import TEXT, make_session
from real_models import smollm2
from recorder.models import Stack, tiny, tokens
from regard.errors import DTypeError, InputError, RegardError, ShapeError
from regard.intervene import (
    Compared,
    Edge,
    Evidence,
    Probe,
    causal_evidence,
    copying_probe,
    effect,
    effects_of_heads,
    estimated_effects,
    knock_out,
    prefix_matching,
    told_twice,
)


class Language(nn.Module):
    """A model that knows nothing of transformers and gives a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.stack = nn.Embedding(50, 32), Stack()

    def forward(self, ids: Tensor) -> Tensor:
        """(B, L, 50)."""
        return self.stack(self.embed(ids)) @ self.embed.weight.T


def llama() -> Any:
    return tiny("llama")


@pytest.mark.parametrize("make", [llama, Language])
def test_an_effect_is_the_difference(make: Any) -> None:
    model, ids, rows = make().eval(), tokens(12, batch=2), [3, 10]
    change = effect(model, ids, heads=["L0H1"], edges=Edge(10, 2), rows=rows)
    with torch.no_grad():
        whole = getattr(model(ids), "logits", None)
        whole = (model(ids) if whole is None else whole)[:, rows].double()
        with knock_out(model, "L0H1", Edge(10, 2)):
            less = model(ids)
        less = getattr(less, "logits", less)[:, rows].double()
    targets = ids[:, [4, 11], None]
    p, q = whole.log_softmax(-1), less.log_softmax(-1)
    kl = torch.nn.functional.kl_div(q, p, log_target=True, reduction="none").sum(-1)
    near = {"atol": 1e-6, "rtol": 1e-3}
    logit, logprob = ((b - a).gather(-1, targets)[..., 0] for a, b in ((whole, less), (p, q)))
    assert_close(change.by_row.delta_logit, logit, **near)
    assert_close(change.by_row.delta_logprob, logprob, **near)
    assert_close(change.by_row.kl, kl, **near)
    assert change.delta_logit == pytest.approx(logit.mean().item(), abs=1e-6)
    assert change.kl > 0
    nothing = effect(model, ids)
    assert (nothing.delta_logit, nothing.delta_logprob, nothing.kl) == (0, 0, 0)


def test_many_heads_one_by_one() -> None:
    model, ids = llama(), tokens(12)
    changes = effects_of_heads(model, ids, ["L0H1", (1, 2), "L1"], rows=slice(4, None))
    assert list(changes) == ["L0H1", "L1H2", "L1"]
    for label, one in changes.items():
        assert one.by_row.kl.shape == (1, 8)
        again = effect(model, ids, heads=label, rows=slice(4, None))
        assert again.delta_logit == one.delta_logit
    assert changes["L1"].kl > changes["L1H2"].kl


def test_targets_and_rows() -> None:
    model, ids = llama(), tokens(12)
    probe = Probe(model, ids, rows=[11, 5])
    assert probe.rows == [5, 11]
    assert probe.targets.tolist() == [[ids[0, 6].item(), probe.logits[0, 1].argmax().item()]]
    assert Probe(model, ids, rows=[5, 11], targets=7).targets.tolist() == [[7, 7]]
    assert Probe(model, ids, rows=[5, 11], targets=[3, 4]).targets.tolist() == [[3, 4]]
    assert Probe(model, [1, 2, 3]).rows == [2]
    assert Probe(model, torch.ones(2, 3, dtype=torch.int32)).ids.shape == (2, 3)


REFUSED: list[tuple[dict[str, Any], type[RegardError], str]] = [
    ({"targets": [1, 2, 3], "rows": [5, 11]}, ShapeError, "give one token, or (prompts, rows)"),
    ({"model": lambda: tiny("bert")}, InputError, "BertModel gives no logits"),
    ({"model": lambda: llama().train()}, InputError, "training mode, where dropout changes every"),
    ({"ids": torch.ones(3)}, DTypeError, "ids have dtype torch.float32"),
    ({"ids": torch.ones(1, 2, 3).long()}, ShapeError, "give (tokens,) or (prompts, tokens)"),
    ({"ids": torch.ones(0).long()}, ShapeError, "(1, 0)"),
    ({"rows": [12]}, InputError, "none of the prompt's 12 tokens; give 0–11"),
]


@pytest.mark.parametrize(("given", "error", "said"), REFUSED)
def test_what_cannot_be_probed(given: dict[str, Any], error: Any, said: str) -> None:
    given = {"model": llama, "ids": tokens(12)} | given
    with pytest.raises(error) as caught:
        effect(given.pop("model")(), given.pop("ids"), **given)
    assert said in str(caught.value)


def test_evidence_is_effects_beside_those_of_heads_drawn_by_lot() -> None:
    model, ids = llama(), tokens(20)
    evidence = causal_evidence(model, ids, ["L0H1", (1, 2)], rows=8, others=3)
    assert list(evidence) == ["L0H1", "L1H2"]
    one = evidence["L0H1"]
    own = effect(model, ids, heads="L0H1", rows=range(11, 19))
    assert (one.text.delta_logit, one.text.kl) == (own.delta_logit, own.kl)
    assert one.text.typical_kl == evidence["L1H2"].text.typical_kl > 0
    assert one.lowers_copied == -one.copying.delta_logprob
    told = json.loads(json.dumps(one.to_dict()))
    assert set(told) == {"label", "text", "copying", "copies"}
    assert set(told["copying"]) == {
        "delta_logit", "delta_logprob", "kl", "typical_delta_logit", "typical_delta_logprob",
        "typical_kl",
    }  # fmt: skip
    labels = [f"L{layer}H{head}" for layer in range(2) for head in range(4)]
    everyone = causal_evidence(model, tokens(6), labels)  # nobody is left to be drawn
    assert all(one.text.typical_kl == 0 for one in everyone.values())
    again = [causal_evidence(model, tokens(6), ["L0H0"], seed=3)["L0H0"] for _ in range(2)]
    assert again[0] == again[1]


@pytest.mark.parametrize(
    ("lost", "usual", "copies"),
    [(1.0, 0.1, True), (0.11, 0.0, True), (1.0, 0.5, False), (0.05, 0.0, False)],
)
def test_when_a_head_copies(lost: float, usual: float, copies: bool) -> None:
    nothing = Compared(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    compared = Compared(-2.0, -lost, 0.5, 0.0, -usual, 0.0)
    assert Evidence("L0H0", nothing, compared).copies is copies


def test_what_evidence_needs() -> None:
    with pytest.raises(InputError, match="tokenizer="):
        causal_evidence(llama(), "some words", ["L0H0"])
    with pytest.raises(InputError, match="give at least 2"):
        causal_evidence(llama(), [3], ["L0H0"])
    with pytest.raises(InputError, match="vocab_size"):
        causal_evidence(Language().eval(), [3, 4], ["L0H0"])


def test_a_sequence_told_twice() -> None:
    ids = told_twice(range(5, 40), 8, seeds=(0, 1, 2), first=1)
    assert ids.shape == (3, 17) and torch.all(ids[:, 0] == 1)
    assert torch.equal(ids[:, 1:9], ids[:, 9:]) and not torch.equal(ids[0], ids[1])
    for row in ids[:, 1:9].tolist():
        assert len(set(row)) == 8 and all(n in range(5, 40) for n in row)
    assert torch.equal(told_twice(40, 8, seeds=(1,)), told_twice(range(40), 8, seeds=(1,)))
    with pytest.raises(InputError, match="give 2 to 35"):
        told_twice(range(5, 40), 36)


def test_an_induction_head_of_a_real_model() -> None:
    """It looks at what followed the earlier copy, and without it and three more the copied token
    is lost, against heads drawn by lot among those that do not look back."""
    model = smollm2().model
    ids = told_twice(range(256, 8192), 24, seeds=(0, 1), first=0)  # its texts begin with 0
    looking = prefix_matching(model, ids)
    assert len(looking) == 30 * 9
    assert list(looking.values()) == sorted(looking.values(), reverse=True)
    labels = list(looking)
    with torch.no_grad(), regard.record(model) as rec:
        model(ids[:1])
    weights = rec[labels[0]].dense()
    mass = [weights[i, i - 23] for i in range(25, 49)]
    assert looking[labels[0]] == pytest.approx(np.mean(mass), abs=0.05)
    assert looking[labels[0]] > 0.8
    probe = copying_probe(model, ids)
    assert probe.targets.tolist() == ids[:, 26:].tolist()
    without = probe.effect(labels[:4])
    rest = [label for label in labels if looking[label] < 0.1]
    drawn = [np.random.default_rng(seed).choice(rest, 4, replace=False) for seed in range(3)]
    by_lot = [probe.effect(some.tolist()) for some in drawn]
    for name, least, times in (("delta_logprob", 3, 10), ("delta_logit", 2, 4), ("kl", 0, 10)):
        change = abs(getattr(without, name))
        usual = statistics.median(abs(getattr(one, name)) for one in by_lot)
        assert change > least and change > times * usual, name
    assert without.delta_logprob < 0 and without.delta_logit < 0


def test_the_estimate_goes_with_what_knock_outs_do_and_leaves_nothing_behind() -> None:
    session = make_session()
    model, ids = session.model, session.tokenizer(TEXT).input_ids
    before = model.config._attn_implementation
    estimates = estimated_effects(model, ids)
    assert list(estimates)[:5] == ["L0H0", "L0H1", "L0H2", "L0H3", "L1H0"] and len(estimates) == 12
    probe = Probe(model, ids)
    real = [probe.effect(label).delta_logprob for label in estimates]
    assert np.corrcoef(list(estimates.values()), real)[0, 1] > 0.5
    assert estimated_effects(model, ids, target=5) != estimates
    assert model.config._attn_implementation == before
    assert all(one.grad is None for one in model.parameters())


def test_the_estimate_is_the_slope_of_the_log_probability() -> None:
    """As what w_o takes from the head shrinks."""
    model, ids = Language().eval().double(), tokens(8)
    estimates, by = estimated_effects(model, ids), 1e-4
    target = int(model(ids)[0, -1].argmax())
    for layer, head in ((1, 2), (0, 1)):
        own = slice(8 * head, 8 * head + 8)
        ends = []
        for way in (1 - by, 1 + by):
            weight = model.stack.layers[layer].w_o.weight
            kept = weight.detach().clone()
            with torch.no_grad():
                weight[:, own] *= way
                ends.append(float(model(ids)[0, -1].log_softmax(-1)[target]))
                weight.copy_(kept)
        slope = (ends[0] - ends[1]) / (2 * by)
        assert estimates[f"L{layer}H{head}"] == pytest.approx(slope, rel=1e-3, abs=1e-7)
