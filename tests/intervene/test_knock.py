"""Knocked-out heads give zero, knocked-out edges are not seen, and afterwards all is as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regard
from recorder.models import Plain, Stack, tiny, tokens
from regard.engine.observers import editors
from regard.errors import DTypeError, InputError, UnavailableError
from regard.intervene import Edge, knock_out

T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}


def logits(model: nn.Module, ids: Tensor, **more: Any) -> Tensor:
    """What it says."""
    with torch.no_grad():
        return model(ids, **more).logits


def without_columns(linear: nn.Linear, heads: list[int], width: int = 8) -> Tensor:
    """Zero the columns of w_o that read these heads; gives back what they were."""
    before = linear.weight.detach().clone()
    with torch.no_grad():
        for head in heads:
            linear.weight[:, head * width : (head + 1) * width] = 0
    return before


# ── heads ────────────────────────────────────────────────────────────────────────────────────


def test_a_head_is_out_before_w_o() -> None:
    model, ids = tiny("llama"), tokens(20, batch=2)
    with regard.knock_out(model, heads=["L1H2", (0, 3)]):
        found = logits(model, ids)
    for layer, head in ((1, 2), (0, 3)):
        without_columns(model.model.layers[layer].self_attn.o_proj, [head])
    torch.testing.assert_close(found, logits(model, ids), atol=1e-6, rtol=1e-5)


def test_heads_of_an_encoder() -> None:
    model, ids = tiny("bert"), tokens(20)
    with torch.no_grad(), knock_out(model, "L1"):
        found = model(ids).last_hidden_state
    without_columns(model.encoder.layer[1].attention.output.dense, [0, 1, 2, 3])
    with torch.no_grad():
        expected = model(ids).last_hidden_state
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_layers_of_regard_s_own() -> None:
    model, x = Stack().eval(), torch.randn(1, 20, 32)
    with torch.no_grad():
        with knock_out(model, ["L0H1"]):
            found = model(x)
        whole = model(x)
        without_columns(model.layers[0].w_o, [1])
        torch.testing.assert_close(found, model(x))
    assert not torch.allclose(found, whole)


def test_a_layer_alone_and_one_without_heads() -> None:
    layer, x = regard.nn.SelfAttention(16), torch.randn(12, 16)
    with knock_out(layer, ["L0H0"]):
        assert not layer(x).any()
    with knock_out(layer, edges=[Edge(3, slice(None))]):
        rows = layer(x).abs().sum(-1)
    assert rows.nonzero().flatten().tolist() == [n for n in range(12) if n != 3]


def test_a_shared_layer_is_many() -> None:
    model, ids = tiny("albert", embedding_size=16, num_hidden_layers=3), tokens(12)
    found = {}
    for label in ("L0H1", "L1H1", "L2H1"):
        with torch.no_grad(), knock_out(model, label):
            found[label] = model(ids).last_hidden_state
    for one, other in (("L0H1", "L1H1"), ("L1H1", "L2H1")):
        assert not torch.allclose(found[one], found[other])
    with torch.no_grad(), knock_out(model, list(found)):
        all_of_them = model(ids).last_hidden_state
    dense = model.encoder.albert_layer_groups[0].albert_layers[0].attention.dense
    without_columns(dense, [1])
    with torch.no_grad():
        torch.testing.assert_close(all_of_them, model(ids).last_hidden_state, atol=1e-5, rtol=1e-5)


def test_broken_numbers_of_a_head_are_out_too() -> None:
    layer = regard.nn.MultiHeadAttention(16, 2, bias=False)
    with torch.no_grad():
        layer.w_v.weight[8:] = torch.inf  # the values of head 1
    x = torch.randn(1, 6, 16)
    assert not layer(x).isfinite().all()
    with knock_out(layer, "L0H1"):
        assert layer(x).isfinite().all()


# ── edges ────────────────────────────────────────────────────────────────────────────────────


def test_an_edge_of_the_last_token() -> None:
    model, ids = tiny("llama"), tokens(20)
    with knock_out(model, edges=Edge(queries=19, keys=range(10, 16))), regard.record(model) as rec:
        found = logits(model, ids)
    with regard.huggingface.using(model):
        whole = logits(model, ids)
    assert torch.equal(found[:, :19], whole[:, :19])
    assert not torch.allclose(found[:, 19], whole[:, 19])
    for head in rec.recording:
        weights = head.dense()
        assert not weights[19, 10:16].any()
        assert np.all(weights[18, 10:16] > 0)
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)


def test_edges_of_some_heads() -> None:
    model, ids = tiny("llama"), tokens(20)
    edges = [Edge(slice(5, None), [2, 3], heads=["L0H1", (1, 0)]), Edge(7, slice(None), "L1H3")]
    with knock_out(model, edges=edges), regard.record(model) as rec:
        logits(model, ids)
    for head in rec.recording:
        hidden = head.dense()[5:, 2:4].sum() == 0
        assert hidden == (head.label in ("L0H1", "L1H0"))
        blind = head.dense()[7].sum() == 0
        assert blind == (head.label == "L1H3")


def test_edges_of_an_encoder_s_batch_with_padding() -> None:
    model, ids = tiny("bert"), tokens(12, batch=2)
    real = torch.ones_like(ids)
    real[0, 9:] = 0
    with torch.no_grad(), knock_out(model, edges=Edge(4, range(2, 6))), regard.record(model) as rec:
        model(ids, attention_mask=real)
    for prompt, length in zip(rec.prompts, (9, 12), strict=True):
        weights = prompt["L1H2"].dense()
        assert weights.shape == (length, length)
        assert not weights[4, 2:6].any()
        assert weights[5, 2:6].all()


def test_edges_between_two_sequences() -> None:
    model, ids = tiny("t5", **T5), tokens(10)
    told = {"input_ids": ids, "decoder_input_ids": tokens(6, seed=1)}
    edge = Edge(slice(2, None), range(3, 8), heads=["cross"])
    with torch.no_grad(), knock_out(model, edges=edge), regard.record(model) as rec:
        model(**told)
    for head in rec.recording:
        where = head.dense()[2:6, 3:8]
        assert (not where.any()) == (head.stack == "cross")


def test_edges_beside_a_user_s_own_mask() -> None:
    model, ids = tiny("llama"), tokens(12)
    own = torch.ones(1, 1, 12, 12).tril().bool()
    own[..., 11, 5] = False
    with torch.no_grad(), knock_out(model, edges=Edge(11, 6)), regard.record(model) as rec:
        model(ids, attention_mask=own)
    assert np.flatnonzero(rec["L0H0"].dense()[11] == 0).tolist() == [5, 6]


# ── together with others ─────────────────────────────────────────────────────────────────────


def test_a_recording_shows_what_is_left() -> None:
    model, ids = tiny("llama"), tokens(20)
    with regard.record(model) as whole:
        logits(model, ids)
    with regard.record(model) as rec, knock_out(model, ["L1H2"]):
        logits(model, ids)
    norms = rec.grid("output_norm")
    assert norms[1, 2] == 0
    assert np.all(np.delete(norms.ravel(), 6) > 0)
    # it still looks, nobody listens to it
    np.testing.assert_allclose(rec["L1H2"].dense(), whole["L1H2"].dense(), atol=1e-6)


def test_knock_outs_inside_one_another_add_up() -> None:
    model, ids = tiny("llama"), tokens(20)
    edges = [Edge(19, 3), Edge(19, [7, 8], "L1H0")]
    with knock_out(model, ["L0H1", "L1H2"], edges):
        at_once = logits(model, ids)
    with knock_out(model, "L0H1", edges[0]), knock_out(model, "L1H2", edges[1]):
        in_turn = logits(model, ids)
        with knock_out(model, "L0H1"):
            again = logits(model, ids)
    assert torch.equal(at_once, in_turn)
    assert torch.equal(at_once, again)


def test_gradients_flow_through_what_is_left() -> None:
    model, ids = tiny("llama"), tokens(12)
    with knock_out(model, ["L1H2"], Edge(slice(None), 0)):
        model(ids).logits.sum().backward()
    attention = model.model.layers[1].self_attn
    rows = attention.q_proj.weight.grad.unflatten(0, (4, 8)).abs().sum((1, 2))
    assert rows[2] == 0
    assert torch.all(rows[[0, 1, 3]] > 0)
    assert torch.all(attention.v_proj.weight.grad.abs().sum(-1)[:16] > 0)
    assert not model.model.embed_tokens.weight.grad.isnan().any()


def test_other_models_in_the_block_are_whole() -> None:
    model, other, ids = tiny("llama"), tiny("gpt2", n_embd=32, n_head=4, n_layer=2), tokens(12)
    whole = logits(other, ids)
    with knock_out(model, "L0"):
        assert torch.equal(logits(other, ids), whole)
        assert regard.attend(*[torch.ones(1, 4, 8)] * 3).output.all()
        logits(model, ids)


def test_a_part_of_the_model_may_be_run() -> None:
    model, ids = tiny("llama"), tokens(12)
    with torch.no_grad(), knock_out(model, "L0"):
        inner = model.model(ids).last_hidden_state
        torch.testing.assert_close(model.lm_head(inner), model(ids).logits)


class Wrapped(nn.Module):
    """Somebody's module around a model of transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = tiny("llama")

    def forward(self, ids: Tensor) -> Tensor:
        """Its logits."""
        return self.inside(ids).logits


def test_a_model_inside_another() -> None:
    model, ids = Wrapped().eval(), tokens(12)
    with torch.no_grad(), knock_out(model, "L1H2"):
        found = model(ids)
    with knock_out(model.inside, "L1H2"):
        assert torch.equal(found, logits(model.inside, ids))


# ── afterwards ───────────────────────────────────────────────────────────────────────────────


def hooks(model: nn.Module) -> int:
    """How many there are."""
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def test_everything_is_as_it_was() -> None:
    model, ids = tiny("llama"), tokens(12)
    whole, before = logits(model, ids), model.config._attn_implementation
    knocked = knock_out(model, "L0")
    for _ in range(2):  # it may be entered again
        with knocked:
            assert model.config._attn_implementation == "regard"
            assert not torch.allclose(logits(model, ids), whole)
        assert model.config._attn_implementation == before
        assert hooks(model) == 0
        assert editors() == ()
    assert torch.equal(logits(model, ids), whole)


def test_an_exception_restores_everything() -> None:
    model, ids = tiny("llama"), tokens(12)
    before = model.config._attn_implementation
    with pytest.raises(ZeroDivisionError), knock_out(model, "L0"):
        logits(model, ids)
        raise ZeroDivisionError
    assert (model.config._attn_implementation, hooks(model), editors()) == (before, 0, ())


def test_it_cannot_be_inside_itself() -> None:
    model = tiny("llama")
    knocked = knock_out(model, "L0")
    with knocked:
        logits(model, tokens(4))
        with pytest.raises(InputError, match="at work already"), knocked:
            pass
    assert hooks(model) == 0


# ── what is refused ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("L2H0", "layer 2 does not exist; this model has 0–1"),
        ("L0H9", "head 9 does not exist; this layer has 0–3"),
        ("cross.L0H0", "there is no stack 'cross'; this model has one without a name: 'L0H0'"),
        ("H3", "'L0H0' is a head"),
        ([7], "names no head"),
    ],
)
def test_unknown_heads_are_refused_before_anything_runs(wrong: Any, said: str) -> None:
    for model in (tiny("llama"), Stack()):
        with pytest.raises(InputError, match=said):
            knock_out(model, wrong)
        with pytest.raises(InputError, match=said):
            knock_out(model, edges=[Edge(0, 0, wrong)])


def test_stacks_must_be_said_where_there_are_several() -> None:
    model = tiny("t5", **T5)
    with pytest.raises(
        InputError, match=r"stacks cross, decoder, encoder; say which, as in 'cross"
    ):
        knock_out(model, "L0H0")
    with pytest.raises(InputError, match="say which an edge is in"):
        knock_out(model, edges=Edge(0, 0))
    with pytest.raises(InputError, match=r"cross\.L2H0: layer 2 does not exist"):
        knock_out(model, "cross.L2H0")
    with pytest.raises(InputError, match="no stack 'vision'; this model has cross, decoder, enc"):
        knock_out(model, "vision")


def test_what_never_came_up_is_an_error() -> None:
    model, t5 = tiny("llama"), tiny("t5", **T5)
    with pytest.raises(InputError, match="ForCausalLM was not run inside"), knock_out(model, "L0"):
        pass
    two = knock_out(t5, ["cross.L1H0", "encoder"])
    with pytest.raises(InputError, match=r"cross\.L1H0 never came up.*layers 0–1 of encoder"), two:
        t5.encoder(tokens(6))
    with pytest.raises(InputError, match="by other means"), knock_out(Plain(), "L0") as knocked:
        knocked.model(torch.randn(1, 4, 32))
    with knock_out(model):  # nothing was asked for
        pass


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


def test_what_is_no_model_and_no_edge_is_refused() -> None:
    with pytest.raises(InputError, match=r"model is a str; give a torch\.nn\.Module"):
        knock_out("llama", "L0")
    with pytest.raises(InputError, match="is no edge"):
        knock_out(tiny("llama"), edges=[(3, 5)])


def test_a_family_that_does_not_dispatch_is_refused() -> None:
    model = tiny("bloom", n_head=4, n_layer=2)
    with pytest.raises(UnavailableError, match="bloom does not dispatch"), knock_out(model, "L0"):
        pass
    assert hooks(model) == 0


def test_checkpointing_is_refused() -> None:
    model = tiny("llama").train()
    model.gradient_checkpointing_enable()
    with pytest.raises(UnavailableError, match="gradient_checkpointing_disable"):
        knock_out(model, "L0")
    knock_out(model.eval(), "L0")


def test_a_compiled_model_says_so() -> None:
    model, x = Stack().eval(), torch.randn(1, 20, 32)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        whole = compiled(x)
        knocked = knock_out(model, "L0H1")
        with pytest.raises(UnavailableError, match=r"while torch\.compile traces"), knocked:
            compiled(x)
        torch.testing.assert_close(compiled(x), whole)


def test_a_wrong_kind_of_model_in_a_block_of_transformers() -> None:
    with pytest.raises(DTypeError, match="using"), regard.huggingface.using(Stack()):
        pass
