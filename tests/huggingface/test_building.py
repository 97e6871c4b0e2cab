"""A model built with our name follows it, or is refused by name before it runs."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import pytest
import torch
import transformers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    FalconConfig,
    FalconForCausalLM,
    FlavaConfig,
    FlavaModel,
    FlavaTextModel,
    GitConfig,
    GitModel,
    PreTrainedConfig,
    PreTrainedModel,
    Swinv2Config,
    VisionEncoderDecoderConfig,
    VisionEncoderDecoderModel,
)
from transformers.models.git import modeling_git

import regard
from huggingface.zoo import BLIND, FAMILIES, build, inputs_of
from installed import needs
from regard.errors import RegardWarning, UnavailableError
from regard.huggingface import using


@pytest.mark.parametrize("name", BLIND)
def test_a_family_that_cannot_follow_is_refused_by_name(name: str) -> None:
    says = (
        rf"^{name} does not dispatch its attention \(computed by \w+.*attn_implementation='regard'"
    )
    with pytest.raises(UnavailableError, match=says) as caught:
        build(BLIND[name], "regard")
    said = str(caught.value)
    assert "\n" not in said
    assert all(word in said for word in ("llama", "supported_families()", "regard.replay(q, k)"))
    assert ("'sdpa'" in said) == (name == "falcon")


@pytest.mark.parametrize("name", BLIND)
def test_it_is_built_as_ever_with_any_other_name(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RegardWarning)
        build(BLIND[name], "eager")


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_that_follows_is_built_in_silence(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RegardWarning)
        build(FAMILIES[name], "regard")


def test_somebodys_subclass_is_refused_like_its_family() -> None:
    class Mine(FalconForCausalLM):
        pass

    with pytest.raises(UnavailableError, match=r"^falcon does not dispatch"):
        Mine._from_config(BLIND["falcon"].configuration(), attn_implementation="regard")


def test_a_model_all_parts_of_which_are_blind_is_refused_as_its_parts_are() -> None:
    config = FlavaConfig()
    with pytest.raises(UnavailableError, match=r"^flava_text_model does not dispatch"):
        FlavaTextModel._from_config(config.text_config, attn_implementation="regard")
    with (
        torch.device("meta"),
        pytest.raises(UnavailableError, match=r"^flava does not dispatch"),
        pytest.warns(RegardWarning, match="flava_text_model"),
    ):
        FlavaModel._from_config(config, attn_implementation="regard")


def captioner() -> VisionEncoderDecoderConfig:
    """An encoder that does not dispatch, a decoder that does."""
    decoder: Any = FAMILIES["bert"].configuration()
    decoder.is_decoder = decoder.add_cross_attention = True
    eyes = Swinv2Config(
        image_size=16, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4
    )
    return VisionEncoderDecoderConfig.from_encoder_decoder_configs(eyes, decoder)


def test_a_part_that_cannot_follow_is_a_warning_and_the_others_do() -> None:
    with pytest.warns(RegardWarning, match=r"^swinv2 does not dispatch .*Swinv2SelfAttention"):
        model = VisionEncoderDecoderModel._from_config(captioner(), attn_implementation="regard")
    pixels = inputs_of("vision")["pixel_values"]
    ids = torch.ones(2, 3, dtype=torch.long)
    found = model.eval()(pixel_values=pixels, decoder_input_ids=ids, output_attentions=True)
    assert isinstance(found.encoder_attentions[0], torch.Tensor)
    assert isinstance(found.decoder_attentions[0], regard.Attention)


class AroundConfig(PreTrainedConfig):
    """Of a model that holds another."""

    model_type = "around"


class Around(PreTrainedModel):
    """Builds a Falcon inside itself."""

    config_class = AroundConfig

    def __init__(self, config: AroundConfig) -> None:
        super().__init__(config)
        inner: Any = BLIND["falcon"].configuration()
        inner._attn_implementation = config._attn_implementation
        self.inner = FalconForCausalLM(inner)


def test_a_part_that_cannot_even_be_built_is_refused() -> None:
    """It would look for its class in a table that has only transformers' names."""
    with pytest.raises(UnavailableError, match=r"^falcon does not dispatch"):
        Around._from_config(AroundConfig(), attn_implementation="regard")


def test_other_peoples_modules_with_a_configuration_are_left_alone() -> None:
    class Configured(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.config = FalconConfig()
            self.config._attn_implementation = "regard"
            self.part = torch.nn.Linear(2, 2)

    Configured()
    small = BertConfig(hidden_size=8, num_attention_heads=2, num_hidden_layers=1, vocab_size=9)
    model = BertForMaskedLM._from_config(small, attn_implementation="regard")
    model.cls = torch.nn.Linear(8, 9)  # a head of one's own


def test_it_is_refused_without_our_adapter_having_been_imported() -> None:
    script = (
        "import regard\n"
        "from transformers import GPTJConfig, GPTJForCausalLM as Model\n"
        "small = GPTJConfig(vocab_size=9, n_embd=8, n_layer=1, n_head=2, rotary_dim=2)\n"
        "try:\n    Model._from_config(small, attn_implementation='regard')\n"
        "except regard.errors.UnavailableError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.startswith("gptj does not dispatch its attention"), done.stderr


def test_switching_such_a_model_is_refused_as_well() -> None:
    model = build(BLIND["bloom"])
    model.config._attn_implementation = "regard"  # past all of transformers' checks
    with pytest.raises(UnavailableError, match=r"^bloom does not dispatch"), using(model):
        pass
    needs("transformers", "5.2", "Bloom asks for its mask by the implementation's name")
    with pytest.raises(UnavailableError, match=r"^bloom does not dispatch"):
        model(**inputs_of("decoder"))


def test_every_blind_family_of_the_zoo_is_one_of_the_installed_transformers() -> None:
    assert all(hasattr(transformers, family.config) for family in BLIND.values())


def seeing(kind: str) -> Any:
    """The configuration of a tower whose family dispatches elsewhere: in the decoder of masks."""
    config = getattr(transformers, f"{kind}VisionConfig")
    return config(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8,
        window_size=3, global_attn_indexes=[1], mlp_dim=16, output_channels=8,
    )  # fmt: skip


def implementations(model: Any) -> list[Any]:
    return [getattr(part, "config", model.config)._attn_implementation for part in model.modules()]


@pytest.mark.parametrize("name", BLIND)
def test_a_family_that_cannot_follow_cannot_be_switched_and_stays_as_it_was(name: str) -> None:
    model = build(BLIND[name], "eager")
    before = implementations(model)
    with pytest.raises(UnavailableError, match=rf"^{name} does not dispatch .*computed by"):
        model.set_attn_implementation("regard")
    assert implementations(model) == before


@pytest.mark.parametrize("name", sorted({*FAMILIES} - {"siglip"}))
def test_a_family_that_follows_is_switched_as_ever(name: str) -> None:
    model = build(FAMILIES[name], "eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RegardWarning)
        model.set_attn_implementation("regard")
    assert model.config._attn_implementation == "regard"


@pytest.mark.parametrize("kind", ["Sam", "SamHQ"])
@pytest.mark.parametrize("asked", ["regard", {"": "regard"}])
def test_a_tower_cannot_be_switched_either(kind: str, asked: Any) -> None:
    model = getattr(transformers, f"{kind}VisionModel")._from_config(seeing(kind))
    with pytest.raises(UnavailableError, match=rf"computed by {kind}Vision\w*Attention"):
        model.set_attn_implementation(asked)
    assert set(implementations(model)) == {"sdpa"}
    model.set_attn_implementation("eager")
    assert set(implementations(model)) == {"eager"}


def test_parts_are_switched_alone_or_refused_alone() -> None:
    model = VisionEncoderDecoderModel._from_config(captioner(), attn_implementation="eager")
    with pytest.warns(RegardWarning, match=r"not seen: encoder\.\S+ \(Swinv2Attention\)"):
        model.set_attn_implementation("regard")
    model.set_attn_implementation("eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RegardWarning)
        model.set_attn_implementation({"decoder": "regard"})
    assert model.decoder.config._attn_implementation == "regard"
    model.set_attn_implementation("eager")
    with pytest.raises(UnavailableError, match=r"computed by Swinv2\w*Attention"):
        model.encoder.set_attn_implementation("regard")


@pytest.mark.parametrize("kind", ["Sam", "SamHQ"])
def test_a_tower_is_judged_by_what_it_is_built_of_and_not_by_its_family(kind: str) -> None:
    model, config = getattr(transformers, f"{kind}VisionModel"), seeing(kind)
    with pytest.raises(UnavailableError, match=rf"computed by {kind}VisionAttention.*'sdpa'"):
        model._from_config(config, attn_implementation="regard")
    tower = model._from_config(config, attn_implementation="sdpa").eval()
    with torch.no_grad(), regard.record(tower) as rec:
        tower(torch.randn(1, 3, 32, 32))
    assert all(head.exact for head in rec.recording) and rec.stacks


def test_parts_of_one_configuration_are_judged_with_the_whole() -> None:
    """The encoder of deformable DETR reads a few points a query; its decoder attends as ever."""
    config = transformers.DeformableDetrConfig(
        d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, num_queries=4,
        use_timm_backbone=False, backbone=None, use_pretrained_backbone=False,
        backbone_config=transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1],
            layer_type="basic", out_features=["stage2", "stage3", "stage4"]),
    )  # fmt: skip
    transformers.DeformableDetrModel._from_config(config, attn_implementation="regard")


def captions() -> GitConfig:
    """A vision tower that dispatches; a decoder that takes its class from a table."""
    eyes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    eyes |= {"intermediate_size": 48, "image_size": 16, "patch_size": 4}
    text = FAMILIES["bert"].options | {"bos_token_id": 1, "eos_token_id": 2}
    return GitConfig(vision_config=eyes, **text)


def test_a_family_of_tables_and_of_others_is_built_with_the_class_it_would_have_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = dict(modeling_git.GIT_SELF_ATTENTION_CLASSES)
    monkeypatch.setattr(modeling_git, "GIT_SELF_ATTENTION_CLASSES", table)
    for _ in range(2):  # a second model is told as well
        with pytest.warns(RegardWarning, match=r"^git: layers of GitSelfAttention compute"):
            model = GitModel._from_config(captions(), attn_implementation="regard").eval()
    pixels, ids = inputs_of("vision")["pixel_values"], torch.tensor([[4, 5, 6], [7, 8, 9]])
    found = model(pixel_values=pixels, input_ids=ids).last_hidden_state
    model.set_attn_implementation("eager")
    wanted = model(pixel_values=pixels, input_ids=ids).last_hidden_state
    torch.testing.assert_close(found, wanted)
