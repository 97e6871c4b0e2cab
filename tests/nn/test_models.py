"""Blocks and models: whatever they are made of, they learn, pad, compile, and can be recorded."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from nn.small import SIZES, encoder, ids, language_model, learnt, seq2seq
from regard.errors import DTypeError, InputError, ShapeError
from regard.nn import (
    MLP,
    BlockConfig,
    DecoderBlock,
    Encoder,
    EncoderBlock,
    EncoderConfig,
    KeyValueCache,
    LanguageModel,
    LanguageModelConfig,
    Rotary,
    Seq2Seq,
    Seq2SeqConfig,
    SwiGLU,
    YarnScaling,
)

close = torch.testing.assert_close
KINDS: dict[str, dict[str, Any]] = {
    "llama": {"kv_heads": 2},
    "gpt": {
        "positions": "learned", "norm": "layer", "feed_forward": "mlp", "attention_bias": True,
        "feed_forward_bias": True,
    },
    "post-norm": {"norm_first": False, "positions": "sinusoidal", "norm": "layer"},
    "alibi": {"positions": "alibi", "tied": False},
    "normed": {"qk_norm": True, "window": 3, "head_dim": 6},
    "far": {"rotary_scaling": YarnScaling(4.0, 8), "embedding_norm": True, "kv_heads": 1},
}  # fmt: skip
BERT: dict[str, Any] = {
    "norm": "layer", "norm_first": False, "positions": "learned", "feed_forward": "mlp",
    "attention_bias": True, "feed_forward_bias": True, "embedding_norm": True,
}  # fmt: skip
ENCODERS = {"bert": BERT, "modern": {"qk_norm": True}, "alibi": {"positions": "alibi"}}
BLOCK = {"dim": 8, "heads": 2}


def vectors(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


# ── blocks ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu", "silu"])
def test_feed_forward_layers_are_their_formulas(activation):
    layer, x = MLP(4, 6, activation=activation), torch.randn(2, 3, 4)
    bends = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu}
    bend = bends.get(activation, lambda t: F.gelu(t, approximate="tanh"))
    inner = bend(x @ layer.w_in.weight.T + layer.w_in.bias)
    close(layer(x), inner @ layer.w_out.weight.T + layer.w_out.bias)
    gated = SwiGLU(4, 6)
    inner = F.silu(x @ gated.w_gate.weight.T) * (x @ gated.w_in.weight.T)
    close(gated(x), inner @ gated.w_out.weight.T)
    assert MLP(5).w_in.out_features == SwiGLU(5).w_in.out_features == 20
    assert all(p.ndim == 2 for p in MLP(5, bias=False).parameters())


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_a_block_is_attention_and_feed_forward_with_residuals(norm):
    x, context = vectors(2, 5, 8), vectors(2, 3, 8)
    pre = learnt(EncoderBlock(BlockConfig(**BLOCK, norm=norm)))
    y = x + pre.attention(pre.norm_attention(x))
    close(pre(x), y + pre.feed_forward(pre.norm_feed_forward(y)))
    post = learnt(EncoderBlock(BlockConfig(**BLOCK, norm=norm, norm_first=False)))
    y = post.norm_attention(x + post.attention(x))
    close(post(x), post.norm_feed_forward(y + post.feed_forward(y)))
    cross = learnt(DecoderBlock(BlockConfig(**BLOCK, norm=norm), cross=True))
    y = x + cross.attention(cross.norm_attention(x), mask=regard.Causal())
    y = y + cross.cross_attention(cross.norm_cross(y), context)
    wanted = y + cross.feed_forward(cross.norm_feed_forward(y))
    close(cross(x, context, mask=regard.Causal()), wanted)


def test_a_block_decodes_step_by_step():
    block = learnt(DecoderBlock(BlockConfig(**BLOCK, kv_heads=1, qk_norm=True), rotary=Rotary(4)))
    x, cache = vectors(2, 6, 8), KeyValueCache()
    parts = [block(part, mask=regard.Causal(), cache=cache) for part in x.split(2, dim=1)]
    close(torch.cat(parts, dim=1), block(x, mask=regard.Causal()))
    names = {name for name, _ in block.named_parameters()}  # as in the notes
    assert {f"attention.w_{c}.weight" for c in "qkvo"} <= names
    assert {"feed_forward.w_gate.weight", "feed_forward.w_in.weight"} <= names


# ── learning ─────────────────────────────────────────────────────────────────────────────────

TINY: dict[str, Any] = {
    "dim": 4, "heads": 2, "vocabulary": 5, "hidden": 3, "layers": 1, "longest": 6,
}  # fmt: skip


def check_gradients(model: torch.nn.Module, *inputs: torch.Tensor) -> None:
    """Of the loss by every parameter, on a tiny model in double precision."""
    names = [name for name, _ in model.double().named_parameters()]
    targets = inputs[-1][:, 1:].flatten()

    def loss(*values: torch.Tensor) -> torch.Tensor:
        named = dict(zip(names, values, strict=True))
        logits = torch.func.functional_call(model, named, inputs)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), targets)

    values = tuple(p.detach().clone().requires_grad_() for p in model.parameters())
    assert torch.autograd.gradcheck(loss, values, fast_mode=True)
    loss(*values).backward()
    assert all(float(v.grad.abs().sum()) > 0 for v in values)


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_gets_its_gradient(kind):
    options = {n: v for n, v in KINDS[kind].items() if n not in ("kv_heads", "head_dim")}
    head_dim = {"head_dim": 2} if "head_dim" in KINDS[kind] else {}
    torch.manual_seed(1)
    model = LanguageModel(LanguageModelConfig(**TINY | options | head_dim))
    check_gradients(model, torch.tensor([[0, 3, 1, 4], [2, 2, 0, 1]]))


def test_every_parameter_of_an_encoder_and_of_both_sides_gets_its_gradient():
    torch.manual_seed(1)
    both = Seq2Seq(
        Seq2SeqConfig(**TINY, tied=False, source_vocabulary=11, encoder_layers=2, qk_norm=True)
    )
    check_gradients(both, torch.tensor([[9, 7, 1]]), torch.tensor([[0, 3, 1, 4]]))
    assert both.encoder.embed.table.shape[0] == 11 and len(both.encoder.blocks) == 2
    model = Encoder(EncoderConfig(**SIZES | BERT)).double()
    model(ids(2, 5)).square().sum().backward()
    assert all(float(p.grad.abs().sum()) > 0 for p in model.parameters())


# ── padding, batches, precision ──────────────────────────────────────────────────────────────


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(sorted(KINDS)), st.lists(st.integers(1, 7), min_size=1, max_size=4),
    st.sampled_from(["left", "right"]),
)  # fmt: skip
def test_padding_on_either_side_changes_nothing(kind, lengths, side):
    model = language_model(**KINDS[kind])
    texts = [ids(1, n, seed=n) for n in lengths]
    longest = max(lengths)
    batch = torch.zeros(len(lengths), longest, dtype=torch.long)
    real = torch.zeros_like(batch)
    places = [slice(longest - n, None) if side == "left" else slice(n) for n in lengths]
    for row, (text, place) in enumerate(zip(texts, places, strict=True)):
        batch[row, place], real[row, place] = text[0], 1
    with torch.no_grad():
        logits = model(batch, attention_mask=real)
        assert bool(logits.isfinite().all())
        for row, (text, place) in enumerate(zip(texts, places, strict=True)):
            close(logits[row, place], model(text)[0])


@settings(deadline=None, max_examples=15)
@given(st.sampled_from(sorted(ENCODERS)), st.integers(1, 6), st.integers(0, 4), st.integers(0, 4))
def test_padding_of_an_encoder_and_of_a_source_changes_nothing(kind, tokens, before, after):
    text = ids(1, tokens)
    padded, real = (F.pad(t, (before, after)) for t in (text, torch.ones_like(text)))
    model, both, target = encoder(**ENCODERS[kind]), seq2seq(), ids(1, 3, seed=1)
    with torch.no_grad():
        hidden = model(padded, attention_mask=real)[:, before : before + tokens]
        close(hidden, model(text))
        close(both(padded, target, source_mask=real), both(text, target))
        written = both.generate(padded, start=1, tokens=4, source_mask=real)
        assert torch.equal(written, both.generate(text, start=1, tokens=4))


@pytest.mark.parametrize("kind", ENCODERS)
def test_every_token_of_an_encoder_depends_on_every_other(kind):
    model, text = encoder(**ENCODERS[kind]), ids(1, 5)
    whole = model(text)
    for at in range(5):
        other = text.clone()
        other[0, at] = (other[0, at] + 1) % SIZES["vocabulary"]
        assert bool(((model(other) - whole)[0].abs().sum(-1) > 1e-9).all())


def test_the_target_sees_the_source_and_not_its_own_future():
    model, source, target = seq2seq(kv_heads=2), ids(2, 5), ids(2, 6, seed=1)
    with torch.no_grad():
        whole = model(source, target)
        close(model(source, target[:, :3]), whole[:, :3])
        assert not torch.allclose(model(ids(2, 5, seed=9), target), whole)
        context, cache = model.encoder(source), model.new_cache(6)
        parts = [
            model(source, part, encoder_outputs=context, cache=cache)
            for part in target.split([3, 1, 2], dim=1)
        ]
        close(torch.cat(parts, dim=1), whole)
    assert cache.length == 6


def test_alone_or_in_a_batch_within_budget():
    """In single precision too: at most four times what single precision loses by itself."""
    exact, text = language_model(kv_heads=2), ids(5, 9)
    with torch.no_grad():
        truth = exact(text)
        close(exact(text[0]), truth[0])
        close(exact(text, last_only=True), truth[:, -1:])
        single = exact.float()
        together = single(text)
        alone = torch.cat([single(row[None]) for row in text])
    lost = float((together - truth).abs().max())
    assert float((together - alone).abs().max()) <= 4 * lost


def test_autocast_reads_and_decodes():
    model, text = language_model(kv_heads=2).float(), ids(2, 8)
    cache = model.new_cache(8)
    with torch.no_grad():
        wanted = model(text)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            whole = model(text)
            parts = [model(part, cache=cache) for part in text.split([5, 1, 1, 1], dim=1)]
    for logits in (whole, torch.cat(parts, dim=1)):
        assert float((logits - wanted).abs().max()) < 0.1 * float(wanted.abs().max())


def test_tied_tables_are_one_parameter():
    tied, apart = language_model(), language_model(tied=False)
    assert "head.weight" not in tied.state_dict()
    assert apart.head.weight.shape == apart.decoder.embed.table.shape
    x = vectors(3, 16)
    close(tied.read_out(x), x @ tied.decoder.embed.table.T)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["gpt", "alibi", "far", "encoder"])
def test_it_is_traced_as_one_graph(kind):
    model = encoder(**BERT) if kind == "encoder" else language_model(**KINDS[kind])
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    options = {"attention_mask": real} if kind == "encoder" else {}
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    text = ids(2, 5)
    close(compiled(text, **options), model(text, **options))
    compiled(text, **options).sum().backward()
    traced = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    model(text, **options).sum().backward()
    for name, p in model.named_parameters():
        close(traced[name], p.grad)


# ── recorded, edited ─────────────────────────────────────────────────────────────────────────


def test_every_head_has_a_name_and_is_recorded_exactly():
    model, text = language_model(kv_heads=2), ids(1, 6)
    with torch.no_grad(), regard.record(model) as rec:
        model(text)
    assert list(rec.stacks) == [""] and rec["L1H3"] is not None
    first = model.decoder.blocks[0]
    looked = first.attention.look(
        first.norm_attention(model.decoder.embed(text)), mask=regard.Causal()
    )
    for head in range(4):
        rows = torch.as_tensor(rec[f"L0H{head}"].rows(range(6))).double()
        close(rows, looked[0, head].detach(), rtol=0, atol=1e-5)


def test_an_encoder_and_three_stacks_are_recorded():
    with torch.no_grad(), regard.record(model := encoder(**BERT)) as rec:
        model(ids(2, 6))
    assert len(rec.prompts) == 2
    assert float(torch.as_tensor(rec["L1H3"].rows(range(6))).sum()) == pytest.approx(6, abs=1e-3)
    with torch.no_grad(), regard.record(both := seq2seq()) as rec:
        both(ids(1, 5), ids(1, 4, seed=1))
    shapes = {s: torch.as_tensor(rec[f"{s}.L1H3"].rows(range(4))).shape for s in rec.stacks}
    assert shapes == {"cross": (4, 5), "decoder": (4, 4), "encoder": (4, 5)}


def test_a_head_can_be_knocked_out_also_while_decoding():
    """The short way of single steps is not taken where a head is edited."""
    model, text = language_model(), ids(1, 6)
    cache = model.new_cache(6)
    with torch.no_grad():
        whole = model(text)
        with regard.knock_out(model, heads=["L1H2"]):
            without = model(text)
            model(text[:, :5], cache=cache)
            close(model(text[:, 5:], cache=cache)[:, 0], without[:, 5])
        model.decoder.blocks[1].attention.w_o.weight[:, 8:12] = 0  # what head 2 writes
        close(without, model(text))
    assert not torch.allclose(whole, without)


def test_a_crossing_can_be_knocked_out():
    model, source, target = seq2seq(), ids(1, 5), ids(1, 4, seed=1)
    with torch.no_grad():
        with regard.knock_out(model, heads=["cross"]):
            without = model(source, target)
        for block in model.decoder.blocks:
            block.cross_attention.w_o.weight.zero_()
        close(without, model(source, target))


# ── refused ──────────────────────────────────────────────────────────────────────────────────


def short(*given: Any, **options: Any) -> torch.Tensor:
    return language_model(positions="learned", longest=8)(*given, **options)


@pytest.mark.parametrize(
    ("attempt", "error", "words"),
    [
        (lambda: BlockConfig(dim=8, heads=4, kv_heads=3), ShapeError,
         "heads=4, kv_heads=3.*may be 1, 2, 4"),
        (lambda: BlockConfig(dim=10, heads=4), ShapeError,
         "dim=10 is not divisible by heads=4; give head_dim"),
        (lambda: BlockConfig(dim=0, heads=1), InputError, "dim=0; give a whole number"),
        (lambda: BlockConfig(**BLOCK, feed_forward="moe"), InputError, "feed_forward='moe'"),
        (lambda: EncoderBlock(BlockConfig(**BLOCK, norm="batch")), InputError,
         "norm='batch'; give one of 'rms', 'layer'"),
        (lambda: DecoderBlock(BlockConfig(**BLOCK), cross=True)(torch.zeros(2, 8)), InputError,
         "give it as context"),
        (lambda: DecoderBlock(BlockConfig(**BLOCK))(torch.zeros(2, 8), torch.zeros(2, 8)),
         InputError, "cross=True"),
        (lambda: EncoderBlock(BlockConfig(**BLOCK))(torch.zeros(2, 9)), ShapeError,
         r"takes \(…, tokens, 8\)"),
        (lambda: MLP(4, activation="tanh"), InputError, "activation='tanh'; give one of 'gelu'"),
        (lambda: SwiGLU(4)(torch.zeros(2, 5)), ShapeError, r"takes \(…, tokens, 4\)"),
        (lambda: short(ids(1, 9)), ShapeError, "at most 8 tokens fit"),
        (lambda: short(ids(1, 4), attention_mask=torch.ones(1, 3)), ShapeError,
         r"attention_mask has shape \(1, 3\).*\(1, 4\)"),
        (lambda: short(ids(1, 4), attention_mask=[1, 1, 1, 1]), DTypeError,
         "attention_mask is a list"),
        (lambda: short(torch.tensor([[99]])), InputError, "ids run from"),
        (lambda: encoder(**BERT)(ids(1, 65)), ShapeError, "at most 64 tokens fit"),
        (lambda: seq2seq()(ids(1, 4), ids(1, 3), source_mask=torch.ones(1, 3)), ShapeError,
         "attention_mask has shape"),
        (lambda: LanguageModelConfig(**SIZES, window=0), InputError, "window=0"),
        (lambda: LanguageModelConfig(**SIZES, positions="grid"), InputError,
         "positions='grid'; give one of rotary"),
        (lambda: LanguageModelConfig(**SIZES, head_dim=5), ShapeError, "even head_dim"),
        *((lambda n=n: LanguageModelConfig(**SIZES | {"layers": n}), InputError,
           "layers=.*; give a whole number of at least 1") for n in (0, -1, 2.5, "4", None)),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(attempt, error, words):
    with pytest.raises(error, match=words):
        attempt()
