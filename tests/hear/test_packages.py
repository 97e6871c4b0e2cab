"""Attention functions of other packages are heard, and give what their own weights say.

flash-attn, xformers and Transformer Engine do not install without a GPU: `stand_ins` has functions
of their signatures. torch's varlen_attn computes on a GPU only; its signature is torch's own.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.nn.attention.varlen as varlen
from torch import Tensor, nn

import regard
from hear import stand_ins
from hear.stand_ins import PACKAGES, WEIGHTS, DotProductAttention, flash_attn_func
from regard.errors import InputError, RegardWarning
from regard.recording import Recording


@pytest.fixture(autouse=True)
def packages() -> Iterator[None]:
    with stand_ins.installed():
        yield


def of(home: str, name: str) -> Callable[..., Any]:
    """A package's function, as modules call it that import it within."""
    return lambda *args, **kwargs: getattr(sys.modules[home], name)(*args, **kwargs)


flash = of("flash_attn", "flash_attn_func")
flash_varlen = of("flash_attn", "flash_attn_varlen_func")
efficient = of("xformers.ops", "memory_efficient_attention")


class Layer(nn.Module):
    """Projections (B, L, 4, 8), with two heads of keys, around a function of (B, L, H, D)."""

    def __init__(self, attend: Callable[..., Tensor], *parts: nn.Module) -> None:
        super().__init__()
        self.made, self.attend = nn.Linear(32, 64), attend
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, 32)."""
        made = self.made(x).unflatten(-1, (8, 8))
        return self.attend(made[..., :4, :], made[..., 4:6, :], made[..., 6:, :]).flatten(-2)


def two(attend: Callable[..., Tensor]) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(Layer(attend), Layer(attend))


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
            for head, right in enumerate(WEIGHTS[layer * sequences + number]):
                np.testing.assert_allclose(prompt[layer, head][:, :], right.numpy(), atol=2e-6)


X = torch.randn(2, 7, 32, generator=torch.Generator().manual_seed(1))
SLOPES = torch.tensor([0.1, 0.2, 0.3, 0.4])


def wide(*tensors: Tensor) -> Iterator[Tensor]:
    """Heads of keys, one for each of queries."""
    return (t.repeat_interleave(2, 2) for t in tensors)


# name → function of q (B, L, 4, 8), k and v (B, L, 2, 8)
WAYS: dict[str, Callable[..., Tensor]] = {
    "flash": flash,
    "causal": partial(flash, causal=True),
    "a window": partial(flash, window_size=(2, 0)),
    "a window ahead": partial(flash, window_size=(3, 1)),
    "softcap": partial(flash, softcap=2.0, causal=True),
    "scale": partial(flash, softmax_scale=0.7),
    "slopes": partial(flash, alibi_slopes=SLOPES),
    "slopes of all": partial(flash, alibi_slopes=SLOPES.expand(2, 4)),
    "with more": lambda *qkv: flash(*qkv, return_attn_probs=True)[0],
    "qkvpacked": lambda q, *kv: of("flash_attn", "flash_attn_qkvpacked_func")(
        torch.stack([q, *wide(*kv)], 2), causal=True),
    "kvpacked": lambda q, *kv: of("flash_attn", "flash_attn_kvpacked_func")(
        q, torch.stack(kv, 2), softmax_scale=0.7),
    "flash 3": lambda *qkv: of("flash_attn_interface", "flash_attn_func")(*qkv, 0.7, True),
    "xformers": efficient,
    "from the start": lambda *qkv: efficient(*qkv, stand_ins.LowerTriangularMask()),
    "to the end": lambda *qkv: efficient(*qkv, stand_ins.LowerTriangularFromBottomRightMask()),
    "local": lambda *qkv: efficient(*qkv, stand_ins.LocalAttentionFromBottomRightMask(2, 1)),
    "biased": lambda *qkv: efficient(*qkv, torch.linspace(-1, 1, 2 * 4 * 49).view(2, 4, 7, 7)),
    "fewer queries from the start": lambda q, k, v: efficient(
        q[:, :4], k, v, stand_ins.LowerTriangularMask()),
    "fewer queries to the end": lambda q, k, v: flash(q[:, :4], k, v, causal=True),
}  # fmt: skip


@pytest.mark.parametrize("name", WAYS)
def test_weights_and_outputs(name: str) -> None:
    sequential = name.startswith("fewer")
    model = nn.Sequential(Layer(WAYS[name])) if sequential else two(WAYS[name])
    recording = recorded(model, X)
    if sequential:  # rows of a prompt stand at its end
        head = recording.prompts[1][0, 2]
        np.testing.assert_allclose(head.rows(head.recorded), WEIGHTS[1][2].numpy(), atol=2e-6)
    else:
        agrees(recording, 2)


def test_one_head_without_its_axis() -> None:
    model = nn.Sequential(nn.Linear(32, 8))
    model.forward = lambda x: efficient(*[model[0](x)] * 3)
    agrees(recorded(model, X), 2, layers=1)


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


def test_it_is_the_packages_own_again_for_all_who_imported_it_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    package, late, real = sys.modules["flash_attn"], ModuleType("late"), flash_attn_func
    model, other = Layer(real), Layer(real)
    first, second = regard.record(model), regard.record(other)
    with first:
        model(X)
        second.__enter__()
        copied = copy.deepcopy(model)
        assert vars(copied)["attend"] is vars(model)["attend"] is real
        late.attend = package.flash_attn_func
        monkeypatch.setitem(sys.modules, "late", late)
    other(X)
    second.__exit__(None, None, None)
    assert first.stacks == second.stacks == {"": (1, 4)}
    assert package.flash_attn_func is real is late.attend


def test_a_step_that_is_monitored() -> None:
    model = two(partial(flash, causal=True))
    with regard.Monitor(model) as monitor:
        model(X).sum().backward()
        sample = monitor.step()
    assert sample is not None
    right = torch.stack(WEIGHTS[:2]).amax(-1).mean((0, 2))
    np.testing.assert_allclose(sample["peak"][0], right, atol=1e-5)


STARTS = torch.tensor([0, 3, 7], dtype=torch.int32)
ENGINE = DotProductAttention(4, 8, "thd", "padding_causal")


# name → function of q (7, 4, 8), k and v (7, 2, 8): two sequences
PACKED: dict[str, Callable[..., Tensor]] = {
    "flash": lambda *qkv: flash_varlen(*qkv, STARTS, STARTS, 4, 4, causal=True),
    "fewer queries": lambda q, *kv: flash_varlen(
        q[:3], *kv, torch.tensor([0, 2, 3]), torch.tensor([0, 5, 7]), 2, 5, causal=True,
        window_size=(2, -1), alibi_slopes=SLOPES),
    "qkvpacked": lambda q, *kv: of("flash_attn", "flash_attn_varlen_qkvpacked_func")(
        torch.stack([q, *(t.repeat_interleave(2, 1) for t in kv)], 1), STARTS, 4, causal=True),
    "kvpacked": lambda q, *kv: of("flash_attn", "flash_attn_varlen_kvpacked_func")(
        q, torch.stack(kv, 1), STARTS, STARTS, 4, 4, window_size=(1, 1)),
    "pages": lambda q, *kv: flash_varlen(
        q, *(torch.stack([t[4:], t[:3], t[3:6]]) for t in kv), STARTS, STARTS, 4, 4,
        block_table=torch.tensor([[1, 0], [2, 0]], dtype=torch.int32)),
    "torch": lambda *qkv: varlen.varlen_attn(
        *qkv, STARTS, STARTS, 4, 4, window_size=(-1, 0), enable_gqa=True),
    "Transformer Engine": lambda *qkv: ENGINE(
        *qkv, cu_seqlens_q=STARTS, cu_seqlens_kv=STARTS).unflatten(-1, (4, 8)),
    **{
        kind: lambda *qkv, kind=kind: efficient(
            *(t[None] for t in qkv), getattr(stand_ins, kind)(STARTS.tolist(), STARTS.tolist()))[0]
        for kind in ("BlockDiagonalMask", "BlockDiagonalCausalMask",
                     "BlockDiagonalCausalFromBottomRightMask")
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PACKED)
def test_packed_texts_are_one_sequence_that_is_kept_apart(name: str) -> None:
    signature = inspect.signature(varlen.varlen_attn)

    def of_torch(*args: Any, **kwargs: Any) -> Tensor:
        given = signature.bind(*args, **kwargs).arguments
        parts = (given[n] for n in ("query", "key", "value", "cu_seq_q", "cu_seq_k"))
        return stand_ins.flash_attn_varlen_func(*parts, 0, 0, window_size=given["window_size"])

    layer = Layer(lambda q, k, v: PACKED[name](q[0], k[0], v[0])[None], ENGINE)
    with patch.object(varlen, "varlen_attn", of_torch):
        recording = recorded(layer, X[:1])
    assert len(recording.prompts) == 1
    for head in range(4):
        whole = torch.block_diag(*(weights[head] for weights in WEIGHTS))
        np.testing.assert_allclose(recording[0, head][:, :], whole.numpy(), atol=2e-6)


class Packed(nn.Module):
    """Takes the padding out, as modules do that are written for flash attention."""

    def __init__(self, ours: bool = False, **options: Any) -> None:
        super().__init__()
        self.embed, self.options = nn.Embedding(50, 32), options
        attend = self.by_regard if ours else self.by_flash
        self.layers = nn.ModuleList(Layer(attend) for _ in range(2))
        self.starts = torch.zeros(1)

    def by_regard(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(tokens, H, D)."""
        mask = regard.Causal() if self.options.get("causal") else None
        return regard.attend(q, k, v, mask=mask, cu_seqlens_q=self.starts).output

    def by_flash(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The same function of flash-attn's."""
        most = int(self.starts.diff().max())
        return flash_varlen(q, k, v, self.starts, self.starts, most, most, **self.options)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Logits (tokens, 32)."""
        real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        self.starts = nn.functional.pad(real.sum(1).cumsum(0), (1, 0)).int()
        x = self.embed(input_ids[real.bool()])
        for layer in self.layers:
            x = x + layer(x)
        return x


IDS = torch.randint(3, 50, (3, 6), generator=torch.Generator().manual_seed(2))
RIGHT = (torch.arange(6) < torch.tensor([[6], [2], [4]])).int()


@pytest.mark.parametrize("side", ["none", "right", "left"])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window_size": (1, 0)}], ids=str)
def test_a_batch_without_its_padding(side: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    given = {"none": (), "right": (RIGHT,), "left": (RIGHT.flip(1),)}[side]
    recording = recorded(Packed(**options), IDS, *given)
    agrees(recording, 3)
    lengths = [6, 6, 6] if side == "none" else [6, 2, 4]
    assert [len(prompt.tokens) for prompt in recording.prompts] == lengths


@pytest.mark.parametrize("causal", [False, True])
@torch.no_grad()
def test_a_batch_that_regard_attends_without_its_padding(causal: bool) -> None:
    torch.manual_seed(0)
    theirs, ours = Packed(causal=causal), Packed(ours=True, causal=causal)
    ours.load_state_dict(theirs.state_dict())
    theirs(IDS, RIGHT)
    with regard.record(ours) as rec, regard.Monitor(ours, evaluation=True) as monitor:
        ours(IDS, RIGHT)
        sample = monitor.step()
    agrees(rec.recording, 3)
    right = torch.cat([weights.amax(-1) for weights in WEIGHTS[:3]], 1).mean(1)
    np.testing.assert_allclose(sample["peak"][0], right, atol=1e-5)


class Cached(nn.Module):
    """Writes on from a cache of its own: (2, room, 2, 8), or pages of four tokens."""

    def __init__(self, paged: bool = False, **options: Any) -> None:
        super().__init__()
        self.embed, self.made, self.options = nn.Embedding(50, 32), nn.Linear(32, 64), options
        room = (8, 4, 2, 8) if paged else (2, 16, 2, 8)
        self.keys, self.values = torch.full(room, 9.0), torch.full(room, 9.0)
        self.pages = torch.tensor([[5, 0, 3], [1, 7, 2]]) if paged else None

    def forward(self, input_ids: Tensor) -> Tensor:
        """(B, L, 32)."""
        made = self.made(self.embed(input_ids)).unflatten(-1, (8, 8))
        q, k, v = made[..., :4, :], made[..., 4:6, :], made[..., 6:, :]
        return of("flash_attn", "flash_attn_with_kvcache")(
            q, self.keys, self.values, k, v, cache_seqlens=torch.zeros(2, dtype=torch.int32),
            block_table=self.pages, **self.options,
        ).flatten(-2)  # fmt: skip


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("options", [{"causal": True}, {"window_size": (2, 0)}], ids=str)
def test_a_cache(paged: bool, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    agrees(recorded(Cached(paged, **options), IDS[:2]), 2, layers=1)


def engine(layout: str, kind: str, **given: Any) -> Layer:
    """A layer around it, whose attributes are the capital ones."""
    core = DotProductAttention(4, 8, layout, kind)
    turn = (lambda t: t.transpose(0, 1)) if layout == "sbhd" else (lambda t: t)
    return Layer(lambda *qkv: turn(core(*map(turn, qkv), **given)).unflatten(-1, (4, 8)), core)


@pytest.mark.parametrize("layout", ["sbhd", "bshd"])
@pytest.mark.parametrize("kind", ["no_mask", "causal", "causal_bottom_right"])
def test_transformer_engine(layout: str, kind: str) -> None:
    torch.manual_seed(0)
    agrees(recorded(nn.Sequential(engine(layout, kind), engine(layout, kind)), X), 2)


def test_transformer_engine_pads_by_lengths() -> None:
    starts = torch.tensor([0, 7, 11])
    model = engine("bshd", "padding_causal", cu_seqlens_q=starts, cu_seqlens_kv=starts)
    agrees(recorded(model, X), 2, layers=1)


def of_engine(attributes: dict[str, Any] | None = None, **given: Any) -> Layer:
    """Fewer queries than keys."""
    layer = engine("bshd", "causal", **given)
    vars(layer.parts[0]).update(attributes or {})
    attend = layer.attend
    layer.attend = lambda q, k, v: attend(q[:, :3], k, v)
    return layer


REASONS: dict[str, tuple[nn.Module, str]] = {
    "rotation": (Cached(rotary_cos=X), "queries are rotated inside flash_attn_with_kvcache"),
    "slopes": (
        Layer(partial(flash, alibi_slopes=torch.rand(2, 4))),
        "each sequence has slopes of its own"),
    "an unknown mask": (
        Layer(lambda *qkv: efficient(*qkv, stand_ins.PagedBlockDiagonalPaddedKeysMask())),
        "its attn_bias is a PagedBlockDiagonalPaddedKeysMask"),
    "padding": (of_engine(attn_mask_type="padding"), "a padding mask without attention_mask"),
    "softmax": (of_engine({"softmax_type": "off-by-one"}), "softmax_type='off-by-one'"),
    "to the end": (
        of_engine(attn_mask_type="padding_causal_bottom_right"),
        "attn_mask_type='padding_causal_bottom_right' over fewer queries than keys"),
    "between": (of_engine(pad_between_seqs=True), "it was called with pad_between_seqs="),
    "layout": (of_engine(qkv_format="bs3hd"), "qkv_format='bs3hd'"),
    "ALiBi": (of_engine(core_attention_bias_type="alibi"), "ALiBi"),
}  # fmt: skip


@pytest.mark.parametrize("name", REASONS)
@torch.no_grad()
def test_what_cannot_be_read_is_named_with_its_reason(name: str) -> None:
    odd, says = REASONS[name]
    with pytest.raises(InputError, match=f"no attention was heard: .*: {says}"), regard.record(odd):
        odd(IDS[:2] if isinstance(odd, Cached) else X)
    model = nn.ModuleList([Layer(flash), odd])
    model.forward = lambda: [model[0](X), odd(IDS[:2] if isinstance(odd, Cached) else X)]
    with pytest.warns(RegardWarning, match=says), regard.record(model) as rec:
        model()
    assert len(rec.unheard) == 1 and says in rec.unheard[0]


EVERY = [
    (home, name)
    for home, functions in (PACKAGES | {"torch.nn.attention.varlen": {"varlen_attn": None}}).items()
    for name in functions
]


@pytest.mark.parametrize(("home", "name"), EVERY)
@torch.no_grad()
def test_arguments_of_a_newer_version_never_end_the_call(home: str, name: str) -> None:
    """They are reasons, by name and by position: a reader that drops one would tell untruths."""
    q, starts = torch.randn(6, 4, 8), torch.tensor([0, 2, 6])
    given: list[Any] = [q[None]] * 3
    if "packed" in name:
        kv = torch.randn(1, 6, 3 if "qkv" in name else 2, 4, 8)
        given = [kv] if "qkv" in name else [q[None], kv]
    if "varlen" in name:
        count = 1 if "qkv" in name else 2
        given = [each[0] for each in given] + [starts] * count + [4] * count
    package, says = sys.modules[home], "its arguments are not those|it was called with"
    for more, options in (([torch.ones(2)] * 40, {}), ([], {"brand_new": 1})):
        model = Layer(lambda *_, m=more, o=options: getattr(package, name)(*given, *m, **o))
        newer = patch.object(package, name, lambda *args, **kwargs: q)
        with newer, pytest.raises(InputError, match=says), regard.record(model):
            model(X)
