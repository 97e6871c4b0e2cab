"""A language model: whatever it is made of, it learns, it pads, it compiles, and it is seen."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from nn.small import SIZES, ids, language_model
from regard.errors import DTypeError, InputError, ShapeError
from regard.nn import LanguageModel, LanguageModelConfig, YarnScaling

KINDS = {
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


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_gets_its_gradient(kind):
    """gradcheck of the loss by each parameter, on a tiny model in double precision."""
    small = {"dim": 4, "heads": 2, "vocabulary": 5, "hidden": 3, "layers": 1, "longest": 6}
    options = {n: v for n, v in KINDS[kind].items() if n not in ("kv_heads", "head_dim")}
    if "head_dim" in KINDS[kind]:
        options["head_dim"] = 2
    torch.manual_seed(1)
    model = LanguageModel(LanguageModelConfig(**small | options)).double()
    text = torch.tensor([[0, 3, 1, 4], [2, 2, 0, 1]])
    names = [name for name, _ in model.named_parameters()]

    def loss(*values: torch.Tensor) -> torch.Tensor:
        named = dict(zip(names, values, strict=True))
        logits = torch.func.functional_call(model, named, (text,))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), text[:, 1:].flatten())

    values = tuple(p.detach().clone().requires_grad_() for p in model.parameters())
    assert torch.autograd.gradcheck(loss, values)
    loss(*values).backward()
    assert all(float(v.grad.abs().sum()) > 0 for v in values)


@pytest.mark.parametrize("kind", ["llama", "post-norm"])
def test_it_learns(kind):
    """A few steps on one text, and it is known by heart."""
    torch.manual_seed(0)
    model = LanguageModel(LanguageModelConfig(**SIZES | KINDS[kind]))
    text = ids(1, 12)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(120):
        loss = F.cross_entropy(model(text)[0, :-1], text[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert torch.equal(model.eval().generate(text[:, :4], tokens=8), text)


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.integers(1, 7), min_size=1, max_size=4),
    st.sampled_from(["left", "right"]),
)
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
        found = model(batch, attention_mask=real)
        assert bool(found.isfinite().all())
        for row, (text, place) in enumerate(zip(texts, places, strict=True)):
            torch.testing.assert_close(found[row, place], model(text)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_padded_batches_decode_with_a_cache(kind):
    model = language_model(**KINDS[kind])
    texts = torch.tensor([[0, 0, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6]])
    real = (texts > 0).long()
    cache = model.new_cache(6)
    with torch.no_grad():
        model(texts[:, :4], attention_mask=real[:, :4], cache=cache)
        model(texts[:, 4:5], attention_mask=real[:, :5], cache=cache)
        found = model(texts[:, 5:], attention_mask=real, cache=cache)
        torch.testing.assert_close(found[0, 0], model(texts[:1, 2:])[0, -1])
        torch.testing.assert_close(found[1, 0], model(texts[1:])[0, -1])


def test_alone_or_in_a_batch_within_budget():
    """In single precision too: at most four times what single precision loses by itself."""
    exact = language_model(kv_heads=2)
    text = ids(5, 9)
    with torch.no_grad():
        truth = exact(text)
        single = exact.float()
        together = single(text)
        alone = torch.cat([single(one[None]) for one in text])
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
    assert float((whole - wanted).abs().max()) < 0.1 * float(wanted.abs().max())
    stepwise = torch.cat(parts, dim=1)
    assert float((stepwise - wanted).abs().max()) < 0.1 * float(wanted.abs().max())


def test_ids_without_a_batch():
    model = language_model()
    text = ids(6)
    with torch.no_grad():
        torch.testing.assert_close(model(text), model(text[None])[0])
        torch.testing.assert_close(model(text, last_only=True), model(text)[-1:])


def test_tied_tables_are_one_parameter():
    tied, apart = language_model(), language_model(tied=False)
    assert "head.weight" not in tied.state_dict()
    assert apart.head.weight.shape == apart.decoder.embed.table.shape
    x = torch.randn(3, 16, dtype=torch.float64)
    torch.testing.assert_close(tied.read_out(x), x @ tied.decoder.embed.table.T)


@pytest.mark.parametrize("kind", ["gpt", "alibi", "far"])
def test_it_is_traced_as_one_graph(kind):
    model = language_model(**KINDS[kind])
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    text = ids(2, 7)
    torch.testing.assert_close(compiled(text), model(text))
    compiled(text).sum().backward()
    traced = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    model(text).sum().backward()
    for name, p in model.named_parameters():
        torch.testing.assert_close(traced[name], p.grad)


def test_every_head_has_a_name():
    model, text = language_model(kv_heads=2), ids(1, 6)
    with torch.no_grad(), regard.record(model) as rec:
        model(text)
    assert list(rec.stacks) == [""]
    x = model.decoder.embed(text)
    first = model.decoder.blocks[0]
    looked = first.attention.look(first.norm_attention(x), mask=regard.Causal())
    for head in range(4):
        found = torch.as_tensor(rec[f"L0H{head}"].rows(range(6))).double()
        torch.testing.assert_close(found, looked[0, head].detach(), rtol=0, atol=1e-5)
    assert rec["L1H3"] is not None


def test_a_head_can_be_knocked_out():
    model, text = language_model(), ids(1, 6)
    attention = model.decoder.blocks[1].attention
    with torch.no_grad():
        whole = model(text)
        with regard.knock_out(model, heads=["L1H2"]):
            without = model(text)
        attention.w_o.weight[:, 8:12] = 0  # what head 2 writes
        torch.testing.assert_close(without, model(text))
    assert not torch.allclose(whole, without)


def test_a_knock_out_holds_while_decoding():
    """The short way of single steps is not taken where somebody edits."""
    model, text = language_model(), ids(1, 6)
    cache = model.new_cache(6)
    with torch.no_grad(), regard.knock_out(model, heads=["L1H2"]):
        whole = model(text)
        model(text[:, :5], cache=cache)
        torch.testing.assert_close(model(text[:, 5:], cache=cache)[:, 0], whole[:, 5])


def test_mistakes():
    model = language_model(positions="learned", longest=8)
    with pytest.raises(ShapeError, match="at most 8 tokens fit"):
        model(ids(1, 9))
    with pytest.raises(ShapeError, match=r"attention_mask has shape \(1, 3\).*\(1, 4\)"):
        model(ids(1, 4), attention_mask=torch.ones(1, 3))
    with pytest.raises(DTypeError, match="attention_mask is a list"):
        model(ids(1, 4), attention_mask=[1, 1, 1, 1])
    with pytest.raises(InputError, match="ids run from"):
        model(torch.tensor([[99]]))
    with pytest.raises(InputError, match="window=0"):
        LanguageModelConfig(**SIZES, window=0)
    with pytest.raises(InputError, match="positions='grid'; give one of rotary"):
        LanguageModelConfig(**SIZES, positions="grid")
    with pytest.raises(ShapeError, match="even head_dim"):
        LanguageModelConfig(**SIZES, head_dim=5)
    with pytest.raises(InputError, match="layers=0"):
        LanguageModelConfig(**SIZES | {"layers": 0})
