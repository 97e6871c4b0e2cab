"""A batch is as many prompts as it has sequences, however it was handed over."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regard
from recorder.models import SDPA, Calls, heads_of, tiny
from recorder.readers import CALLS, HEADS, LAYERS, Named, Reader, attention_of, batch_of
from recorder.truth import eager, recorded
from regard.errors import InputError


def holds_each_sequence(rec: Any, model: Named, ids: Tensor, mask: Tensor) -> None:
    """B prompts of H heads, and head h of prompt b is head h of sequence b."""
    assert rec.stacks == {"": (LAYERS, HEADS)} and len(rec.prompts) == len(ids)
    for number, prompt in enumerate(rec.prompts):
        real = mask[number].bool()
        assert prompt.ids.tolist() == ids[number][real].tolist()
        for head in prompt:
            truth = attention_of(model.layers[head.layer], number, head.head, real)
            assert head.label == f"L{head.layer}H{head.head}"
            assert head.query_tokens == prompt.tokens
            np.testing.assert_allclose(head[:, :], truth.numpy(), atol=1e-5)


KINDS = itertools.product(["none", "left", "right"], [1, 2, 3, 4], [True, False])
NAMED: dict[str, Any] = {
    "two by place": lambda ids, mask: ((ids, mask), {}),
    "one by place": lambda ids, mask: ((ids,), {"attention_mask": mask}),
    "none by place": lambda ids, mask: ((), {"attention_mask": mask, "input_ids": ids}),
}


@pytest.mark.parametrize(
    ("name", "padding", "count", "torchs"),
    [(name, *kind) for name, kind in zip(itertools.cycle([*CALLS, *NAMED]), KINDS, strict=False)],
)
@torch.no_grad()
def test_every_structure(name: str, padding: str, count: int, torchs: bool) -> None:
    """Twelve ways to hand a batch over, and every kind of batch."""
    ids, mask = batch_of(count, padding)
    model = Reader(torchs) if name in CALLS else Named(torchs)
    args, kwargs = (CALLS | NAMED)[name](ids, mask)
    rec = recorded(model, *args, **kwargs)
    holds_each_sequence(rec, model, ids, mask)


@torch.no_grad()
def test_several_texts_in_one_call_are_prompts_of_their_own() -> None:
    """Siamese towers: as many sequences as each text has, each with its own padding."""

    class Twins(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tower = Named()

        def forward(self, one: Any, other: Any) -> Tensor:
            return self.tower(**one)[:, 0] @ self.tower(**other)[:, 0].mT

    model = Twins()
    texts = [batch_of(2, "right"), batch_of(3, "left")]
    given = [{"input_ids": ids, "attention_mask": mask} for ids, mask in texts]
    rec = recorded(model, *given)
    assert rec.stacks == {"": (LAYERS, HEADS)}
    real = [row[flags.bool()].tolist() for text in texts for row, flags in zip(*text, strict=True)]
    assert [prompt.ids.tolist() for prompt in rec.prompts] == real
    mask = texts[1][1]
    for number, prompt in enumerate(rec.prompts[2:]):
        truth = attention_of(model.tower.layers[1], number, 3, mask[number].bool())
        np.testing.assert_allclose(prompt["L1H3"][:, :], truth.numpy(), atol=1e-5)


@torch.no_grad()
def test_a_cache_that_only_the_inner_model_knows() -> None:
    from transformers import DynamicCache

    class Remembers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lm = tiny("llama")
            self.cache = DynamicCache(config=self.lm.config)

        def forward(self, batch: dict[str, Tensor]) -> Any:
            return self.lm(batch["ids"], past_key_values=self.cache, use_cache=True)

    model, ids = Remembers(), torch.randint(3, 50, (2, 9))
    with regard.record(model) as rec:
        for part in ids.split([5, 1, 3], 1):
            model({"ids": part})
    assert [one.ids.tolist() for one in rec.prompts] == ids.tolist()
    truth = eager(model.lm, input_ids=ids).attentions[1][1, 2]
    np.testing.assert_allclose(rec.prompts[1]["L1H2"][:, :], truth.numpy(), atol=1e-5)


@torch.no_grad()
def test_every_choice_is_a_sequence() -> None:
    import transformers

    config = tiny("bert").config
    model = transformers.BertForMultipleChoice(config).eval()
    ids = torch.randint(3, 50, (2, 3, 7), generator=torch.Generator().manual_seed(0))
    rec = recorded(model, input_ids=ids)
    assert [one.ids.tolist() for one in rec.prompts] == ids.flatten(0, 1).tolist()


# ── without tokens: q and what was given have to agree ───────────────────────────────────────


def attends(q: Tensor) -> Tensor:
    return SDPA(q, q, q)


def truth_of(q: Tensor) -> np.ndarray[Any, Any]:
    return np.asarray((q @ q.mT * q.shape[-1] ** -0.5).softmax(-1))


X = torch.randn(3, 6, 32, generator=torch.Generator().manual_seed(0))
KNOWN: dict[str, tuple[Callable[..., Any], Any, Tensor]] = {
    # how it attends, what it is given, queries of each prompt (B, heads, L, D)
    "a dict": (lambda b: attends(heads_of(b["x"])), {"x": X}, heads_of(X)),
    "a list in a dict": (lambda b: attends(heads_of(b["x"][1])), {"x": ["", X]}, heads_of(X)),
    "tokens first": (
        lambda x: attends(heads_of(x.transpose(0, 1))), X.transpose(0, 1), heads_of(X)),
    "no batch": (lambda x: attends(heads_of(x)), X[0], heads_of(X[:1])),
    "one sequence, heads in front": (lambda x: attends(heads_of(x[0])), X[:1], heads_of(X[:1])),
    "one head, no batch": (attends, X[0], X[:1, None]),
    "one batch axis more": (lambda x: attends(heads_of(x)[:, None]), X, heads_of(X)),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
@torch.no_grad()
def test_what_the_shapes_say_beyond_doubt(name: str) -> None:
    call, given, queries = KNOWN[name]
    model = Calls(call)
    rec = recorded(model, given)
    assert len(rec.prompts) == len(queries)
    assert rec.stacks == {"": (1, queries.shape[1])}
    for number, prompt in enumerate(rec.prompts):
        for head in prompt:
            wanted = truth_of(queries[number, head.head])
            np.testing.assert_allclose(head[:, :], wanted, atol=1e-5)


DOUBTFUL: dict[str, tuple[Callable[..., Any], Any, str]] = {
    "heads and batch in one axis": (
        lambda x: attends(heads_of(x).flatten(0, 1)), X, "(12, 6, 8), which has no axis"),
    "the same, of tokens": (
        lambda b: attends(heads_of(X).flatten(0, 1)),
        {"input_ids": torch.ones(3, 6, dtype=torch.long)}, "given 3 sequences"),
    "one head": (attends, X, "(3, 6, 32), which has no axis"),
    "heads in the batch's axis": (
        lambda x: attends(heads_of(x).flatten(0, 1)[:, None]), X, "none of what the model"),
    "one after the other": (
        lambda x: [attends(heads_of(one)[None]) for one in x], X, "none of what the model"),
    "one after the other, of tokens": (
        lambda b: [attends(heads_of(one)[None]) for one in X],
        {"input_ids": torch.ones(3, 6, dtype=torch.long)},
        "1 batch entries, the model was given 3 sequences"),
    "pictures that are more than the texts": (
        lambda b: [attends(heads_of(X[:2])), attends(torch.cat([heads_of(X[:2])] * 2))],
        {"input_ids": torch.ones(2, 6, dtype=torch.long), "pixels": torch.zeros(4, 3, 8, 8)},
        "which entries are whose"),
    "another axis in front": (
        lambda x: attends(torch.stack([heads_of(x)] * 2)), X[:, :5], "none of what the model"),
}  # fmt: skip


@pytest.mark.parametrize("name", DOUBTFUL)
@torch.no_grad()
def test_what_could_be_read_in_two_ways_is_refused(name: str) -> None:
    call, given, said = DOUBTFUL[name]
    model = Calls(call)
    with pytest.raises(InputError, match=re.escape(said)), regard.record(model):
        model(given)


@torch.no_grad()
def test_queries_that_were_given_to_attend_are_heads_as_it_says() -> None:
    model = Calls(lambda q: regard.attend(q, q, q).output)
    rec = recorded(model, X)
    assert len(rec.prompts) == 1 and rec.stacks == {"": (1, 3)}
    np.testing.assert_allclose(rec["L0H2"][:, :], truth_of(X[2]), atol=1e-5)


def test_monitors_and_knock_outs_do_not_take_sequences_for_heads() -> None:
    def both(x: Tensor) -> Tensor:
        q = heads_of(x).flatten(0, 1)
        return regard.attend(q, q, q).output

    model = Calls(both)
    with pytest.raises(InputError, match="no axis for the batch"), regard.Monitor(model) as monitor:
        model(X)
        monitor.step()
    with pytest.raises(InputError, match="no axis"), regard.knock_out(model, heads="L0H5"):
        model(X)


@torch.no_grad()
def test_more_sequences_than_were_begun_are_refused_by_name() -> None:
    model = tiny("t5", num_layers=1, d_model=32, d_kv=8, num_heads=4, decoder_start_token_id=0)
    ids = torch.randint(3, 50, (2, 6), generator=torch.Generator().manual_seed(0))
    with pytest.raises(InputError, match="num_return_sequences=1"), regard.record(model):
        model.generate(ids, max_new_tokens=2, do_sample=True, num_return_sequences=2)


@torch.no_grad()
def test_sequences_that_are_doubled_before_the_first_token_are_prompts_each() -> None:
    model = tiny("llama")
    ids = torch.randint(3, 50, (2, 6), generator=torch.Generator().manual_seed(0))
    with regard.record(model) as rec:
        found = model.generate(ids, max_new_tokens=3, do_sample=True, num_return_sequences=2)
    assert [one.ids.tolist() for one in rec.prompts] == found[:, :-1].tolist()


@torch.no_grad()
def test_a_wrapped_encoder_and_decoder_keep_their_texts_apart() -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = tiny("t5", num_layers=1, d_model=32, d_kv=8, num_heads=4)

        def forward(self, batch: dict[str, Tensor]) -> Any:
            return self.inner(**batch)

    model = Wrapped()
    ids, mask = batch_of(2, "right")
    ids = ids.clamp(max=49)
    target = torch.randint(3, 50, (2, 9), generator=torch.Generator().manual_seed(5))
    rec = recorded(model, {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": target})
    for number, prompt in enumerate(rec.prompts):
        heads = {head.place.name.split(".")[1]: head for head in prompt}
        read = ids[number][mask[number].bool()]
        assert heads["encoder"].query_tokens == [f"#{n}" for n in read.tolist()]
        assert heads["decoder"].query_tokens == [f"#{n}" for n in target[number].tolist()]
