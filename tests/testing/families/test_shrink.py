"""Small configurations keep the relations that make a model of them."""

from __future__ import annotations

import pytest

from support.families.build import MOST, TooManyError, build
from support.families.facts import parts
from support.families.shrink import model_class, names, tiny_config
from support.families.sizes import VOCABULARY, is_token


def test_a_plain_model_is_small():
    config = tiny_config("llama")
    assert config.hidden_size == config.num_attention_heads * config.head_dim
    assert config.num_attention_heads % config.num_key_value_heads == 0
    assert config.vocab_size == VOCABULARY
    assert config.num_hidden_layers == 2


@pytest.mark.parametrize("name", ["qwen2_vl", "llava", "gemma3", "whisper", "clip"])
def test_special_tokens_differ_and_lie_in_the_vocabulary(name):
    given = {}
    for part in parts(tiny_config(name)):
        for field, value in vars(part).items():
            if is_token(field) and isinstance(value, int):
                assert 0 <= value < VOCABULARY
                given.setdefault(field, set()).add(value)
    stands_for = [given[name] for name in given if name.startswith(("image_", "video_", "audio_"))]
    assert len({min(numbers) for numbers in stands_for}) == len(stands_for)
    assert all(len(numbers) == 1 for numbers in stands_for)


@pytest.mark.parametrize("name", ["gemma2", "qwen3_next", "kimi_linear"])
def test_every_kind_of_layer_is_kept(name):
    kinds = tiny_config(name).layer_types
    assert len(set(kinds)) == len(kinds) > 1


def test_parts_are_shrunk_too_and_changed_wherever_they_stand():
    whole, text = tiny_config("qwen2_vl"), tiny_config("qwen2_vl_text")
    assert whole.vision_config.depth == 2
    assert whole.text_config.rope_parameters == text.rope_parameters
    assert sum(text.rope_parameters["mrope_section"]) == 16 // 2


def test_what_stays_large_is_not_built(monkeypatch):
    monkeypatch.setattr("support.families.build.MOST", 1000)
    with pytest.raises(TooManyError, match="million parameters"):
        build("llama")
    assert MOST == 50_000_000


def test_classes_that_generate_come_first_but_encoders_stay_encoders():
    assert model_class("llama").__name__ == "LlamaForCausalLM"
    assert model_class("t5").__name__ == "T5ForConditionalGeneration"
    assert model_class("bert").__name__ == "BertModel"
    assert len(names()) > 600
