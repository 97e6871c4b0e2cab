"""Which models follow the name, by being built with it, switched to it, or for a block of using();
the others are refused by name before they run, and everything is as it was afterwards."""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
import torch
import transformers
from torch import nn
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    BertConfig,
    BertForMaskedLM,
    FalconConfig,
    FalconForCausalLM,
    FlavaConfig,
    FlavaModel,
    FlavaTextModel,
    GitConfig,
    GitModel,
    MambaConfig,
    MambaModel,
    PreTrainedConfig,
    PreTrainedModel,
    Swinv2Config,
    VisionEncoderDecoderConfig,
    VisionEncoderDecoderModel,
)
from transformers.models.git import modeling_git

import regard
import warm
from huggingface.zoo import BLIND, FAMILIES, build, inputs_of, model_of
from installed import needs
from regard.errors import DTypeError, RegardWarning, UnavailableError
from regard.huggingface import regard_attention, register, supported_families, using
from regard.huggingface.families import calls_torch, sight


@contextmanager
def in_silence() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RegardWarning)
        yield


def implementations(model: nn.Module) -> list[str]:
    """What each configuration in a model says, parts and parts of parts."""
    configs = {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}
    return [c._attn_implementation for c in configs.values() if isinstance(c, PreTrainedConfig)]


@pytest.mark.parametrize("name", BLIND)
def test_a_family_that_cannot_follow_is_refused_by_name(name: str) -> None:
    """Built, switched or for a block; by other names it is built as ever, and stays as it was."""
    assert hasattr(transformers, BLIND[name].config)
    assert name.replace("-", "_") not in supported_families()
    says = rf"^{name} does not dispatch its attention \(computed by \w+.*"
    with pytest.raises(UnavailableError, match=says + "attn_implementation='regard'") as caught:
        build(BLIND[name], "regard")
    said = str(caught.value)
    assert "\n" not in said and ("'sdpa'" in said) == (name == "falcon")
    assert all(word in said for word in ("llama", "supported_families()", "regard.replay(q, k)"))
    with in_silence():
        model = build(BLIND[name], "eager")
    assert not calls_torch(model)
    assert name != "falcon" or calls_torch(build(BLIND[name], "sdpa"))
    before = implementations(model)
    with pytest.raises(UnavailableError, match=says), using(model):
        pass
    with pytest.raises(UnavailableError, match=says):
        model.set_attn_implementation("regard")
    assert implementations(model) == before


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_that_follows_is_built_and_switched_in_silence(name: str) -> None:
    assert name in supported_families()
    with in_silence():
        model = build(FAMILIES[name], "regard")
        model.set_attn_implementation("eager")
        if name != "siglip":  # whose pooling head is torch's own MultiheadAttention
            model.set_attn_implementation("regard")
    modules = sight(model)
    assert modules.seen and list(modules.unseen) == ["vision_model.head"] * (name == "siglip")
    assert not calls_torch(model)


def test_the_name_stands_in_both_interfaces_however_often_it_is_registered() -> None:
    register()
    register()
    assert AttentionInterface()["regard"] is regard_attention
    assert "regard" in AttentionMaskInterface().valid_keys()
    assert AttentionInterface().valid_keys().count("regard") == 1


@pytest.mark.parametrize("missing", [False, True])
def test_in_a_process_that_has_imported_nothing(missing: bool) -> None:
    """The name is known before our adapter is; without transformers the extra is named."""
    script = (
        "import regard\n"
        "from transformers import GPTJConfig, GPTJForCausalLM as Model\n"
        "small = GPTJConfig(vocab_size=9, n_embd=8, n_layer=1, n_head=2, rotary_dim=2)\n"
        "try:\n    Model._from_config(small, attn_implementation='regard')\n"
        "except regard.errors.UnavailableError as error:\n    print(error)\n"
    )
    if missing:
        script = (
            "import sys; sys.modules['transformers'] = None\n"
            "from regard.errors import MissingExtraError\n"
            "try:\n    import regard.huggingface\n"
            "except MissingExtraError as error:\n    print(error)\n"
        )
        assert "regard[huggingface]" in warm.run(script).stdout
        return
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.startswith("gptj does not dispatch its attention"), done.stderr


class Decorated(nn.Module):
    """Dispatches in a function inside a decorated method."""

    @torch.no_grad()
    def helper(self) -> None:
        def inner() -> None:
            ALL_ATTENTION_FUNCTIONS  # type: ignore  # noqa

        inner()


class Inherits(Decorated):
    """Dispatches by its base."""


def test_a_method_that_dispatches_is_found_wherever_it_is() -> None:
    model = nn.ModuleDict({"a": Decorated(), "b": Inherits(), "c": nn.Linear(2, 2)})
    assert list(sight(model).seen) == ["a", "b"]


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
    ids = torch.ones(2, 3, dtype=torch.long)
    out = model.eval()(
        **inputs_of("vision"), decoder_input_ids=ids, output_attentions=True
    )  # fmt: skip
    assert isinstance(out.encoder_attentions[0], torch.Tensor)
    assert isinstance(out.decoder_attentions[0], regard.Attention)
    model = VisionEncoderDecoderModel._from_config(captioner(), attn_implementation="eager")
    with pytest.warns(RegardWarning, match=r"not seen: encoder\.\S+ \(Swinv2Attention\)"):
        model.set_attn_implementation("regard")
    model.set_attn_implementation("eager")
    with in_silence():
        model.set_attn_implementation({"decoder": "regard"})
    assert model.decoder.config._attn_implementation == "regard"
    model.set_attn_implementation("eager")
    with pytest.raises(UnavailableError, match=r"computed by Swinv2\w*Attention"):
        model.encoder.set_attn_implementation("regard")


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


class AroundConfig(PreTrainedConfig):
    """Of a model that holds another."""

    model_type = "around"


class AroundFalcon(PreTrainedModel):
    """Builds a Falcon inside itself."""

    config_class = AroundConfig

    def __init__(self, config: AroundConfig) -> None:
        super().__init__(config)
        inner: Any = BLIND["falcon"].configuration()
        inner._attn_implementation = config._attn_implementation
        self.inner = FalconForCausalLM(inner)


class Mine(FalconForCausalLM):
    """Somebody's subclass."""


def test_a_subclass_and_a_part_that_cannot_even_be_built_are_refused() -> None:
    """The part would look for its class in a table that has only transformers' names."""
    for kind, config in ((AroundFalcon, AroundConfig()), (Mine, BLIND["falcon"].configuration())):
        with pytest.raises(UnavailableError, match=r"^falcon does not dispatch"):
            kind._from_config(config, attn_implementation="regard")


def test_other_peoples_modules_with_a_configuration_are_left_alone() -> None:
    class Configured(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.config = FalconConfig()
            self.config._attn_implementation = "regard"
            self.part = nn.Linear(2, 2)

    Configured()
    small = BertConfig(hidden_size=8, num_attention_heads=2, num_hidden_layers=1, vocab_size=9)
    model = BertForMaskedLM._from_config(small, attn_implementation="regard")
    model.cls = nn.Linear(8, 9)  # a head of one's own


def test_a_model_that_was_switched_past_all_checks_is_refused_when_it_runs() -> None:
    model = build(BLIND["bloom"])
    model.config._attn_implementation = "regard"
    with pytest.raises(UnavailableError, match=r"^bloom does not dispatch"), using(model):
        pass
    needs("transformers", "5.2", "Bloom asks for its mask by the implementation's name")
    with pytest.raises(UnavailableError, match=r"^bloom does not dispatch"):
        model(**inputs_of("decoder"))


@pytest.mark.parametrize("kind", ["Sam", "SamHQ"])
def test_a_tower_is_judged_by_what_it_is_built_of_and_not_by_its_family(kind: str) -> None:
    """Whose family dispatches elsewhere: in the decoder of masks."""
    config = getattr(transformers, f"{kind}VisionConfig")(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8,
        window_size=3, global_attn_indexes=[1], mlp_dim=16, output_channels=8,
    )  # fmt: skip
    tower = getattr(transformers, f"{kind}VisionModel")
    with pytest.raises(UnavailableError, match=rf"computed by {kind}VisionAttention.*'sdpa'"):
        tower._from_config(config, attn_implementation="regard")
    model = tower._from_config(config, attn_implementation="sdpa").eval()
    with torch.no_grad(), regard.record(model) as rec:
        model(torch.randn(1, 3, 32, 32))
    assert all(head.exact for head in rec.recording) and rec.stacks
    for asked in ("regard", {"": "regard"}):
        with pytest.raises(UnavailableError, match=rf"computed by {kind}Vision\w*Attention"):
            model.set_attn_implementation(asked)
        assert set(implementations(model)) == {"sdpa"}


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


def test_a_family_of_tables_and_of_others_is_built_with_the_class_it_would_have_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A vision tower that dispatches; a decoder that takes its class from a table."""
    eyes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    eyes |= {"intermediate_size": 48, "image_size": 16, "patch_size": 4}
    text = FAMILIES["bert"].options | {"bos_token_id": 1, "eos_token_id": 2}
    table = dict(modeling_git.GIT_SELF_ATTENTION_CLASSES)
    monkeypatch.setattr(modeling_git, "GIT_SELF_ATTENTION_CLASSES", table)
    for _ in range(2):  # a second model is told as well
        config = GitConfig(vision_config=eyes, **text)
        with pytest.warns(RegardWarning, match=r"^git: layers of GitSelfAttention compute"):
            model = GitModel._from_config(config, attn_implementation="regard").eval()
    inputs = inputs_of("vision") | {"input_ids": torch.tensor([[4, 5, 6], [7, 8, 9]])}
    mine = model(**inputs).last_hidden_state
    model.set_attn_implementation("eager")
    torch.testing.assert_close(mine, model(**inputs).last_hidden_state)


def test_every_part_is_switched_and_switched_back_to_its_own() -> None:
    model = build(FAMILIES["clip"])
    model.vision_model.config._attn_implementation = "sdpa"
    layer = model.text_model.encoder.layers[1].self_attn
    layer.config = copy.deepcopy(layer.config)  # of its own
    before = implementations(model)
    assert {"sdpa", "eager"} <= set(before)
    for _ in range(2):  # blocks nest
        with using(model):
            with using(model):
                pass
            assert set(implementations(model)) == {"regard"}
        assert implementations(model) == before
    with pytest.raises(ZeroDivisionError), using(model):
        1 / 0  # noqa: B018
    assert implementations(model) == before
    model.vision_model = nn.Identity()  # whose configuration is left alone
    with using(model):
        assert model.config.text_config._attn_implementation == "regard"
        assert model.config.vision_config._attn_implementation == "sdpa"


@torch.no_grad()
def test_a_part_of_a_model_or_a_model_inside_another_module_will_do() -> None:
    model, inputs = model_of("llama"), inputs_of("decoder")
    for given in (model.model, nn.ModuleDict({"wrapped": model})):
        with using(given) as modules:
            out = model(**inputs, output_attentions=True)
        assert isinstance(out.attentions[0], regard.Attention)
        names = [name.rpartition("layers.")[2] for name in modules.seen]
        assert names == ["0.self_attn", "1.self_attn"] and not modules.unseen
    assert set(implementations(model)) == {"eager"}


def test_parts_that_are_not_seen_are_a_warning_that_names_them() -> None:
    says = r"siglip.*vision_model\.head"
    with pytest.warns(RegardWarning, match=says) as caught, using(model_of("siglip")) as modules:
        assert modules.seen and modules.unseen
    assert caught[0].filename == __file__
    with in_silence(), using(model_of("bart")):
        pass


def test_what_has_no_attention_and_what_is_no_model_is_an_error() -> None:
    model = MambaModel(MambaConfig(hidden_size=8, num_hidden_layers=1, vocab_size=9, state_size=4))
    with pytest.raises(UnavailableError, match="mamba has no attention"), using(model):
        pass
    for wrong in (nn.Linear(2, 2), "llama", None):
        with pytest.raises(DTypeError, match=f"not a {type(wrong).__name__}"), using(wrong):
            pass


class Inner(PreTrainedConfig):
    """A part of a part."""


class Part(PreTrainedConfig):
    """Has one."""

    sub_configs: ClassVar = {"inner": Inner}


def test_configurations_inside_those_inside_are_left_alone(monkeypatch: Any) -> None:
    """transformers' own property hands a part's name down to the parts of that part. One that has
    no name gets none back."""
    model = build(FAMILIES["bert"])
    whole, part, inner = model.config, Part(), Inner()
    monkeypatch.setattr(type(whole), "sub_configs", {"part": Part})
    whole.part, part.inner = part, inner
    part._attn_implementation_internal, inner._attn_implementation_internal = "sdpa", "eager"
    for name in ("eager", None):
        whole._attn_implementation_internal = name
        with using(model):
            assert whole._attn_implementation == "regard"
            assert (part._attn_implementation, inner._attn_implementation) == ("sdpa", "eager")
        assert whole._attn_implementation == name
        assert (part._attn_implementation, inner._attn_implementation) == ("sdpa", "eager")
