"""Ids become vectors: a learned row per token, and a position of any kind."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.errors import DTypeError, InputError, ShapeError
from regard.nn import EncoderConfig, MultiHeadAttention, Rotary, TokenEmbedding
from regard.nn.embedding import Embedding
from regard.nn.positions import sinusoidal

KINDS = ["sinusoidal", "learned", "rotary", None]


def embedding(kind, vocabulary: int = 9, dim: int = 4, longest: int = 20) -> TokenEmbedding:
    more = {"longest": longest} if kind == "learned" else {}
    return TokenEmbedding(vocabulary, dim, kind, **more)


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


@pytest.mark.parametrize("kind", KINDS)
def test_a_continued_sequence_gets_the_same_vectors(kind):
    embed, ids = embedding(kind), torch.arange(9)
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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_result_has_the_layers_precision(kind, dtype):
    assert embedding(kind).to(dtype)(torch.tensor([0])).dtype == dtype


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


@given(st.lists(st.integers(0, 4), max_size=2), st.integers(1, 5), st.integers(0, 9))
def test_learned_positions_are_rows_of_their_own(batch, tokens, start):
    embed = embedding("learned", longest=14)
    ids = torch.randint(0, 9, (*batch, tokens))
    names = dict(embed.named_parameters())
    assert names.keys() == {"word.weight", "table.weight"}
    rows = names["table.weight"][start : start + tokens]
    assert torch.equal(embed(ids, start), embed.word.weight[ids] + rows)


def test_a_text_longer_than_the_table_is_refused():
    embed = embedding("learned", longest=5)
    embed(torch.arange(5))
    for tokens, start in ((6, 0), (2, 4), (1, 5)):
        with pytest.raises(ShapeError, match=rf"{tokens} tokens from position {start}.*at most 5"):
            embed(torch.arange(tokens), start)
    with pytest.raises(InputError, match="start=-1"):
        embed(torch.arange(1), -1)


@pytest.mark.parametrize("kind", ["rotary", None])
def test_nothing_is_added_where_the_layer_turns_or_nothing_stands_anywhere(kind):
    embed, ids = embedding(kind), torch.tensor([2, 7, 2])
    assert torch.equal(embed(ids, 3), embed.word.weight[ids])


def test_rotary_goes_to_the_layer():
    """Shifting all positions changes nothing, swapping two tokens does."""
    torch.manual_seed(1)
    embed = TokenEmbedding(9, 8, "rotary", head_dim=4)
    assert isinstance(embed.rotary, Rotary) and embed.rotary.dim == 4
    layer = MultiHeadAttention(8, 2, rotary=embed.rotary)
    x = embed(torch.tensor([3, 1, 4]))
    swapped = embed(torch.tensor([1, 3, 4]))
    assert not torch.allclose(layer(x)[2], layer(swapped)[2], atol=1e-5)
    turn = embed.rotary.turn(x, 100, 3)
    torch.testing.assert_close(layer(x, turn=turn), layer(x), rtol=1e-4, atol=1e-5)
    assert TokenEmbedding(9, 8, "rotary").rotary.dim == 8


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_may_always_be_given_the_rotary(kind):
    embed = embedding(kind)
    layer = MultiHeadAttention(4, 1, rotary=embed.rotary)
    assert (layer.rotary is None) == (kind != "rotary")
    x = embed(torch.tensor([[1, 2, 3]]))
    layer(x).sum().backward()
    assert embed.word.weight.grad[1:4].abs().min() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_rows_start_with_the_spread_of_the_models(kind):
    torch.manual_seed(0)
    embed = embedding(kind, 2000, 64)
    wanted = 1.0 if kind == "sinusoidal" else 1 / 8
    assert embed.word.weight.std().item() == pytest.approx(wanted, rel=0.02)
    sizes = {"vocabulary": 2000, "dim": 64, "heads": 4, "layers": 1}
    model = Embedding(EncoderConfig(**sizes, positions=kind or "none"))
    ids = torch.randint(0, 2000, (4, 20))
    assert embed(ids).std().item() == pytest.approx(model(ids).std().item(), rel=0.05)


def test_it_was_called_with_true_and_false():
    assert TokenEmbedding(3, 4, positions=True).positions == "sinusoidal"
    assert TokenEmbedding(3, 4, positions=False).positions is None
    assert TokenEmbedding(3, 4).positions == "sinusoidal"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"positions": "alibi"}, ["'alibi'", "'learned'", "None", "bias=regard.ALiBi"]),
        ({"positions": 1}, ["positions=1", "'sinusoidal'"]),
        ({"positions": "learned"}, ["longest=N", "a row per position"]),
        ({"positions": "learned", "longest": 0}, ["longest=0", "at least 1"]),
        ({"positions": "learned", "longest": 2.5}, ["longest=2.5", "whole number"]),
        ({"longest": 9}, ["longest=9", "'learned'", "leave it out"]),
        ({"positions": None, "head_dim": 2}, ["head_dim=2", "'rotary'", "leave it out"]),
        ({"positions": "rotary", "head_dim": 3}, ["dim=3", "even"]),
        ({"vocabulary": 0}, ["vocabulary=0", "at least 1"]),
        ({"dim": -4}, ["dim=-4", "at least 1"]),
    ],
)
def test_what_makes_no_embedding_is_refused(options, words):
    with pytest.raises(InputError) as refused:
        TokenEmbedding(**{"vocabulary": 3, "dim": 4} | options)
    for word in words:
        assert word in str(refused.value)


def test_the_chain_is_trained_from_ids_to_output():
    """ids → x → output: one step of gradient descent lowers the loss of every kind."""
    for kind in KINDS:
        torch.manual_seed(0)
        chain = torch.nn.Sequential(embedding(kind), regard.nn.SelfAttention(4))
        optimizer = torch.optim.SGD(chain.parameters(), lr=0.1)
        losses = []
        for _ in range(2):
            loss = (chain(torch.tensor([[1, 2, 3]])) - 1).square().mean()
            losses.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert losses[1] < losses[0]
