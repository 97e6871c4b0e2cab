"""An encoder sees the whole text, and padding is not part of it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from nn.small import SIZES, encoder, ids
from regard.errors import ShapeError
from regard.nn import Encoder, EncoderConfig

KINDS = {
    "bert": {
        "norm": "layer", "norm_first": False, "positions": "learned", "feed_forward": "mlp",
        "attention_bias": True, "feed_forward_bias": True, "embedding_norm": True,
    },
    "modern": {"qk_norm": True},
    "alibi": {"positions": "alibi"},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_token_depends_on_every_other(kind):
    model, text = encoder(**KINDS[kind]), ids(1, 5)
    whole = model(text)
    for at in range(5):
        other = text.clone()
        other[0, at] = (other[0, at] + 1) % SIZES["vocabulary"]
        changed = (model(other) - whole)[0].abs().sum(-1)
        assert bool((changed > 1e-9).all())


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(sorted(KINDS)), st.integers(1, 6), st.integers(0, 4), st.integers(0, 4),
)  # fmt: skip
def test_padding_on_either_side_changes_nothing(kind, tokens, before, after):
    model, text = encoder(**KINDS[kind]), ids(1, tokens)
    padded = torch.nn.functional.pad(text, (before, after))
    real = torch.nn.functional.pad(torch.ones_like(text), (before, after))
    with torch.no_grad():
        found = model(padded, attention_mask=real)[:, before : before + tokens]
        torch.testing.assert_close(found, model(text))


def test_gradients_reach_everything():
    model = Encoder(EncoderConfig(**SIZES | KINDS["bert"])).double()
    model(ids(2, 5)).square().sum().backward()
    assert all(float(p.grad.abs().sum()) > 0 for p in model.parameters())


def test_it_is_recorded():
    model = encoder(**KINDS["bert"])
    with torch.no_grad(), regard.record(model) as rec:
        model(ids(2, 6))
    assert len(rec.prompts) == 2
    assert float(torch.as_tensor(rec["L1H3"].rows(range(6))).sum()) == pytest.approx(6, abs=1e-3)


def test_it_is_traced_as_one_graph():
    model, text = encoder(**KINDS["bert"]), ids(2, 5)
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(
        compiled(text, attention_mask=real), model(text, attention_mask=real)
    )


def test_too_long():
    with pytest.raises(ShapeError, match="at most 64 tokens fit"):
        encoder(**KINDS["bert"])(ids(1, 65))
