"""The output of calls about which nothing is asked: the bits of `attend`, and an lse when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from recorder.models import tiny, tokens
from regard.engine import api, plan
from regard.engine.backends import library
from regard.engine.backends.cpu.sweeps import CPU
from regard.engine.call import Call
from regard.engine.observers import Request, editing, listening
from regard.huggingface import switch


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    plan.KEPT.clear()
    yield


def given(queries: int = 5, keys: int = 5, **options: Any) -> list[Tensor]:
    dice = torch.Generator().manual_seed(0)
    shapes = ((2, 4, queries, 8), (2, 2, keys, 8), (2, 2, keys, 8))
    return [torch.randn(*shape, generator=dice).to(**options) for shape in shapes]


@pytest.fixture
def like_a_gpu(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Torch's own function in place of its operator, with its own backward; counts its calls."""
    calls: list[int] = []

    def alone(self: library.Library, call: Call) -> Callable[..., Tensor]:
        run = library.by_torch(call)

        def counting(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            calls.append(q.shape[-2])
            return run(q, k, v)

        return counting

    monkeypatch.setattr(library.Library, "alone", alone)
    return calls


OPTIONS: list[dict[str, Any]] = [
    {}, {"scale": 0.3}, {"mask": regard.Causal()}, {"mask": regard.Window(2)}, {"softcap": 2.0},
    {"bias": torch.ones(5, 5)}, {"sink": torch.zeros(4)},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_bits_of_attend(options: dict[str, Any], dtype: torch.dtype) -> None:
    q, k, v = given(dtype=dtype)
    right = regard.attend(q, k, v, **options).output
    for _ in range(3):  # first settled, then remembered
        assert torch.equal(api.output_alone(q, k, v, **options), right)


def test_what_is_remembered_is_called_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = given(1, 9)
    right = api.output_alone(q, k, v)
    monkeypatch.setattr(api, "attended", None)  # whoever called it would fail
    assert torch.equal(api.output_alone(q, k, v), right)


def test_whoever_listens_or_edits_is_asked() -> None:
    q, k, v = given(1, 9)
    plain = api.output_alone(q, k, v)
    heard: list[Any] = []

    class Listener:
        def wants(self, call: Call) -> Request[None]:
            return Request()

        def heard(self, attention: regard.Attention, request: Request[None]) -> None:
            heard.append(attention.lse)

    class Editor:
        def mask(self, call: Call) -> Any:
            return call.mask

        def output(self, call: Call, output: Tensor) -> Tensor:
            return output * 2

    with listening(Listener()):
        assert torch.equal(api.output_alone(q, k, v), plain)
    torch.testing.assert_close(heard, [regard.attend(q, k, v).lse])
    with editing(Editor()):
        assert torch.equal(api.output_alone(q, k, v), plain * 2)


def test_nan_is_not_hidden() -> None:
    q, k, v = given(1, 9)
    for _ in range(2):
        assert api.output_alone(q * torch.nan, k, v).isnan().all()


def test_the_lse_comes_when_it_is_asked_for(like_a_gpu: list[int]) -> None:
    q, k, v = given(3, 9)
    right = regard.attend(q, k, v)
    bare = api.attended(q, k, v, None, None, None, None, None, 0.0, bare=True)
    assert like_a_gpu == [3] and bare._row_lse is None
    torch.testing.assert_close(bare.output, right.output)
    torch.testing.assert_close(bare.lse, right.lse)
    torch.testing.assert_close(bare.entropy(), right.entropy())
    again = api.attended(q, k, v, None, None, None, None, None, 0.0, bare=True)
    again.release()
    torch.testing.assert_close(again.lse, right.lse)
    changed = api.attended(q, k, v, None, None, None, None, None, 0.0, bare=True)
    k.mul_(2)
    with pytest.raises(regard.errors.StaleError):
        changed.lse  # noqa: B018


def test_an_lse_that_comes_late_has_its_gradient(like_a_gpu: list[int]) -> None:
    q, k, v = (t.requires_grad_() for t in given(3, 9))
    right = regard.attend(q, k, v, implementation="dense")
    wanted = torch.autograd.grad(right.lse.sin().sum() + right.output.sum(), (q, k, v))
    bare = api.attended(q, k, v, None, None, None, None, None, 0.0, bare=True)
    with torch.no_grad():
        bare.lse  # noqa: B018  # asked where nothing is recorded, it keeps its graph
    found = torch.autograd.grad(bare.lse.sin().sum() + bare.output.sum(), (q, k, v))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)
    assert library.LIBRARY.lse(bare._call).requires_grad


def test_a_state_comes_with_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sweep brings the lse and statistics of rows, where the forward left neither."""
    sweeps: list[tuple[Any, ...]] = []
    rows = CPU.rows

    def count(call: Any, output: Any, measures: Any, given: Any) -> Any:
        sweeps.append(measures)
        return rows(call, output, measures, given)

    monkeypatch.setattr(CPU, "rows", count)
    q, k, v = given(3, 9)
    a = regard.attend(q, k, v, implementation="library")
    asked = (regard.Entropy(), regard.MaxScore())
    a._rows(asked)
    found = a.summarize(*asked)
    assert len(sweeps) == 1
    right = regard.attend(q, k, v, implementation="dense")
    torch.testing.assert_close(found[regard.Entropy()], right.entropy())
    a.entropy()
    assert len(sweeps) == 1, "and is not swept for again"
    api.replay_with((regard.Entropy(),), q, k).entropy()
    assert len(sweeps) == 2


def test_a_layer_heard_through_torchs_function_is_heard_once(like_a_gpu: list[int]) -> None:
    """The recorder hears of it by `attend`; its own call of torch's function is not another."""
    model, ids = tiny("llama", attn_implementation="sdpa"), tokens(6, 1)
    with torch.no_grad():
        plain = model(ids).logits
        with regard.record(model) as rec:
            logits = model(ids).logits
        with switch.using(model):
            unheard = model(ids).logits
    assert torch.equal(logits, plain) and torch.equal(unheard, plain)
    assert rec.recording.stacks == {"": (model.config.num_hidden_layers, 4)}
    assert len(like_a_gpu) == 2 * model.config.num_hidden_layers
