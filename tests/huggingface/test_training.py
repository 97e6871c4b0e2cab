"""Training: gradients are eager's, also with checkpoints, dropout and strange masks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from huggingface.cells import causal_mask
from huggingface.zoo import FAMILIES, VOCABULARY, answer_of, build, inputs_of
from regard.huggingface import using

# softcap and windows, sinks, a learned bias by distance, a learned table of biases, cross-attention
LEARNERS = ["llama", "gemma2", "gpt_oss", "t5", "swin", "bart"]


def gradients(model: Any, inputs: dict[str, Tensor], **options: Any) -> dict[str, Tensor]:
    """Of every weight, after one step; rows of padding do not count."""
    model.zero_grad()
    found = answer_of(model(**inputs, **options))
    mask = inputs.get("attention_mask")
    if isinstance(mask, Tensor) and mask.ndim == 2 and "decoder_input_ids" not in inputs:
        found = found[mask.bool()]
    found.square().mean().backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def same(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert found.keys() == wanted.keys() and found
    for name, gradient in found.items():
        scale = float(wanted[name].abs().max())
        torch.testing.assert_close(
            gradient, wanted[name], rtol=0, atol=1e-4 * scale + 1e-7, msg=lambda m, n=name: n + m
        )


@pytest.mark.parametrize("name", LEARNERS)
def test_gradients_of_every_weight_are_eagers(name: str) -> None:
    family = FAMILIES[name]
    model, inputs = build(family), inputs_of(family.kind, "left")
    wanted = gradients(model, inputs)
    with using(model):
        same(gradients(model, inputs), wanted)


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_changes_nothing(reentrant: bool) -> None:
    model, inputs = build(FAMILIES["llama"]), inputs_of("decoder", "right")
    wanted = gradients(model, inputs)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    model.train()  # the family has no dropout
    with using(model):
        same(gradients(model, inputs, use_cache=False), wanted)


def test_a_strange_mask_has_gradients() -> None:
    """The function a rule is made of must live until the backward pass."""
    model = build(FAMILIES["llama"])
    ids = inputs_of("decoder")["input_ids"]

    def given() -> Any:
        def even(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            return ((q - k) % 2 == 0) & (k > q)

        return causal_mask(model.config, model.get_input_embeddings()(ids), or_mask_function=even)

    wanted = gradients(model, {"input_ids": ids, "attention_mask": given()})
    with using(model):
        same(gradients(model, {"input_ids": ids, "attention_mask": given()}), wanted)


def test_weights_are_handed_out_before_dropout() -> None:
    family = FAMILIES["bert"]
    model, inputs = build(family), inputs_of(family.kind)
    with using(model), torch.no_grad():
        wanted = model(**inputs, output_attentions=True).attentions[0].dense()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout) and module.p == 0.1:
                module.p = 0.0
        attention = model.encoder.layer[0].attention.self
        attention.dropout.p = 0.5
        model.train()
        torch.manual_seed(0)
        one, other = (model(**inputs, output_attentions=True) for _ in range(2))
    torch.testing.assert_close(one.attentions[0].dense(), wanted)
    assert (answer_of(one) - answer_of(other)).abs().max() > 1e-3


def test_packed_sequences_are_each_what_they_are_alone() -> None:
    model = build(FAMILIES["llama"])
    ids = torch.randint(4, VOCABULARY, (1, 9), generator=torch.Generator().manual_seed(5))
    places = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]])
    starts = torch.tensor([0, 4, 9], dtype=torch.int32)
    packing = {"cu_seq_lens_q": starts, "cu_seq_lens_k": starts}
    with using(model), torch.no_grad():
        alone = torch.cat([model(ids[:, :4]).logits, model(ids[:, 4:]).logits], 1)
        positions = model(ids, position_ids=places, use_cache=False).logits
        both = model(ids, position_ids=places, **packing).logits
        # positions that do not start again, so that only the lengths tell the sequences apart
        lengths = model(ids, **packing, output_attentions=True).attentions
    torch.testing.assert_close(positions, alone, rtol=0, atol=5e-5)
    torch.testing.assert_close(both, alone, rtol=0, atol=5e-5)
    for layer in lengths:
        assert not layer.dense()[0, :, 4:, :4].any()
