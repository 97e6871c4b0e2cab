"""Models are recorded as they compute: by transformers, torch, timm or diffusers, and compiled.

FlexAttention is in `test_flex`, functions of other packages in `test_packages`.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import accelerate
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import FalconConfig, FalconForCausalLM

import regard
from huggingface.zoo import FAMILIES, answer_of, build, enliven, inputs_of
from recorder.models import Stack, Torch, tiny, tokens
from regard.errors import InputError, RegardWarning
from regard.intervene import Probe

X = torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(0))


def same_weights(recording: Any, right: Any) -> None:
    """Two recordings of the same heads."""
    for mine, other in zip(recording.prompts, right.prompts, strict=True):
        for head in other:
            np.testing.assert_allclose(mine[head.label][:, :], head[:, :], atol=1e-6)


class Wrapped(nn.Module):
    """A module around a model, with an attention of its own on top."""

    def __init__(self, words: nn.Module) -> None:
        super().__init__()
        self.words, self.top = words, Torch()

    def forward(self, **inputs: Any) -> Tensor:
        """(B, L, 32)."""
        return self.top(self.words(**inputs).last_hidden_state)


@pytest.mark.parametrize("implementation", ["eager", "sdpa", "regard"])
@torch.no_grad()
def test_transformers_and_torch_are_both_heard_and_each_call_once(implementation: str) -> None:
    model, ids = Wrapped(tiny("bert")), tokens(7, batch=2)
    model.words.set_attn_implementation(implementation)
    plain = model(input_ids=ids)
    with regard.record(model) as rec:
        torch.testing.assert_close(model(input_ids=ids), plain)
    assert model.words.config._attn_implementation == implementation
    assert rec.stacks == {"": (2, 4), "top": (1, 4)} and rec.unheard == ()
    model.words.set_attn_implementation("eager")
    truth = model.words(input_ids=ids, output_attentions=True)
    q, k, _ = model.top.qkv(truth.last_hidden_state).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
    scores = (q @ k.mT / 8**0.5).masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf)
    for number, prompt in enumerate(rec.recording.prompts):
        for layer, weights in enumerate(truth.attentions):
            right = weights[number, 3].numpy()
            np.testing.assert_allclose(prompt[f"L{layer}H3"][:, :], right, atol=1e-5)
        right = scores.softmax(-1)[number, 2].numpy()
        np.testing.assert_allclose(prompt["top.L0H2"][:, :], right, atol=1e-5)


@pytest.mark.parametrize("padding", ["none", "left", "right"])
@pytest.mark.parametrize(
    "shape",
    [{}, {"multi_query": False}, {"new_decoder_architecture": True, "num_kv_heads": 2}],
    ids=["one key head", "a key head each", "groups"],
)
@torch.no_grad()
def test_falcon_on_sdpa_is_recorded_as_its_eager_self(shape: dict[str, Any], padding: str) -> None:
    config = FalconConfig(
        vocab_size=40, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, **shape
    )
    torch.manual_seed(0)
    model = FalconForCausalLM._from_config(copy.deepcopy(config), attn_implementation="sdpa")
    twin = FalconForCausalLM._from_config(config, attn_implementation="eager").eval()
    twin.load_state_dict(enliven(model.eval()).state_dict())
    inputs = inputs_of("decoder", padding)
    plain = answer_of(model(**inputs))
    with regard.record(model) as rec:
        assert torch.equal(answer_of(model(**inputs)), plain)
    truth = twin(**inputs, output_attentions=True).attentions
    assert rec.stacks == {"": (2, 4)} and len(rec.recording.prompts) == 2
    for number, prompt in enumerate(rec.recording.prompts):
        real = inputs["attention_mask"][number].bool().numpy()
        for head in prompt:
            right = truth[head.layer][number, head.head].numpy()[real][:, real]
            np.testing.assert_allclose(head[:, :], right, atol=2e-6)


@pytest.mark.parametrize("name", ["t5", "vit", "swin", "clip", "whisper", "gpt2", "siglip"])
@torch.no_grad()
def test_nothing_is_missing_of_a_family_that_is_recorded(name: str) -> None:
    model = build(FAMILIES[name])
    with regard.record(model) as rec:
        model(**inputs_of(FAMILIES[name].kind))
    assert rec.unheard == rec.recording.not_recorded == ()
    if name == "siglip":  # pools its pictures by torch's own layer, whose query is no token
        place = next(p for p in rec.places.values() if p.name.endswith("head.attention"))
        assert place.kind == "cross" and place.rows == (0, 1)


@torch.no_grad()
def test_an_exported_model() -> None:
    model = Torch().eval()
    exported = torch.export.export(model, (X,)).module()
    with regard.record(model) as right, regard.record(exported) as rec:
        model(X)
        exported(X)
    same_weights(rec.recording, right.recording)


@pytest.mark.parametrize("whole", [True, False])
@torch.no_grad()
def test_compiled_parts(whole: bool) -> None:
    model, ids = tiny("llama"), tokens(7)
    plain = copy.deepcopy(model)
    if whole:
        model.compile(backend="eager")
    else:
        model.model.layers[1] = torch.compile(model.model.layers[1], backend="eager")
    model(ids)  # compiled before the block
    with regard.record(model) as rec, regard.record(plain) as right:
        model(ids)
        plain(ids)
    assert rec.stacks == right.stacks == {"": (2, 4)}
    same_weights(rec.recording, right.recording)


class Attention(nn.Module):
    """As timm writes it: `fused_attn` decides."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.fused_attn = nn.Linear(32, 96), False

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, 32)."""
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        if self.fused_attn:
            out = F.scaled_dot_product_attention(q, k, v)
        else:
            out = (q * 8**-0.5 @ k.mT).softmax(-1) @ v
        return out.transpose(1, 2).flatten(2)


class Talking(Attention):
    """One that has no other way."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        return ((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2)


@torch.no_grad()
def test_timm_is_fused_only_while_it_is_recorded() -> None:
    model = nn.Sequential(Attention(), Attention())
    plain = model(X)
    with regard.record(model) as rec:
        torch.testing.assert_close(model(X), plain)
    assert rec.stacks == {"": (2, 4)} and not any(layer.fused_attn for layer in model)
    model = nn.Sequential(Attention(), Talking())
    with pytest.warns(RegardWarning), regard.record(model) as rec:
        model(X)
    assert rec.stacks == {"": (1, 4)} and rec.unheard == ("* (Talking)",)


@pytest.mark.parametrize("kind", ["AttnProcessor", "AttnProcessor2_0", "SlicedAttnProcessor"])
@torch.no_grad()
def test_processors_of_diffusers(kind: str) -> None:
    import diffusers
    from diffusers.models import attention_processor

    torch.manual_seed(0)
    model = diffusers.UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, norm_num_groups=8,
        block_out_channels=(32, 64), cross_attention_dim=32, attention_head_dim=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    ).eval()  # fmt: skip
    options = (1,) if "Sliced" in kind else ()
    model.set_attn_processor(getattr(attention_processor, kind)(*options))
    given = torch.randn(2, 4, 8, 8), 1, torch.randn(2, 7, 32)
    plain = model(*given).sample
    with regard.record(model) as rec:
        torch.testing.assert_close(model(*given).sample, plain, atol=1e-5, rtol=1e-4)
    assert rec.unheard == () and len(rec.recording.prompts) == 2
    shapes = {head.shape for head in rec.recording.prompts[0]}
    assert shapes == {(64, 64), (64, 7), (16, 16), (16, 7)}
    assert {type(processor).__name__ for processor in model.attn_processors.values()} == {kind}


def offloaded(model: Any, how: str, folder: Path) -> Any:
    """A copy whose weights come when they are needed."""
    away, cpu = copy.deepcopy(model), torch.device("cpu")
    if how == "cpu_offload":
        accelerate.cpu_offload(away, cpu)
    elif how == "disk_offload":
        accelerate.disk_offload(away, str(folder), execution_device=cpu)
    else:  # the first layer stays where it is
        names = [f"model.{name}" for name, _ in away.model.named_children() if name != "layers"]
        where = dict.fromkeys([*names, "lm_head", "model.layers.0"], "cpu")
        where["model.layers.1"] = "disk"
        accelerate.dispatch_model(
            away, where, main_device=cpu, offload_dir=str(folder), force_hooks=True
        )
    return away


@pytest.mark.parametrize("how", ["cpu_offload", "disk_offload", "dispatch_model"])
@torch.no_grad()
def test_offloaded_weights_are_recorded_as_those_at_hand(how: str, tmp_path: Path) -> None:
    model, ids = tiny("llama", tie_word_embeddings=False), tokens(9, batch=2)
    away = offloaded(model, how, tmp_path)
    assert any(parameter.is_meta for parameter in away.parameters())
    with regard.record(model) as near, regard.record(away) as far:
        for each in (model, away):
            each.model(ids)
    assert far.recording.model["device"] == "cpu"
    same_weights(far.recording, near.recording)
    near_kl, far_kl = (Probe(each, ids[:1]).effect("L0H1").kl for each in (model, away))
    assert far_kl == pytest.approx(near_kl, abs=1e-5)


def test_weights_that_never_come_are_refused() -> None:
    hooked = nn.Sequential(nn.Linear(2, 2))
    accelerate.hooks.add_hook_to_module(hooked, accelerate.hooks.AlignDevicesHook("cpu"))
    whole, part = Stack().to("meta"), Stack()
    part.layers[1].to("meta")
    for model, path in ((whole, "layers.0"), (part, "layers.1"), (hooked.to("meta"), "0")):
        says = rf"meta device and computes nothing: {path}"
        with pytest.raises(InputError, match=says), regard.record(model):
            pass
