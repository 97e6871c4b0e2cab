"""Knocked-out heads give zero, knocked-out edges are not seen, and afterwards all is as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import regard
from recorder.models import Plain, Stack, tiny, tokens
from regard.errors import DTypeError, InputError, UnavailableError
from regard.intervene import Edge, knock_out

T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
GPT2 = {"n_embd": 32, "n_head": 4, "n_layer": 2}
CAUSAL = regard.Causal()


def logits(model: nn.Module, ids: Tensor, **more: Any) -> Tensor:
    """What it says."""
    with torch.no_grad():
        out = model(ids, **more)
    return out if isinstance(out, Tensor) else getattr(out, "logits", out[0])


def without_columns(linear: nn.Linear, *heads: int, width: int = 8) -> None:
    """Zero the columns of w_o that read these heads."""
    with torch.no_grad():
        for head in heads:
            linear.weight[:, head * width : (head + 1) * width] = 0


# ── heads ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("family", ["llama", "bert", "regard", "albert"])
def test_a_head_is_out_before_w_o(family: str) -> None:
    """Of grouped heads, of an encoder, of regard's own layers; of one layer that serves three."""
    more = {"embedding_size": 16, "num_hidden_layers": 3} if family == "albert" else {}
    model: Any = Stack().eval() if family == "regard" else tiny(family, **more)
    given = torch.randn(2, 20, 32) if family == "regard" else tokens(20, batch=2)
    heads: list[Any] = ["L1H2", (0, 3)]
    heads = ["L0H1", "L1H1", (2, 1)] if family == "albert" else heads
    whole = logits(model, given)
    each = []
    for head in heads:
        with knock_out(model, [head]):
            each.append(logits(model, given))
    assert not any(torch.allclose(one, whole) for one in each)
    assert not torch.allclose(each[0], each[1])
    with knock_out(model, heads):
        mine = logits(model, given)
    if family == "llama":
        mixes = [layer.self_attn.o_proj for layer in model.model.layers]
    elif family == "bert":
        mixes = [layer.attention.output.dense for layer in model.encoder.layer]
    elif family == "regard":
        mixes = [layer.w_o for layer in model.layers]
    else:
        mixes = [model.encoder.albert_layer_groups[0].albert_layers[0].attention.dense]
    without_columns(mixes[0], 1 if family == "albert" else 3)
    if family != "albert":
        without_columns(mixes[1], 2)
    assert_close(mine, logits(model, given), atol=1e-5, rtol=1e-5)


def test_a_layer_alone_and_broken_numbers_of_a_head() -> None:
    layer, x = regard.nn.SelfAttention(16), torch.randn(12, 16)
    with knock_out(layer, ["L0H0"]):
        assert not layer(x).any()
    layer, x = regard.nn.MultiHeadAttention(16, 2, bias=False), torch.randn(1, 6, 16)
    with torch.no_grad():
        layer.w_v.weight[8:] = torch.inf  # the values of head 1
    assert not layer(x).isfinite().all()
    with knock_out(layer, "L0H1"):
        assert layer(x).isfinite().all()


@pytest.mark.parametrize(
    ("given", "label"),
    [
        ("L5H1", "L5H1"), (" l5h1 ", "L5H1"), ("L5", "L5"), ("cross.L2H0", "cross.L2H0"),
        ("cross", "cross"), ((5, 2), "L5H2"), ((np.int64(5), np.int32(2)), "L5H2"),
        (("cross", 2, 0), "cross.L2H0"), ("encoder.L0", "encoder.L0"),
        ("model.layers.*.attn.L3H0", "model.layers.*.attn.L3H0"),
    ],
    ids=str,
)  # fmt: skip
def test_heads_are_named_as_recordings_name_them(given: Any, label: str) -> None:
    (head,) = knock_out(Plain(), [given]).heads  # of which nothing is known before it runs
    assert head.label == label
    assert knock_out(Plain(), label).heads == (head,)


FAMILIES = {"llama": {}, "bert": {}, "albert": {"embedding_size": 16, "num_hidden_layers": 3},
            "gpt2": GPT2, "t5": T5}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_every_head_of_a_recording_may_be_knocked_out_and_no_other(family: str) -> None:
    model, ids = tiny(family, **FAMILIES[family]), tokens(8)
    more = {"decoder_input_ids": ids} if family == "t5" else {}
    with torch.no_grad(), regard.record(model) as rec:
        model(ids, **more)
    assert len(knock_out(model, rec.labels()).heads) == len(rec.labels())
    last = rec.labels()[-1]
    stack = last.rpartition(".")[0]
    for beyond in ("L9H0", "L0H4"):
        with pytest.raises(InputError, match="does not exist"):
            knock_out(model, f"{stack}.{beyond}" if stack else beyond)


# ── edges ────────────────────────────────────────────────────────────────────────────────────

N = 30
# queries, keys and heads of an edge → which of each are meant
Cut = tuple[Any, Any, Any, list[int], list[int], list[int]]
CUTS: list[Cut] = [
    (3, 2, None, [3], [2], [0, 1, 2, 3]),
    (np.int64(3), torch.tensor([2, 0]), ["L0H2"], [3], [0, 2], [2]),
    ([5, 3, 3], range(2, 9, 3), "L0", [3, 5], [2, 5, 8], [0, 1, 2, 3]),
    (slice(27, None), slice(None, 2), ["L0H0", (0, 3)], [27, 28, 29], [0, 1], [0, 3]),
    (N - 1, range(10, 21), None, [N - 1], [*range(10, 21)], [0, 1, 2, 3]),
    (slice(None), [0], None, [*range(N)], [0], [0, 1, 2, 3]),
    (range(10, 20), slice(None), (("", 0, 1),), [*range(10, 20)], [*range(N)], [1]),
    (slice(5, None, 2), [1, 4, 99], "L0H1", [*range(5, N, 2)], [1, 4], [1]),
    (slice(None), slice(None), "L0H1", [*range(N)], [*range(N)], [1]),
    (N, 0, None, [], [], []), ([], 3, None, [], [], []), (0, range(0), None, [], [], []),
]  # fmt: skip


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: f"{cut[:3]}")
def test_a_cut_is_the_table_it_stands_for(cut: Cut, causal: bool) -> None:
    """The weights that an edge had go to the keys that are left; a row without any gives zero."""
    queries, keys, heads, rows, cols, among = cut
    torch.manual_seed(0)
    layer, x = regard.nn.MultiHeadAttention(32, 4, bias=False), torch.randn(1, N, 32)
    mask = CAUSAL if causal else None
    with torch.no_grad(), regard.record(layer) as whole:
        plain = layer(x, mask=mask)
    cut = knock_out(layer, edges=Edge(queries, keys, heads))
    with torch.no_grad(), cut, regard.record(layer) as rec:
        output = layer(x, mask=mask)
    left = np.ones((4, N, N), bool)
    left[np.ix_(among, rows, cols)] = False
    for head in range(4):
        weights = whole[0, head].dense() * left[head]
        total = weights.sum(-1, keepdims=True)
        wanted = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
        np.testing.assert_allclose(rec[0, head].dense(), wanted, atol=1e-6)
    blind = [n for n in rows if not left[:, n, : n + 1 if causal else N].any()]
    assert not output[0, blind].any()
    if left.all():
        assert torch.equal(output, plain)


def test_edges_are_values() -> None:
    assert Edge([1, 2], 3) == Edge((2, 1), [3])
    assert Edge(1, 2, ["L0H1"]) != Edge(1, 2, ["L0H2"])
    assert len({Edge(1, 2), Edge(1, 2)}) == 1
    assert repr(Edge(19, range(10, 21))) == "Edge(queries=[19], keys=10:21, heads=None)"
    assert repr(Edge(slice(5, None, 2), []).queries) == "5::2"


def test_edges_of_some_layers_beside_a_user_s_own_mask() -> None:
    model, ids = tiny("llama"), tokens(12)
    own = torch.ones(1, 1, 12, 12).tril().bool()
    own[..., 11, 5] = False
    edges = [Edge(11, 6), Edge(7, slice(None), "L1H3"), Edge(9, 2, ["L0H1", (1, 0)])]
    with knock_out(model, edges=edges), regard.record(model) as rec:
        mine = logits(model, ids, attention_mask=own)
    for head in rec.recording:
        weights = head.dense()
        assert np.flatnonzero(weights[11] == 0).tolist() == [5, 6]
        assert (weights[7].sum() == 0) == (head.label == "L1H3")
        assert (weights[9, 2] == 0) == (head.label in ("L0H1", "L1H0"))
    with regard.huggingface.using(model):
        assert torch.equal(mine[:, :7], logits(model, ids, attention_mask=own)[:, :7])


def test_the_mask_follows_the_call_s_device() -> None:
    layer, x = regard.nn.MultiHeadAttention(32, 4).to("meta"), torch.randn(2, 5, 32, device="meta")
    with knock_out(layer, edges=[Edge(3, 1, "L0H1"), Edge(2, slice(None))]):
        assert layer(x).device.type == "meta"


# ── together with others ─────────────────────────────────────────────────────────────────────


def test_a_recording_shows_what_is_left() -> None:
    model, ids = tiny("llama"), tokens(20)
    with regard.record(model) as whole:
        logits(model, ids)
    with regard.record(model) as rec, knock_out(model, ["L1H2"]):
        logits(model, ids)
    norms = rec.grid("output_norm")
    assert norms[1, 2] == 0 and np.all(np.delete(norms.ravel(), 6) > 0)
    # it still looks, nobody listens to it
    np.testing.assert_allclose(rec["L1H2"].dense(), whole["L1H2"].dense(), atol=1e-6)


def test_knock_outs_inside_one_another_add_up() -> None:
    model, ids = tiny("llama"), tokens(20)
    edges = [Edge(19, 3), Edge(19, [7, 8], "L1H0")]
    with knock_out(model, ["L0H1", "L1H2"], edges):
        at_once = logits(model, ids)
    with knock_out(model, "L0H1", edges[0]), knock_out(model, "L1H2", edges[1]):
        assert torch.equal(logits(model, ids), at_once)
        with knock_out(model, "L0H1"):
            assert torch.equal(logits(model, ids), at_once)


def test_gradients_flow_through_what_is_left() -> None:
    model = tiny("llama")
    with knock_out(model, ["L1H2"], Edge(slice(None), 0)):
        model(tokens(12)).logits.sum().backward()
    attention = model.model.layers[1].self_attn
    rows = attention.q_proj.weight.grad.unflatten(0, (4, 8)).abs().sum((1, 2))
    assert rows[2] == 0 and torch.all(rows[[0, 1, 3]] > 0)
    assert torch.all(attention.v_proj.weight.grad.abs().sum(-1)[:16] > 0)
    assert not model.model.embed_tokens.weight.grad.isnan().any()


class Wrapped(nn.Module):
    """Somebody's module around a model of transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = tiny("llama")

    def forward(self, ids: Tensor) -> Tensor:
        """Its logits."""
        return self.inside(ids).logits


def test_models_within_and_beside_models() -> None:
    model, other, ids = Wrapped().eval(), tiny("gpt2", **GPT2), tokens(12)
    whole, inside = logits(other, ids), model.inside
    with knock_out(model, "L1H2"):
        mine = logits(model, ids)
        assert torch.equal(logits(other, ids), whole), "another model is whole"
        assert regard.attend(*[torch.ones(1, 4, 8)] * 3).output.all()
    with torch.no_grad(), knock_out(inside, "L1H2"):
        assert torch.equal(mine, logits(inside, ids))
        part = inside.model(ids).last_hidden_state  # a part of it may be run
        assert_close(inside.lm_head(part), mine)


# ── afterwards ───────────────────────────────────────────────────────────────────────────────


def test_it_may_be_entered_again_and_not_inside_itself() -> None:
    """That everything is as it was afterwards is `fuzz/hooks.py`."""
    model, ids = tiny("llama"), tokens(12)
    whole, knocked = logits(model, ids), knock_out(model, "L0")
    for _ in range(2):
        with knocked:
            assert not torch.allclose(logits(model, ids), whole)
            with pytest.raises(InputError, match="at work already"), knocked:
                pass
        assert torch.equal(logits(model, ids), whole)


# ── what is refused ──────────────────────────────────────────────────────────────────────────


class Towers(nn.Module):
    """Two stacks, neither of which need be heard first."""

    def __init__(self) -> None:
        super().__init__()
        self.vision, self.text = Stack(layers=3), Stack(layers=2)


NO_HEAD = ([5], [(5, -1)], [(5,)], [(5, 1.0)], [(True, 1)], ["5.1!"], [None], [("a", "b", 1)])
REFUSED: list[tuple[Any, Any, str]] = [
    *((Plain, heads, "names no head; give 'L5H1'") for heads in NO_HEAD),
    (Plain, 5, "give a list of heads"),
    *(
        (make, wrong, said)
        for make in (lambda: tiny("llama"), Stack)
        for wrong, said in (
            ("L2H0", "layer 2 does not exist; this model has 0–1"),
            ("L0H9", "head 9 does not exist; this layer has 0–3"),
            ("cross.L0H0", "no stack 'cross'; this model has one without a name: 'L0H0' is a head"),
            ("H3", "'L0H0' is a head"),
        )
    ),
    (Towers, "text.L3H0", "layer 3 does not exist; this model has 0–2"),
    (Towers, "audio.L0H0", "no stack 'audio'"),
    (lambda: tiny("t5", **T5), "L0H0", "stacks cross, decoder, encoder; say which, as in 'cross"),
    (lambda: tiny("t5", **T5), "cross.L2H0", "cross.L2H0: layer 2 does not exist"),
    (lambda: tiny("t5", **T5), "vision", "no stack 'vision'; this model has cross, decoder, enc"),
]


@pytest.mark.parametrize(("make", "heads", "said"), REFUSED)
def test_unknown_heads_are_refused_before_anything_runs(make: Any, heads: Any, said: str) -> None:
    model = make()
    for given in ({"heads": heads}, {"edges": lambda: [Edge(0, 0, heads)]}):
        with pytest.raises(InputError) as caught:
            edges = given.get("edges", list)()
            knock_out(model, given.get("heads", ()), edges)
        assert said in str(caught.value)


@pytest.mark.parametrize(
    "wrong", [-1, [3, -1], slice(-3, None), range(5, 0, -1), "3", 2.0, [True], slice(0, 5, 0), None]
)
def test_what_is_no_place_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"keys=.*counted from 0"):
        Edge(queries=0, keys=wrong)


def test_what_never_came_up_is_an_error() -> None:
    model, t5 = tiny("llama"), tiny("t5", **T5)
    with pytest.raises(InputError, match="say which an edge is in"):
        knock_out(t5, edges=Edge(0, 0))
    with pytest.raises(InputError, match="ForCausalLM was not run inside"), knock_out(model, "L0"):
        pass
    two = knock_out(t5, ["cross.L1H0", "encoder"])
    with pytest.raises(InputError, match=r"cross\.L1H0 never came up.*layers 0–1 of encoder"), two:
        t5.encoder(tokens(6))
    with pytest.raises(InputError, match="by other means"), knock_out(Plain(), "L0") as knocked:
        knocked.model(torch.randn(1, 4, 32))
    with knock_out(model):  # nothing was asked for
        pass
    # names that depend on who is heard first are fine either way
    knock_out(Towers(), ["L0H0", "text.L0H0", "vision.L2H3"])


class Caller(nn.Module):
    """Calls attend itself, with two heads."""

    def forward(self, x: Tensor) -> Tensor:
        """(2, L, 8)."""
        return regard.attend(x, x, x).output


def test_heads_that_only_a_call_can_tell_are_refused_then() -> None:
    model, x = Caller(), torch.ones(2, 5, 8)
    with knock_out(model, "L0H1"):
        assert model(x).sum((1, 2)).tolist() == [40, 0]
    beyond, deeper = knock_out(model, "L0H2"), knock_out(model, "L7H0")
    with pytest.raises(InputError, match="L0H2 does not exist; this layer has the hea"), beyond:
        model(x)
    with pytest.raises(InputError, match=r"L7H0 never came up .*what did: layers 0 alone"), deeper:
        model(x)


def test_a_layer_that_serves_several_does_not_say_which_one_it_is_when_run_alone() -> None:
    model = tiny("albert", embedding_size=16, num_hidden_layers=3)
    shared = model.encoder.albert_layer_groups[0].albert_layers[0].attention
    with knock_out(model, "L1"):
        model(tokens(5))
        with pytest.raises(UnavailableError, match="serves several layers"):
            shared(torch.randn(1, 5, 32))


def test_models_that_cannot_be_cut_are_refused() -> None:
    with pytest.raises(InputError, match=r"model is a str; give a torch\.nn\.Module"):
        knock_out("llama", "L0")
    with pytest.raises(InputError, match="is no edge"):
        knock_out(tiny("llama"), edges=[(3, 5)])
    model = tiny("bloom", n_head=4, n_layer=2)
    with pytest.raises(UnavailableError, match="bloom does not dispatch"), knock_out(model, "L0"):
        pass
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    model = tiny("llama").train()
    model.gradient_checkpointing_enable()
    with pytest.raises(UnavailableError, match="gradient_checkpointing_disable"):
        knock_out(model, "L0")
    knock_out(model.eval(), "L0")
    with pytest.raises(DTypeError, match="using"), regard.huggingface.using(Stack()):
        pass


def test_a_compiled_model_says_so() -> None:
    model, x = Stack(layers=1).eval(), torch.randn(1, 20, 32)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        whole = compiled(x)
        knocked = knock_out(model, "L0H1")
        with pytest.raises(UnavailableError, match=r"while torch\.compile traces"), knocked:
            compiled(x)
        assert_close(compiled(x), whole)
