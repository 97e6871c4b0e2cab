"""Every way to call torch's scaled_dot_product_attention is recorded as what it computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from recorder.truth import agrees
from regard.errors import InputError

SDPA = F.scaled_dot_product_attention


class Calls(nn.Module):
    """Hands its input to a function that calls torch's."""

    def __init__(self, call: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: Tensor) -> Any:
        """Whatever the function gives."""
        return self.call(x)


def heads_of(x: Tensor, count: int) -> Tensor:
    """(B, L, D) → (B, count, L, D ÷ count)."""
    return x.unflatten(-1, (count, -1)).transpose(-2, -3)


def eager(
    q: Tensor,
    k: Tensor,
    *,
    scale: float | None = None,
    bias: Tensor | None = None,
    seen: Tensor | None = None,
) -> Tensor:
    """The definition; a row that sees nothing is all zeros."""
    scores = (q @ k.mT) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if seen is not None:
        scores = scores.masked_fill(~seen, -torch.inf)
    return scores.softmax(-1).nan_to_num(0.0)


def recorded(call: Callable[[Tensor], Any], x: Tensor) -> Any:
    model = Calls(call)
    with torch.no_grad():
        plain = model(x)
        with regard.record(model) as rec:
            assert torch.equal(model(x), plain)  # torch's own answer, to the bit
    return rec.recording


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 12, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("shape", [(12, 12), (4, 12, 12), (2, 1, 12, 12), (2, 4, 12, 12)])
def test_a_float_mask_is_added_to_the_scores(x: Tensor, shape: tuple[int, ...]) -> None:
    bias = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    bias[..., 3, 5] = -torch.inf
    q = heads_of(x, 4)
    rec = recorded(lambda y: SDPA(*[heads_of(y, 4)] * 3, attn_mask=bias), x)
    truth = eager(q, q, bias=bias)
    for entry in (0, 1):
        agrees(rec.prompts[entry]["L0H2"], truth[entry, 2])


@pytest.mark.parametrize("shape", [(12, 12), (2, 1, 12, 12), (2, 4, 12, 12)])
def test_a_boolean_mask_hides(x: Tensor, shape: tuple[int, ...]) -> None:
    seen = torch.rand(shape, generator=torch.Generator().manual_seed(2)) < 0.6
    seen[..., 0] = True
    q = heads_of(x, 4)
    rec = recorded(lambda y: SDPA(*[heads_of(y, 4)] * 3, attn_mask=seen), x)
    truth = eager(q, q, seen=seen)
    for entry in (0, 1):
        agrees(rec.prompts[entry]["L0H1"], truth[entry, 1])


def test_grouped_heads_and_a_scale_of_their_own(x: Tensor) -> None:
    def call(y: Tensor) -> Tensor:
        q, k = heads_of(y, 4), heads_of(y[..., :16], 2)
        return SDPA(q, k, k, is_causal=True, scale=0.7, enable_gqa=True)

    rec = recorded(call, x)
    q, k = heads_of(x, 4), heads_of(x[..., :16], 2).repeat_interleave(2, 1)
    truth = eager(q, k, scale=0.7, seen=torch.ones(12, 12).tril().bool())
    for head in range(4):
        agrees(rec.prompts[1]["L0H" + str(head)], truth[1, head])
    assert rec["L0H0"].place.key_heads == 2


def test_causal_means_from_the_start_in_torch(x: Tensor) -> None:
    """Fewer queries than keys: torch counts both from 0."""
    rec = recorded(lambda y: SDPA(heads_of(y[:, :7], 4), *[heads_of(y, 4)] * 2, is_causal=True), x)
    q, k = heads_of(x[:, :7], 4), heads_of(x, 4)
    truth = eager(q, k, seen=torch.ones(7, 12).tril().bool())
    found = rec["L0H3"]
    np.testing.assert_allclose(found.rows(found.recorded), truth[0, 3].numpy(), atol=1e-5)


def test_values_of_another_width(x: Tensor) -> None:
    rec = recorded(lambda y: SDPA(*[heads_of(y, 4)] * 2, heads_of(y[..., :12], 4)), x)
    place = rec["L0H0"].place
    assert (place.dim, place.value_dim) == (8, 3)
    q = heads_of(x, 4)
    agrees(rec["L0H1"], eager(q, q)[0, 1])
    norms = heads_of(x[..., :12], 4)[0, 1].norm(dim=-1)
    np.testing.assert_allclose(rec["L0H1"].stored["value_norm"].values, norms.numpy(), rtol=1e-5)


def test_one_key_for_a_whole_batch(x: Tensor) -> None:
    """Keys are broadcast over the batch as torch does it."""
    shared = heads_of(x[:1, :5], 4)
    rec = recorded(lambda y: SDPA(heads_of(y, 4), shared, shared), x)
    truth = eager(heads_of(x, 4), shared)
    assert len(rec.prompts) == 2
    for entry in (0, 1):
        head = rec.prompts[entry]["L0H2"]
        np.testing.assert_allclose(np.asarray(head), truth[entry, 2].numpy(), atol=1e-5)


def looped(y: Tensor) -> Tensor:
    """One module, three attentions, each over what the last one gave."""
    for _ in range(3):
        y = SDPA(*[heads_of(y, 4)] * 3, is_causal=True).transpose(1, 2).flatten(-2)
    return y


def test_several_calls_of_one_module_are_several_layers(x: Tensor) -> None:
    rec = recorded(looped, x)
    assert rec.stacks == {"": (3, 4)}
    seen = torch.ones(12, 12).tril().bool()
    for layer in range(3):
        q = heads_of(x, 4)
        agrees(rec.prompts[1][layer, 2], eager(q, q, seen=seen)[1, 2])
        x = (eager(q, q, seen=seen) @ q).transpose(1, 2).flatten(-2)


def test_blocks_that_attend_twice_are_twice_as_many_layers(x: Tensor) -> None:
    """The second call of the first block is not mistaken for the first call of the second."""

    def twice(y: Tensor) -> Tensor:
        q = heads_of(y, 4)
        return y + (SDPA(q, q, q) - SDPA(q, q, -q, is_causal=True)).transpose(1, 2).flatten(-2)

    model = nn.Sequential(Calls(twice), Calls(twice))
    with torch.no_grad(), regard.record(model) as rec:
        model(x)
        between = model[0](x)
    assert rec.stacks == {"": (4, 4)}
    seen = torch.ones(12, 12).tril().bool()
    for layer, given, mask in ((0, x, None), (1, x, seen), (2, between, None), (3, between, seen)):
        q = heads_of(given, 4)
        agrees(rec.recording.prompts[1][layer, 3], eager(q, q, seen=mask)[1, 3], atol=1e-4)


def test_a_budget_counts_places_nobody_foresaw(x: Tensor) -> None:
    """Enough for the one module that was counted, and not for all three of its calls."""
    model, x = Calls(looped), torch.randn(1, 400, 32)
    with torch.no_grad(), regard.record(model, budget="900kB") as rec:
        model(x)
    assert [rec[layer, 0].exact for layer in range(3)] == [True, True, False]
    assert "did not fit the budget" in rec["L2H0"].why_not and rec.written_bytes < 900_000


def test_bf16_is_kept_to_the_bit(x: Tensor) -> None:
    half = x.bfloat16()
    rec = recorded(lambda y: SDPA(*[heads_of(y, 4)] * 3), half)
    name = next(n for n in rec.store.entries if n.startswith("P0/L0/q"))
    assert rec.store.entries[name].dtype == "BF16"
    np.testing.assert_array_equal(rec.store.array(name), heads_of(half, 4)[0].float().numpy())


def test_dropout_is_no_part_of_where_it_looks(x: Tensor) -> None:
    model = Calls(lambda y: SDPA(*[heads_of(y, 4)] * 3, dropout_p=0.5))
    torch.manual_seed(3)
    plain = model(x)
    torch.manual_seed(3)
    with torch.no_grad(), regard.record(model) as rec:
        assert torch.equal(model(x), plain)
    q = heads_of(x, 4)
    agrees(rec["L0H0"], eager(q, q)[0, 0])


def test_attend_in_a_module_under_no_name() -> None:
    """A call of the model that attends twice, with regard's function and with torch's."""

    class Both(nn.Module):
        def forward(self, y: Tensor) -> Tensor:
            q = heads_of(y, 4)
            return regard.attend(q, q, q).output + SDPA(q, q, q)

    y = torch.randn(1, 6, 32)
    model = Both()
    with torch.no_grad(), regard.record(model) as rec:
        model(y)
    assert rec.stacks == {"": (2, 4)}
    np.testing.assert_allclose(np.asarray(rec["L0H0"]), np.asarray(rec["L1H0"]), atol=1e-6)


def test_batches_that_do_not_divide_are_refused(x: Tensor) -> None:
    """Three windows cannot belong to two sequences alike."""

    def call(y: Tensor) -> Tensor:
        q = heads_of(y, 4)
        first = SDPA(q, q, q)
        three = torch.cat([q, q[:1]])
        SDPA(three, three, three)
        return first

    model = Calls(call)
    with (
        pytest.raises(InputError, match=r"3 batch entries, the model was given 2 sequences"),
        torch.no_grad(),
        regard.record(model),
    ):
        model(x)


def test_a_call_outside_the_model_is_not_heard(x: Tensor) -> None:
    q = heads_of(x, 4)
    model = Calls(lambda y: SDPA(*[heads_of(y, 4)] * 3))
    with torch.no_grad(), regard.record(model) as rec:
        SDPA(q, q, q)
        regard.attend(q, q, q)
        model(x)
        regard.attend(q, q, q)
    assert len(rec.recording.prompts) == 2 and rec.stacks == {"": (1, 4)}
