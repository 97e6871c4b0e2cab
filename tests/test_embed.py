"""Ids become vectors: a learned row per token, plus a wave per position."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.embed import TokenEmbedding, sinusoidal
from regard.errors import DTypeError, InputError, ShapeError


@given(st.integers(0, 6), st.integers(1, 9), st.integers(0, 50), st.sampled_from([100.0, 1e4]))
def test_waves_are_sines_and_cosines(tokens, dim, start, base):
    waves = sinusoidal(tokens, dim, start=start, base=base, dtype=torch.float64)
    assert waves.shape == (tokens, dim)
    for t in range(tokens):
        for d in range(dim):
            angle = (start + t) / base ** (2 * (d // 2) / dim)
            wanted = math.sin(angle) if d % 2 == 0 else math.cos(angle)
            assert waves[t, d].item() == pytest.approx(wanted, abs=1e-12)


def test_waves_come_in_the_default_precision():
    assert sinusoidal(2, 4).dtype == torch.get_default_dtype()
    rounded = sinusoidal(5000, 4, dtype=torch.float64).float()
    assert torch.equal(sinusoidal(5000, 4), rounded)


def test_a_shift_of_positions_is_a_rotation():
    """What lets a layer learn "the token before": wave(p + 1) is a fixed linear map of wave(p)."""
    waves = sinusoidal(50, 8, dtype=torch.float64)
    shift = torch.linalg.lstsq(waves[:-1], waves[1:]).solution
    torch.testing.assert_close(waves[:-1] @ shift, waves[1:])


@given(st.lists(st.integers(0, 4), max_size=2), st.integers(1, 5), st.integers(0, 9))
def test_an_embedding_is_its_row_plus_the_wave(batch, tokens, start):
    torch.manual_seed(0)
    embed = TokenEmbedding(7, 6).double()
    ids = torch.randint(0, 7, (*batch, tokens))
    x = embed(ids, start)
    waves = sinusoidal(tokens, 6, start=start, dtype=torch.float64)
    assert x.shape == (*batch, tokens, 6)
    torch.testing.assert_close(x, embed.word.weight[ids] + waves, rtol=0, atol=0)


def test_a_continued_sequence_gets_the_same_vectors():
    embed, ids = TokenEmbedding(9, 4), torch.arange(9)
    whole = embed(ids)
    parts = torch.cat([embed(ids[:4]), embed(ids[4:], start=4)])
    assert torch.equal(whole, parts)


def test_without_positions_equal_tokens_are_equal_vectors():
    embed = TokenEmbedding(3, 4, positions=False)
    x = embed(torch.tensor([1, 2, 1]))
    assert torch.equal(x[0], x[2])
    assert not torch.equal(TokenEmbedding(3, 4)(torch.tensor([1, 1]))[0], x[0])


def test_the_words_learn_and_the_waves_do_not():
    embed = TokenEmbedding(3, 4)
    assert [name for name, _ in embed.named_parameters()] == ["word.weight"]
    embed(torch.tensor([1, 1])).sum().backward()
    assert embed.word.weight.grad.tolist() == [[0] * 4, [2] * 4, [0] * 4]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_whole_numbers_of_any_size_are_ids(dtype):
    embed = TokenEmbedding(3, 4)
    ids = torch.tensor([0, 2, 1])
    assert torch.equal(embed(ids.to(dtype)), embed(ids))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_result_has_the_layers_precision(dtype):
    assert TokenEmbedding(3, 4).to(dtype)(torch.tensor([0])).dtype == dtype


@pytest.mark.parametrize(
    ("ids", "error", "words"),
    [
        (torch.tensor([0.0]), DTypeError, ["dtype float32", "whole numbers"]),
        (torch.tensor([True]), DTypeError, ["dtype bool", "whole numbers"]),
        (torch.tensor([1j]), DTypeError, ["dtype complex64", "whole numbers"]),
        ([0, 1], DTypeError, ["a list", "tensor of whole numbers"]),
        (torch.tensor(1), ShapeError, ["single number", "(…, tokens)"]),
        (torch.tensor([0, 3]), InputError, ["from 0 to 3", "knows 0 to 2"]),
        (torch.tensor([-1, 2]), InputError, ["from -1 to 2", "knows 0 to 2"]),
    ],
)
def test_what_is_no_id_is_refused(ids, error, words):
    with pytest.raises(error) as refused:
        TokenEmbedding(3, 4)(ids)
    for word in words:
        assert word in str(refused.value)
