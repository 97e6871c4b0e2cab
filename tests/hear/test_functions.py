"""Attention functions of other packages are heard, and give what their own weights say.

flash-attn, xformers and Transformer Engine do not install without a GPU: `stand_ins` has functions
of their signatures. torch's varlen_attn computes on a GPU only; its signature is torch's own.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.nn.attention.varlen as varlen
from torch import Tensor, nn

import regard
from hear import stand_ins
from hear.stand_ins import (
    WEIGHTS,
    BlockDiagonalCausalMask,
    BlockDiagonalMask,
    DotProductAttention,
    LowerTriangularFromBottomRightMask,
    LowerTriangularMask,
    PagedBlockDiagonalPaddedKeysMask,
    flash_attn_func,
)
from regard.errors import InputError, RegardWarning
from regard.hear import functions
from regard.hear.packing import UnreadableError, read_by
from regard.recording import Recording

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


@pytest.fixture(autouse=True)
def packages() -> Iterator[None]:
    with stand_ins.installed():
        yield


class Layer(nn.Module):
    """Projections (B, L, 4, 8), with two heads of keys, around a function of (B, L, H, D)."""

    def __init__(self, attend: Attend) -> None:
        super().__init__()
        self.made = nn.Linear(32, 64)
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, 32)."""
        made = self.made(x).unflatten(-1, (8, 8))
        return self.attend(made[..., :4, :], made[..., 4:6, :], made[..., 6:, :]).flatten(-2)


def two(attend: Attend) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(Layer(attend), Layer(attend))


def flash(*args: Any, **kwargs: Any) -> Any:
    """As modules call it that import it within."""
    from flash_attn import flash_attn_func as function

    return function(*args, **kwargs)


@torch.no_grad()
def recorded(model: nn.Module, *inputs: Tensor) -> Recording:
    """The recording, whose output has the same bits."""
    plain = model(*inputs)
    WEIGHTS.clear()
    with regard.record(model) as rec:
        assert torch.equal(model(*inputs), plain)
    return rec.recording


def agrees(recording: Recording, sequences: int, layers: int = 2) -> None:
    """Weights kept by layer, then by sequence."""
    assert len(recording.prompts) == sequences and len(WEIGHTS) == layers * sequences
    for layer in range(layers):
        for number, prompt in enumerate(recording.prompts):
            right = WEIGHTS[layer * sequences + number]
            for head in range(len(right)):
                found = prompt[layer, head][:, :]
                np.testing.assert_allclose(found, right[head].numpy(), atol=2e-6)


X = torch.randn(2, 7, 32, generator=torch.Generator().manual_seed(1))
SLOPES = torch.tensor([0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize(
    "options",
    [{}, {"causal": True}, {"window_size": (2, 0)}, {"window_size": (3, 1)},
     {"softcap": 2.0, "causal": True}, {"softmax_scale": 0.7}, {"alibi_slopes": SLOPES},
     {"return_attn_probs": True}],
    ids=lambda options: next(iter(options), "plain"),
)  # fmt: skip
def test_flash(options: dict[str, Any]) -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        found = flash(q, k, v, **options)
        return found[0] if isinstance(found, tuple) else found

    agrees(recorded(two(attend), X), 2)


@pytest.mark.parametrize("held", ["global", "attribute", "class", "module"])
def test_whoever_holds_the_function(held: str) -> None:
    class Held(Layer):
        function: Any = staticmethod(flash_attn_func)

        def forward(self, x: Tensor) -> Tensor:
            made = self.made(x).unflatten(-1, (8, 8))
            function = {
                "global": flash_attn_func, "attribute": self.attend, "class": self.function,
                "module": sys.modules["flash_attn"].flash_attn_func,
            }[held]  # fmt: skip
            return function(made[..., :4, :], made[..., 4:6, :], made[..., 6:, :]).flatten(-2)

    before = flash_attn_func, sys.modules["flash_attn"].flash_attn_func
    agrees(recorded(nn.Sequential(Held(flash_attn_func)), X), 2, layers=1)
    assert before == (flash_attn_func, sys.modules["flash_attn"].flash_attn_func)
    assert not hasattr(flash_attn_func, "__wrapped__")


def test_two_who_listen_are_both_told() -> None:
    model, other = two(flash), nn.Sequential(Layer(flash))
    with torch.no_grad(), regard.record(model) as rec, regard.record(other) as also:
        model(X)
        other(X)
    assert rec.stacks == {"": (2, 4)} and also.stacks == {"": (1, 4)}


def test_a_step_that_is_monitored() -> None:
    model = two(partial(flash, causal=True))
    with regard.Monitor(model) as monitor:
        model(X).sum().backward()
        sample = monitor.step()
    assert sample is not None
    right = torch.stack(WEIGHTS[:2]).amax(-1).mean((0, 2))
    np.testing.assert_allclose(sample["peak"][0], right, atol=1e-5)


# ── one after the other ────────────────────────────────────────────────────────────────────────


class Packed(nn.Module):
    """Takes the padding out, as modules do that are written for flash attention."""

    def __init__(self, ours: bool = False, **options: Any) -> None:
        super().__init__()
        self.embed, self.options = nn.Embedding(50, 32), options
        attend = self.by_regard if ours else self.attend
        self.layers = nn.ModuleList(Layer(attend) for _ in range(2))
        self.starts = torch.zeros(1)

    def by_regard(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The same function of ours."""
        mask = regard.Causal() if self.options.get("causal") else None
        return regard.attend(q, k, v, mask=mask, cu_seqlens_q=self.starts).output

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(tokens, H, D)."""
        from flash_attn import flash_attn_varlen_func as function

        most = int(self.starts.diff().max())
        return function(q, k, v, self.starts, self.starts, most, most, **self.options)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Logits (tokens, 32)."""
        real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        self.starts = nn.functional.pad(real.sum(1).cumsum(0), (1, 0)).int()
        x = self.embed(input_ids[real.bool()])
        for layer in self.layers:
            x = x + layer(x)
        return x


IDS = torch.randint(3, 50, (3, 6), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("side", ["none", "right", "left"])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window_size": (1, 0)}], ids=str)
def test_a_batch_without_its_padding(side: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = Packed(**options)
    mask = torch.arange(6) < torch.tensor([[6], [2], [4]])
    given = {"none": None, "right": mask.int(), "left": mask.flip(1).int()}[side]
    found = recorded(model, IDS) if given is None else recorded(model, IDS, given)
    agrees(found, 3)
    lengths = [6, 6, 6] if side == "none" else [6, 2, 4]
    assert [len(prompt.tokens) for prompt in found.prompts] == lengths


@pytest.mark.parametrize("causal", [False, True])
@torch.no_grad()
def test_a_batch_that_regard_attends_without_its_padding(causal: bool) -> None:
    mask = (torch.arange(6) < torch.tensor([[6], [2], [4]])).int()
    torch.manual_seed(0)
    theirs = Packed(causal=causal)
    ours = Packed(ours=True, causal=causal)
    ours.load_state_dict(theirs.state_dict())
    theirs(IDS, mask)
    with regard.record(ours) as rec:
        ours(IDS, mask)
    agrees(rec.recording, 3)
    with regard.Monitor(ours, evaluation=True) as monitor:
        ours(IDS, mask)
        sample = monitor.step()
    right = torch.cat([one.amax(-1) for one in WEIGHTS[:3]], 1).mean(1)
    np.testing.assert_allclose(sample["peak"][0], right, atol=1e-5)


def test_packed_texts_are_one_sequence_that_is_kept_apart() -> None:
    torch.manual_seed(0)
    model = Packed(causal=True)
    starts = torch.tensor([0, 4, 5, 6], dtype=torch.int32)

    def of_one(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        from flash_attn import flash_attn_varlen_func as function

        return function(q[0], k[0], v[0], starts, starts, 4, 4, causal=True)[None]

    layer = Layer(of_one)
    found = recorded(layer, X[:1, :6])
    assert len(found.prompts) == 1
    whole = torch.block_diag(*(one[2] for one in WEIGHTS))
    np.testing.assert_allclose(found[0, 2][:, :], whole.numpy(), atol=2e-6)
    del model


def test_fewer_queries_than_keys_end_where_the_keys_end() -> None:
    of_q, of_k = torch.tensor([0, 2, 3]), torch.tensor([0, 5, 7])

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        from flash_attn import flash_attn_varlen_func as function

        where = (of_q, of_k, 2, 5)
        return function(
            q[0, :3], k[0], v[0], *where, causal=True, window_size=(2, -1), alibi_slopes=SLOPES
        )[None]

    found = recorded(Layer(attend), X[:1])
    whole = torch.block_diag(*(one[1] for one in WEIGHTS))
    np.testing.assert_allclose(found[0, 1][:, :], whole.numpy(), atol=2e-6)


# ── caches ─────────────────────────────────────────────────────────────────────────────────────


class Cached(nn.Module):
    """Writes on from a cache of its own: (2, room, 2, 8), or pages of four tokens."""

    def __init__(self, paged: bool, **options: Any) -> None:
        super().__init__()
        self.embed, self.made, self.options = nn.Embedding(50, 32), nn.Linear(32, 64), options
        room = (8, 4, 2, 8) if paged else (2, 16, 2, 8)
        self.keys, self.values = torch.full(room, 9.0), torch.full(room, 9.0)
        self.pages = torch.tensor([[5, 0, 3], [1, 7, 2]]) if paged else None
        self.lengths = torch.zeros(2, dtype=torch.int32)

    def forward(self, input_ids: Tensor) -> Tensor:
        """(B, L, 32)."""
        from flash_attn import flash_attn_with_kvcache as function

        made = self.made(self.embed(input_ids)).unflatten(-1, (8, 8))
        q, k, v = made[..., :4, :], made[..., 4:6, :], made[..., 6:, :]
        out = function(
            q, self.keys, self.values, k, v, cache_seqlens=self.lengths, block_table=self.pages,
            causal=True, **self.options,
        )  # fmt: skip
        self.lengths = self.lengths + input_ids.shape[1]
        return out.flatten(-2)


@pytest.mark.parametrize("paged", [False, True])
@torch.no_grad()
def test_a_cache(paged: bool) -> None:
    torch.manual_seed(0)
    model = Cached(paged)
    with regard.record(model) as rec:
        model(IDS[:2])
    agrees(rec.recording, 2, layers=1)


@torch.no_grad()
def test_rotation_inside_is_named_with_its_reason() -> None:
    model = nn.Sequential(Layer(flash), Layer(flash), Cached(False, rotary_cos=X))
    model[2].embed = nn.Identity()
    says = r"\* \(Cached\): queries are rotated inside flash_attn_with_kvcache"
    with pytest.warns(RegardWarning, match=says), regard.record(model) as rec:
        model(X)
    assert rec.unheard == rec.recording.not_recorded and len(rec.unheard) == 1


# ── xformers, torch, Transformer Engine ────────────────────────────────────────────────────────


def efficient(*args: Any, **kwargs: Any) -> Any:
    return sys.modules["xformers.ops"].memory_efficient_attention(*args, **kwargs)


@pytest.mark.parametrize(
    "bias",
    [None, LowerTriangularMask(), LowerTriangularFromBottomRightMask()],
    ids=lambda bias: type(bias).__name__,
)
def test_xformers(bias: Any) -> None:
    agrees(recorded(two(lambda q, k, v: efficient(q, k, v, bias)), X), 2)


@pytest.mark.parametrize("kind", [BlockDiagonalMask, BlockDiagonalCausalMask])
def test_xformers_in_blocks(kind: Any) -> None:
    bias = kind.from_seqlens([3, 4])
    found = recorded(Layer(lambda q, k, v: efficient(q, k, v, bias)), X[:1])
    whole = torch.block_diag(*(one[3] for one in WEIGHTS))
    np.testing.assert_allclose(found[0, 3][:, :], whole.numpy(), atol=2e-6)


@torch.no_grad()
def test_a_mask_that_is_not_known_is_a_reason() -> None:
    model = two(lambda q, k, v: efficient(q, k, v, PagedBlockDiagonalPaddedKeysMask()))
    said = r"no attention was heard: .*2 of them: its attn_bias is a PagedBlockDiagonalPaddedKeysM"
    with pytest.raises(InputError, match=said), regard.record(model):
        model(X)


def test_one_head_without_its_axis() -> None:
    model = nn.Sequential(nn.Linear(32, 8))
    model.forward = lambda x: efficient(*[model[0](x)] * 3)  # type: ignore[method-assign]
    agrees(recorded(model, X), 2, layers=1)


def test_varlen_of_torch() -> None:
    real = inspect.signature(varlen.varlen_attn)

    def computed(*args: Any, **kwargs: Any) -> Tensor:
        given = real.bind(*args, **kwargs).arguments
        q, k, v, of_q, of_k = (given[n] for n in ("query", "key", "value", "cu_seq_q", "cu_seq_k"))
        window = given.get("window_size", (-1, -1))
        return stand_ins.flash_attn_varlen_func(q, k, v, of_q, of_k, 0, 0, window_size=window)

    starts = torch.tensor([0, 3, 7], dtype=torch.int32)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        more = {"window_size": (-1, 0), "enable_gqa": True}
        return varlen.varlen_attn(q[0], k[0], v[0], starts, starts, 4, 4, **more)[None]

    with patch.object(varlen, "varlen_attn", computed):
        found = recorded(Layer(attend), X[:1])
    whole = torch.block_diag(*(one[0] for one in WEIGHTS))
    np.testing.assert_allclose(found[0, 0][:, :], whole.numpy(), atol=2e-6)


def test_the_reader_of_varlen_takes_what_torch_takes() -> None:
    ours = inspect.signature(functions.varlen_attn).parameters
    assert set(inspect.signature(varlen.varlen_attn).parameters) <= set(ours)


@pytest.mark.parametrize("layout", ["sbhd", "bshd"])
@pytest.mark.parametrize("kind", ["no_mask", "causal", "causal_bottom_right"])
def test_transformer_engine(layout: str, kind: str) -> None:
    class Engine(Layer):
        def __init__(self) -> None:
            super().__init__(DotProductAttention(4, 8, layout, kind))  # type: ignore[arg-type]

        def forward(self, x: Tensor) -> Tensor:
            made = self.made(x).unflatten(-1, (8, 8))
            made = made.transpose(0, 1) if layout == "sbhd" else made
            out = self.attend(made[..., :4, :], made[..., 4:6, :], made[..., 6:, :])
            return out.transpose(0, 1) if layout == "sbhd" else out

    torch.manual_seed(0)
    agrees(recorded(nn.Sequential(Engine(), Engine()), X), 2)


def test_transformer_engine_packed() -> None:
    starts = torch.tensor([0, 3, 7], dtype=torch.int32)
    core = DotProductAttention(4, 8, "thd", "padding_causal")

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        found = core(q[0], k[0], v[0], cu_seqlens_q=starts, cu_seqlens_kv=starts)
        return found.unflatten(-1, (4, 8))[None]

    model = Layer(attend)
    model.core = core
    found = recorded(model, X[:1])
    whole = torch.block_diag(*(one[0] for one in WEIGHTS))
    np.testing.assert_allclose(found[0, 0][:, :], whole.numpy(), atol=2e-6)


def test_transformer_engine_pads_by_lengths() -> None:
    lengths = torch.tensor([7, 4])
    starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    core = DotProductAttention(4, 8, "bshd", "padding_causal")
    found = torch.zeros(2, 7, 32)
    q = torch.randn(2, 7, 4, 8)
    read = functions.dot_product_attention(
        core, found, q, q, q, cu_seqlens_q=starts, cu_seqlens_kv=starts
    )
    assert [one.tolist() for one in read.mask.conditions()[1].arrays()] == [[7, 4], [7, 4]]


@pytest.mark.parametrize(
    ("attributes", "given", "said"),
    [
        ({}, {"attn_mask_type": "padding"}, "without attention_mask"),
        ({"softmax_type": "off-by-one"}, {}, "softmax_type='off-by-one'"),
        ({}, {"attn_mask_type": "padding_causal_bottom_right"}, "fewer queries than keys"),
        ({}, {"pad_between_seqs": True}, "pad_between_seqs="),
        ({}, {"qkv_format": "bs3hd"}, "qkv_format='bs3hd'"),
        ({}, {"core_attention_bias_type": "alibi"}, "ALiBi"),
    ],
    ids=lambda value: str(next(iter(value), "")) if isinstance(value, dict) else "",
)
def test_what_cannot_be_read_of_transformer_engine_is_a_reason(
    attributes: dict[str, Any], given: dict[str, Any], said: str
) -> None:
    core = DotProductAttention(4, 8, "bshd")
    vars(core).update(attributes)
    q, k = torch.randn(2, 3, 4, 8), torch.randn(2, 7, 4, 8)
    with pytest.raises(UnreadableError, match=said):
        functions.dot_product_attention(core, torch.zeros(2, 3, 32), q, k, k, **given)


EVERY = [(home, name) for home, readers in functions.FUNCTIONS.items() for name in readers]


@pytest.mark.parametrize(("home", "name"), EVERY)
def test_arguments_of_a_newer_version_never_end_the_call(home: str, name: str) -> None:
    """They are reasons, by name and by position: a reader that drops one would tell untruths."""
    reader = functions.FUNCTIONS[home][name]
    q, starts = torch.randn(6, 4, 8), torch.tensor([0, 2, 6])
    given: list[Any] = [q[None]] * 3
    if "packed" in name:
        given = (
            [torch.randn(1, 6, 3, 4, 8)] if "qkv" in name else [q[None], torch.randn(1, 6, 2, 4, 8)]
        )
    if "varlen" in name:
        many = 2 if "qkv" in name else 4
        given = [one[0] for one in given] + [starts] * (many // 2) + [4] * (many // 2)
    for more, options in (([torch.ones(2)] * 40, {}), ([], {"brand_new": 1})):
        with pytest.raises(UnreadableError):
            read_by(reader, q, *given, *more, **options)
