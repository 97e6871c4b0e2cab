"""Positions of every kind: embedded, added, turned, or put on the scores."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

import regard
from nn.small import encoder, ids, language_model
from regard.errors import DTypeError, InputError, ShapeError
from regard.nn import (
    DynamicScaling,
    LearnedPositions,
    LinearScaling,
    Llama3Scaling,
    LongScaling,
    MultiHeadAttention,
    Rotary,
    SinusoidalPositions,
    TokenEmbedding,
    YarnScaling,
    alibi_slopes,
)
from regard.nn.families.rope import read_rope

KINDS = ["sinusoidal", "learned", "rotary", None]
close = torch.testing.assert_close


def vectors(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def waves(tokens: int, dim: int, start: int = 0) -> torch.Tensor:
    """(tokens, dim): sin and cos of (start + t) / 10000^(2⌊d/2⌋/dim), by turns."""
    rows = [
        [(math.cos if d % 2 else math.sin)((start + t) / 1e4 ** (2 * (d // 2) / dim))
         for d in range(dim)] for t in range(tokens)
    ]  # fmt: skip
    return torch.tensor(rows, dtype=torch.float64)


def embedding(kind, vocabulary: int = 9, dim: int = 4, longest: int = 20) -> TokenEmbedding:
    more = {"longest": longest} if kind == "learned" else {}
    return TokenEmbedding(vocabulary, dim, kind, **more)


# ── ids to vectors ───────────────────────────────────────────────────────────────────────────


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(KINDS), st.lists(st.integers(0, 4), max_size=2), st.integers(1, 5),
       st.integers(0, 9))  # fmt: skip
def test_an_embedding_is_its_row_plus_its_position(kind, batch, tokens, start):
    embed = embedding(kind, dim=6).double()
    text = torch.randint(0, 9, (*batch, tokens))
    added = torch.zeros(tokens, 6, dtype=torch.float64)
    if kind == "sinusoidal":
        added = waves(tokens, 6, start)
    if kind == "learned":
        added = embed.state_dict()["table.weight"][start : start + tokens]
    close(embed(text, start), embed.word.weight[text] + added, rtol=0, atol=1e-12)
    cut = tokens // 2
    parts = [embed(text[..., :cut], start), embed(text[..., cut:], start + cut)]
    assert torch.equal(torch.cat(parts, -2), embed(text, start))


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_embedding_holds_and_how_it_starts(kind):
    embed = embedding(kind, 2000, 64)
    learned = ["table.weight"] if kind == "learned" else []
    assert sorted(name for name, _ in embed.named_parameters()) == [*learned, "word.weight"]
    wanted = 1.0 if kind == "sinusoidal" else 1 / 8  # the spread of the models' rows
    assert embed.word.weight.std().item() == pytest.approx(wanted, rel=0.02)
    for dtype in (torch.float64, torch.bfloat16):
        assert embedding(kind).to(dtype)(torch.tensor([0])).dtype == dtype
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32):
        text = torch.tensor([0, 2, 1])
        assert torch.equal(embed(text.to(dtype)), embed(text))
    assert (embed.rotary is None) == (kind != "rotary")
    layer = MultiHeadAttention(64, 1, rotary=embed.rotary)  # which takes None, too
    layer(embed(torch.tensor([[1, 2, 3]]))).sum().backward()
    assert embed.word.weight.grad[1:4].abs().min() > 0 and embed.word.weight.grad[4:].sum() == 0


def test_ways_to_say_which_positions():
    assert TokenEmbedding(3, 4, positions=True).positions == "sinusoidal"
    assert TokenEmbedding(3, 4, positions=False).positions is None
    assert TokenEmbedding(3, 4).positions == "sinusoidal"
    assert TokenEmbedding(9, 8, "rotary").rotary.dim == 8
    assert TokenEmbedding(9, 8, "rotary", head_dim=4).rotary.dim == 4


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (torch.tensor([0.0]), DTypeError, "dtype float32.*whole numbers"),
        (torch.tensor([True]), DTypeError, "dtype bool.*whole numbers"),
        (torch.tensor([1j]), DTypeError, "dtype complex64.*whole numbers"),
        ([0, 1], DTypeError, "a list.*tensor of whole numbers"),
        (torch.tensor(1), ShapeError, r"single number.*\(…, tokens\)"),
        (torch.tensor([0, 3]), InputError, "from 0 to 3.*knows 0 to 2"),
        (torch.tensor([-1, 2]), InputError, "from -1 to 2.*knows 0 to 2"),
    ],
)
def test_what_is_no_id_is_refused(text, error, words):
    with pytest.raises(error, match=words):
        TokenEmbedding(3, 4)(text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"positions": "alibi"}, r"'alibi'.*'learned'.*None.*bias=regard\.ALiBi"),
        ({"positions": 1}, "positions=1.*'sinusoidal'"),
        ({"positions": "learned"}, "a row per position.*longest=N"),
        ({"positions": "learned", "longest": 0}, "longest=0.*at least 1"),
        ({"positions": "learned", "longest": 2.5}, "longest=2.5.*whole number"),
        ({"longest": 9}, "longest=9.*'learned'.*leave it out"),
        ({"positions": None, "head_dim": 2}, "head_dim=2.*'rotary'.*leave it out"),
        ({"positions": "rotary", "head_dim": 3}, "dim=3.*even"),
        ({"vocabulary": 0}, "vocabulary=0.*at least 1"),
        ({"dim": -4}, "dim=-4.*at least 1"),
    ],
)
def test_what_makes_no_embedding_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        TokenEmbedding(**{"vocabulary": 3, "dim": 4} | options)


# ── added to vectors, or put on the scores ───────────────────────────────────────────────────


def test_positions_are_added_one_by_one_or_as_they_are_given():
    table, x = LearnedPositions(9, 4).double(), vectors(2, 3, 4)
    places = torch.tensor([[0, 1, 2], [0, 0, 1]])
    assert torch.equal(table(x, 5), x + table.weight[5:8])
    assert torch.equal(table(x, 0, places), x + table.weight[places])
    close(SinusoidalPositions()(x, 5), 2 * x + waves(3, 4, 5))  # √4 · x
    close(SinusoidalPositions()(x, 3, places), 2 * x + waves(6, 4)[places])


def test_a_table_ends():
    embed = embedding("learned", longest=5)
    embed(torch.arange(5))
    for tokens, start in ((6, 0), (2, 4), (1, 5)):
        with pytest.raises(ShapeError, match=rf"{tokens} tokens from position {start}.*at most 5"):
            embed(torch.arange(tokens), start)
    with pytest.raises(InputError, match="start=-1"):
        embed(torch.arange(1), -1)
    with pytest.raises(ShapeError, match=r"3 tokens from position 7.*at most 9"):
        LearnedPositions(9, 4)(torch.zeros(3, 4), 7)


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 7, 8, 12, 20])
def test_slopes_are_those_of_transformers(heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, 2), heads, torch.float64)[:, 0, 1]
    assert alibi_slopes(heads) == pytest.approx(theirs.tolist(), rel=1e-6)


def test_a_model_with_alibi_attends_under_its_bias():
    model = language_model(positions="alibi", layers=1)
    with regard.record(model) as rec:
        model(ids(1, 6))
    block = model.decoder.blocks[0]
    x = block.norm_attention(model.decoder.embed(ids(1, 6)))
    bias = regard.ALiBi(torch.tensor(alibi_slopes(4), dtype=torch.float64))
    wanted = block.attention.look(x, mask=regard.Causal(), bias=bias)
    rows = torch.as_tensor(rec["L0H2"].rows(range(6))).double()
    close(rows, wanted[0, 2].detach(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["rotary", "learned", "sinusoidal", "alibi"])
def test_order_matters_exactly_where_there_are_positions(kind):
    """Without positions, a set of tokens is all that an encoder sees; no decoder looks ahead."""
    text, shuffled = torch.tensor([[3, 4, 5, 6]]), torch.tensor([[4, 3, 5, 6]])
    placed, blind = encoder(positions=kind), encoder(positions="none")
    assert not torch.allclose(placed(text)[0, 2], placed(shuffled)[0, 2], atol=1e-4)
    close(blind(text)[0, 2], blind(shuffled)[0, 2])
    model, text = language_model(positions=kind), ids(2, 9)
    close(model(text)[:, :5], model(text[:, :5]))


# ── rotary ───────────────────────────────────────────────────────────────────────────────────


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 6), st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 10_000))
def test_a_product_depends_on_the_distance_alone(pairs, at, other, shift):
    torch.manual_seed(pairs)
    rotary, q, k = Rotary(2 * pairs), vectors(1, 2 * pairs), vectors(1, 2 * pairs)
    here = (rotary(q, at) * rotary(k, other)).sum()
    there = (rotary(q, at + shift) * rotary(k, other + shift)).sum()
    close(here, there, rtol=1e-9, atol=1e-9)
    close(rotary(q, at).norm(), q.norm())


@pytest.mark.parametrize("scaling", [None, YarnScaling(4.0, 64)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_models_keep_exact_angles(dtype, scaling):
    """Positions as far as 100,000 stay apart after `model.half()`."""
    rotary = torch.nn.Sequential(Rotary(8, scaling=scaling)).to(dtype)[0]
    x = torch.ones(2, 8, dtype=dtype)
    turned = rotary(x, 100_000)
    assert turned.dtype == dtype
    close(turned.double(), Rotary(8, scaling=scaling)(x.double(), 100_000), rtol=0, atol=0.05)


def test_nothing_of_a_rotary_is_learnt_or_saved():
    assert list(Rotary(4).parameters()) == [] and Rotary(4).state_dict() == {}
    assert repr(Rotary(4)) == "Rotary(4, base=10000.0)"
    assert repr(Rotary(4, scaling=LinearScaling(2.0))) == (
        "Rotary(4, base=10000.0, scaling=LinearScaling(factor=2.0))"
    )


# ── scaled for long texts ────────────────────────────────────────────────────────────────────

DIM, LONGEST = 16, 512
YARN = {"factor": 8.0, "original_max_position_embeddings": 64}
SCALED = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0},
    "yarn": YARN,
    "yarn mscale": YARN | {"rope_type": "yarn", "mscale": 0.7, "mscale_all_dim": 1.3,
                           "beta_fast": 16, "beta_slow": 2},
    "yarn ragged": YARN | {"rope_type": "yarn", "factor": 3.0, "truncate": False,
                           "attention_factor": 1.25, "original_max_position_embeddings": 100},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 128},
    "longrope": {
        "short_factor": [1.0 + n / 8 for n in range(DIM // 2)],
        "long_factor": [2.0 + n for n in range(DIM // 2)],
        "original_max_position_embeddings": 128,
    },
}  # fmt: skip


@pytest.mark.parametrize("tokens", [1, 40, 128, 129, LONGEST, LONGEST + 88, 3 * LONGEST])
@pytest.mark.parametrize("kind", SCALED)
def test_scaled_turns_are_those_of_transformers(kind, tokens):
    """Also of texts longer than the training's, where some rules change with the length."""
    for base in (10_000.0, 500_000.0):
        rope = {"rope_type": kind, "rope_theta": base, **SCALED[kind]}
        config = LlamaConfig(
            hidden_size=2 * DIM, num_attention_heads=2, max_position_embeddings=LONGEST,
            rope_parameters=rope,
        )  # fmt: skip
        kind_of = ROPE_INIT_FUNCTIONS[config.rope_parameters["rope_type"]]
        wanted, size = kind_of(config, seq_len=tokens)
        own_base, scaling = read_rope(config.to_dict())
        assert own_base == base and scaling.magnitude == pytest.approx(size, rel=1e-12)
        close(scaling.frequencies(DIM, base, tokens), wanted.double(), rtol=5e-7, atol=0)
    x = torch.zeros(1, tokens, DIM)
    cos, sin = LlamaRotaryEmbedding(config)(x, torch.arange(tokens)[None])
    turn = Rotary(DIM, base, scaling=scaling).turn(x, 0, tokens)
    near = {"rtol": 0, "atol": tokens * 2.0**-23}  # an angle is as exact as fp32 has it
    close(turn.cos, cos[0], **near)
    sin[..., : DIM // 2] *= -1  # ours has the sign of the turn
    close(turn.sin, sin[0], **near)


def test_configurations_of_before_are_read_too():
    old = {"rope_theta": 1000.0, "rope_scaling": {"type": "linear", "factor": 2.0}}
    assert read_rope(old) == (1000.0, LinearScaling(2.0))
    assert read_rope({}) == (10000.0, None)


@pytest.mark.parametrize(
    ("attempt", "error", "words"),
    [
        *((lambda dim=dim: Rotary(dim), InputError, rf"dim={dim}.*even") for dim in (-2, 0, 1, 7)),
        (lambda: Rotary(4)(torch.zeros(3, 6)), ShapeError, r"\(3, 6\).*\(…, tokens, 4\)"),
        (lambda: Rotary(4)(torch.zeros(4)), ShapeError, r"\(4,\).*\(…, tokens, 4\)"),
        (lambda: LinearScaling(0.0), InputError, "give"),
        (lambda: DynamicScaling(2.0, 0), InputError, "give"),
        (lambda: YarnScaling(-1.0, 4), InputError, "give"),
        (lambda: YarnScaling(2.0, 4, fast=0.0), InputError, "give"),
        (lambda: Llama3Scaling(2.0, 4, fast=1.0, slow=1.0), InputError, "give"),
        (lambda: LongScaling((1.0,) * 3, (1.0,) * 3, 4).frequencies(8, 1e4, 2), ShapeError,
         "has 3 factors, 8 dimensions.*give 4"),
        (lambda: DynamicScaling(2.0, 4).frequencies(2, 1e4, 2), ShapeError, "at least 4"),
    ],
)  # fmt: skip
def test_impossible_turns_are_refused(attempt, error, words):
    with pytest.raises(error, match=words):
        attempt()
