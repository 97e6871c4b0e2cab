"""Who looks at a call."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import regard
from regard.engine import eager, ops
from regard.engine.eager import unwatched


class Own(torch.Tensor):
    """A tensor of somebody's own."""


def test_nobody_looks_at_plain_tensors() -> None:
    learns = torch.zeros(2, requires_grad=True)
    assert unwatched([torch.zeros(2)])
    assert unwatched([])
    assert not unwatched([torch.zeros(2), learns])
    with torch.no_grad():
        assert unwatched([learns])
    with torch.inference_mode():
        assert unwatched([torch.zeros(2)])


def test_subclasses_modes_and_transforms_look() -> None:
    seen = []
    assert not unwatched([torch.zeros(2).as_subclass(Own)])
    with FakeTensorMode():
        assert not unwatched([])
    torch.func.vmap(lambda t: (seen.append(unwatched([t])), t)[1])(torch.zeros(3, 2))
    make_fx(lambda t: (seen.append(unwatched([t])), t + 1)[1])(torch.zeros(2))
    assert seen and not any(seen)


def test_where_torch_does_not_say_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "_MODES", eager._private("no_such.function"))
    assert not unwatched([torch.zeros(2)])


def test_the_operator_is_called_where_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    q = torch.randn(1, 2, 5, 8)
    plain = regard.attend(q, q, q, implementation="cpu")
    with torch.profiler.profile() as seen:
        regard.attend(q, q, q, implementation="cpu").entropy()
        regard.attend(q.requires_grad_(), q, q, implementation="cpu")
    calls = sum(one.count for one in seen.key_averages() if one.key == "regard::rows")
    assert calls == 1
    looked_at = ops.rows(q, q, q, [], [], [], None, _spec(plain))
    assert torch.equal(looked_at[0], plain.output)


def _spec(a: regard.Attention) -> str:
    return a._implementation._spec(a._call).asking(output=True)
