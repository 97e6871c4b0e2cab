"""SmolLM2 speaks, and its tokenizer is the one it was trained with."""

from __future__ import annotations

import pytest
import torch

import regard
from real_models import smollm2
from regard.models.convert.smollm2 import split_digits


def test_its_shape():
    config = smollm2().model.config
    assert type(smollm2().model).__name__ == "LlamaForCausalLM"
    assert (config.num_hidden_layers, config.num_attention_heads) == (30, 9)
    assert (config.num_key_value_heads, config.max_position_embeddings) == (3, 8192)
    assert config.rope_parameters["rope_theta"] == 100_000 and config.tie_word_embeddings
    assert getattr(config, "quantization_config", None) is None


def test_the_capital_of_france():
    loaded = smollm2()
    words = loaded.tokenizer("The capital of France is", return_tensors="pt")
    with torch.inference_mode():
        following = loaded.model(**words).logits[0, -1].argmax()
    assert loaded.tokenizer.decode(following) == " Paris"


def test_the_moment_that_the_readme_shows():
    loaded = smollm2()
    words = loaded.tokenizer("The capital of France is", return_tensors="pt")
    (paris,) = loaded.tokenizer(" Paris").input_ids

    def probability(*heads):
        with torch.inference_mode(), regard.knock_out(loaded.model, heads=heads):
            return round(float(loaded.model(**words).logits[0, -1].softmax(-1)[paris]), 2)

    assert [probability(), probability("L0H4"), probability("L23H4")] == [0.77, 0.21, 0.14]


def test_an_answer_ends_where_its_turn_does():
    loaded = smollm2()
    turns = [{"role": "user", "content": "What is the capital of France?"}]
    asked = loaded.tokenizer.apply_chat_template(
        turns, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    said = loaded.model.generate(**asked, max_new_tokens=20, do_sample=False)
    new = said[0, asked["input_ids"].shape[1] :]
    assert loaded.tokenizer.decode(new) == "The capital of France is Paris.<|im_end|>"
    assert loaded.model.generation_config.eos_token_id == loaded.tokenizer.eos_token_id == 2


@pytest.mark.parametrize(
    "text", ["The cat sat", " two  spaces\n\n\tand more ", "naïve 日本 🙂", "x = 3.14 # π", "don't"]
)
def test_texts_come_back(text):
    tokenizer = smollm2().tokenizer
    assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_special_tokens():
    """Nothing is put before a text: what the model calls its beginning opens a turn."""
    tokenizer = smollm2().tokenizer
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|im_start|>", "<|im_end|>")
    assert (tokenizer.pad_token_id, tokenizer.unk_token) == (2, "<|endoftext|>")
    assert tokenizer("hi").input_ids == tokenizer("hi", add_special_tokens=False).input_ids
    assert tokenizer("<|im_start|>user\n<|im_end|>").input_ids == [1, 4093, 198, 2]
    assert tokenizer.model_max_length == 8192 and len(tokenizer) == 49152


def test_digits_stand_alone():
    tokenizer = smollm2().tokenizer
    pieces = tokenizer.convert_ids_to_tokens(tokenizer("in  2024").input_ids)
    assert pieces == ["in", "ĠĠ", "2", "0", "2", "4"]


def test_splitting_digits_is_what_keeps_the_spaces_together():
    """The tokenizer as transformers reads it from a GGUF differs here, and only the step helps."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel

    class Wrapped:
        backend_tokenizer = Tokenizer(BPE())

    Wrapped.backend_tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)

    def pieces():
        split = Wrapped.backend_tokenizer.pre_tokenizer.pre_tokenize_str("a  12")
        return [piece for piece, _ in split]

    assert pieces() == ["a", "Ġ", "Ġ12"]
    split_digits(Wrapped)
    assert pieces() == ["a", "ĠĠ", "1", "2"]
