"""The attention function against its definition, keyword by keyword."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, SplinterConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.splinter import modeling_splinter  # noqa: F401

import regard
from huggingface.cells import causal_mask
from installed import is_at_least
from regard.engine import api
from regard.errors import ShapeError, StaleError, UnavailableError
from regard.huggingface import regard_attention, regard_mask
from regard.huggingface.reference import standing_for

B, HQ, HKV, L, D, DV = 2, 4, 2, 6, 8, 5


class Layer(nn.Module):
    """What is passed as the module; it says nothing of causality unless told."""


def configured(kind: type[Layer] = Layer) -> Any:
    """A layer of a family that knows eager and sdpa."""
    layer: Any = kind()
    layer.config = LlamaConfig()
    return layer


def tensors(queries: int = L, keys: int = L, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
    """query, key and value of grouped heads, in single precision."""
    dice = torch.Generator().manual_seed(queries + keys)
    shapes = ((B, HQ, queries, D), (B, HKV, keys, D), (B, HKV, keys, DV))
    return tuple(torch.randn(*s, generator=dice).to(**options) for s in shapes)  # type: ignore


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
    weights = scores.softmax(-1)[..., : k.shape[2]]
    return (weights @ v).transpose(1, 2), weights


CAUSAL = torch.ones(L, L).tril().bool()
EVERY = torch.ones(L, L, dtype=torch.bool)


def check(found: tuple[Tensor, Any], wanted: tuple[Tensor, Tensor]) -> None:
    """Output and weights, and how they lie in memory."""
    output, attention = found
    assert output.is_contiguous() and output.shape == wanted[0].shape
    torch.testing.assert_close(output.double(), wanted[0], rtol=0, atol=2e-6)
    torch.testing.assert_close(attention.dense().double(), wanted[1], rtol=0, atol=2e-6)


def test_the_module_decides_on_causality_and_the_keyword_over_it() -> None:
    qkv, layer = tensors(), Layer()
    check(regard_attention(layer, *qkv, None), definition(qkv, CAUSAL))
    layer.is_causal = False
    check(regard_attention(layer, *qkv, None), definition(qkv, EVERY))
    check(regard_attention(layer, *qkv, None, is_causal=True), definition(qkv, CAUSAL))
    layer.is_causal = True
    check(regard_attention(layer, *qkv, None, is_causal=False), definition(qkv, EVERY))


def test_one_query_sees_every_key() -> None:
    qkv = tensors(queries=1)
    check(regard_attention(Layer(), *qkv, None), definition(qkv, EVERY[:1]))


def test_keys_behind_the_queries_of_an_empty_static_cache_do_not_count() -> None:
    query, key, value = tensors(keys=L + 4)
    key[:, :, L:], value[:, :, L:] = torch.nan, torch.nan  # nobody wrote there
    wanted = definition((query, key[:, :, :L], value[:, :, :L]), CAUSAL)
    check(regard_attention(Layer(), query, key, value, None), wanted)
    mask = regard_mask(B, L, L + 4)
    check(regard_attention(Layer(), query, key, value, mask), wanted)


def test_every_keyword_has_its_effect() -> None:
    qkv, dice = tensors(), torch.Generator().manual_seed(9)
    sink = torch.randn(HQ, generator=dice)
    bias = torch.randn(1, HQ, L, L, generator=dice)
    found = regard_attention(
        Layer(), *qkv, None, scaling=0.7, softcap=1.5, s_aux=sink, position_bias=bias
    )
    check(found, definition(qkv, CAUSAL, scale=0.7, cap=1.5, bias=bias, sink=sink))
    assert isinstance(found[1], regard.Attention)
    torch.testing.assert_close(
        found[1].sink_mass() + found[1].dense().sum(-1), torch.ones(B, HQ, L)
    )


def test_a_window_counts_oneself() -> None:
    qkv = tensors()
    wanted = definition(qkv, CAUSAL & ~torch.ones(L, L).tril(-3).bool())
    check(regard_attention(Layer(), *qkv, None, sliding_window=3), wanted)


def test_masks_of_users_are_booleans_or_numbers() -> None:
    qkv, dice = tensors(), torch.Generator().manual_seed(3)
    allowed = (torch.rand(B, 1, L, L, generator=dice) < 0.5) | torch.eye(L).bool()
    check(regard_attention(Layer(), *qkv, allowed), definition(qkv, allowed))
    for low in (torch.finfo(torch.float32).min, -torch.inf):
        numbers = torch.zeros(B, 1, L, L).masked_fill(~allowed, low)
        check(regard_attention(Layer(), *qkv, numbers), definition(qkv, allowed))
    slopes = torch.randn(B, HQ, L, L, generator=dice)
    check(regard_attention(Layer(), *qkv, slopes), definition(qkv, EVERY, bias=slopes))


def test_rows_that_see_no_key_are_the_references() -> None:
    """Booleans: 0, as in sdpa. Numbers that are added, or a position bias: even over all keys."""
    qkv, low = tensors(), torch.finfo(torch.float32).min
    allowed = EVERY.expand(B, 1, L, L).clone()
    allowed[0, :, 2] = False
    numbers = torch.zeros(B, 1, L, L).masked_fill(~allowed, low)
    mixed = numbers.clone()
    mixed[0, :, 2, 1:] = -torch.inf
    given: list[tuple[Tensor, Any]] = [(allowed, {}), (numbers, {}), (mixed, {})]
    if is_at_least("transformers", "5.14"):  # before, no implementation of theirs had one
        given += [(allowed, {"position_bias": torch.randn(1, HQ, L, L)})]
    for mask, more in given:
        repeated = [t.repeat_interleave(HQ // t.shape[1], 1) for t in qkv]
        wanted, _ = sdpa_attention_forward(Layer(), *repeated, mask, **more)
        layer = configured()
        with standing_for(layer.config, "sdpa"):
            output, attention = regard_attention(layer, *qkv, mask, **more)
        torch.testing.assert_close(output, wanted)
        assert attention is not None and not attention.dense()[0, :, 2].any()
        assert output[0, 1].any() and output[1, 2].any()


def test_a_row_of_minus_infinity_is_nan_in_eager_and_nothing_in_sdpa() -> None:
    mask = torch.zeros(B, 1, L, L)
    mask[0, :, 2] = -torch.inf
    layer = configured()
    with standing_for(layer.config, "sdpa"):
        output, _ = regard_attention(layer, *tensors(), mask)
    assert not output[0, 2].any()
    with standing_for(layer.config, "eager"):
        output, _ = regard_attention(layer, *tensors(), mask)
    assert output[0, 2].isnan().all() and output[1].isfinite().all()


def test_flash_attention_leaves_padding_out() -> None:
    layer, padding = configured(), torch.ones(B, L, dtype=torch.bool)
    padding[0, -1] = False
    mask = regard_mask(B, L, L, attention_mask=padding)
    for name, zero in (("flash_attention_2", True), ("sdpa", False), ("eager", False)):
        with standing_for(layer.config, name):
            output, _ = regard_attention(layer, *tensors(), mask)
        assert (not output[0, -1].any()) is zero and output[0, -2].any() and output[1, -1].any()


def test_without_a_mask_eager_attention_is_never_causal() -> None:
    """Splinter says nothing of causality, and has eager attention alone."""
    layer = Layer()
    layer.config = SplinterConfig()  # type: ignore[assignment]
    _, attention = regard_attention(layer, *tensors(), None)
    assert attention is not None and attention.dense().all()


def test_attention_is_computed_by_attend_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def listening(*args: Any, **options: Any) -> Any:
        calls.append(args[1].shape)
        return attend(*args, **options)

    attend = api.attend
    monkeypatch.setattr(api, "attend", listening)
    regard_attention(Layer(), *tensors(), None)
    assert calls == [(B, HKV, L, D)]  # key heads are not repeated


def test_dropout_makes_the_output_and_not_the_statistics() -> None:
    qkv = tensors()
    torch.manual_seed(0)
    output, attention = regard_attention(Layer(), *qkv, None, dropout=0.5)
    wanted = definition(qkv, CAUSAL)
    assert attention is not None
    torch.testing.assert_close(attention.dense().double(), wanted[1], rtol=0, atol=2e-6)
    assert (output.double() - wanted[0]).abs().max() > 0.1


def test_gradients_are_those_of_the_definition() -> None:
    sink, bias = torch.randn(HQ), torch.randn(1, HQ, L, L)
    leaves = [t.requires_grad_() for t in (*tensors(), sink, bias)]
    q, k, v, sink, bias = leaves
    output, _ = regard_attention(Layer(), q, k, v, None, s_aux=sink, position_bias=bias)
    found = torch.autograd.grad(output.square().sum(), leaves)
    output, _ = definition((q, k, v), CAUSAL, bias=bias, sink=sink)
    wanted = torch.autograd.grad(output.square().sum(), leaves)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5 * float(other.abs().max()))


def test_an_unmarked_key_is_not_copied_and_a_change_of_it_is_noticed() -> None:
    query, key, value = tensors()
    _, attention = regard_attention(Layer(), query, key, value, None)
    assert attention is not None and attention._call.key.data_ptr() == key.data_ptr()
    before = attention.dense()
    key.zero_()
    with pytest.raises(StaleError):
        attention.dense()
    assert before.isfinite().all()


@pytest.mark.parametrize("how", ["static cache", "inference mode"])
def test_keys_that_change_in_silence_are_copied(how: str) -> None:
    with torch.inference_mode(how == "inference mode"):
        query, key, value = tensors()
        if how == "static cache":
            torch._dynamo.mark_static_address(key)
        _, attention = regard_attention(Layer(), query, key, value, None)
        assert attention is not None
        before = definition((query, key, value), CAUSAL)[1]
        key.zero_()
        torch.testing.assert_close(attention.dense().double(), before, rtol=0, atol=2e-6)


def test_what_is_not_offered_says_so() -> None:
    with pytest.raises(UnavailableError, match="continuous batching"):
        regard_attention(Layer(), *tensors(), None, cache=object())
    with pytest.raises(UnavailableError, match="block_indices"):
        regard_attention(Layer(), *tensors(), None, block_indices=torch.zeros(1))
    with pytest.raises(ShapeError, match="attention_mask"):
        regard_attention(Layer(), *tensors(), torch.ones(B, L, dtype=torch.bool))


def test_where_sdpa_would_get_no_mask_a_layer_that_is_not_causal_sees_everything() -> None:
    """AIMv2 asks for a causal mask and says that it is not causal: on sdpa nothing is hidden
    while there is no padding, on eager the mask counts."""
    layer = configured()
    layer.is_causal = False  # type: ignore[assignment]
    layer.config._attn_implementation = "regard"
    states = torch.zeros(B, L, 4)
    for name, everything in (("sdpa", True), ("eager", False)):
        with standing_for(layer.config, name):
            mask = causal_mask(layer.config, states)
            _, attention = regard_attention(layer, *tensors(), mask, is_causal=False)
        assert attention is not None and bool(attention.dense().all()) is everything
    layer.is_causal = True  # type: ignore[assignment]
    with standing_for(layer.config, "sdpa"):  # Moonshine says so, less where it gets a mask
        mask = causal_mask(layer.config, states)
        _, attention = regard_attention(layer, *tensors(), mask, is_causal=False)
    assert attention is not None and not attention.dense().all()


def test_a_module_that_asks_for_sdpa_by_name_would_have_had_booleans() -> None:
    class Choosing(Layer):
        def forward(self) -> bool:
            return bool(self.config._attn_implementation == "sdpa")  # type: ignore[union-attr]

    mask = torch.zeros(B, 1, L, L)
    mask[0, :, 2] = torch.finfo(torch.float32).min
    for layer, zero in ((configured(Choosing), True), (configured(), False)):
        with standing_for(layer.config, "sdpa"):
            output, _ = regard_attention(layer, *tensors(), mask)
        assert (not output[0, 2].any()) is zero


def test_torchs_functions_are_given_the_matrix() -> None:
    """ESM stacks its layers' attention to predict contacts."""
    a = regard_attention(Layer(), *tensors(), None)[1]
    b = regard_attention(Layer(), *tensors(), None, is_causal=False)[1]
    assert isinstance(a, regard.Attention) and isinstance(b, regard.Attention)
    whole = [a.dense(), b.dense()]
    assert torch.equal(torch.stack([a, b]), torch.stack(whole))  # type: ignore[list-item]
    assert torch.equal(torch.cat((a, b), dim=1), torch.cat(whole, dim=1))  # type: ignore[arg-type]
    assert torch.equal(torch.ones(L, L) * a, whole[0])
    x = torch.randn(B, HQ, L, 3)
    torch.testing.assert_close(a @ x, whole[0] @ x)


def test_a_rule_of_a_familys_own_eager_attention_is_refused(monkeypatch):
    """What eager follows by a name that is not known here would be left out of the weights."""

    def eager_attention_forward(module, query, key, value, attention_mask, novelty=None, **kwargs):
        raise AssertionError

    class Novel(Layer):
        pass

    monkeypatch.setattr(
        sys.modules[__name__], "eager_attention_forward", eager_attention_forward, raising=False
    )
    regard_attention(Novel(), *tensors(), None, novelty=None)
    with pytest.raises(UnavailableError, match="Novel gives its attention 'novelty'"):
        regard_attention(Novel(), *tensors(), None, novelty=torch.zeros(1))
