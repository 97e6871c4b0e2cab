"""What attends beside what is recorded is recorded too, or named."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, library, nn
from typer.testing import CliRunner

import regard
from huggingface.zoo import BLIND, FAMILIES, build, inputs_of
from recorder.models import Torch, tiny, tokens
from regard.cli.main import app
from regard.errors import InputError, RegardWarning
from regard.study import make_report

X = torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(0))


@contextmanager
def in_silence() -> Iterator[None]:
    """Any warning of ours is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RegardWarning)
        yield


def heads_of(x: Tensor) -> Tensor:
    return x.unflatten(-1, (4, -1)).transpose(-2, -3)


def joined(x: Tensor) -> Tensor:
    return x.transpose(-2, -3).flatten(-2)


class ByHand(nn.Module):
    """Attention as a textbook writes it, under another name."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D)."""
        q = heads_of(x)
        weights = F.dropout(torch.softmax(q @ q.mT / 8**0.5, -1), 0.1, False)
        return joined(torch.matmul(weights, q))


class ByModules(ByHand):
    """The same with torch's layer for the softmax, and an einsum."""

    def __init__(self) -> None:
        super().__init__()
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D)."""
        q = heads_of(x)
        weights = self.softmax(torch.einsum("bhqd,bhkd->bhqk", q, q))
        return joined(torch.einsum("bhqk,bhkd->bhqd", weights, q))


class OwnAttention(nn.Module):
    """Known by its name alone."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D)."""
        return x.cumsum(-2)


class Projecting(nn.Module):
    """Known by its layers: another name, and no softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(32, 32) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D), by linear attention."""
        return self.q_proj(x) @ (self.k_proj(x).mT @ self.v_proj(x))


@library.custom_op("regard_tests::flash_attn_fwd", mutates_args=())
def flash(q: Tensor) -> Tensor:
    """An operator such as packages of kernels bring."""
    return q + 1


flash.register_autograd(lambda context, grad: grad)


class Flash(nn.Module):
    """A kernel of somebody's."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D)."""
        return flash(x)


class Kernel(nn.Module):
    """One of torch's kernels, without its function."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D)."""
        q = heads_of(x)
        return joined(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, q, q)[0])


class Both(Torch):
    """Two attentions, of which torch's function computes one."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D)."""
        return super().forward(x) + ByHand.forward(self, x)  # type: ignore[arg-type]


class BySums(nn.Module):
    """exp, divided by its sum."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D)."""
        weights = torch.exp(x @ x.mT / 32)
        return (weights / weights.sum(-1, keepdim=True)) @ x


class ByLogs(nn.Module):
    """exp of the logarithm of a softmax."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D)."""
        return F.log_softmax(x @ x.mT / 32, -1).exp() @ x


class Reshaped(nn.Module):
    """Heads and batch in one axis, weights in single precision, another axis in front."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D)."""
        q = heads_of(x)
        weights = F.softmax(q @ q.mT, -1, dtype=torch.float32).type_as(x)
        return joined(torch.bmm(weights.flatten(0, 1), q.flatten(0, 1)).unflatten(0, q.shape[:2]))


class WithSink(nn.Module):
    """A column for the sink, which is dropped after the softmax."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D)."""
        return F.pad(x @ x.mT / 32, (0, 1)).softmax(-1)[..., :-1] @ x


OTHERS = (
    ByHand, ByModules, BySums, ByLogs, Reshaped, WithSink, OwnAttention, Projecting, Flash, Kernel,
    Both,
)  # fmt: skip


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.__name__)
@torch.no_grad()
def test_other_attention_beside_what_is_recorded_is_named(kind: Any) -> None:
    model = nn.Sequential(Torch(), kind(), Torch(), kind())
    with pytest.warns(RegardWarning) as told, regard.record(model) as rec:
        model(X)
    name = f"* ({kind.__name__}), 2 of them"
    said = [str(one.message) for one in told if issubclass(one.category, RegardWarning)]
    assert len(said) == 1 and f"not recorded, although they ran: {name}" in said[0]
    assert rec.recording.not_recorded == (name,)
    assert "observed: * (Torch)" in said[0] or kind is Both
    assert said[0].endswith("use one of them, or pass q and k to regard.replay")
    assert rec["L0H1"].place.name == "0"  # and the others are there


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.__name__)
def test_other_attention_beside_what_is_monitored_is_named_once(kind: Any) -> None:
    model = nn.Sequential(nn.Linear(32, 32), Torch(), kind(), Torch())
    with regard.Monitor(model) as monitor:
        with torch.no_grad():
            model(X)  # not counted, so nothing can be missing from it
        model(X).sum().backward()
        with pytest.warns(RegardWarning, match=rf"not measured, .*: \* \({kind.__name__}\)"):
            monitor.step()
        assert monitor.unheard == (f"* ({kind.__name__})",)
        with in_silence():
            model(X).sum().backward()
            assert monitor.step() is not None


@torch.no_grad()
def test_nothing_but_other_attention_is_named_where_it_is_refused() -> None:
    model = nn.Sequential(ByHand())
    with (
        in_silence(),
        pytest.raises(
            InputError, match=r"no attention was heard: Sequential ran, with \* \(ByHand"
        ),
        regard.record(model),
    ):
        model(X)


@torch.no_grad()
def test_torchscript_is_named() -> None:
    model = nn.Sequential(Torch(), torch.jit.trace(MyAttention(), X), torch.jit.trace(Torch(), X))
    with pytest.warns(RegardWarning, match="not recorded"), regard.record(model) as rec:
        model(X)
    assert rec.unheard == ("* (TopLevelTracedModule), 2 of them",)


@torch.no_grad()
def test_an_exported_model_is_heard() -> None:
    model = Torch().eval()
    exported = torch.export.export(model, (X,)).module()
    recordings = []
    for one in (model, exported):
        with in_silence(), regard.record(one) as rec:
            one(X)
        recordings.append(rec["L0H1"][:, :])
    np.testing.assert_array_equal(*recordings)


@torch.no_grad()
def test_a_compiled_model_is_named_as_it_is_written() -> None:
    model = torch.compile(nn.Sequential(Torch(), ByHand()), backend="eager")
    with pytest.warns(RegardWarning, match=r"ran: \* \(ByHand\)"), regard.record(model) as rec:
        model(X)
    assert rec.unheard == ("* (ByHand)",)


@torch.no_grad()
def test_the_file_the_terminal_and_the_report_say_so(tmp_path: Path) -> None:
    model, path = nn.Sequential(Torch(), ByHand()), tmp_path / "run.regard"
    with pytest.warns(RegardWarning), regard.record(model, path):
        model(torch.randn(1, 20, 32))
    said = "not recorded: * (ByHand)"
    shown = CliRunner().invoke(app, ["show", str(path)])
    assert shown.exit_code == 0 and said in shown.output
    assert said in make_report(regard.open(path)).doubts
    assert said in CliRunner().invoke(app, ["report", str(path)]).output


# ── no false word ────────────────────────────────────────────────────────────────────────────


class MyAttention(nn.Module):
    """Around an attention that is heard, with parts that are called alike."""

    class AttentionNorm(nn.LayerNorm):
        """No attention."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inner = self.AttentionNorm(32), Torch()

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D)."""
        return self.inner(self.norm(x))


class Classifies(nn.Module):
    """A softmax over classes, and gates over experts: neither looks at tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.gate, self.head = MyAttention(), nn.Linear(32, 3), nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D)."""
        x = self.body(x)
        gates = self.gate(x).softmax(-1)
        x = x / x.exp().sum(-1, keepdim=True)
        mixed = sum(gates[..., n, None] * x for n in range(3))
        return (self.head(mixed[:, 0]).softmax(-1) @ self.head.weight).sum()


@torch.no_grad()
def test_wrappers_and_other_softmaxes_are_not_named() -> None:
    for model in (Classifies(), MyAttention(), nn.Sequential(MyAttention(), MyAttention())):
        with in_silence(), regard.record(model) as rec:
            model(X)
        assert rec.recording.not_recorded == ()


@pytest.mark.parametrize("implementation", ["dense", "tiled"])
@torch.no_grad()
def test_our_own_softmax_is_not_named(implementation: str) -> None:
    class Ours(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            q = heads_of(x)
            return regard.attend(q, q, q, implementation=implementation).output

    model = Ours()
    with in_silence(), regard.record(model):
        model(X)


@torch.no_grad()
def test_layers_that_were_not_asked_for_are_not_named() -> None:
    model = tiny("llama")
    with in_silence(), regard.record(model, layers=[1]):
        model(tokens(8))


@pytest.mark.parametrize("name", ["llama", "bert", "t5", "vit", "swin", "clip", "whisper", "gpt2"])
@torch.no_grad()
def test_no_family_that_is_recorded_is_named(name: str) -> None:
    model = build(FAMILIES[name])
    with in_silence(), regard.record(model) as rec:
        model(**inputs_of(FAMILIES[name].kind))
    assert rec.recording.not_recorded == ()


# ── both ways at once ────────────────────────────────────────────────────────────────────────


class Beside(nn.Module):
    """A model of transformers and an attention of torch's function."""

    def __init__(self, implementation: str) -> None:
        super().__init__()
        self.words, self.top = tiny("bert"), Torch()
        self.words.set_attn_implementation(implementation)

    def forward(self, input_ids: Tensor) -> Tensor:
        """(B, L)."""
        return self.top(self.words(input_ids=input_ids).last_hidden_state)


@pytest.mark.parametrize("implementation", ["eager", "sdpa", "regard"])
@torch.no_grad()
def test_transformers_and_torch_are_both_heard_and_each_call_once(implementation: str) -> None:
    model, ids = Beside(implementation), tokens(7, batch=2)
    plain = model(ids)
    with in_silence(), regard.record(model) as rec:
        torch.testing.assert_close(model(ids), plain)
    assert model.words.config._attn_implementation == implementation
    assert rec.stacks == {"": (2, 4), "top": (1, 4)}
    model.words.set_attn_implementation("eager")
    truth = model.words(input_ids=ids, output_attentions=True)
    q, k, _ = model.top.qkv(truth.last_hidden_state).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
    scores = (q @ k.mT / 8**0.5).masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf)
    for number, prompt in enumerate(rec.recording.prompts):
        for layer, weights in enumerate(truth.attentions):
            found = prompt[f"L{layer}H3"][:, :]
            np.testing.assert_allclose(found, weights[number, 3].numpy(), atol=1e-5)
        wanted = scores.softmax(-1)[number, 2].numpy()
        np.testing.assert_allclose(prompt["top.L0H2"][:, :], wanted, atol=1e-5)


@torch.no_grad()
def test_a_part_of_a_model_of_transformers_that_calls_torch_is_heard() -> None:
    """SigLIP pools its pictures by torch's own layer, whose query is no token."""
    model = build(FAMILIES["siglip"])
    inputs = inputs_of(FAMILIES["siglip"].kind)
    with in_silence(), regard.record(model) as rec:
        model(**inputs)
    place = next(one for one in rec.places.values() if one.name.endswith("head.attention"))
    assert place.kind == "cross" and place.rows == (0, 1)


@torch.no_grad()
def test_a_deaf_family_beside_a_family_that_is_heard_is_named() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heard, self.deaf = tiny("bert"), build(BLIND["deberta-v2"])

        def forward(self, input_ids: Tensor) -> Any:
            self.heard(input_ids=input_ids)
            return self.deaf(input_ids=input_ids)

    model = Pair()
    with (
        pytest.warns(RegardWarning, match=r"deaf\.\S+ \(DebertaV2Attention\).*deberta-v2 does not"),
        regard.record(model) as rec,
    ):
        model(tokens(7, batch=2).clamp(max=39))
    assert rec.stacks == {"": (2, 4)} and len(rec.recording.not_recorded) == 1


@pytest.mark.parametrize("mask", [False, True])
@torch.no_grad()
def test_the_fast_path_of_torchs_encoder_is_heard(mask: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    absent = torch.arange(6).expand(2, 6) >= torch.tensor([[6], [4]]) if mask else None
    plain = model(X, src_key_padding_mask=absent)
    with in_silence(), regard.record(model) as rec:
        found = model(X, src_key_padding_mask=absent)
    real = slice(None) if absent is None else ~absent
    torch.testing.assert_close(found[real], plain[real])
    weights = model.layers[0].self_attn(X, X, X, absent, average_attn_weights=False)[1]
    assert len(rec.recording.prompts) == 2 and rec.stacks == {"": (2, 4)}
    for number, prompt in enumerate(rec.recording.prompts):
        count = 6 if absent is None else int((~absent[number]).sum())  # padding is no row
        right = weights[number, 2, :count, :count].numpy()
        np.testing.assert_allclose(prompt["L0H2"][:, :], right, atol=1e-5)


@pytest.mark.parametrize("whole", [True, False])
@torch.no_grad()
def test_compiled_parts_are_heard(whole: bool) -> None:
    model = tiny("llama")
    plain = copy.deepcopy(model)
    if whole:
        model.compile(backend="eager")
    else:
        layer = model.model.layers[1]
        model.model.layers[1] = torch.compile(layer, backend="eager")
    ids = tokens(7)
    model(ids)  # compiled before the block
    with in_silence(), regard.record(model) as rec, regard.record(plain) as other:
        model(ids)
        plain(ids)
    assert rec.stacks == other.stacks == {"": (2, 4)}
    for layer in range(2):
        np.testing.assert_allclose(rec[layer, 1][:, :], other[layer, 1][:, :], atol=1e-6)
