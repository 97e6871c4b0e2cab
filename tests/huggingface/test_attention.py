"""The attention function against its definition, keyword by keyword: who sees whom, what is added,
what a row without a key gets, what is handed out and held."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from transformers import LlamaConfig, SplinterConfig, masking_utils
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.llama.modeling_llama import eager_attention_forward
from transformers.models.splinter import modeling_splinter  # noqa: F401

import regard
from huggingface.cells import causal_mask
from huggingface.zoo import FAMILIES, inputs_of, model_of
from installed import is_at_least, needs
from regard.errors import DTypeError, InputError, ShapeError, StaleError, UnavailableError
from regard.huggingface import regard_attention, regard_mask, using
from regard.huggingface.reference import standing_for

B, HQ, HKV, L, D, DV = 2, 4, 2, 6, 8, 5


class Layer(nn.Module):
    """What is passed as the module; it says nothing of causality unless told."""

    def __init__(self, config: Any = None, is_causal: bool | None = None) -> None:
        super().__init__()
        if config is not None:
            self.config = config
        if is_causal is not None:
            self.is_causal = is_causal


def of_llama() -> Layer:
    """A layer of a family that knows eager and sdpa."""
    return Layer(LlamaConfig())


def tensors(queries: int = L, keys: int = L) -> tuple[Tensor, Tensor, Tensor]:
    """query, key and value of grouped heads, in single precision."""
    dice = torch.Generator().manual_seed(queries + keys)
    shapes = ((B, HQ, queries, D), (B, HKV, keys, D), (B, HKV, keys, DV))
    query, key, value = (torch.randn(*shape, generator=dice) for shape in shapes)
    return query, key, value


def definition(
    qkv: tuple[Tensor, Tensor, Tensor],
    allowed: Tensor,
    scale: float = D**-0.5,
    cap: float | None = None,
    bias: Tensor | None = None,
    sink: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """(output (B, L, Hq, Dv), weights), the way the papers write it; in double precision."""
    q, k, v = (t.double() for t in qkv)
    k, v = (t.repeat_interleave(HQ // HKV, 1) for t in (k, v))
    scores = q @ k.mT * scale
    scores = scores if cap is None else cap * (scores / cap).tanh()
    scores = scores if bias is None else scores + bias.double()
    scores = scores.masked_fill(~allowed, -torch.inf)
    if sink is not None:
        extra = sink.double().view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, extra], -1)
    weights = scores.softmax(-1)[..., : k.shape[2]].nan_to_num(0)
    return (weights @ v).transpose(1, 2), weights


def check(output: Tensor, attention: Any, wanted: tuple[Tensor, Tensor]) -> None:
    """Output and weights, and how they lie in memory; keys that nobody sees need not be there."""
    assert output.is_contiguous() and output.shape == wanted[0].shape
    assert_close(output.double(), wanted[0], rtol=0, atol=2e-6)
    reach = attention.shape[-1]
    assert_close(attention.dense().double(), wanted[1][..., :reach], rtol=0, atol=2e-6)
    assert not wanted[1][..., reach:].any()


def lower(queries: int = L, keys: int = L, last: int = 0) -> Tensor:
    """True on and below a diagonal."""
    return torch.ones(queries, keys).tril(last).bool()


EVERY, CAUSAL = torch.ones(L, L, dtype=torch.bool), lower()
NEAR = CAUSAL & ~lower(last=-2)  # oneself and the one before
BOTH_WAYS = masking_utils.bidirectional_mask_function
IDS = torch.tensor([0, 0, 0, 1, 1, 2])
SAME = IDS[:, None] == IDS
STARTS = torch.tensor([0, 3, 5, 6, 9, 11, 12], dtype=torch.int32)  # of both entries, flattened
PLACES = torch.tensor([[0, 1, 2, 0, 1, 0]])
CHOSEN = torch.tensor([[[0, 3], [1, 1]]]).repeat(B, 3, 1)
ROW = torch.tensor([[1, 1, 0, 1, 1, 1], [1] * 6]).bool()


def chosen(keys: int = L) -> Tensor:
    return torch.zeros(B, L, keys).scatter(-1, CHOSEN, 1).bool()[:, None]


# what is given beside query, key and value → who may see whom
Given = tuple[dict[str, Any], Tensor]
SEEN: dict[str, Given] = {
    "nothing: causal": ({}, CAUSAL),
    "not causal": ({"module": Layer(is_causal=False)}, EVERY),
    "the keyword wins": ({"module": Layer(is_causal=False), "is_causal": True}, CAUSAL),
    "and the other way": ({"module": Layer(is_causal=True), "is_causal": False}, EVERY),
    "eager is never causal": ({"module": Layer(SplinterConfig())}, EVERY),
    "one query sees every key": ({"queries": 1}, EVERY[:1]),
    "a static cache is empty": ({"keys": 9}, lower(6, 9)),
    "a window counts oneself": ({"sliding_window": 2}, NEAR),
    "both ways": ({"sliding_window": 2, "is_causal": False}, lower(last=1) & ~lower(last=-2)),
    "one that reaches all": ({"sliding_window": 6}, CAUSAL),
    "of a single query": ({"queries": 1, "sliding_window": 2}, EVERY[:1] & ~lower(1, L, 3)),
    "a window of 0 is none": ({"sliding_window": 0}, CAUSAL),
    "nor here": ({"sliding_window": 0, "is_causal": False}, EVERY),
    "a mask has the last word": ({"mask": EVERY[None, None], "sliding_window": 2}, EVERY),
    "a descriptor too": ({"mask": regard_mask(B, L, L), "is_causal": False}, CAUSAL),
    "one row for every query": (
        {"mask": regard_mask(B, 1, L, mask_function=BOTH_WAYS, attention_mask=ROW)},
        ROW[:, None, None].expand(B, 1, L, L),
    ),
    "unwritten slots": ({"keys": 9, "mask": regard_mask(B, L, 9)}, lower(6, 9)),
    "packed": ({"cu_seq_lens_q": STARTS, "cu_seq_lens_k": STARTS, "is_causal": False}, SAME),
    "packed and causal": ({"cu_seq_lens_q": STARTS}, SAME & CAUSAL),
    "packed over the batch": (
        {"cu_seq_lens_q": torch.tensor([0, 4, 9, 12]), "is_causal": False},
        torch.stack([torch.block_diag(torch.ones(n, n), torch.ones(6 - n, 6 - n)).bool()
                     for n in (4, 3)])[:, None],
    ),
    "packed with other keys": (
        {"cu_seq_lens_q": STARTS, "cu_seq_lens_k": torch.tensor([0, 1, 4, 5, 6, 9, 10]), "keys": 5,
         "is_causal": False},
        IDS[:, None] == torch.tensor([0, 1, 1, 1, 2]),
    ),
    "packing and a mask": (
        {"mask": regard_mask(B, L, L), "cu_seq_lens_q": STARTS}, SAME & CAUSAL,
    ),
    "chosen keys": ({"indices": CHOSEN, "is_causal": False}, chosen()),
    "slots chosen before they are written": (
        {"indices": CHOSEN, "mask": regard_mask(B, L, L)}, chosen() & CAUSAL,
    ),
    "positions start again": ({"position_ids": PLACES}, SAME & CAUSAL),
    "both ways too": ({"position_ids": PLACES, "is_causal": False}, SAME),
    "in a window": ({"position_ids": PLACES, "sliding_window": 2}, SAME & NEAR),
    "in one entry": (
        {"position_ids": torch.stack([torch.arange(6), PLACES[0]])},
        torch.stack([CAUSAL, SAME & CAUSAL])[:, None],
    ),
    "positions of one sequence": ({"position_ids": torch.arange(6)[None] + 7}, CAUSAL),
    "positions of other tokens": ({"position_ids": torch.arange(5)[None]}, CAUSAL),
    "positions of three kinds": ({"position_ids": torch.zeros(3, 1, 6).long()}, CAUSAL),
    "rows of an image": (
        {"position_ids": torch.tensor([[0, 1, 2, 8, 9, 10]]), "is_causal": False}, EVERY,
    ),
    "a mask knows better": ({"mask": EVERY[None, None], "position_ids": PLACES}, EVERY),
}  # fmt: skip


@pytest.mark.parametrize("name", SEEN)
def test_who_sees_whom(name: str) -> None:
    given, allowed = SEEN[name]
    given = dict(given)
    qkv = tensors(given.pop("queries", L), given.pop("keys", L))
    module, mask = given.pop("module", Layer()), given.pop("mask", None)
    output, attention = regard_attention(module, *qkv, mask, **given)
    check(output, attention, definition(qkv, allowed))
    assert attention is not None and torch.equal(
        attention.dense() > 0, allowed.expand(B, HQ, -1, -1)[..., : attention.shape[-1]]
    )


@pytest.mark.parametrize("keys", [5, 12])
def test_one_token_after_a_compressed_cache_sees_what_is_left(keys: int) -> None:
    """Masks are made for the first layer; a press may leave other layers more keys, or fewer."""
    for offset, queries in ((8, 1), (7, 2)):
        mask = regard_mask(B, queries, 9, q_offset=offset)
        padded = regard_mask(B, 1, 9, q_offset=8, attention_mask=torch.arange(9).expand(B, 9) > 1)
        if queries == 1:
            output, a = regard_attention(Layer(), *tensors(1, keys), mask)
            check(output, a, definition(tensors(1, keys), torch.ones(1, keys).bool()))
        for wrong, count in ((mask, 2), (padded, 1)):
            with pytest.raises(UnavailableError, match="the mask speaks of"):
                regard_attention(Layer(), *tensors(count, keys), wrong)


def test_every_keyword_has_its_effect() -> None:
    qkv, dice = tensors(), torch.Generator().manual_seed(9)
    sink, bias = torch.randn(HQ, generator=dice), torch.randn(1, HQ, L, 9, generator=dice)
    output, a = regard_attention(
        Layer(), *qkv, None, scaling=0.7, softcap=1.5, s_aux=sink, position_bias=bias[..., :L]
    )
    assert isinstance(a, regard.Attention)
    check(output, a, definition(qkv, CAUSAL, 0.7, 1.5, bias[..., :L], sink))
    assert_close(a.sink_mass() + a.dense().sum(-1), torch.ones(B, HQ, L))
    # a bias ends with the keys that count, and joins numbers that are added
    longer = tensors(keys=9)
    check(
        *regard_attention(Layer(), *longer, None, position_bias=bias),
        definition(longer, lower(6, 9), bias=bias),
    )
    added = torch.zeros(B, 1, L, 9)
    added[..., 7:] = torch.finfo(torch.float32).min
    check(
        *regard_attention(Layer(), *longer, added, position_bias=bias),
        definition(longer, added == 0, bias=bias),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_numbers_are_added_and_the_most_negative_forbid(dtype: torch.dtype) -> None:
    qkv, low = tensors(), torch.finfo(dtype).min
    given = torch.tensor([0.0, -2.5, low, -torch.inf, low * 0.75, -1e4], dtype=dtype)
    _, a = regard_attention(Layer(), *qkv, given.expand(B, 1, L, L))
    assert a is not None
    hidden = torch.tensor([0, 0, 1, 1, 1, 0]).bool()
    assert torch.equal(a.scores[...] == -torch.inf, hidden.expand(B, HQ, L, L))
    plain = regard_attention(Layer(), *qkv, EVERY[None, None])[1]
    assert plain is not None
    assert_close((a.scores[...] - plain.scores[...])[..., [0, 1]], given[[0, 1]].float().expand(
        B, HQ, L, 2), rtol=0, atol=1e-5)  # fmt: skip


def test_masks_of_users_are_booleans_or_numbers() -> None:
    qkv, dice = tensors(), torch.Generator().manual_seed(3)
    allowed = (torch.rand(B, 1, L, L, generator=dice) < 0.5) | torch.eye(L).bool()
    check(*regard_attention(Layer(), *qkv, allowed), definition(qkv, allowed))
    for low in (torch.finfo(torch.float32).min, -torch.inf):
        numbers = torch.zeros(B, 1, L, L).masked_fill(~allowed, low)
        check(*regard_attention(Layer(), *qkv, numbers), definition(qkv, allowed))
    slopes = torch.randn(B, HQ, L, L, generator=dice)
    check(*regard_attention(Layer(), *qkv, slopes), definition(qkv, EVERY, bias=slopes))


LOW = torch.finfo(torch.float32).min


def without_a_key(low: float = LOW, others: float = LOW) -> Tensor:
    """Numbers that hide all keys from one row."""
    mask = torch.zeros(B, 1, L, L)
    mask[0, :, 2], mask[0, :, 2, 1:] = low, others
    return mask


MASKS: dict[str, tuple[Tensor, dict[str, Any]]] = {
    "booleans": (without_a_key() == 0, {}),
    "numbers": (without_a_key(), {}),
    "numbers of two kinds": (without_a_key(LOW, -torch.inf), {}),
    "minus infinity": (without_a_key(-torch.inf, -torch.inf), {}),
    "a position bias": (without_a_key() == 0, {"position_bias": torch.randn(1, HQ, L, L)}),
}


@pytest.mark.parametrize("name", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", MASKS)
def test_rows_that_see_no_key_are_the_references(kind: str, name: str) -> None:
    """Booleans on sdpa: 0. Numbers that are added, or a position bias: even over all keys, NaN
    where eager adds −∞ to all. Eager adds booleans too."""
    (mask, more), qkv, layer = MASKS[kind], tensors(), of_llama()
    if more and (name == "eager" or not is_at_least("transformers", "5.14")):
        return  # no implementation of theirs has one
    if name == "sdpa":
        repeated = [t.repeat_interleave(HQ // t.shape[1], 1) for t in qkv]
        wanted = sdpa_attention_forward(Layer(), *repeated, mask, **more)[0]
    else:
        layer.num_key_value_groups = HQ // HKV
        wanted = eager_attention_forward(layer, *qkv, mask, scaling=D**-0.5)[0]
    with standing_for(layer.config, name):
        output, a = regard_attention(layer, *qkv, mask, **more)
    assert_close(output, wanted, equal_nan=True)
    assert a is not None and output[0, 1].any() and output[1, 2].any()
    if mask.dtype != torch.bool or name == "sdpa":
        assert not a.dense()[0, :, 2].any()


def test_a_module_that_asks_for_sdpa_by_name_would_have_had_booleans() -> None:
    class Choosing(Layer):
        def forward(self) -> bool:
            return bool(self.config._attn_implementation == "sdpa")

    for layer, zero in ((Choosing(LlamaConfig()), True), (of_llama(), False)):
        with standing_for(layer.config, "sdpa"):
            output, _ = regard_attention(layer, *tensors(), without_a_key())
        assert (not output[0, 2].any()) is zero


def test_flash_attention_leaves_padding_out() -> None:
    layer, padding = of_llama(), torch.ones(B, L, dtype=torch.bool)
    padding[0, -1] = False
    mask = regard_mask(B, L, L, attention_mask=padding)
    for name, zero in (("flash_attention_2", True), ("sdpa", False), ("eager", False)):
        with standing_for(layer.config, name):
            output, _ = regard_attention(layer, *tensors(), mask)
        assert (not output[0, -1].any()) is zero and output[0, -2].any() and output[1, -1].any()


def test_where_sdpa_would_get_no_mask_a_layer_that_is_not_causal_sees_everything() -> None:
    """AIMv2 asks for a causal mask and says that it is not causal: on sdpa nothing is hidden
    while there is no padding, on eager the mask counts; Moonshine says so of single calls."""
    layer = Layer(LlamaConfig(), is_causal=False)
    layer.config._attn_implementation = "regard"
    for name, causal, everything in (
        ("sdpa", False, True), ("eager", False, False), ("sdpa", True, False),
    ):  # fmt: skip
        layer.is_causal = causal
        with standing_for(layer.config, name):
            mask = causal_mask(layer.config, torch.zeros(B, L, 4))
            _, a = regard_attention(layer, *tensors(), mask, is_causal=False)
        assert a is not None and bool(a.dense().all()) is everything


def test_key_heads_are_neither_repeated_nor_copied_and_a_change_is_noticed() -> None:
    query, key, value = tensors()
    _, a = regard_attention(Layer(), query, key, value, None)
    assert a is not None
    before, received = a.dense(), a.received(groups="sum")
    assert before.isfinite().all() and received.shape == (B, HKV, L)
    key.zero_()
    with pytest.raises(StaleError):
        a.dense()


@pytest.mark.parametrize("how", ["static cache", "inference mode"])
def test_keys_that_change_in_silence_are_copied(how: str) -> None:
    with torch.inference_mode(how == "inference mode"):
        query, key, value = tensors()
        if how == "static cache":
            torch._dynamo.mark_static_address(key)
        _, a = regard_attention(Layer(), query, key, value, None)
        assert a is not None
        before = definition((query, key, value), CAUSAL)[1]
        key.zero_()
        assert_close(a.dense().double(), before, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", ["llama", "bert", "vit", "t5", "swin"])
@torch.no_grad()
def test_layers_hand_the_attention_out_only_when_asked(name: str) -> None:
    """Some of these pass `output_attentions` down to their layers and some do not. One that is
    called by hand is taken to want it."""
    needs("transformers", "5.2", "models list the outputs they collect")
    model, inputs = model_of(name), inputs_of(FAMILIES[name].kind)
    handed: list[Any] = []

    def note(module: nn.Module, args: Any, output: Any) -> None:
        handed.extend(o for o in output if isinstance(o, regard.Attention))

    with using(model) as modules:
        hooks = [module.register_forward_hook(note) for module in modules.seen.values()]
        model(**inputs)
        model(**inputs, output_hidden_states=True)
        assert not handed
        model(**inputs, output_attentions=True)
        assert len(handed) == len(modules.seen)
    for hook in hooks:
        hook.remove()


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: {"cache": object()}, UnavailableError, "continuous batching"),
    (lambda: {"block_indices": torch.zeros(1)}, UnavailableError, "block_indices"),
    (
        lambda: {"mask": torch.ones(B, L)}, ShapeError,
        r"attention_mask has shape \(2, 6\); the layer has 6 queries and 6 keys",
    ),
    (lambda: {"mask": torch.ones(B, 1, L, L).long()}, DTypeError, "int64; give booleans"),
    (lambda: {"mask": [[True]]}, DTypeError, "is a list"),
    (
        lambda: {"mask": regard_mask(B, L, 7)}, UnavailableError,
        "6 queries and 7 keys, the layer has 6 and 6",
    ),
    (lambda: {"keys": 9, "cu_seq_lens_q": STARTS}, InputError, "6 queries and 9 keys.*leave out"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "said"), REFUSED)
def test_what_is_not_offered_says_so(make: Any, error: type[Exception], said: str) -> None:
    given = make()
    qkv, mask = tensors(keys=given.pop("keys", L)), given.pop("mask", None)
    with pytest.raises(error, match=said):
        regard_attention(Layer(), *qkv, mask, **given)


def test_a_rule_of_a_familys_own_eager_attention_is_refused(monkeypatch: Any) -> None:
    """What eager follows by a name that is not known here would be left out of the weights."""

    def with_novelty(module, query, key, value, attention_mask, novelty=None, **kwargs):
        raise AssertionError

    class Novel(Layer):
        pass

    monkeypatch.setattr(sys.modules[__name__], "eager_attention_forward", with_novelty)
    regard_attention(Novel(), *tensors(), None, novelty=None)
    with pytest.raises(UnavailableError, match="Novel gives its attention 'novelty'"):
        regard_attention(Novel(), *tensors(), None, novelty=torch.zeros(1))
