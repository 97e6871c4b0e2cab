"""Attention that runs beside what is recorded is recorded too, or named; nothing else is named."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, library, nn
from typer.testing import CliRunner

import regard
from huggingface.zoo import BLIND, build, inputs_of
from recorder.models import Torch, tiny, tokens
from regard.cli.main import app
from regard.errors import InputError, RegardWarning, UnavailableError
from regard.study import make_report

X = torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(0))


def heads_of(x: Tensor) -> Tensor:
    return x.unflatten(-1, (4, -1)).transpose(-2, -3)


def joined(x: Tensor) -> Tensor:
    return x.transpose(-2, -3).flatten(-2)


def by_hand(_: Any, x: Tensor) -> Tensor:
    """Attention as a textbook writes it."""
    q = heads_of(x)
    weights = F.dropout(torch.softmax(q @ q.mT / 8**0.5, -1), 0.1, False)
    return joined(torch.matmul(weights, q))


def by_modules(model: Any, x: Tensor) -> Tensor:
    """The same with torch's layer for the softmax, and an einsum."""
    q = heads_of(x)
    weights = model.softmax(torch.einsum("bhqd,bhkd->bhqk", q, q))
    return joined(torch.einsum("bhqk,bhkd->bhqd", weights, q))


def by_sums(_: Any, x: Tensor) -> Tensor:
    """exp, divided by its sum."""
    weights = torch.exp(x @ x.mT / 32)
    return (weights / weights.sum(-1, keepdim=True)) @ x


def reshaped(_: Any, x: Tensor) -> Tensor:
    """Heads and batch in one axis, weights in single precision."""
    q = heads_of(x)
    weights = F.softmax(q @ q.mT, -1, dtype=torch.float32).type_as(x)
    return joined(torch.bmm(weights.flatten(0, 1), q.flatten(0, 1)).unflatten(0, q.shape[:2]))


def by_kernel(_: Any, x: Tensor) -> Tensor:
    """One of torch's kernels, without its function."""
    q = heads_of(x)
    return joined(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, q, q)[0])


@library.custom_op("regard_tests::flash_attn_fwd", mutates_args=())
def flash(q: Tensor) -> Tensor:
    """An operator such as packages of kernels bring."""
    return q + 1


flash.register_autograd(lambda context, grad: grad)


class Projecting(nn.Module):
    """Known by its layers: another name, and no softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(32, 32) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D), by linear attention."""
        return self.q_proj(x) @ (self.k_proj(x).mT @ self.v_proj(x))


# forward(self, x (B, L, 32)) by the name of its class
WAYS: dict[str, Any] = {
    "ByHand": by_hand,
    "ByModules": by_modules,
    "BySums": by_sums,
    "ByLogs": lambda _, x: F.log_softmax(x @ x.mT / 32, -1).exp() @ x,
    "Reshaped": reshaped,
    "WithSink": lambda _, x: F.pad(x @ x.mT / 32, (0, 1)).softmax(-1)[..., :-1] @ x,
    "OwnAttention": lambda _, x: x.cumsum(-2),  # known by its name alone
    "Kernel": by_kernel,
    "Flash": lambda _, x: flash(x),
    # torch's function computes one of its two
    "Both": lambda model, x: Torch.forward(model, x) + by_hand(model, x),
    "Projecting": Projecting.forward,
}


def other(name: str) -> nn.Module:
    """A module that attends in this way."""
    base = {"Projecting": Projecting, "Both": Torch}.get(name, nn.Module)
    module: nn.Module = type(name, (base,), {"forward": WAYS[name]})()
    if name == "ByModules":
        module.softmax = nn.Softmax(dim=-1)
    return module


@pytest.mark.parametrize("kind", WAYS)
@torch.no_grad()
def test_other_attention_beside_what_is_recorded_is_named(kind: str) -> None:
    model = nn.Sequential(Torch(), other(kind), Torch(), other(kind))
    with pytest.warns(RegardWarning) as warned, regard.record(model) as rec:
        model(X)
    name = f"* ({kind}), 2 of them"
    (warning,) = (str(w.message) for w in warned if issubclass(w.category, RegardWarning))
    assert f"not recorded, although they ran: {name}" in warning
    assert rec.unheard == rec.recording.not_recorded == (name,)
    assert "observed: * (Torch)" in warning or kind == "Both"
    assert warning.endswith("use one of them, or pass q and k to regard.replay")
    assert rec["L0H1"].place.name == "0"  # and the others are there


@pytest.mark.parametrize("kind", WAYS)
def test_other_attention_beside_what_is_monitored_is_named_once(kind: str) -> None:
    model = nn.Sequential(nn.Linear(32, 32), Torch(), other(kind), Torch())
    with regard.Monitor(model) as monitor:
        with torch.no_grad():
            model(X)  # not counted, so nothing can be missing from it
        model(X).sum().backward()
        with pytest.warns(RegardWarning, match=rf"not measured, .*: \* \({kind}\)"):
            monitor.step()
        assert monitor.unheard == (f"* ({kind})",)
        model(X).sum().backward()
        assert monitor.step() is not None


@torch.no_grad()
def test_it_is_named_as_it_is_written_where_it_is_compiled() -> None:
    model = torch.compile(nn.Sequential(Torch(), other("ByHand")), backend="eager")
    with pytest.warns(RegardWarning, match=r"ran: \* \(ByHand\)"), regard.record(model) as rec:
        model(X)
    assert rec.unheard == ("* (ByHand)",)
    model = nn.Sequential(Torch(), torch.jit.trace(MyAttention(), X), torch.jit.trace(Torch(), X))
    with pytest.warns(RegardWarning, match="not recorded"), regard.record(model) as rec:
        model(X)
    assert rec.unheard == ("* (TopLevelTracedModule), 2 of them",)


@torch.no_grad()
def test_the_file_the_terminal_and_the_report_say_so(tmp_path: Path) -> None:
    model, path = nn.Sequential(Torch(), other("ByHand")), tmp_path / "run.regard"
    with pytest.warns(RegardWarning), regard.record(model, path):
        model(torch.randn(1, 20, 32))
    line = "not recorded: * (ByHand)"
    assert line in make_report(regard.open(path)).doubts
    for command in ("show", "report"):
        assert line in CliRunner().invoke(app, [command, str(path)]).output


@pytest.mark.parametrize("name", BLIND)
def test_a_model_that_cannot_be_heard_is_refused_before_a_file_is_made(
    name: str, tmp_path: Path
) -> None:
    model, path = build(BLIND[name]), tmp_path / "run.regard"
    says = rf"^{name} does not dispatch.*regard\.replay"
    with pytest.raises(UnavailableError, match=says) as refused, regard.record(model, path):
        pass
    sdpa_would_work = "with attn_implementation='sdpa' it can be recorded" in str(refused.value)
    assert sdpa_would_work == (name == "falcon")
    assert not path.exists()
    model(**inputs_of(BLIND[name].kind))  # and runs as before


class Beside(nn.Module):
    """A model that cannot be heard, and maybe one that can."""

    def __init__(self, *heard: nn.Module) -> None:
        super().__init__()
        self.heard, self.deaf = nn.ModuleList(heard), build(BLIND["deberta-v2"])

    def forward(self, input_ids: Tensor) -> Any:
        """(B, L)."""
        for model in self.heard:
            model(input_ids=input_ids)
        return self.deaf(input_ids=input_ids)


@torch.no_grad()
def test_a_deaf_family_inside_another_module_is_named() -> None:
    ids = tokens(7, batch=2).clamp(max=39)
    says = r"deaf\.\S+ \(DebertaV2Attention\).*deberta-v2 does not dispatch its attention"
    model = Beside(tiny("bert"))
    with pytest.warns(RegardWarning, match=says), regard.record(model) as rec:
        model(ids)
    assert rec.stacks == {"": (2, 4)} and len(rec.recording.not_recorded) == 1
    model = Beside()
    says = f"no attention was heard: Beside ran, with {says}"
    with pytest.raises(InputError, match=says), regard.record(model):
        model(ids)


def of_package(name: str, *bases: type) -> type:
    """A stand-in for a class of a package that is not installed."""
    package, _, kind = name.partition(".")
    return type(kind, bases, {"__module__": f"{package}.models.{kind.lower()}"})


@pytest.mark.parametrize("ask", [regard.record, regard.Monitor, regard.knock_out])
def test_what_is_no_module_is_refused_with_what_to_give(ask: Any) -> None:
    language_model = of_package("nnsight.LanguageModel")()
    language_model._model = nn.Linear(2, 2)
    with pytest.raises(InputError, match=r"nnsight's LanguageModel.* model\._model"):
        ask(language_model)
    with pytest.raises(InputError, match=r"model is a dict; give a torch\.nn\.Module"):
        ask({})


@torch.no_grad()
def test_nothing_but_other_attention_is_an_error_that_names_it() -> None:
    model = nn.Sequential(other("ByHand"))
    says = r"no attention was heard: Sequential ran, with \* \(ByHand"
    with pytest.raises(InputError, match=says), regard.record(model):
        model(X)
    bridge = of_package("transformer_lens.TransformerBridge", type(other("ByHand")))()
    says = r"TransformerBridge computes attention by itself.*replay"
    with pytest.raises(InputError, match=says), regard.record(bridge):
        bridge(X)
    named = pytest.warns(RegardWarning, match=r"regard\.models\.load")
    with named, regard.Monitor(bridge, evaluation=True) as monitor:
        bridge(X)
        monitor.step()


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


class Ours(nn.Module):
    """Regard's softmax, by an implementation in torch."""

    def __init__(self, implementation: str) -> None:
        super().__init__()
        self.implementation = implementation

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D)."""
        q = heads_of(x)
        return joined(regard.attend(q, q, q, implementation=self.implementation).output)


@pytest.mark.parametrize(
    "model",
    [
        Classifies(),
        MyAttention(),
        nn.Sequential(MyAttention(), MyAttention()),
        Ours("dense"),
        Ours("tiled"),
    ],
    ids=["classes", "around", "twice", "dense", "tiled"],
)
@torch.no_grad()
def test_wrappers_and_other_softmaxes_are_not_named(model: nn.Module) -> None:
    with regard.record(model) as rec:  # a warning is an error in all tests
        model(X)
    assert rec.unheard == ()


@torch.no_grad()
def test_layers_that_were_not_asked_for_are_not_named() -> None:
    model = tiny("llama")
    with regard.record(model, layers=[1]) as rec:
        model(tokens(8))
    assert rec.unheard == ()


class Mixes(nn.Module):
    """Over positions; or over channels as XCiT does it; by torch's function or by `attend`."""

    silent = False  # without its heads

    def __init__(self, width: int, heads: int, kind: str) -> None:
        super().__init__()
        self.heads, self.kind, self.qkv = heads, kind, nn.Linear(width, 3 * width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, C), or a picture (B, C, h, w)."""
        rows = x.flatten(2).mT if x.ndim == 4 else x
        q, k, v = self.qkv(rows).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.kind == "positions":
            return joined(F.scaled_dot_product_attention(q, k, v))
        if self.kind == "attends":
            return joined(regard.attend(q, k, v).output) * (not self.silent)
        q, k = (F.normalize(t.mT, dim=-1) for t in (q, k))
        if self.kind == "torch":
            mixed = F.scaled_dot_product_attention(q, k, v.mT, scale=1.0)
        else:
            mixed = regard.attend(q, k, v.mT, scale=1.0).output
        return joined(mixed.mT)


class Stacked(nn.Module):
    """Blocks of some kinds; behind an embedding, so that edges have positions."""

    def __init__(self, *kinds: str, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(9, width)
        self.blocks = nn.ModuleList(Mixes(width, heads, kind) for kind in kinds)

    def forward(self, x: Tensor) -> Tensor:
        """Ids (B, N), rows (B, N, C), or a picture for the first block."""
        x = x if x.is_floating_point() else self.words(x)
        for block in self.blocks:
            x = block(x)
        return x


IDS = torch.arange(12).view(2, 6) % 9
CHANNELS = "it attends between 4 channels a head, not positions"


@pytest.mark.parametrize("kind", ["torch", "attend"])
@pytest.mark.parametrize("seed", range(8))
@torch.no_grad()
def test_channels_are_named_and_positions_shown(seed: int, kind: str) -> None:
    dice = random.Random(seed)
    heads, deep = dice.choice((1, 2, 4)), dice.choice((4, 8, 16))
    count = deep if seed < 2 else dice.randint(2, 20)  # as many tokens as channels a head
    x = torch.randn(dice.choice((1, 3)), count, heads * deep)
    if seed % 3 == 2:
        x = torch.randn(len(x), heads * deep, 1, count)
    model = Stacked(kind, "positions", kind, width=heads * deep, heads=heads)
    says = rf"blocks.* \(Mixes\), 2 of them: it attends between {deep} channels a head"
    with pytest.warns(RegardWarning, match=says), regard.record(model) as rec:
        model(x)
    assert {head.place.name for head in rec.recording} == {"blocks.1"}
    assert {head.shape for head in rec.recording} == {(count, count)}


@pytest.mark.parametrize("kind", ["torch", "attend"])
def test_a_monitor_names_channels_and_measures_positions(kind: str) -> None:
    model = Stacked(kind, "positions", kind)
    says = rf"blocks.* \(Mixes\), 2 of them: {CHANNELS}"
    with pytest.warns(RegardWarning, match=says), regard.Monitor(model, every=1) as monitor:
        model(torch.randn(2, 6, 8)).sum().backward()
        sample = monitor.step(0)
    assert sample is not None
    assert {label.rpartition("H")[0] for label, _ in sample.heads()} == {"L1"}


@torch.no_grad()
def test_heads_of_channels_are_not_knocked_out_and_the_others_are() -> None:
    torch.manual_seed(0)
    model = Stacked("attend", "attends", "attend").eval()
    both = regard.knock_out(model, heads=["L0H1", "L1"])
    with pytest.raises(InputError, match=rf"L0H1 never .*{CHANNELS[11:]}"), both:
        model(IDS)
    with regard.knock_out(model, heads=["L1"]):
        without = model(IDS)
    model.blocks[1].silent = True  # type: ignore[assignment]
    torch.testing.assert_close(without, model(IDS))


@torch.no_grad()
def test_edges_of_every_head_say_where_there_are_none() -> None:
    torch.manual_seed(0)
    model = Stacked("attends", "attend").eval()
    edge, seen = regard.intervene.Edge(queries=5, keys=range(3)), []
    model.blocks[0].register_forward_hook(lambda *given: seen.append(given[-1]))
    model(IDS)
    says = rf"blocks\.1: {CHANNELS}"
    with pytest.warns(RegardWarning, match=says), regard.knock_out(model, edges=edge):
        model(IDS)
    changed = (seen[1] - seen[0]).abs().amax((0, 2)) > 1e-4
    assert changed.nonzero().tolist() == [[5]]


@torch.no_grad()
def test_a_model_of_channels_alone_is_refused() -> None:
    model = Stacked("attend").eval()
    edge = regard.intervene.Edge(queries=5, keys=range(3))
    for block, says in (
        (regard.record(model), CHANNELS),
        (regard.knock_out(model, edges=edge), f"^nothing was knocked out: .*{CHANNELS}"),
    ):
        with pytest.raises(InputError, match=says), block:
            model(IDS)
