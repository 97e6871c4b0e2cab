"""Every family: the same answer as the implementation it had, and eager's weights of all layers: in
a forward pass, while it writes, in training, compiled.

Rows that see no key are left out of the weights, where eager makes them uniform.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import DynamicCache, EsmConfig, EsmModel, StaticCache, masking_utils

import regard
from huggingface.cells import causal_mask
from huggingface.zoo import (
    FAMILIES,
    TOKENS,
    VOCABULARY,
    answer_of,
    attentions,
    build,
    inputs_of,
    model_of,
)
from installed import is_at_least, needs
from regard.errors import RegardWarning
from regard.huggingface import using
from regard.testing.budget import FACTOR

PADDED = dict.fromkeys(("decoder", "encoder", "seq2seq"), ("none", "left", "right"))
PADDINGS = {"vision": ("none",), "audio": ("none",), "dual": ("none", "left")} | PADDED
KINDS = {name: family.kind for name, family in FAMILIES.items()}
PREFILLS = [(name, padding) for name, kind in KINDS.items() for padding in PADDINGS[kind]]
GENERATORS = [name for name, kind in KINDS.items() if kind in ("decoder", "seq2seq", "audio")]
# the others' static caches are the same classes of transformers
STATIC = ["llama", "mistral", "gemma3", "gpt_oss", "deepseek_v3", "t5", "bart"]
# the first transformers in which these hand out their attention, on eager too
HANDS_OUT = {"clip": "5.2", "siglip": "5.6"}


@contextmanager
def seen(model: Any) -> Iterator[None]:
    """regard for a while; that parts of a model are not seen is tested with using()."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RegardWarning)
        with using(model):
            yield


def close(mine: Tensor, wanted: Tensor) -> None:
    """Equal up to rounding."""
    assert_close(mine, wanted, rtol=0, atol=2e-5 * max(1.0, float(wanted.abs().max())))


def same_numbers(mine: Any, wanted: Any) -> None:
    """Everything a model computed, but its attention."""
    for name, value in wanted.items():
        if isinstance(value, Tensor):
            close(mine[name], value)
        elif hasattr(value, "items"):
            same_numbers(mine[name], value)


def same_weights(layer: regard.Attention | Tensor, eager: Tensor) -> None:
    """In the rows that see a key. Eager also lists the slots of a static cache that nobody wrote
    to; Whisper's own generate takes attentions apart by indexing, which gives tensors."""
    mine = layer if isinstance(layer, Tensor) else torch.from_numpy(np.asarray(layer, np.float32))
    sees = mine.any(-1)
    close(mine[sees], eager[..., : layer.shape[-1]][sees])
    assert not eager[..., layer.shape[-1] :][sees].any()


@pytest.mark.parametrize(("name", "padding"), PREFILLS)
@torch.no_grad()
def test_a_forward_pass_is_eagers(name: str, padding: str, monkeypatch: Any) -> None:
    """Every row of the answer, those of padding too; no square mask is built, but by the family
    that computes with its mask, to choose keys."""
    if (name, padding) == ("gpt2", "left"):
        needs("transformers", "5.2", "GPT-2's eager attention gives padding the mean of all values")
    model, inputs = model_of(name), inputs_of(KINDS[name], padding)
    wanted = model(**inputs, output_attentions=True)
    if name != "glm_moe_dsa":
        monkeypatch.setattr(masking_utils, "sdpa_mask", None)
    with seen(model):
        mine = model(**inputs, output_attentions=True)
    same_numbers(mine, wanted)
    layers, eager = dict(attentions(mine)), dict(attentions(wanted))
    assert list(layers) == list(eager)
    assert layers or not is_at_least("transformers", HANDS_OUT.get(name, "5.0"))
    for place, layer in layers.items():
        assert isinstance(layer, regard.Attention) and layer.shape == tuple(eager[place].shape)
        same_weights(layer, eager[place])
        even = 1 / eager[place].shape[-1]
        assert eager[place].amax(-1).mean() > 1.5 * even, "rows so even that mistakes hide in them"


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["bert", "llama", "t5", "siglip"])
@torch.no_grad()
def test_statistics_count_real_rows_alone(name: str, side: str) -> None:
    """Received mass, entropy, top keys and maps are those of the sequence without its padding."""
    model, inputs = model_of(name), inputs_of(KINDS[name], side)
    real = inputs["attention_mask"][0].bool()
    with seen(model):
        layers = dict(attentions(model(**inputs, output_attentions=True)))
    for place, layer in layers.items():
        if place.startswith(("decoder", "cross", "vision")):
            continue
        weights = layer.dense()[0][:, real]  # (heads, real rows, keys)
        close(layer.received()[0], weights.sum(-2))
        close(layer.entropy()[0][:, real], -torch.xlogy(weights, weights).sum(-1))
        assert not layer.entropy()[0][:, ~real].any()
        assert (layer.top(2).keys[0][:, ~real] == -1).all()
        close(layer.pooled(TOKENS)[0].flatten(), weights.sum((-1, -2)) / TOKENS**2)
        for twin in (layer.clone(), layer.detach(), copy.deepcopy(layer)):
            assert torch.equal(twin.received(), layer.received())


def test_a_mask_of_the_encoder_is_not_taken_for_one_of_decoder_queries() -> None:
    """Both sides are equally long; a padded source token must not silence a target token."""
    model, inputs = model_of("bart"), inputs_of("seq2seq", "right")
    assert inputs["decoder_input_ids"].shape[1] == TOKENS
    with torch.no_grad(), seen(model):
        out = model(**inputs, output_attentions=True)
    for layer in out.cross_attentions:
        assert (layer.dense().sum(-1) - 1).abs().max() < 1e-5 and (layer.entropy() > 0).all()
        assert not layer.dense()[0, :, :, -3:].any()
    for layer in out.encoder_attentions:
        assert not layer.entropy()[0, :, -3:].any() and layer.entropy()[0, :, :-3].any()


@pytest.mark.parametrize("how", ["bfloat16", "autocast"])
@pytest.mark.parametrize("name", ["llama", "gemma2", "t5"])
@torch.no_grad()
def test_low_precision_loses_no_more_than_eager(name: str, how: str) -> None:
    model, inputs = copy.deepcopy(model_of(name)), inputs_of(KINDS[name])
    model = model.bfloat16() if how == "bfloat16" else model
    with torch.autocast("cpu", torch.bfloat16) if how == "autocast" else nullcontext():
        eager = model(**inputs).logits
        with using(model):
            out = model(**inputs, output_attentions=True)
    assert dict(attentions(out)).popitem()[1].output.dtype == torch.bfloat16
    exact = model.float()(**inputs).logits
    lost = (eager.float() - exact).abs().max()
    assert lost > 0 and (out.logits.float() - exact).abs().max() <= FACTOR * lost


WRITTEN = [*((name, {}) for name in GENERATORS),
           *((name, {"cache_implementation": "static", "disable_compile": True})
             for name in STATIC)]  # fmt: skip


@pytest.mark.parametrize(("name", "cache"), WRITTEN)
def test_generation_is_eagers(name: str, cache: dict[str, Any]) -> None:
    """The tokens, every step's logits and every step's weights; prompts padded on the left."""
    model, kind = model_of(name), KINDS[name]
    inputs = {k: v for k, v in inputs_of(kind, "left").items() if k != "decoder_input_ids"}
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    options |= {"output_logits": True, "output_attentions": True, "return_dict_in_generate": True}
    wanted = model.generate(**inputs, **options, **cache)
    with seen(model):
        out = model.generate(**inputs, **options, **cache)
    assert out.sequences.tolist() == wanted.sequences.tolist()
    for mine, other in zip(out.logits, wanted.logits, strict=True):
        close(mine, other)
    own = "attentions" if kind == "decoder" else "decoder_attentions"
    for step, other in zip(out[own], wanted[own], strict=True):
        for layer, eager in zip(step, other, strict=True):
            same_weights(layer, eager)


IDS = torch.randint(4, VOCABULARY, (2, 13), generator=torch.Generator().manual_seed(2))
CHUNKS = (5, 3, 1, 1, 3)  # tokens at a time
CACHES: dict[str, Callable[[Any], Any]] = {
    "dynamic": lambda config: DynamicCache(config=config),
    "static": lambda config: StaticCache(config=config, max_cache_len=16),
}


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("name", ["llama", "mistral", "gemma3", "gpt_oss"])
def test_tokens_in_chunks_are_eagers_and_those_at_once(name: str, cache: str) -> None:
    """Full, windowed, both, both with sinks. What a layer says of a step stays true when the cache
    has moved on, also of tensors that do not tell when they were changed; slots that nobody wrote
    to are no keys."""
    model, mask = model_of(name), torch.ones_like(IDS)
    mask[0, :2] = 0
    real = mask.bool()

    def in_chunks() -> tuple[Tensor, list[Any]]:
        held, logits, layers, start = CACHES[cache](model.config), [], [], 0
        for chunk in CHUNKS:
            end = start + chunk
            out = model(
                IDS[:, start:end], past_key_values=held, attention_mask=mask[:, :end],
                output_attentions=True,
            )  # fmt: skip
            logits, layers = [*logits, out.logits], [*layers, out.attentions]
            start = end
        if cache == "static":
            for layer in held.layers:
                layer.keys.zero_()
        return torch.cat(logits, 1), layers

    with torch.inference_mode(cache == "static"), torch.no_grad():
        (wanted, eager), at_once = in_chunks(), model(IDS, attention_mask=mask).logits
        with using(model):
            mine, layers = in_chunks()
        close(mine[real], wanted[real])
        close(mine[real], at_once[real])
        if name == "llama":
            assert [step[0].shape[-1] for step in layers] == [5, 8, 9, 10, 13]
        for one, other in zip(layers, eager, strict=True):
            for layer, weights in zip(one, other, strict=True):
                same_weights(layer, weights)


def gradients(model: Any, inputs: dict[str, Tensor], **options: Any) -> dict[str, Tensor]:
    """Of every weight, after one step; rows of padding do not count."""
    model.zero_grad()
    answer, mask = answer_of(model(**inputs, **options)), inputs.get("attention_mask")
    if isinstance(mask, Tensor) and mask.ndim == 2 and "decoder_input_ids" not in inputs:
        answer = answer[mask.bool()]
    answer.square().mean().backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def same_gradients(mine: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert mine.keys() == wanted.keys() and mine
    for name, gradient in mine.items():
        near = 1e-4 * float(wanted[name].abs().max()) + 1e-7
        assert_close(gradient, wanted[name], rtol=0, atol=near, msg=name)


# softcap and windows, sinks, a learned bias by distance, a learned table of biases, cross-attention
@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt_oss", "t5", "swin", "bart"])
def test_gradients_of_every_weight_are_eagers(name: str) -> None:
    model, inputs = build(FAMILIES[name]), inputs_of(KINDS[name], "left")
    wanted = gradients(model, inputs)
    with using(model):
        same_gradients(gradients(model, inputs), wanted)
        if name != "llama":
            return
        for reentrant in (False, True):  # the family has no dropout
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
            same_gradients(gradients(model.train(), inputs, use_cache=False), wanted)


def test_a_strange_mask_has_gradients() -> None:
    """The function a rule is made of must live until the backward pass."""
    model, ids = build(FAMILIES["llama"]), inputs_of("decoder")["input_ids"]

    def given() -> Any:
        def even(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            return ((q - k) % 2 == 0) & (k > q)

        states = model.get_input_embeddings()(ids)
        mask = causal_mask(model.config, states, or_mask_function=even)
        return {"input_ids": ids, "attention_mask": mask}

    wanted = gradients(model, given())
    with using(model):
        same_gradients(gradients(model, given()), wanted)


def test_weights_are_handed_out_before_dropout() -> None:
    model, inputs = build(FAMILIES["bert"]), inputs_of("encoder")
    with using(model), torch.no_grad():
        wanted = model(**inputs, output_attentions=True).attentions[0].dense()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        model.encoder.layer[0].attention.self.dropout.p = 0.5
        one, other = (model.train()(**inputs, output_attentions=True) for _ in range(2))
    assert_close(one.attentions[0].dense(), wanted)
    assert (answer_of(one) - answer_of(other)).abs().max() > 1e-3


def test_packed_sequences_are_each_what_they_are_alone() -> None:
    model, ids = model_of("llama"), IDS[:1, :9]
    places, starts = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]]), torch.tensor([0, 4, 9]).int()
    packing = {"cu_seq_lens_q": starts, "cu_seq_lens_k": starts}
    with using(model), torch.no_grad():
        alone = torch.cat([model(ids[:, :4]).logits, model(ids[:, 4:]).logits], 1)
        close(model(ids, position_ids=places, use_cache=False).logits, alone)
        close(model(ids, position_ids=places, **packing).logits, alone)
        # positions that do not start again, so that only the lengths tell the sequences apart
        for layer in model(ids, **packing, output_attentions=True).attentions:
            assert not layer.dense()[0, :, 4:, :4].any()


def test_code_written_for_eagers_tensors_runs_on_what_a_model_hands_out() -> None:
    """ESM's contacts: stacked, masked, made symmetric, corrected by sums of rows and columns."""
    torch.manual_seed(0)
    config = EsmConfig(
        vocab_size=33, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4, pad_token_id=1, mask_token_id=32, position_embedding_type="rotary",
    )  # fmt: skip
    model = EsmModel(config, add_pooling_layer=False).eval()
    ids = torch.randint(4, 24, (2, 14), generator=torch.Generator().manual_seed(1))
    ids[:, 0], ids[0, -1], ids[1, -4], ids[1, -3:] = 0, 2, 2, 1
    contacts, grads = [], []
    for name in ("eager", "regard"):
        model.set_attn_implementation(name)
        contacts.append(model.predict_contacts(ids, (ids != 1).long()))
        weight = model.encoder.layer[0].attention.self.query.weight
        grads.append(torch.autograd.grad(contacts[-1].square().sum(), weight))
    assert_close(*contacts, rtol=1e-5, atol=1e-5)
    assert_close(*grads, rtol=1e-4, atol=1e-6)


@torch.no_grad()
def test_a_compiled_model_is_one_graph() -> None:
    """A padded prefill, a step behind a static cache, and one that hands out attentions."""
    torch._dynamo.reset()
    model, inputs = model_of("mistral"), inputs_of("decoder", "left")
    real = inputs["attention_mask"].bool()
    with using(model):
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        close(compiled(**inputs).logits[real], model(**inputs).logits[real])
    model, ids = model_of("llama"), inputs_of("decoder")["input_ids"]
    wanted = model(ids).logits
    with using(model):
        cache = CACHES["static"](model.config)
        step = torch.compile(model, backend="eager", fullgraph=True)
        model(ids[:, :8], past_key_values=cache)
        mine = [step(ids[:, at : at + 1], past_key_values=cache).logits for at in (8, 9, 10)]
        close(torch.cat(mine, 1), wanted[:, 8:])
        attended = model(ids, output_attentions=True).attentions
        out = torch.compile(model, backend="eager")(ids, output_attentions=True)
    for one, other in zip(out.attentions, attended, strict=True):
        assert isinstance(one, regard.Attention) and one.shape == other.shape
        assert_close(one.lse, other.lse, rtol=0, atol=1e-5)
    torch._dynamo.reset()
