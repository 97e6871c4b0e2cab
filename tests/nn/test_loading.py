"""Real models in our own stack say, and write, what they say in transformers."""

from __future__ import annotations

import copy
from functools import cache

import torch

import regard
from real_models import minilm, smollm2
from regard.nn import Encoder, LanguageModel

TEXT = "The tide falls when the tide has risen. The moon pulls"
SENTENCES = ["A cat sat.", "The tide falls when the tide has risen, says the moon.", "No"]


@cache
def ours(name):
    return regard.nn.load(name)


def test_logits_of_smollm2():
    """The budget: four times what transformers loses in single precision against double."""
    loaded = ours("smollm2")
    assert isinstance(loaded.model, LanguageModel)
    ids = loaded.tokenizer(TEXT, return_tensors="pt").input_ids
    with torch.no_grad():
        wanted = smollm2().model(ids).logits
        exact = copy.deepcopy(smollm2().model).double()(ids).logits
        found = loaded.model(ids)
    lost = float((wanted - exact).abs().max())
    assert 0 < lost < 1e-2
    assert float((found - exact).abs().max()) <= 4 * lost


def test_smollm2_writes_the_same_64_tokens():
    loaded = ours("smollm2")
    ids = loaded.tokenizer(TEXT, return_tensors="pt").input_ids
    wanted = smollm2().model.generate(ids, max_new_tokens=64, min_new_tokens=64, do_sample=False)
    found = loaded.model.generate(ids, tokens=64)
    assert torch.equal(found, wanted)
    assert loaded.tokenizer.decode(found[0]).startswith(TEXT)


def test_hidden_states_of_minilm():
    loaded = ours("minilm")
    assert isinstance(loaded.model, Encoder)
    texts = loaded.tokenizer(SENTENCES, return_tensors="pt", padding=True)
    real = texts.attention_mask.bool()
    with torch.no_grad():
        wanted = minilm().model(**texts).last_hidden_state[real]
        exact = copy.deepcopy(minilm().model).double()(**texts).last_hidden_state[real]
        found = loaded.model(texts.input_ids, attention_mask=texts.attention_mask)[real]
    lost = float((wanted - exact).abs().max())
    assert 0 < lost < 1e-3
    assert float((found - exact).abs().max()) <= 4 * lost


def test_its_heads_are_heard_as_those_of_transformers_are():
    text = minilm().tokenizer(SENTENCES[1], return_tensors="pt").input_ids
    with torch.no_grad():
        with regard.record(ours("minilm").model, tokenizer=ours("minilm").tokenizer) as mine:
            ours("minilm").model(text)
        with regard.record(minilm().model, tokenizer=minilm().tokenizer) as theirs:
            minilm().model(text)
    for head in ("L0H0", "L3H7", "L5H11"):
        rows = [torch.as_tensor(rec[head].rows(range(5))) for rec in (mine, theirs)]
        torch.testing.assert_close(*rows, rtol=0, atol=1e-5)


def test_a_head_without_which_it_writes_something_else():
    loaded = ours("smollm2")
    ids = loaded.tokenizer("The capital of France is", return_tensors="pt").input_ids
    heads = ["L0", "L1H3"]
    with torch.no_grad():
        with regard.knock_out(loaded.model, heads=heads):
            mine = loaded.model(ids)
        with regard.knock_out(smollm2().model, heads=heads):
            theirs = smollm2().model(ids).logits
        torch.testing.assert_close(mine, theirs, rtol=0, atol=2e-3)
        assert float((mine - loaded.model(ids)).abs().max()) > 1
