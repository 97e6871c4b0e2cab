"""Whatever mixes tokens and is not recorded is named, whatever it is called; nothing else is."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

import regard
from regard.errors import RegardWarning

DIM = 16


class Own(nn.Module):
    """A layer with a projection."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Linear(DIM, DIM)


def own(name: str, forward: Any) -> type[nn.Module]:
    """A class of this name, with a projection `w`, that does this to x (B, L, D)."""
    return type(name, (Own,), {"forward": forward})


class Scan(Own):
    """A recurrence, written into a buffer of its own on its way."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(DIM))
        self.calls = 0

    def forward(self, x: Tensor, cache: Any = None) -> Tensor:
        rows = []
        state = torch.zeros_like(x[:, 0])
        for row in self.w(x).unbind(1):
            state = 0.5 * state + row
            rows.append(state)
        self.state.copy_(state[0].detach())
        self.calls += 1
        return torch.stack(rows, 1)


class Convolved(nn.Module):
    """Of torch's parts."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(DIM, DIM, 3, padding=2, groups=DIM)
        self.out = nn.Linear(DIM, DIM)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.conv(x.mT)[..., : x.shape[1]].mT)


class Noisy(Own):
    """No mixer: dropout moves what it drops."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(DIM)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(F.dropout(self.w(x), 0.5, self.training).mT).mT


def experts(model: Any, x: Tensor) -> Tensor:
    """Tokens choose, each for itself."""
    flat = x.reshape(-1, DIM)
    weight, at = model.w(flat).softmax(-1).topk(2, -1)
    return (flat * torch.zeros_like(flat).scatter(-1, at, weight)).view_as(x)


def attends(_: Any, x: Tensor) -> Tensor:
    q = x.unflatten(-1, (2, -1)).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q).transpose(1, 2).flatten(2)


def attends_by_regard(model: Any, x: Tensor) -> Tensor:
    q = model.w(x).unflatten(-1, (2, -1)).transpose(1, 2)
    return regard.attend(q, q, q, mask=regard.Causal()).output.transpose(1, 2).flatten(2)


Attends, Ours = own("Attends", attends), own("Ours", attends_by_regard)
Shift = own("Shift", lambda m, x: m.w(x) + F.pad(x, (0, 0, 1, 0))[:, :-1])
Mean = own("Mean", lambda _, x: x - x.mean(1, keepdim=True))
Ahead = own("Ahead", lambda m, hidden: m.w(hidden).flip(1).cumsum(1).flip(1))
Mlp, Experts = own("Mlp", lambda m, x: F.gelu(m.w(x))), own("Experts", experts)


class Layer(nn.Module):
    """One of a stack: attention, or something in its place, and an MLP."""

    def __init__(self, mixer: nn.Module) -> None:
        super().__init__()
        self.norm, self.inner, self.mlp = nn.LayerNorm(DIM), mixer, Mlp()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.inner(self.norm(x))
        return x + self.mlp(x)


class Stack(nn.Module):
    """Layers behind an embedding."""

    def __init__(self, *mixers: nn.Module) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, DIM)
        self.layers = nn.ModuleList(map(Layer, mixers))

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x)
        return x


MIXERS = [Shift, Scan, Mean, Ahead, Convolved]
OTHERS = [Mlp, Experts, Noisy, nn.Identity]
IDS = torch.randint(50, (2, 9), generator=torch.Generator().manual_seed(0))
pytestmark = pytest.mark.filterwarnings("ignore::regard.errors.RegardWarning")


def listed(model: nn.Module, *given: Any) -> list[str]:
    """What a recording names."""
    with regard.record(model) as recorded:
        model(*given)
    return list(recorded.unheard)


@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("first", [True, False])
def test_a_mixer_is_named(mixer, first):
    torch.manual_seed(0)
    order = (mixer(), Attends()) if first else (Attends(), mixer())
    (name,) = listed(Stack(*order), IDS)
    assert f"layers.*.inner ({mixer.__name__})" in name


@pytest.mark.filterwarnings("error::regard.errors.RegardWarning")
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("training", [True, False])
def test_what_does_not_mix_is_not(other, training):
    torch.manual_seed(0)
    model = Stack(Attends(), other(), Attends()).train(training)
    assert listed(model, IDS) == []


def test_layers_of_one_class_are_told_apart_by_what_they_hold():
    torch.manual_seed(0)
    (name,) = listed(Stack(Attends(), Mlp(), Shift(), Mlp()), IDS)
    assert "(Shift)" in name


def test_torchs_own_layers_are_named_where_nothing_around_them_is():
    class Hybrid(nn.Module):
        """Attention and a recurrent layer side by side."""

        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(DIM, DIM, batch_first=True)
            self.near = nn.Conv1d(DIM, DIM, 3, padding=1)
            self.point = nn.Conv1d(DIM, DIM, 1)
            self.attention = Attends()

        def forward(self, x: Tensor) -> Tensor:
            x = self.attention(x) + self.rnn(x)[0]
            return x + self.point(self.near(x.mT)).mT

    torch.manual_seed(0)
    names = " ".join(listed(Hybrid(), torch.randn(2, 9, DIM)))
    assert "rnn (GRU)" in names and "near (Conv1d)" in names and "point" not in names


def test_monitors_and_knock_outs_name_the_same():
    torch.manual_seed(0)
    model = Stack(Attends(), Scan())
    recorded = listed(model, IDS)
    named = pytest.warns(RegardWarning, match=r"layers\.\*\.inner \(Scan\)")
    with named, regard.Monitor(model, evaluation=True) as monitor:
        model(IDS)
        monitor.step()
    assert list(monitor.unheard) == recorded

    model = Stack(Ours(), Scan())
    edge = regard.intervene.Edge(queries=5, keys=2)
    named = pytest.warns(RegardWarning, match=r"tokens also pass .*inner \(Scan\)")
    with named, regard.knock_out(model, edges=[edge]) as knocked:
        model(IDS)
    assert "inner (Scan)" in knocked.unheard[0]
    with regard.knock_out(model, heads=["L0H1"]) as knocked:
        model(IDS)
    assert "inner (Scan)" in knocked.unheard[0]


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_as_it_was(training):
    """Its buffers, counts, gradients, hooks, mode and random numbers; it is called as often as the
    user calls it."""
    torch.manual_seed(0)
    model = Stack(Attends(), Scan(), Noisy()).train(training)
    scan, calls = model.layers[1].inner, []
    scan.register_forward_hook(lambda *_: calls.append(1))
    plain = copy.deepcopy(model)
    torch.manual_seed(1)
    right = plain(IDS)
    next_number = torch.rand(1)
    calls.clear()
    torch.manual_seed(1)
    with regard.record(model):
        output = model(IDS)
    assert torch.equal(output, right) and torch.equal(torch.rand(1), next_number)
    assert scan.calls == 1 and len(calls) == 1 and model.training is training
    assert all(len(module._forward_hooks) == (module is scan) for module in model.modules())
    for mine, right in zip(model.buffers(), plain.buffers(), strict=True):
        assert torch.equal(mine, right)
    assert all(p.grad is None for p in model.parameters())
    output.sum().backward()
    assert model.embed.weight.grad is not None


def test_one_token_at_a_time_shows_nothing_and_the_prompt_does():
    torch.manual_seed(0)
    model = Stack(Shift(), Attends())
    assert listed(model, IDS[:, :1]) == []
    assert len(listed(model, IDS)) == 1
    assert len(listed(Stack(Shift(), Attends()), torch.randint(50, (70, 260)))) == 1


def test_half_precision_and_autocast():
    torch.manual_seed(0)
    half = Stack(Shift(), Mlp(), Attends()).bfloat16()
    assert len(listed(half, IDS)) == 1
    with torch.autocast("cpu", torch.bfloat16):
        assert len(listed(Stack(Shift(), Mlp(), Attends()), IDS)) == 1


def test_convolutions_that_read_the_input_are_not_named():
    class Sound(nn.Module):
        """Features of a sound, then attention."""

        def __init__(self) -> None:
            super().__init__()
            convolutions = (nn.Conv1d(1, DIM, 5, 2), nn.Conv1d(DIM, DIM, 3, 2, padding=1))
            self.features = nn.ModuleList(nn.Sequential(each, nn.GELU()) for each in convolutions)
            self.read = nn.Conv1d(8, DIM, 3, padding=1)
            self.attention = Attends()

        def forward(self, sound: Tensor, other: Tensor) -> Tensor:
            for part in self.features:
                sound = part(sound)
            return self.attention(sound.mT), self.attention(self.read(other).mT)

    assert listed(Sound(), torch.randn(1, 1, 100), torch.randn(1, 8, 24)) == []


def test_a_module_that_cannot_be_run_alone_is_not_judged():
    class Fussy(Shift):
        """Runs where its model does."""

        def forward(self, x: Tensor) -> Tensor:
            if not torch.is_grad_enabled():
                raise RuntimeError("not like this")
            return super().forward(x)

    assert listed(Stack(Attends(), Fussy()), IDS) == []


_HYBRID = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2,
}  # fmt: skip
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "jamba": ("mamba", {
        "attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2,
        "use_mamba_kernels": False, "mamba_d_state": 4, "mamba_dt_rank": 4,
    }),
    "lfm2": ("conv", {
        "layer_types": ["conv", "full_attention"] * 2, "block_auto_adjust_ff_dim": False,
    }),
    "mixtral": ("", {"num_local_experts": 4}),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_hybrids_of_transformers(family):
    """`make test-families` runs all there are."""
    torch.manual_seed(0)
    word, options = FAMILIES[family]
    config = transformers.AutoConfig.for_model(family, **_HYBRID, **options)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    names = listed(model, torch.randint(3, 60, (2, 12)))  # with a cache, as it comes
    assert len(names) == bool(word) and all(f".{word}" in name for name in names)
    with regard.Monitor(model, evaluation=True) as monitor:
        model(torch.randint(3, 60, (2, 12)))
        monitor.step()
    assert list(monitor.unheard) == names
