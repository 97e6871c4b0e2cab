"""The sink of a row is the first key that it may see, whatever hides the ones before it."""

from __future__ import annotations

import random
import warnings

import pytest
import torch
import transformers

import regard
from fuzz.sinks import B, H, L, check, masks
from regard.mask import Packed
from regard.monitor.sample import SUMMED, measure
from regard.monitor.sink import sink_mass


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_first_key_that_a_row_sees(seed):
    check(seed)


@pytest.mark.parametrize("mask", ["documents", "left", "window", "table"])
@pytest.mark.parametrize("biased", [False, True])
def test_by_asking_every_cell_it_is_the_same(monkeypatch, mask, biased):
    """What a GPU does for masks that hold arrays, in strips."""
    from regard.monitor import sink as room

    monkeypatch.setattr(room, "_lowest", lambda mask, extent: None)
    monkeypatch.setattr(room, "_lowest_once", lambda mask, extent: None)
    monkeypatch.setattr(room, "_STRIP", 5)
    torch_dice = torch.Generator().manual_seed(5)
    q, k = (torch.randn(B, H, L, 8, generator=torch_dice) for _ in range(2))
    given = masks(random.Random(5), torch_dice)[mask]
    bias = regard.ALiBi([0.5, 0.25, 0.1, 0.05]) if biased else None
    a = regard.attend(q, k, k, mask=given, bias=bias)
    first = (a.scores[...] > -torch.inf).expand(B, H, L, L).int().argmax(-1, keepdim=True)
    right = a.dense().gather(-1, first)[..., 0]
    torch.testing.assert_close(sink_mass(a, a.lse), right, rtol=1e-4, atol=1e-5)


def test_packed_sequences_are_measured_as_they_are_apart():
    dice = torch.Generator().manual_seed(0)
    starts = torch.tensor([0, 4, 11, L])
    q, k = (torch.randn(H, L, 8, generator=dice) for _ in range(2))
    a = regard.attend(q, k, k, mask=Packed(starts, starts, regard.Causal()))
    sums = 0
    for begin, end in ((0, 4), (4, 11), (11, L)):
        part = q[None, :, begin:end], k[None, :, begin:end]
        one = regard.attend(*part, part[1], mask=regard.Causal())
        sums = sums + measure(one, None).sums[SUMMED.index("sink_mass")]
    packed = measure(a, None).sums[SUMMED.index("sink_mass")]
    torch.testing.assert_close(packed, sums, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("attention", ["sdpa", "eager", "regard"])
def test_packed_training_of_transformers(attention):
    """As `DataCollatorWithFlattening` packs: one row, positions that start again."""
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, attn_implementation=attention,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    documents = [torch.randint(64, (n,)) for n in (5, 9, 3, 12)]
    together = {
        "input_ids": torch.cat(documents)[None],
        "position_ids": torch.cat([torch.arange(len(d)) for d in documents])[None],
    }
    numbers = {}
    for name, batches in {
        "apart": [{"input_ids": d[None]} for d in documents],
        "packed": [together],
    }.items():
        with warnings.catch_warnings(), regard.Monitor(model) as monitor:
            warnings.simplefilter("error", regard.errors.RegardWarning)
            for batch in batches:
                model(**batch, use_cache=False)
            numbers[name] = monitor.step()
    for name in ("sink_mass", "peak", "normalized_entropy", "max_score"):
        apart, packed = (torch.as_tensor(numbers[n][name]) for n in ("apart", "packed"))
        torch.testing.assert_close(packed, apart, rtol=1e-4, atol=1e-5, msg=name)
