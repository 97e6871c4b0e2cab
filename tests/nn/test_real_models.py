"""Real models in our own stack say, and write, what they say in transformers."""

from __future__ import annotations

import copy
from functools import cache

import torch

import regard
from real_models import minilm, smollm2

TEXT = "The tide falls when the tide has risen. The moon pulls"
SENTENCES = ["A cat sat.", "The tide falls when the tide has risen, says the moon.", "No"]


@cache
def ours(name: str) -> regard.nn.LanguageModel | regard.nn.Encoder:
    return regard.nn.load(name)


def test_smollm2_says_and_writes_the_same():
    """The budget: four times what transformers loses in single precision against double."""
    loaded, model = ours("smollm2"), smollm2().model
    text = loaded.tokenizer(TEXT, return_tensors="pt").input_ids
    with torch.no_grad():
        wanted = model(text).logits
        exact = copy.deepcopy(model).double()(text).logits
        logits = loaded.model(text)
    lost = float((wanted - exact).abs().max())
    assert 0 < lost < 1e-2
    assert float((logits - exact).abs().max()) <= 4 * lost
    written = loaded.model.generate(text, tokens=16)
    theirs = model.generate(text, max_new_tokens=16, min_new_tokens=16, do_sample=False)
    assert torch.equal(written, theirs)
    assert loaded.tokenizer.decode(written[0]).startswith(TEXT)


def test_hidden_states_of_minilm():
    loaded = ours("minilm")
    texts = loaded.tokenizer(SENTENCES, return_tensors="pt", padding=True)
    real = texts.attention_mask.bool()
    with torch.no_grad():
        wanted = minilm().model(**texts).last_hidden_state[real]
        exact = copy.deepcopy(minilm().model).double()(**texts).last_hidden_state[real]
        hidden = loaded.model(texts.input_ids, attention_mask=texts.attention_mask)[real]
    lost = float((wanted - exact).abs().max())
    assert 0 < lost < 1e-3
    assert float((hidden - exact).abs().max()) <= 4 * lost


def test_heads_of_smollm2_are_knocked_out_as_those_of_transformers_are():
    loaded = ours("smollm2")
    text = loaded.tokenizer("The capital of France is", return_tensors="pt").input_ids
    heads = ["L0", "L1H3"]
    with torch.no_grad():
        with regard.knock_out(loaded.model, heads=heads):
            mine = loaded.model(text)
        with regard.knock_out(smollm2().model, heads=heads):
            theirs = smollm2().model(text).logits
        torch.testing.assert_close(mine, theirs, rtol=0, atol=2e-3)
        assert float((mine - loaded.model(text)).abs().max()) > 1
